//! Digest: what two holders should both have of a partition, as a count and a sum.
//!
//! What a host holds of a process is ranges, and a set has one such form. So the sum over the
//! ranges is equal where the sets are, however large they are, and a difference of one message
//! anywhere shows (but for one chance in 2^64).
//!
//! What this file does not do: it does not say which message differs; ranges do.

use std::collections::BTreeMap;

use gaggle_wire::ProcessId;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::ranges::Ranges;

/// The digest of messages, by process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// How many messages.
    pub count: u64,
    /// The xxh3 of all ranges.
    pub sum: u64,
}

impl Digest {
    pub(crate) fn of(messages: &BTreeMap<ProcessId, Ranges>) -> Self {
        let (mut count, mut sum) = (0, Xxh3::new());
        for (process, numbers) in messages.iter().filter(|(_, numbers)| !numbers.is_empty()) {
            for (first, last) in numbers.iter() {
                count += last - first + 1;
                for part in [process.0, first, last] {
                    sum.update(&part.to_be_bytes());
                }
            }
        }
        Self { count, sum: sum.digest() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[u64]) -> Digest {
        let numbers = numbers.iter().copied().collect();
        Digest::of(&[(ProcessId(7), numbers), (ProcessId(8), Ranges::default())].into())
    }

    #[test]
    fn equal_sets_have_equal_digests_and_a_hole_in_the_middle_shows() {
        assert_eq!(of(&[1, 2, 3, 7]), of(&[7, 3, 2, 1]));
        let whole: Vec<u64> = (1..=1000).collect();
        for hole in 1..=1000 {
            let rest: Vec<u64> = whole.iter().copied().filter(|number| *number != hole).collect();
            assert_ne!(of(&whole), of(&rest));
            let moved: Vec<u64> = rest.iter().copied().chain([1000 + hole]).collect();
            assert_ne!(of(&whole), of(&moved), "as many, but not the same");
        }
        assert_ne!(of(&[1]), Digest::of(&[(ProcessId(9), Ranges::of(1, 1))].into()));
    }
}
