//! How many bytes of pages the rows of a store take, by estimate.
//!
//! redb shortens its file from the end alone, so a store that was large and was emptied stays
//! large; but what is free within it is used again, and is room as good as what the disk has. redb
//! tells how much that is only by a walk through all of its pages, so the lengths of rows are
//! counted: when all are read as a store opens, and with each commit.
//!
//! Invariant: an estimate is at least what such rows take as they are written one after another;
//! rows that were removed here and there may leave pages that are emptier than it says.
//! What this file does not do: it measures no disk.

use std::ops::AddAssign;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// What the rows of a store take; unknown until all were read once.
#[derive(Debug, Default)]
pub(super) struct Used(OnceLock<AtomicI64>);

/// How much more, or less, rows take than before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grown(i64);

impl Used {
    /// The rows were read, and take so much.
    pub(super) fn are_read(&self, all: Grown) {
        // Whoever reads them again has counted the same.
        let _ = self.0.set(AtomicI64::new(all.0));
    }

    /// A commit has changed them.
    pub(super) fn have_grown(&self, by: Grown) {
        if let Some(bytes) = self.0.get() {
            bytes.fetch_add(by.0, Ordering::Relaxed);
        }
    }

    /// How many of so many bytes of a file no row takes; none while that is unknown.
    pub(super) fn spare(&self, bytes: u64) -> u64 {
        let used = self
            .0
            .get()
            .map_or(bytes, |used| u64::try_from(used.load(Ordering::Relaxed)).unwrap_or(0));
        bytes.saturating_sub(used)
    }
}

impl Grown {
    /// By a row with such lengths of key and value.
    pub(super) fn add(&mut self, key: usize, value: usize) {
        self.0 += pages_of(key + value);
    }

    /// A row that was there is no more.
    pub(super) fn remove(&mut self, key: usize, value: usize) {
        self.0 -= pages_of(key + value);
    }
}

impl AddAssign for Grown {
    fn add_assign(&mut self, more: Self) {
        self.0 += more.0;
    }
}

/// What a row of so many bytes takes: its share of a page that is two thirds full, or a power of
/// two of pages of its own, as redb lays rows out.
fn pages_of(row: usize) -> i64 {
    let row = row.saturating_add(ROW_COST);
    let pages = if row > PAGE {
        row.div_ceil(PAGE).next_power_of_two() * PAGE
    } else {
        (row * 3 / 2).min(PAGE)
    };
    i64::try_from(pages).unwrap_or(i64::MAX)
}

/// Bytes of a page of redb.
const PAGE: usize = 4096;
/// What redb keeps with a row, and of a page that holds one row.
const ROW_COST: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_a_share_of_a_page_or_a_power_of_two_of_them() {
        let told = [28, 2000, 3000, 4084, 4085, 8180, 8181, 65_536, 70_000].map(pages_of);
        let wanted = [60, 3018, 4096, 4096, 8192, 8192, 16_384, 131_072, 131_072];
        assert_eq!(told, wanted);
    }

    #[test]
    fn what_is_spare_is_unknown_until_all_rows_were_read() {
        let (used, mut all) = (Used::default(), Grown::default());
        used.have_grown(all);
        assert_eq!(used.spare(10_000), 0);
        all.add(28, 1960);
        all.add(28, 0);
        used.are_read(all);
        assert_eq!(used.spare(10_000), 10_000 - 3000 - 60);
        let mut less = Grown::default();
        less.remove(28, 1960);
        used.have_grown(less);
        assert_eq!((used.spare(10_000), used.spare(50)), (9940, 0));
    }
}
