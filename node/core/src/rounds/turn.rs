//! The turn: for how long a sequencer may hand out without asking again.
//!
//! That a host proposed the newest round does not mean that it still may: another one may have
//! gone on without it. Before each hand-out it would have to ask a majority. So a majority's
//! answer is good for a while: who answered grants no other ballot for the length of a turn from
//! *its answer* on, and the sequencer counts the same length from *its question* on, which was
//! earlier. No clocks are compared, only lengths of time.
//!
//! Invariant: a turn that has not ended was granted by a majority of the pinned hosts as they are
//! now, none of which has granted another ballot (P9). What this file does not do: it does not
//! grant; see the acceptor.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::NodeId;

use super::{Pinned, Seat};
use crate::now::Mono;

/// When each host was asked what it answered last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    answered: BTreeMap<Seat, Mono>,
}

impl Turn {
    /// A host answered what it was sent then.
    pub(crate) fn answered(&mut self, seat: Seat, sent: Mono) {
        let newest = self.answered.entry(seat).or_insert(sent);
        *newest = sent.max(*newest);
    }

    /// The session with a node has ended.
    pub(crate) fn ended(&mut self, node: NodeId) {
        self.answered.retain(|seat, _| seat.node != node);
    }

    /// Nothing is granted any more.
    pub(crate) fn end(&mut self) {
        self.answered.clear();
    }

    /// When the turn ends: a length of time after the newest question that a majority answered.
    pub(crate) fn ends(&self, pinned: &Pinned, length: Duration) -> Option<Mono> {
        let mut sent: Vec<_> =
            pinned.seats().filter_map(|seat| self.answered.get(&seat).copied()).collect();
        sent.sort_unstable_by(|a, b| b.cmp(a));
        sent.get(pinned.majority() - 1).map(|sent| sent.plus(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_nanos(100);

    fn seat(node: u64) -> Seat {
        Seat { node: NodeId(node), store: 1 }
    }

    #[test]
    fn it_lasts_from_the_newest_question_that_a_majority_answered() {
        let pinned = Pinned::new([seat(1), seat(2), seat(3)]);
        let mut turn = Turn::default();
        turn.answered(seat(1), Mono(50));
        assert_eq!(turn.ends(&pinned, LENGTH), None, "one is no majority");
        turn.answered(seat(2), Mono(20));
        assert_eq!(turn.ends(&pinned, LENGTH), Some(Mono(120)));
        turn.answered(seat(3), Mono(30));
        turn.answered(seat(3), Mono(10));
        assert_eq!(turn.ends(&pinned, LENGTH), Some(Mono(130)), "an old answer takes nothing back");
        turn.ended(NodeId(1));
        assert_eq!(turn.ends(&pinned, LENGTH), Some(Mono(120)));
        turn.end();
        assert_eq!(turn.ends(&pinned, LENGTH), None);
    }

    #[test]
    fn after_a_change_the_new_set_counts() {
        let mut turn = Turn::default();
        turn.answered(seat(1), Mono(50));
        turn.answered(seat(2), Mono(40));
        let changed = Pinned::new([seat(1), seat(3), Seat { node: NodeId(2), store: 2 }]);
        assert_eq!(turn.ends(&changed, LENGTH), None);
    }
}
