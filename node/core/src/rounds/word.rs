//! What the hosts of a partition say to each other, and what a host wants done.
//!
//! [`Word`] is the language of this room: it travels in envelopes of a session, in order. [`Act`]
//! is what comes out of a call. What is to be written and what is to be said of one call belong
//! together: the rows are durable before any word of it leaves, and before anything is handed out
//! because of it. That is all that the promises of this room rest on.
//!
//! What this file does not do: it decides nothing.

use std::collections::BTreeSet;

use gaggle_wire::{NodeId, Stamp};
use serde::{Deserialize, Serialize};

use super::{Accepted, AcceptorRecord, Ballot, Entry, Round, Seat, Sum, Told};
use crate::now::Mono;

/// The steady time of whoever asks, sent back untouched with the answer. It means nothing to
/// anybody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sent(pub u64);

impl Sent {
    /// The time at which it was sent, for whoever sent it.
    #[must_use]
    pub fn mono(self) -> Mono {
        Mono(self.0)
    }
}

impl From<Mono> for Sent {
    fn from(now: Mono) -> Self {
        Self(now.0)
    }
}

/// Where a proposed round comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Built from the reports of a majority.
    Built,
    /// Found at the prepare: it may have been chosen.
    Adopted,
}

/// What one host says to another. `known` is the last chosen round that the speaker knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// Promise me this ballot.
    Prepare {
        /// A new one of the speaker.
        ballot: Ballot,
        /// See [`Word`].
        known: u64,
        /// The highest ballot that was promised before, if its host has said that it stopped.
        stopped: Option<Ballot>,
        /// To be sent back.
        sent: Sent,
    },
    /// Promised, and this is what was accepted.
    Promise {
        /// Which ballot.
        ballot: Ballot,
        /// See [`Word`].
        known: u64,
        /// What is not known to be chosen.
        accepted: Option<Accepted>,
        /// As it was sent.
        sent: Sent,
    },
    /// No: something higher was promised, or somebody's turn may last.
    Refuse {
        /// Which ballot.
        ballot: Ballot,
        /// What was promised.
        promised: Ballot,
    },
    /// Tell me all that you hold up to here.
    Ask {
        /// The speaker's.
        ballot: Ballot,
        /// See [`Word`].
        known: u64,
        /// The watermark of the round that it will build.
        up_to: Stamp,
        /// To be sent back.
        sent: Sent,
    },
    /// All that is held here up to there and not known to be settled.
    Report {
        /// The asker's.
        ballot: Ballot,
        /// See [`Word`].
        known: u64,
        /// As it was asked.
        up_to: Stamp,
        /// Nothing when this host cannot vouch for it.
        held: Option<Vec<Entry>>,
        /// As it was sent.
        sent: Sent,
    },
    /// Accept this round.
    Propose {
        /// The speaker's.
        ballot: Ballot,
        /// Which round.
        round: Round,
        /// Where it comes from.
        origin: Origin,
        /// To be sent back.
        sent: Sent,
    },
    /// Accepted, durably.
    Accept {
        /// The proposer's.
        ballot: Ballot,
        /// Which round.
        n: u64,
        /// As it was sent.
        sent: Sent,
    },
    /// I do nothing more under this ballot, nor under a lower one of mine, and have no turn.
    Stopped {
        /// The speaker's.
        ballot: Ballot,
    },
    /// So far I know the chosen rounds; tell me more if there are any.
    Known {
        /// The last one.
        n: u64,
    },
    /// These were chosen.
    Learn {
        /// What the rounds begin behind, if that is not known to be known.
        sum: Option<Sum>,
        /// In order.
        rounds: Vec<Round>,
    },
    /// I am new here: give me all that you hold, if you know of this change.
    TellAll {
        /// The round of the change.
        changed: u64,
    },
    /// You have been given all that I held or was told.
    ToldAll {
        /// The round of the change.
        changed: u64,
        /// Whose holdings that covers.
        by: BTreeSet<Seat>,
    },
}

/// A question to this host: what does it hold?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who asks; this host itself, when it is the sequencer.
    pub by: NodeId,
    /// Under which ballot.
    pub ballot: Ballot,
    /// Up to where.
    pub up_to: Stamp,
    /// To be sent back.
    pub sent: Sent,
}

/// One change of the rows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// Sets the one row of the acceptor.
    Acceptor(AcceptorRecord),
    /// Adds the row of a round.
    Round(Round),
    /// Sets the one row of the sum, and removes those of the rounds that are in it.
    Sum(Sum),
    /// Sets the one row of what this host was told.
    Told(Told),
}

/// What a host wants done. All rows of one call are durable before anything else of it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Write this.
    Write(Row),
    /// Say this to a node in session.
    Say(NodeId, Word),
    /// Look up all that this host holds up to there, has not given a verdict, and knows neither to
    /// have moved nor to be gone; then call `gathered`.
    Gather(Asked),
    /// Get these messages, from this node first, then from their holders and the pinned hosts.
    Fetch(NodeId, Vec<Entry>),
    /// Give this node all that is held here; once it has that on disk, say the word.
    GiveAll(NodeId, Word),
    /// This round is chosen and in the log: what it says becomes of the messages held here.
    Chosen(Round),
}
