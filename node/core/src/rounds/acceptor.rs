//! The acceptor: what this host has promised, and which round it has accepted.
//!
//! Each pinned host is one. It promises a ballot, and from then on takes part in nothing below
//! it; it accepts a round, which promises its ballot as well. Promise and acceptance are one
//! durable record: they are on disk before they are told, for another host builds on them.
//!
//! The second half is the turn. Whoever was answered may be handing out because of it, so for
//! the length of a turn this host grants its promise to nobody else, unless that one has said
//! that it stopped under this very ballot. A yield alone does not say that: it is about a session,
//! and who has yielded may have begun anew since.
//! What was answered in an earlier run is not known any more: a host that has opened its store
//! grants nothing for that long, too, unless it has never promised anything.
//!
//! Invariants: the promised ballot never goes down, and is never below the accepted one (P6); no
//! other ballot is granted while a turn may last (P9). What this file does not do: it does not
//! know whether a round may follow; see the log.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Ballot, Round, Seat};
use crate::now::Mono;

/// A round and the ballot under which it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Under which ballot.
    pub ballot: Ballot,
    /// What.
    pub round: Round,
}

/// What is written down of an acceptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptorRecord {
    /// Whose it is: with another store it means nothing.
    pub seat: Seat,
    /// The highest ballot it takes part in; nothing below it.
    pub promised: Ballot,
    /// What it has accepted and does not know to be chosen or passed over.
    pub accepted: Option<Accepted>,
}

/// The acceptor of one host.
#[derive(Debug)]
pub(crate) struct Acceptor {
    record: AcceptorRecord,
    /// Until when nobody but its host is granted another ballot.
    granted: Option<Ballot>,
    granted_until: Mono,
    turn: Duration,
}

impl Acceptor {
    /// The acceptor as it was written down. What a former store promised is void.
    pub(crate) fn open(
        me: Seat,
        record: Option<AcceptorRecord>,
        now: Mono,
        turn: Duration,
    ) -> Self {
        let fresh = || AcceptorRecord { seat: me, promised: Ballot::NONE, accepted: None };
        // Who has never promised anything to anybody has granted no turn.
        let record = record.filter(|record| record.seat == me);
        let granted_until = if record.is_some() { now.plus(turn) } else { now };
        Self { record: record.unwrap_or_else(fresh), granted: None, granted_until, turn }
    }

    /// What has to be on disk before its last answer leaves.
    pub(crate) fn record(&self) -> &AcceptorRecord {
        &self.record
    }

    /// The highest ballot it takes part in.
    pub(crate) fn promised(&self) -> Ballot {
        self.record.promised
    }

    /// What it has accepted and does not know to be chosen.
    pub(crate) fn accepted(&self) -> Option<&Accepted> {
        self.record.accepted.as_ref()
    }

    /// Promises a ballot above all others, unless somebody's turn may last who is not known to
    /// have stopped under that ballot.
    pub(crate) fn prepare(
        &mut self,
        now: Mono,
        ballot: Ballot,
        stopped: Option<Ballot>,
    ) -> Result<(), Refused> {
        let is_free = now >= self.granted_until
            || self.granted.is_some_and(|granted| {
                let has_stopped = |s: Ballot| s.node == granted.node && s >= granted;
                granted.node == ballot.node || stopped.is_some_and(has_stopped)
            });
        if ballot <= self.record.promised || !is_free {
            return Err(Refused { promised: self.record.promised });
        }
        self.grant(now, ballot);
        Ok(())
    }

    /// Goes on taking part in a ballot, or begins to: what comes under it is answered. Whether
    /// the record has changed.
    pub(crate) fn follow(&mut self, now: Mono, ballot: Ballot) -> Result<bool, Refused> {
        if ballot < self.record.promised {
            return Err(Refused { promised: self.record.promised });
        }
        let is_new = ballot > self.record.promised;
        self.grant(now, ballot);
        Ok(is_new)
    }

    /// Accepts a round that may follow.
    pub(crate) fn accept(
        &mut self,
        now: Mono,
        ballot: Ballot,
        round: Round,
    ) -> Result<(), Refused> {
        self.follow(now, ballot)?;
        self.record.accepted = Some(Accepted { ballot, round });
        Ok(())
    }

    /// Somebody has seen a higher ballot than this host: its next own one is above it.
    pub(crate) fn has_seen(&mut self, ballot: Ballot) -> bool {
        let is_new = ballot > self.record.promised;
        self.record.promised = ballot.max(self.record.promised);
        is_new
    }

    /// All up to this round is known to be chosen. Whether the record has changed.
    pub(crate) fn chosen(&mut self, n: u64) -> bool {
        let passed = self.record.accepted.take_if(|accepted| accepted.round.n <= n);
        passed.is_some()
    }

    fn grant(&mut self, now: Mono, ballot: Ballot) {
        assert!(ballot >= self.record.promised, "P6: a promise is kept");
        self.record.promised = ballot;
        self.granted = Some(ballot);
        self.granted_until = now.plus(self.turn);
    }
}

