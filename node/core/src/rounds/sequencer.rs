//! The sequencer: where a host stands that proposes rounds, or is about to.
//!
//! The custodian among the pinned hosts is the sequencer: nobody chooses it. It *prepares* a
//! ballot at a majority, and learns what was accepted before it; from then on it works at one
//! round after the other: it asks everybody what they hold, builds a round of the answers, and
//! has it accepted. What it found at the prepare goes first, unchanged: it may be chosen already.
//!
//! ```text
//!            prepare        majority promised         majority reported
//!    idle -----------> preparing ----------> resting <----------> asking
//!     ^                    |                  ^   |                 | built
//!     |     refused,       |    found one     |   +-----------------+
//!     +--------------------+--------+         | chosen              v
//!           or custody went away    +---------+---------------- open round
//! ```
//!
//! Invariants: one round is open at a time; what is said under a ballot is said by its host
//! alone. What this file does not do: it does not build rounds and does not speak.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{NodeId, Stamp};

use super::turn::Turn;
use super::word::{Origin, Sent};
use super::{Accepted, Asked, Ballot, Entry, Pinned, Round, Seat};
use crate::now::Mono;

/// What a host does about the rounds of a partition.
#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    phase: Phase,
    /// Until when it prepares nothing new.
    quiet_until: Mono,
    pub(crate) turn: Turn,
}

/// See the picture above.
#[derive(Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Preparing(Preparing),
    Sequencing(Ballot, Work),
}

/// A ballot that promises are collected for.
#[derive(Debug)]
pub(crate) struct Preparing {
    pub(crate) ballot: Ballot,
    /// The last chosen round that anybody knew who promised.
    pub(crate) known: u64,
    found: BTreeMap<Seat, Option<Accepted>>,
}

/// What it is at under its ballot.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing until then.
    Resting(Mono),
    Asking(Asking),
    Open(Open),
}

/// Reports that are collected.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) up_to: Stamp,
    pub(crate) at: Mono,
    pub(crate) reports: BTreeMap<Seat, Vec<Entry>>,
}

/// A round that acceptances are collected for.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) round: Round,
    pub(crate) origin: Origin,
    pub(crate) accepted: BTreeSet<Seat>,
    /// When each node was sent it last.
    pub(crate) sent: BTreeMap<NodeId, Mono>,
}

impl Preparing {
    /// Whether a majority has promised.
    pub(crate) fn is_promised(&self, pinned: &Pinned) -> bool {
        pinned.is_majority(&self.found.keys().copied().collect())
    }

    /// What has to be proposed as round `n`, whatever it is: of what was found the one of the
    /// highest ballot.
    pub(crate) fn adopted(&self, n: u64) -> Option<Round> {
        let found = self.found.values().flatten().filter(|accepted| accepted.round.n == n);
        found.max_by_key(|accepted| accepted.ballot).map(|accepted| accepted.round.clone())
    }
}

impl Sequencer {
    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The ballot under which it prepares or proposes.
    pub(crate) fn ballot(&self) -> Option<Ballot> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Preparing(preparing) => Some(preparing.ballot),
            Phase::Sequencing(ballot, _) => Some(*ballot),
        }
    }

    /// Until when nothing new is prepared.
    pub(crate) fn quiet_until(&self) -> Mono {
        self.quiet_until
    }

    /// Prepares nothing before then.
    pub(crate) fn rest(&mut self, until: Mono) {
        self.quiet_until = until;
    }

    /// Does nothing more under its ballot, and has no turn.
    pub(crate) fn stop(&mut self) {
        self.phase = Phase::Idle;
        self.turn.end();
    }

    /// Begins to collect promises.
    pub(crate) fn prepare(&mut self, ballot: Ballot) {
        self.turn.end();
        self.phase = Phase::Preparing(Preparing { ballot, known: 0, found: BTreeMap::new() });
    }

    /// A host has promised a ballot, if it is the one that is prepared.
    pub(crate) fn promised(&mut self, seat: Seat, ballot: Ballot, promise: Promise) {
        if let Phase::Preparing(preparing) = &mut self.phase
            && preparing.ballot == ballot
        {
            preparing.known = preparing.known.max(promise.known);
            preparing.found.insert(seat, promise.accepted);
            self.turn.answered(seat, promise.sent.mono());
        }
    }

    /// Goes on with this under a ballot that a majority has promised.
    pub(crate) fn work(&mut self, ballot: Ballot, work: Work) {
        self.phase = Phase::Sequencing(ballot, work);
    }

    /// The log has moved on: what was built on its former end is void.
    pub(crate) fn moved_on(&mut self, n: u64) {
        let Phase::Sequencing(_, work) = &mut self.phase else { return };
        let is_void = match work {
            Work::Resting(_) => false,
            Work::Asking(_) => true,
            Work::Open(open) => open.round.n <= n,
        };
        if is_void {
            *work = Work::Resting(Mono(0));
        }
    }

    /// The round that is open.
    pub(crate) fn open(&self) -> Option<&Open> {
        match &self.phase {
            Phase::Sequencing(_, Work::Open(open)) => Some(open),
            Phase::Idle | Phase::Preparing(_) | Phase::Sequencing(..) => None,
        }
    }

    /// The round that is open, to be sent again.
    pub(crate) fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.phase {
            Phase::Sequencing(_, Work::Open(open)) => Some(open),
            Phase::Idle | Phase::Preparing(_) | Phase::Sequencing(..) => None,
        }
    }

    /// A host has answered under a ballot: whether it is the one that rounds are proposed under.
    pub(crate) fn answered(&mut self, seat: Seat, ballot: Ballot, sent: Sent) -> bool {
        let is_ours = matches!(self.phase, Phase::Sequencing(ours, _) if ours == ballot);
        if is_ours {
            self.turn.answered(seat, sent.mono());
        }
        is_ours
    }

    /// What a host holds, if that was the question.
    pub(crate) fn reported(&mut self, seat: Seat, asked: Asked, held: Vec<Entry>) -> bool {
        match &mut self.phase {
            Phase::Sequencing(ballot, Work::Asking(asking))
                if *ballot == asked.ballot
                    && asking.up_to == asked.up_to
                    && asking.at == asked.sent.mono() =>
            {
                asking.reports.insert(seat, held);
                true
            }
            Phase::Idle | Phase::Preparing(_) | Phase::Sequencing(..) => false,
        }
    }

    /// The session with a node has ended: what it reported it may not be able to give any more.
    pub(crate) fn ended(&mut self, node: NodeId) {
        self.turn.ended(node);
        if let Phase::Sequencing(_, Work::Asking(asking)) = &mut self.phase {
            asking.reports.retain(|seat, _| seat.node != node);
        }
    }
}

/// What comes with a promise.
#[derive(Debug)]
pub(crate) struct Promise {
    pub(crate) known: u64,
    pub(crate) accepted: Option<Accepted>,
    pub(crate) sent: Sent,
}
