//! When the oldest message of a partition was accepted, as far as that is known.
//!
//! The window does not know: it is cold until somebody wants the queue, and what is in flight is
//! not in it. So whoever asks has the first row read, once; what was found stays known until that
//! message is gone or an older one comes. Memory: one message per partition.
//!
//! What this file does not do: it reads nothing itself, and the oldest is the one with the
//! smallest stamp, for so the rows lie.

use gaggle_wire::Stamp;

use crate::custody::known::{Known, Seen};

/// A message that may be the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct First {
    pub(crate) stamp: Stamp,
    pub(crate) number: u64,
    pub(crate) accepted: Stamp,
}

/// The oldest message of a partition.
#[derive(Debug, Default)]
pub(crate) struct Oldest {
    first: Option<First>,
    /// The oldest that came while the first row is being read: the read may have been before it.
    beside: Option<First>,
    reading: bool,
}

impl Oldest {
    /// A message was stored.
    pub(crate) fn came(&mut self, new: First) {
        if self.reading {
            self.beside = Some(self.beside.map_or(new, |first| first.min(new)));
        }
        self.first = self.first.map(|first| first.min(new));
    }

    /// When the oldest was accepted; unknown if that was never read, or if it is gone.
    pub(crate) fn accepted(&self, known: &Known) -> Option<Stamp> {
        self.first.filter(|first| is_held(known, first)).map(|first| first.accepted)
    }

    /// Whether the first row has to be read; it is being read then.
    pub(crate) fn start_reading(&mut self, known: &Known) -> bool {
        if self.reading || known.held_count() == 0 || self.accepted(known).is_some() {
            return false;
        }
        (self.reading, self.first, self.beside) = (true, None, None);
        true
    }

    /// The first rows are here, in order.
    pub(crate) fn read(&mut self, known: &Known, rows: impl Iterator<Item = First>) {
        self.reading = false;
        let beside = self.beside.take();
        self.first = rows.chain(beside).filter(|first| is_held(known, first)).min();
    }
}

fn is_held(known: &Known, first: &First) -> bool {
    known.seen(first.stamp.process, first.number) == Seen::Held
}

#[cfg(test)]
mod tests {
    use gaggle_wire::ProcessId;

    use super::*;
    use crate::ranges::Ranges;

    const P: ProcessId = ProcessId(7);

    fn first(number: u64) -> First {
        let stamp = Stamp { time: number, count: 0, process: P };
        First { stamp, number, accepted: Stamp { time: 100 + number, ..stamp } }
    }

    fn accepted(oldest: &Oldest, known: &Known) -> Option<u64> {
        oldest.accepted(known).map(|stamp| stamp.time)
    }

    #[test]
    fn it_is_read_once_and_again_only_when_it_is_gone() {
        let (mut oldest, mut known) = (Oldest::default(), Known::default());
        assert!(!oldest.start_reading(&known), "there is nothing to be read");
        known.hold(P, 2);
        known.hold(P, 3);
        assert!(oldest.start_reading(&known));
        assert!(!oldest.start_reading(&known), "it is being read");
        oldest.read(&known, [first(2), first(3)].into_iter());
        assert_eq!(accepted(&oldest, &known), Some(102));
        assert!(!oldest.start_reading(&known));
        known.hold(P, 1);
        oldest.came(first(1));
        assert_eq!(accepted(&oldest, &known), Some(101), "an older one came");
        known.bury(P, &Ranges::of(1, 1));
        assert_eq!(accepted(&oldest, &known), None);
        assert!(oldest.start_reading(&known));
    }

    #[test]
    fn what_comes_while_it_is_read_counts_and_rows_of_what_is_gone_do_not() {
        let (mut oldest, mut known) = (Oldest::default(), Known::default());
        known.hold(P, 4);
        assert!(oldest.start_reading(&known));
        known.hold(P, 5);
        known.hold(P, 6);
        oldest.came(first(6));
        oldest.came(first(5));
        known.bury(P, &Ranges::of(4, 4));
        oldest.read(&known, [first(4)].into_iter());
        assert_eq!(accepted(&oldest, &known), Some(105));
    }
}
