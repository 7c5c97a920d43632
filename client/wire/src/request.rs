//! What a client may ask of a node.
//!
//! Requests travel in frames on bidirectional streams; each carries a number that its answer
//! repeats, so many can be under way on one stream. A client keeps one stream for control
//! (queues, deletes, credit), one for sends and one for deliveries, so that a consumer that
//! does not read holds up neither deletes nor sends; the node treats all streams alike and
//! answers where it was asked.
//!
//! Invariant: variants and fields are only appended with a new protocol [`VERSION`]. What this
//! file does not do: it does not say what comes back; see [`crate::Response`].

use serde::{Deserialize, Serialize};

use crate::{Label, NodeId, ProcessId, QueueId, QueueName, Receipt, SettingsChange};

/// The version of the client protocol that this crate speaks.
pub const VERSION: u16 = 4;

/// A frame from a client: a numbered request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFrame {
    /// Repeated by the answer; chosen by the client, not 0.
    pub request: u64,
    /// What is asked.
    pub body: Request,
}

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first request of a connection, before which nothing else is answered.
    Hello {
        /// The client's [`VERSION`].
        version: u16,
        /// The process that numbers and stamps.
        process: ProcessId,
    },
    /// Creates a queue; repeating it with equal settings succeeds.
    CreateQueue {
        /// Its name.
        name: QueueName,
        /// What differs from the defaults.
        change: SettingsChange,
    },
    /// Changes settings of a queue.
    SetQueue {
        /// Its name.
        name: QueueName,
        /// What to change.
        change: SettingsChange,
        /// Whether to do it or only to show it.
        mode: ChangeMode,
    },
    /// Asks for the queues whose names start with a text, by name.
    ListQueues {
        /// What the names start with.
        prefix: String,
        /// Only names after this one, for the next page.
        after: Option<QueueName>,
    },
    /// Asks for one queue.
    DescribeQueue {
        /// Its name.
        name: QueueName,
    },
    /// Deletes a queue with all its messages.
    DeleteQueue {
        /// Its name.
        name: QueueName,
    },
    /// Drops every message of the queue that was accepted before now.
    PurgeQueue {
        /// Its name.
        name: QueueName,
    },
    /// Stores messages of one process in one partition. The contents follow the header in the
    /// order of the labels; all stamps are of one process, which is that of the hello unless the
    /// client's clock had to go back since.
    Send {
        /// The queue.
        queue: QueueId,
        /// The partition.
        partition: u16,
        /// Whether these ids may have been sent before.
        attempt: Attempt,
        /// How long the node may try, in milliseconds.
        within_ms: u32,
        /// The messages, by rising number.
        labels: Vec<Label>,
    },
    /// Receives up to `max` messages once, waiting until there is at least one.
    Receive {
        /// The queue.
        queue: QueueName,
        /// The most messages, 1 to [`RECEIVE_MAX`].
        max: u32,
        /// How long to wait for the first one, in milliseconds.
        wait_ms: u64,
        /// How long they stay hidden; the queue's visibility timeout when `None`.
        visibility_ms: Option<u64>,
    },
    /// Starts a stream of deliveries, which are answers to this request until it is stopped.
    Consume {
        /// The queue.
        queue: QueueName,
        /// How long each stays hidden; the queue's visibility timeout when `None`.
        visibility_ms: Option<u64>,
        /// The first credit, see [`Request::Credit`].
        credit: u64,
    },
    /// Lets more deliveries come. Not answered.
    Credit {
        /// The number of the `Consume` request.
        consumer: u64,
        /// How many deliveries may have come in all since it began.
        limit: u64,
        /// Up to which delivery (counted from 1) the application has taken them: these are its
        /// own when the connection is lost, the later ones go back at once.
        taken: u64,
    },
    /// Stops a stream of deliveries; what was not taken goes back at once. Answered after the
    /// last delivery.
    StopConsume {
        /// The number of the `Consume` request.
        consumer: u64,
        /// See [`Request::Credit`].
        taken: u64,
    },
    /// Looks at the first ready messages without receiving them.
    Peek {
        /// The queue.
        queue: QueueName,
        /// The most messages, 1 to [`RECEIVE_MAX`].
        max: u32,
    },
    /// Removes messages for good.
    Delete {
        /// Proofs of their deliveries, at most [`RECEIVE_MAX`].
        receipts: Vec<Receipt>,
    },
    /// Hides messages for longer, from now.
    Extend {
        /// Proofs of their deliveries.
        receipts: Vec<Receipt>,
        /// For how long, in milliseconds.
        visibility_ms: u64,
    },
    /// Gives messages back.
    Release {
        /// Proofs of their deliveries.
        receipts: Vec<Receipt>,
        /// After how long they are ready again, in milliseconds.
        delay_ms: u64,
    },
    /// Asks how the cluster is.
    Status {
        /// What the names of the queues start with of which it is told.
        prefix: String,
        /// Only names after this one, for the next page.
        after: Option<QueueName>,
    },
    /// Removes a node from the cluster for good: at first it leaves, which this begins; once
    /// nothing depends on it any more, it is removed. Repeated until it is answered by `Done`.
    RemoveNode {
        /// Which one.
        node: NodeId,
        /// Whether it may be removed although messages may be lost with it.
        loss: Loss,
    },
    /// A node that leaves is to stay.
    KeepNode {
        /// Which one.
        node: NodeId,
    },
}

/// Whether what nobody else is known to hold may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// No: a node that is away is not removed, for nobody knows what only it has.
    Refused,
    /// Yes.
    Accepted,
}

/// Whether an id may have been sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempt {
    /// No node can know it.
    First,
    /// The outcome of an earlier attempt is unknown: the home hosts are asked before it is stored.
    Again,
}

/// Whether a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeMode {
    /// Make it.
    Apply,
    /// Only say what it would change.
    DryRun,
}

/// The most messages of one receive, and receipts of one request.
pub const RECEIVE_MAX: usize = 1000;
/// The most messages of one send.
pub const SEND_MAX: usize = 4096;
