//! What nodes say to each other inside a session.
//!
//! An envelope travels on one of two ordered streams of the session's connection: control, or
//! copies, so that bodies never hold up a tombstone. Contents of messages follow the header as
//! on a client's stream; the core knows only their labels. Numbers that pair a question with its
//! answer (`batch`, `call`) are chosen by who asks and mean nothing outside the session.
//!
//! Invariant: an envelope is handled only in the session in which it was sent. What this file
//! does not do: it does not say when something is sent; see the rooms.

mod copies;
mod figures;
mod hello;
mod inventory;
mod lease;
mod wanted;

use gaggle_wire::{
    Attempt, DeliveryLabel, Label, NodeId, NodeReport, ProcessId, QueueId, QueueName, Receipt,
    Refusal, Stamp,
};
use serde::{Deserialize, Serialize};

pub use copies::{CopyException, CopyItem};
pub use figures::QueueTold;
pub use hello::{PEER_VERSION, PeerHello};
pub use inventory::{Lost, PartitionInventory, Place, Span};
pub use lease::{DeliveryRef, Heard, LeaseChange, LeaseTold};
pub use wanted::Wanted;

pub use crate::custody::digest::Digest;
use crate::ledger::MessageKey;
use crate::ranges::Ranges;
use crate::rounds::Word;
use crate::table::{Entry, Removal};

/// Which stream of the connection an envelope takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Marks, yields, tombstones, leases, wants.
    Control,
    /// What carries the contents of messages, and what must not overtake them.
    Copies,
}

