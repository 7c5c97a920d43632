//! Arrival skew: how long after its producer stamped it a message is accepted.
//!
//! It is what a queue's order has to put up with: the way to the node, what a resend takes, and
//! how far the producer's clock is behind that of the node. Counted in powers of two of
//! milliseconds, so that counts of nodes can be added up. What this file does not do: it reads no
//! clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How many messages were accepted how long after their stamp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalSkew {
    /// First those whose stamp is later than their acceptance, then those below 1, 2, 4, ...
    /// milliseconds after it; the last also those above. As many counts as it takes.
    counts: Vec<u64>,
}

impl ArrivalSkew {
    /// Counts a message that was stamped and accepted at these times, in nanoseconds.
    pub fn count(&mut self, stamped: u64, accepted: u64) {
        let slot = match accepted.checked_sub(stamped) {
            None => 0,
            Some(skew) => (u64::BITS - (skew / NANOS_PER_MS).leading_zeros()) as usize + 1,
        };
        self.add(slot, 1);
    }

    /// Adds what another node counted.
    pub fn merge(&mut self, other: &Self) {
        for (slot, count) in other.counts.iter().enumerate() {
            self.add(slot, *count);
        }
    }

    /// How many messages were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What of so many in a thousand messages the skew was below; none if none was counted. The
    /// last of the counts has no bound of its own.
    #[must_use]
    pub fn below(&self, per_mille: u64) -> Option<Duration> {
        let total = self.total();
        let wanted = (u128::from(total) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted {
                return Some(bound(slot));
            }
        }
        None
    }

    fn add(&mut self, slot: usize, count: u64) {
        let slot = slot.min(SLOTS - 1);
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] = self.counts[slot].saturating_add(count);
    }
}

fn bound(slot: usize) -> Duration {
    slot.checked_sub(1).map_or(Duration::ZERO, |power| Duration::from_millis(1 << power))
}

const NANOS_PER_MS: u64 = 1_000_000;
/// The last begins at 131 s: no resend comes later than after the resend window of 2 min.
const SLOTS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn skew(millis: &[i64]) -> ArrivalSkew {
        let mut skew = ArrivalSkew::default();
        for ms in millis {
            let stamped = 1_000_000 * NANOS_PER_MS;
            skew.count(stamped, stamped.strict_add_signed(ms * 1_000_000));
        }
        skew
    }

    #[test]
    fn a_skew_is_counted_below_the_next_power_of_two() {
        assert_eq!(skew(&[-1]).counts, [1]);
        assert_eq!(skew(&[0]).counts, [0, 1]);
        assert_eq!(skew(&[1]).counts, [0, 0, 1]);
        assert_eq!(skew(&[2, 3]).counts, [0, 0, 0, 2]);
        assert_eq!(skew(&[4]).counts, [0, 0, 0, 0, 1]);
        assert_eq!(skew(&[131_071]).counts.len(), 19);
        assert_eq!(skew(&[131_072]).counts.len(), 20);
        assert_eq!(skew(&[900_000]).counts.len(), 20);
    }

    #[test]
    fn so_many_in_a_thousand_are_below() {
        assert_eq!(skew(&[]).below(500), None);
        let mixed = skew(&[-3, 0, 0, 0, 0, 0, 0, 0, 5, 700]);
        let below = |per_mille| mixed.below(per_mille).unwrap().as_millis();
        assert_eq!([100, 500, 800, 801, 900, 990].map(below), [0, 1, 1, 8, 8, 1024]);
    }

    #[test]
    fn what_nodes_counted_adds_up_whatever_they_say() {
        let mut sum = skew(&[0, 5]);
        sum.merge(&skew(&[-1, 900]));
        assert_eq!((sum.total(), sum.clone()), (4, skew(&[-1, 0, 5, 900])));
        sum.merge(&ArrivalSkew { counts: vec![1 << 40; 1000] });
        assert_eq!((sum.counts.len(), sum.total()), (SLOTS, 4 + (1000 << 40)));
        sum.merge(&ArrivalSkew { counts: vec![u64::MAX; 1000] });
        assert_eq!(sum.total(), u64::MAX, "nothing overflows");
        assert!(sum.below(1000).is_some());
    }
}
