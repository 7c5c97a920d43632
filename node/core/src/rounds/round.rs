//! The round: what is agreed on, one step of a strict partition's release.
//!
//! A round names messages and says what becomes of them. It is chosen whole or not at all, and it
//! is the same at every host for ever. What a host must know to judge the next message is in it:
//! of each entry the stamp, the ordering key (as a number, not as text) and the hosts that are
//! listed as its holders, so that a host which has not got the message can still ask for it.
//!
//! Invariant: within a round an entry stands once. What this file does not do: it does not judge
//! what may follow what; see the log.

use gaggle_wire::{MessageId, NodeId, Stamp};
use serde::{Deserialize, Serialize};

use super::Pinned;

/// What has its place in a strict partition by itself: a message, and once more after each move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    /// Which message.
    pub id: MessageId,
    /// How often it has moved between queues.
    pub moves: u32,
}

/// An entry as rounds and reports name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// Where it stands in the order. First, so that entries sort by it.
    pub stamp: Stamp,
    /// Which one.
    pub name: Name,
    /// The hash of its ordering key; 0 for what has none. Keys with one hash are ordered as one.
    pub key: u64,
    /// The hosts that are listed as holders, as the sequencer knew them.
    pub holders: Vec<NodeId>,
}

/// Why a message was taken out of a strict partition by agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// It went unread for longer than it may.
    Expired,
    /// It was there when the queue was emptied.
    Purged,
    /// It went for the limit of its queue.
    Dropped,
    /// No listed host has it.
    Lost,
    /// It had all its chances.
    Dead,
}

/// One agreed step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The how-manieth round of the partition it is, from 1.
    pub n: u64,
    /// The watermark from here on (P7).
    pub up_to: Stamp,
    /// To be handed out, in this order.
    pub released: Vec<Entry>,
    /// To be moved to the late queue.
    pub late: Vec<Entry>,
    /// Not to be handed out, or not any more.
    pub out: Vec<(Entry, Why)>,
    /// The pinned hosts from the next round on, when they change.
    pub change: Option<Pinned>,
}

impl Round {
    /// All that it settles.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let out = self.out.iter().map(|(entry, _)| entry);
        self.released.iter().chain(&self.late).chain(out)
    }

    /// Whether it does nothing but move the watermark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none() && self.change.is_none()
    }
}
