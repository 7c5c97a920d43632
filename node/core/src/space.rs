//! Space: how full the disk of this node is, by two marks.
//!
//! From the first mark on new copies go to other hosts, as long as there are enough. From the
//! second on this node accepts no sends and takes no new copies: what is left is for deletes,
//! which need room before they make any (F13).
//!
//! A mark is a share of the disk, or fixed bytes where that is less: on a large disk a twentieth
//! is more than anybody needs to delete. On a small one it is less than what is under way when the
//! disk is looked at, so there is a least as well. The way back is an eighth longer, so that a node
//! at a mark does not go to and fro.
//!
//! What this room does not do: it measures nothing, and does not say where copies go instead.

use serde::{Deserialize, Serialize};

/// How much room there is on the disk of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Space {
    /// Enough, as far as is known.
    #[default]
    Plenty,
    /// New copies had better go elsewhere.
    Scarce,
    /// Nothing new is taken.
    Full,
}

impl Space {
    /// What it is now that so many bytes of so many are free; a disk of 0 bytes was not measured.
    pub(crate) fn measured(self, free: u64, total: u64) -> Self {
        if total == 0 {
            return self;
        }
        let above = |space: Self, mark: u64| {
            let back = if self >= space { mark / 8 } else { 0 };
            free >= mark.saturating_add(back)
        };
        if !above(Self::Full, full_below(total)) {
            Self::Full
        } else if !above(Self::Scarce, scarce_below(total)) {
            Self::Scarce
        } else {
            Self::Plenty
        }
    }
}

/// How many bytes of a disk of so many must be free that it does not count as full.
#[must_use]
pub fn full_below(total: u64) -> u64 {
    FULL_MAX.min(total / 20).max(FULL_MIN.min(total / 4))
}

/// How many must be free that new copies do not go elsewhere.
fn scarce_below(total: u64) -> u64 {
    SCARCE_MAX.min(total / 5).max(2 * full_below(total))
}

const GIB: u64 = 1 << 30;
/// Two groups of writes, each of 64 MiB at most, in pages that are half full.
const FULL_MIN: u64 = GIB / 4;
/// The most bytes that must be free for a node to take new copies like any other.
const SCARCE_MAX: u64 = 32 * GIB;
/// The most bytes that must be free for a node to accept anything.
const FULL_MAX: u64 = 8 * GIB;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_disk_has_its_marks_at_a_fifth_and_a_twentieth() {
        let of_hundred = |free: u64| Space::default().measured(free * GIB, 100 * GIB);
        let told: Vec<Space> = [20, 19, 5, 4, 0].map(of_hundred).to_vec();
        assert_eq!(told, [Space::Plenty, Space::Scarce, Space::Scarce, Space::Full, Space::Full]);
    }

    #[test]
    fn a_small_disk_keeps_free_what_is_under_way_but_never_more_than_half() {
        let (of_two, of_tiny) = (
            |mib: u64| Space::default().measured(mib * MIB, 2 * GIB),
            |mib: u64| Space::default().measured(mib * MIB, 100 * MIB),
        );
        let told: Vec<Space> = [512, 511, 256, 255].map(of_two).to_vec();
        assert_eq!(told, [Space::Plenty, Space::Scarce, Space::Scarce, Space::Full]);
        let told: Vec<Space> = [50, 49, 25, 24].map(of_tiny).to_vec();
        assert_eq!(told, [Space::Plenty, Space::Scarce, Space::Scarce, Space::Full]);
    }

    #[test]
    fn a_large_disk_has_them_where_enough_bytes_are_left() {
        let free = |gib: u64| Space::default().measured(gib * GIB, 10_000 * GIB);
        let told: Vec<Space> = [32, 31, 8, 7].map(free).to_vec();
        assert_eq!(told, [Space::Plenty, Space::Scarce, Space::Scarce, Space::Full]);
    }

    #[test]
    fn the_way_back_is_longer_than_the_way_there() {
        let after = |space: Space, free: u64| space.measured(free * GIB / 10, 100 * GIB);
        let from_full: Vec<Space> = [50, 56, 57].map(|free| after(Space::Full, free)).to_vec();
        assert_eq!(from_full, [Space::Full, Space::Full, Space::Scarce]);
        let from_scarce: Vec<Space> =
            [200, 224, 225].map(|free| after(Space::Scarce, free)).to_vec();
        assert_eq!(from_scarce, [Space::Scarce, Space::Scarce, Space::Plenty]);
    }

    #[test]
    fn what_was_not_measured_changes_nothing() {
        assert_eq!(Space::Full.measured(0, 0), Space::Full);
        assert_eq!(Space::default().measured(0, 0), Space::Plenty);
    }
}