/// What a node says to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Envelope {
    /// Table entries. Answered by `TableHeld` when `call` is not 0.
    Table {
        /// To pair the answer.
        call: u64,
        /// What the sender knows of queues.
        entries: Vec<Entry>,
        /// What it knows of nodes that are to leave, or were removed.
        removals: Vec<Removal>,
    },
    /// The entries of that call are on disk.
    TableHeld {
        /// Of the `Table`.
        call: u64,
    },
    /// Does anybody know a queue of this name?
    AskQueue {
        /// To pair the answer.
        call: u64,
        /// The name.
        name: QueueName,
    },
    /// All that the sender knows of that name.
    KnownQueue {
        /// Of the `AskQueue`.
        call: u64,
        /// Live entries.
        entries: Vec<Entry>,
    },
    /// All older tombstones that are open for the receiver have been sent.
    Mark,
    /// Please send what tombstones are open for me, and a fresh mark.
    AskMark,
    /// The sender hands out nothing any more on which the receiver precedes it.
    Yield,
    /// The sender is being stopped: its custody and leases have been told.
    Leaving,
    /// Messages to hold, on their way from their producer.
    Copy {
        /// To pair the answer.
        batch: u64,
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// When the coordinator accepted them.
        accepted: Stamp,
        /// Who should hold them.
        holders: Vec<NodeId>,
        /// Whether others may have stored and handed them out before: they were sent again, or the
        /// receiver stands in for a host that failed in mid-send.
        attempt: Attempt,
        /// The messages; their contents follow.
        labels: Vec<Label>,
    },
    /// Messages to hold that the receiver lacks.
    MakeUp {
        /// To pair the answer.
        batch: u64,
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// The messages; their contents follow.
        items: Vec<CopyItem>,
    },
    /// The messages of a `Copy` or `MakeUp` are on disk, but for the exceptions.
    Held {
        /// Of the copies.
        batch: u64,
        /// By position in the batch.
        exceptions: Vec<(u32, CopyException)>,
        /// With how many commits, as in the hello.
        commits: u64,
    },
    /// A host failed in mid-send: the messages of this batch have more holders now.
    Relist {
        /// Of the `Copy`.
        batch: u64,
        /// Which change of the list this is.
        version: u32,
        /// The messages.
        queue: QueueId,
        /// Their partition.
        partition: u16,
        /// Their labels.
        labels: Vec<Label>,
        /// When they were accepted.
        accepted: Stamp,
        /// The longer list.
        holders: Vec<NodeId>,
    },
    /// The longer list is on disk.
    Relisted {
        /// Of the `Relist`.
        batch: u64,
        /// Of the `Relist`.
        version: u32,
        /// With how many commits, as in the hello.
        commits: u64,
    },
    /// These messages are known to be at enough hosts.
    Settled {
        /// By queue, partition and process.
        messages: Vec<(QueueId, u16, ProcessId, Ranges)>,
        /// Those of them that some host of their list did not get: it may be in session with the
        /// receiver.
        lacking: Vec<(QueueId, u16, ProcessId, Ranges)>,
    },
    /// Under which list the sender holds these messages: whoever knows of them merges it into its
    /// own.
    Listed {
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// Who should hold them.
        holders: Vec<NodeId>,
        /// By process.
        messages: Vec<(ProcessId, Ranges)>,
    },
    /// Which of these messages does the receiver hold, or know to be gone?
    Ask {
        /// To pair the answer.
        call: u64,
        /// Whether it holds what it has lost.
        lost: Lost,
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// By process.
        messages: Vec<(ProcessId, Ranges)>,
    },
    /// A part of what the sender holds and knows to be gone: of what was asked, or (call 0) of
    /// all.
    Inventory {
        /// Of the `Ask`, `Fetch` or `Compare`, or 0.
        call: u64,
        /// By queue partition, in order.
        partitions: Vec<PartitionInventory>,
        /// What it covers. Who asked asks for what lies behind it in the same way, and with `More`
        /// where nothing was asked.
        span: Span,
    },
    /// Messages that are gone for good.
    Tombstones {
        /// To pair the answer.
        batch: u64,
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// Who must know.
        holders: Vec<NodeId>,
        /// The messages; with their stamps as long as these are known, which finds their rows.
        messages: Vec<(ProcessId, Ranges)>,
        /// The stamps of the messages, as far as known.
        stamps: Vec<Stamp>,
        /// By whose delivery each of the stamps was deleted.
        leases: Vec<DeliveryRef>,
        /// The nodes that are known to have them on disk; the sender is one only if it is named.
        known: Vec<NodeId>,
    },
    /// The tombstones of that batch are on disk.
    Buried {
        /// Of the `Tombstones`.
        batch: u64,
        /// Those, by position of their stamp, that are in flight by a later delivery than the one
        /// that deleted them.
        older: Vec<u32>,
        /// With how many commits, as in the hello.
        commits: u64,
    },
    /// These batches of tombstones from the sender are now known to be at these nodes.
    BuriedAt {
        /// By batch of `Tombstones`.
        batches: Vec<(u64, Vec<NodeId>)>,
        /// How many commits the sender has, as in the hello.
        commits: u64,
    },
    /// Deliveries that run for some time, so that another custodian would honour them.
    Leases {
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// The leases.
        leases: Vec<LeaseTold>,
    },
    /// Whether the sender has consumers waiting for this queue.
    Want {
        /// The queue.
        queue: QueueId,
        /// Whether it has.
        wanted: Wanted,
    },
    /// The sender has messages ready of a queue that the receiver wants.
    Offer {
        /// The queue.
        queue: QueueId,
        /// Time of the oldest stamp.
        oldest: u64,
    },
    /// Grant me up to this many now. Answered by `Grant`, be it an empty one.
    Take {
        /// To pair the answer.
        call: u64,
        /// The queue.
        queue: QueueId,
        /// How many.
        max: u32,
        /// How long they stay hidden, in milliseconds; the queue's timeout when `None`.
        visibility_ms: Option<u64>,
    },
    /// Leased messages; their contents follow.
    Grant {
        /// Of the `Take`.
        call: u64,
        /// The queue.
        queue: QueueId,
        /// The deliveries.
        deliveries: Vec<DeliveryLabel>,
        /// Whether and since when (time of the oldest stamp) there are more.
        more: Option<u64>,
    },
    /// Deliveries that nobody took.
    GrantBack {
        /// Their receipts.
        receipts: Vec<Receipt>,
        /// Whether a client may have them all the same.
        heard: Heard,
    },
    /// Extends or releases deliveries in the receiver's custody.
    Change {
        /// To pair the answer.
        call: u64,
        /// What to do.
        change: LeaseChange,
        /// Whose.
        receipts: Vec<Receipt>,
    },
    /// How that went: milliseconds that each stays hidden.
    Changed {
        /// Of the `Change`.
        call: u64,
        /// By receipt.
        results: Vec<Result<u64, Refusal>>,
    },
    /// Show the first ready messages.
    AskPeek {
        /// To pair the answer.
        call: u64,
        /// The queue.
        queue: QueueId,
        /// How many.
        max: u32,
    },
    /// The first ready messages; their contents follow.
    Peeked {
        /// Of the `AskPeek`.
        call: u64,
        /// The messages.
        deliveries: Vec<DeliveryLabel>,
    },
    /// How is it with you, and with these queues?
    AskStatus {
        /// To pair the answer.
        call: u64,
        /// Which ones.
        queues: Vec<QueueId>,
    },
    /// That is how it is.
    StatusTold {
        /// Of the `AskStatus`.
        call: u64,
        /// Of the node.
        report: Box<NodeReport>,
        /// Of those of the queues that it knows anything of.
        queues: Vec<QueueTold>,
    },
    /// What time the sender believes it is: how far clocks are apart.
    Clock {
        /// In nanoseconds since 1970.
        wall: u64,
        /// How much of that its own wall clock does not say, because it is wrong.
        correction: i64,
        /// How many commits the sender has, as in the hello.
        commits: u64,
    },
    /// The sender should have these and has lost its copies. Answered by `Inventory` with those
    /// that the receiver can read, and by `MakeUp`.
    Fetch {
        /// To pair the answer.
        call: u64,
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// By process.
        messages: Vec<(ProcessId, Ranges)>,
    },
    /// Does the receiver have the same of what both should have? Answered by an empty `Inventory`:
    /// one that covers all if so, else one that covers nothing; then it is asked.
    Compare {
        /// To pair the answer.
        call: u64,
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// Of what is settled at the sender and should be at the receiver.
        digest: Digest,
    },
    /// Whether the sender is fit for custody from now on, as long as another host is. A session
    /// begins with both fit.
    Fit {
        /// Whether it is.
        fit: bool,
    },
    /// The receiver's yield is undone: it hands out again what the sender precedes it on.
    HandOver,
    /// The receiver's disk was put back to an earlier state: the sender knows it with more
    /// commits, or by a later name.
    PutBack,
    /// The sender is to leave the cluster, or its disk is full, and takes nothing new; or it has
    /// lost some of this batch, which came again. The copies are to go to another host.
    Declined {
        /// Of the `Copy`.
        batch: u64,
    },
    /// How many messages depend on this node, which is to leave?
    AskDependence {
        /// To pair the answer.
        call: u64,
        /// Which node: the receiver, or one that is away.
        node: NodeId,
    },
    /// So many do.
    Dependence {
        /// Of the `AskDependence`.
        call: u64,
        /// As far as the sender knows.
        messages: u64,
    },
    /// Which of these queues, deleted a while ago, live at the receiver?
    AskDeleted {
        /// To pair the answer.
        call: u64,
        /// Which ones.
        queues: Vec<QueueId>,
    },
    /// Those do; it is on the sender's disk that the others do not.
    Alive {
        /// Of the `AskDeleted`.
        call: u64,
        /// Which ones.
        queues: Vec<QueueId>,
    },
    /// What of all that the receiver holds, and knows to be gone, lies behind this place? Answered
    /// by an `Inventory` of call 0, of which the receiver sent the first part as the session began.
    More {
        /// How far the sender was told.
        after: Place,
    },
    /// Members that the sender has seen and that are down: gossip tells of those who are there.
    Away {
        /// Who, and where each of them was last.
        members: Vec<(NodeId, std::net::SocketAddr)>,
    },
    /// The sender, a pinned host, lacks these for a round: it is one of their holders from now on.
    Lacks {
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// By process.
        messages: Vec<(ProcessId, Ranges)>,
    },
    /// What pinned hosts of a strict partition say to each other.
    Rounds {
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// What.
        word: Box<Word>,
    },
}

