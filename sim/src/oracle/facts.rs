//! Facts: what an answer tells, and what the world sees of a node.
//!
//! What this file does not do: it does not remember them.

use std::collections::BTreeMap;

use gaggle_core::Holdings;
use gaggle_wire::{
    DeleteResult, DeliveryLabel, NodeId, ProcessId, QueueId, Receipt, Refusal, Response,
    SendException, SentBatch, Stamp,
};

use super::{FullName, Place, name_of};

/// What is learned.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "facts are made one at a time, and not kept")]
pub enum Fact {
    /// A node accepted a send, after a client had heard that stamp of the same node's.
    Accepted {
        /// The stamp of its acceptance.
        stamp: Stamp,
        /// The highest one of the same process that had been heard when it was asked for.
        after: Option<Stamp>,
    },
    /// A message is stored, at so many nodes.
    Confirmed {
        /// Which.
        name: FullName,
        /// At how many nodes.
        copies: u8,
        /// Who says so.
        by: NodeId,
        /// When it was asked for.
        asked_at: u64,
        /// When that many had been counted: what says so waits for the commit of who did.
        counted_at: u64,
    },
    /// A message that was sent is gone already.
    Gone {
        /// Which.
        name: FullName,
    },
    /// A message was not stored, or that is unknown.
    Unsent {
        /// Which.
        name: FullName,
        /// Why.
        refusal: Refusal,
    },
    /// A message came.
    Delivered(Delivered),
    /// A message is deleted.
    Deleted {
        /// Which.
        name: FullName,
        /// Who says so.
        by: NodeId,
        /// When it was asked for.
        asked_at: u64,
    },
    /// A message was not deleted, or that is unknown.
    Undeleted {
        /// Which.
        name: FullName,
        /// Why.
        refusal: Refusal,
    },
    /// A queue is in the table.
    Queue {
        /// Which.
        id: QueueId,
    },
    /// A node is about to hand out a message that it holds, to a client of its own.
    HandedOut {
        /// Which message.
        name: FullName,
        /// Which node.
        by: NodeId,
    },
    /// A row of a message is removed from a disk.
    Removed {
        /// Whose.
        at: usize,
        /// Which message.
        name: FullName,
    },
    /// What a node keeps in memory, and reads at once.
    Holds {
        /// Which node.
        at: usize,
        /// What it has.
        holdings: Holdings,
        /// What it may have.
        limits: Holdings,
    },
    /// What a node's clock says.
    Clock {
        /// Which node.
        at: usize,
        /// Its hybrid time.
        reading: u64,
        /// The highest that it may say: the drift bound beyond what its own wall clock, or the one
        /// in the middle of all, said at most since it was started.
        highest: u64,
    },
    /// What is in the table of each node, when nothing has failed for long.
    Tables(Vec<(usize, Vec<Vec<u8>>)>),
    /// Time has passed.
    Later,
    /// The run is over, and everything was to be consumed.
    Over,
}

/// An answer that a client gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    /// Who asked where.
    pub(crate) place: Place,
    /// The number of the request.
    pub(crate) number: u64,
    /// When the node gave it: leases run from there, however long it was on its way.
    pub(crate) at: u64,
    /// What it says.
    pub(crate) response: &'a Response,
}

/// A delivery as it came to a client.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// When the node handed it over.
    pub at: u64,
    /// When its custodian gave it: its lease runs from then, and what says so waits for commits.
    pub given: u64,
    /// Who asked where.
    pub place: Place,
    /// Which message.
    pub name: FullName,
    /// The delivery.
    pub label: DeliveryLabel,
    /// Whether it crossed the end of its stream: its node has given it back.
    pub crossed: bool,
}

/// What the answer to a send tells.
pub(super) fn sent(
    (asked_at, counted_at, by): (u64, u64, NodeId),
    names: &[FullName],
    heard: &BTreeMap<ProcessId, Stamp>,
    response: &Response,
) -> Vec<Fact> {
    let unsent =
        |name: &FullName, refusal: &Refusal| Fact::Unsent { name: *name, refusal: refusal.clone() };
    match response {
        Response::Sent(SentBatch { accepted, copies, exceptions }) => {
            let after = heard.get(&accepted.process).copied();
            let mut facts = vec![Fact::Accepted { stamp: *accepted, after }];
            for (at, name) in names.iter().enumerate() {
                let exception = exceptions.iter().find(|(of, _)| *of as usize == at);
                facts.push(match exception {
                    None => {
                        let (name, copies) = (*name, *copies);
                        Fact::Confirmed { name, copies, by, asked_at, counted_at }
                    }
                    Some((_, SendException::Gone)) => Fact::Gone { name: *name },
                    Some((_, SendException::Refused(refusal))) => unsent(name, refusal),
                });
            }
            facts
        }
        Response::Refused(refusal) => names.iter().map(|name| unsent(name, refusal)).collect(),
        _ => Vec::new(),
    }
}

/// What the answer to a delete tells of one receipt.
pub(super) fn deleted(
    (asked_at, by): (u64, NodeId),
    receipt: &Receipt,
    result: &DeleteResult,
) -> Fact {
    let name = name_of(receipt);
    match result {
        DeleteResult::Deleted | DeleteResult::DeletedByOlderReceipt => {
            Fact::Deleted { name, by, asked_at }
        }
        DeleteResult::Refused(refusal) => Fact::Undeleted { name, refusal: refusal.clone() },
    }
}