/// Why not: something higher was promised, or a turn may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) promised: Ballot,
}

#[cfg(test)]
mod tests {
    use gaggle_wire::{NodeId, Stamp};

    use super::*;

    const TURN: Duration = Duration::from_nanos(100);
    const ME: Seat = Seat { node: NodeId(1), store: 1 };

    fn ballot(number: u64, node: u64) -> Ballot {
        Ballot { number, node: NodeId(node) }
    }

    fn round(n: u64) -> Round {
        let up_to = Stamp::ZERO;
        Round { n, up_to, released: vec![], late: vec![], out: vec![], change: None }
    }

    /// One that has promised something in an earlier run.
    fn opened() -> Acceptor {
        let record = AcceptorRecord { seat: ME, promised: Ballot::NONE, accepted: None };
        Acceptor::open(ME, Some(record), Mono(0), TURN)
    }

    #[test]
    fn nothing_below_the_promised_ballot_is_taken_part_in() {
        let mut acceptor = opened();
        assert_eq!(acceptor.prepare(Mono(100), ballot(3, 2), None), Ok(()));
        let refused = Refused { promised: ballot(3, 2) };
        assert_eq!(acceptor.prepare(Mono(900), ballot(3, 1), None), Err(refused));
        assert_eq!(acceptor.prepare(Mono(900), ballot(3, 2), None), Err(refused), "only once");
        assert_eq!(acceptor.follow(Mono(900), ballot(2, 9)), Err(refused));
        assert_eq!(acceptor.accept(Mono(900), ballot(2, 9), round(1)), Err(refused));
        assert_eq!(acceptor.accept(Mono(900), ballot(4, 3), round(1)), Ok(()));
        let accepted = Some(Accepted { ballot: ballot(4, 3), round: round(1) });
        let record = AcceptorRecord { seat: ME, promised: ballot(4, 3), accepted };
        assert_eq!(acceptor.record(), &record, "accepting raises the promise");
        assert_eq!(acceptor.follow(Mono(900), ballot(4, 3)), Ok(false));
        assert_eq!(acceptor.follow(Mono(900), ballot(5, 3)), Ok(true));
    }

    #[test]
    fn no_other_ballot_is_granted_while_a_turn_may_last() {
        let mut acceptor = opened();
        let refused = |number, node| Err(Refused { promised: ballot(number, node) });
        assert_eq!(acceptor.prepare(Mono(99), ballot(1, 2), None), refused(0, 0), "just opened");
        assert_eq!(acceptor.prepare(Mono(100), ballot(1, 2), None), Ok(()));
        assert_eq!(acceptor.follow(Mono(150), ballot(1, 2)), Ok(false));
        assert_eq!(acceptor.prepare(Mono(249), ballot(2, 3), None), refused(1, 2));
        assert_eq!(acceptor.prepare(Mono(249), ballot(2, 3), Some(ballot(1, 4))), refused(1, 2));
        assert_eq!(acceptor.prepare(Mono(249), ballot(2, 3), Some(ballot(0, 2))), refused(1, 2));
        assert_eq!(
            acceptor.prepare(Mono(249), ballot(2, 3), Some(ballot(1, 2))),
            Ok(()),
            "stopped"
        );
        assert_eq!(acceptor.prepare(Mono(250), ballot(3, 3), None), Ok(()), "its own next one");
        assert_eq!(acceptor.prepare(Mono(350), ballot(4, 2), None), Ok(()), "it is over");
    }

    #[test]
    fn who_has_never_promised_anything_promises_at_once() {
        let mut acceptor = Acceptor::open(ME, None, Mono(0), TURN);
        assert_eq!(acceptor.prepare(Mono(0), ballot(1, 2), None), Ok(()));
    }

    #[test]
    fn what_was_written_down_is_kept_by_its_store_alone() {
        let mut acceptor = opened();
        acceptor.accept(Mono(100), ballot(4, 3), round(2)).unwrap();
        let record = acceptor.record().clone();
        let again = Acceptor::open(ME, Some(record.clone()), Mono(0), TURN);
        assert_eq!(again.record(), &record);
        let wiped = Acceptor::open(Seat { store: 2, ..ME }, Some(record), Mono(0), TURN);
        assert_eq!((wiped.promised(), wiped.accepted()), (Ballot::NONE, None));
    }

    #[test]
    fn what_is_chosen_is_not_offered_any_more() {
        let mut acceptor = opened();
        acceptor.accept(Mono(100), ballot(4, 3), round(2)).unwrap();
        assert!(!acceptor.chosen(1));
        assert!(acceptor.chosen(2));
        assert_eq!(acceptor.accepted(), None);
        assert!(acceptor.has_seen(ballot(9, 9)) && !acceptor.has_seen(ballot(1, 9)));
        assert_eq!(acceptor.promised(), ballot(9, 9));
    }
}