impl Envelope {
    /// Which stream it takes.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self {
            Self::Copy { .. }
            | Self::MakeUp { .. }
            | Self::Relist { .. }
            | Self::Grant { .. }
            | Self::Peeked { .. } => Lane::Copies,
            _ => Lane::Control,
        }
    }

    /// How many commits the sender says that its disk has.
    #[must_use]
    pub fn commits(&self) -> Option<u64> {
        match self {
            Self::Held { commits, .. }
            | Self::Relisted { commits, .. }
            | Self::Buried { commits, .. }
            | Self::BuriedAt { commits, .. }
            | Self::Clock { commits, .. } => Some(*commits),
            _ => None,
        }
    }

    /// The messages whose contents follow the header, in order.
    #[must_use]
    pub fn messages(&self) -> Vec<(MessageKey, Label)> {
        let key = |queue: &QueueId, partition: &u16, label: &Label| MessageKey {
            queue: *queue,
            partition: *partition,
            stamp: label.stamp,
        };
        match self {
            Self::Copy { queue, partition, labels, .. } => {
                labels.iter().map(|label| (key(queue, partition, label), *label)).collect()
            }
            Self::MakeUp { queue, partition, items, .. } => {
                items.iter().map(|item| (key(queue, partition, &item.label), item.label)).collect()
            }
            Self::Grant { deliveries, .. } | Self::Peeked { deliveries, .. } => {
                deliveries.iter().map(delivery_message).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The message of a delivery: where it lies and its label.
#[must_use]
pub fn delivery_message(delivery: &DeliveryLabel) -> (MessageKey, Label) {
    let Receipt { queue, partition, stamp, .. } = delivery.receipt;
    (MessageKey { queue, partition, stamp }, delivery.label)
}

#[cfg(test)]
mod tests;
