//! What a simulated disk may lie on: the store of a node, on hardware that fails.
//!
//! The simulator's own disk is a model: a map of rows, and all of a commit or nothing. A
//! [`Medium`] stands behind it and is told the same; what a node then reads comes from the medium,
//! and must be what the model has. So the model is the oracle of the store, under the load of a
//! storm, and the storm runs on what the store really gives back.
//!
//! Invariant: after a death the medium has all of the commit that was under way, or nothing of it;
//! which it is, the model takes over. What this file does not do: it knows no store.

use std::collections::BTreeMap;
use std::fmt;

use gaggle_core::event::ScanEnd;
use gaggle_core::ledger::{MessageKey, MessageRecord, Row, Write};

use crate::disk::LastCommit;
use crate::world::World;

/// Something that keeps rows.
pub trait Medium: fmt::Debug {
    /// Makes changes durable, in order, all or none.
    fn commit(&mut self, changes: &[Write]);
    /// The process dies, in the middle of the commit of these changes if there are any, and what
    /// is left is opened again.
    fn die(&mut self, running: &[Write]) -> Told;
    /// All is lost.
    fn wipe(&mut self);
    /// All rows, in key order.
    fn rows(&self) -> Vec<Row>;
    /// Rows of a range, at most so many, and whether there are more.
    fn read(&self, from: &[u8], to: &[u8], limit: usize) -> (Vec<Row>, ScanEnd);
}

/// What a commit said before its process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// That it is done.
    Done,
    /// Nothing, or that it failed.
    Nothing,
}

/// Makes the medium of each node, by its place.
pub type Media<'a> = &'a mut dyn FnMut(usize) -> Box<dyn Medium>;

impl World {
    /// Lays the disk of a node that was never started on a medium.
    pub(crate) fn lay_on(&mut self, at: usize, medium: Box<dyn Medium>) {
        self.processes[at].disk.lay_on(medium);
    }

    /// Reads all disks through, so that each medium is compared with its model.
    ///
    /// # Panics
    /// When one differs.
    pub(crate) fn read_disks(&self) {
        for process in &self.processes {
            process.disk.rows().for_each(drop);
        }
    }
}

/// Lets a process die over its medium; what became of the commit that was under way.
///
/// # Panics
/// When the medium has neither what was there before the commit nor what it makes of it.
pub(crate) fn die(
    medium: &mut dyn Medium,
    running: &[Write],
    (before, after): (&Rows, &Rows),
) -> LastCommit {
    let told = medium.die(running);
    let found: Rows = medium.rows().into_iter().map(|row| (row.key, row.value)).collect();
    if found == *after {
        return LastCommit::Made;
    }
    assert!(told == Told::Nothing, "P1: a commit that said it was done is not there");
    assert!(found == *before, "P1: a commit is there in part");
    LastCommit::Lost
}

/// The changes that make these rows all there are.
pub(crate) fn replacing(rows: &Rows) -> Vec<Write> {
    let row = |(key, value): (&Vec<u8>, &Vec<u8>)| match MessageKey::parse(key) {
        Some(key) => {
            let record =
                MessageRecord::decode(&key, value).expect("what is damaged is the content");
            Write::PutMessage { key, header: value.clone(), label: record.label }
        }
        None => Write::Put { key: key.clone(), value: value.clone() },
    };
    let all = Write::DeleteRange { from: Vec::new(), to: vec![u8::MAX] };
    std::iter::once(all).chain(rows.iter().map(row)).collect()
}

/// What a medium reads, which must be what was committed.
///
/// # Panics
/// When it is not.
pub(crate) fn checked<T: PartialEq>(read: T, committed: T) -> T {
    assert!(read == committed, "P1: the store reads other rows than were committed");
    read
}

/// Rows as the model has them.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Detail;
    use crate::{plan, storm};

    /// Keeps rows, and loses every so-manieth commit.
    #[derive(Debug)]
    struct Lossy {
        rows: Rows,
        commits: u32,
        loses: u32,
    }

    impl Medium for Lossy {
        fn commit(&mut self, changes: &[Write]) {
            self.commits += 1;
            if !self.commits.is_multiple_of(self.loses) {
                changes.iter().for_each(|change| crate::disk::apply(&mut self.rows, change));
            }
        }

        fn die(&mut self, _: &[Write]) -> Told {
            Told::Nothing
        }

        fn wipe(&mut self) {
            self.rows.clear();
        }

        fn rows(&self) -> Vec<Row> {
            let row =
                |(key, value): (&Vec<u8>, &Vec<u8>)| Row { key: key.clone(), value: value.clone() };
            self.rows.iter().map(row).collect()
        }

        fn read(&self, from: &[u8], to: &[u8], limit: usize) -> (Vec<Row>, ScanEnd) {
            let mut rows = self.rows();
            rows.retain(|row| from <= &row.key[..] && &row.key[..] < to);
            let end = if rows.len() > limit { ScanEnd::More } else { ScanEnd::Reached };
            rows.truncate(limit);
            (rows, end)
        }
    }

    fn broken(seed: u64, loses: u32) -> Option<String> {
        let mut lossy = |_: usize| -> Box<dyn Medium> {
            Box::new(Lossy { rows: Rows::new(), commits: 0, loses })
        };
        let outcome = storm::run_on(&plan::draw(seed), &mut lossy, Detail::Off);
        outcome.failure.map(|failure| failure.promise)
    }

    #[test]
    fn a_medium_that_loses_a_commit_is_found_and_a_good_one_is_not() {
        for seed in 0..3 {
            assert_eq!(broken(seed, u32::MAX), None);
            assert_eq!(broken(seed, 10).as_deref(), Some("P1"));
        }
    }
}
