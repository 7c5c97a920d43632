//! What a node answers: one answer per request, but for `Consume`, which is answered by
//! deliveries until it is stopped.
//!
//! Every answer carries the node's time, from which the client keeps its clock synchronized.
//! Invariant: results of a batch stand in the order of what was asked. What this file does not
//! do: reasons for a no are in [`crate::Refusal`].

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ArrivalSkew, Label, NodeId, QueueId, QueueName, Receipt, Refusal, Settings, Stamp};

/// A frame from a node: the answer to a numbered request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseFrame {
    /// The number of the request; 0 for what was not asked for.
    pub request: u64,
    /// The node's hybrid time when it answered, in nanoseconds since 1970.
    pub clock: u64,
    /// The answer.
    pub body: Response,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// To `Hello`, and unasked whenever the members change.
    Welcome(Welcome),
    /// Nothing or not all was done, and why.
    Refused(Refusal),
    /// To `CreateQueue`, `DescribeQueue`.
    Queue(Box<QueueDescription>),
    /// To `SetQueue`: the settings before and after.
    QueueSet {
        /// As they were.
        before: Settings,
        /// As they are, or would be.
        after: Settings,
    },
    /// To `ListQueues`: a page of at most [`LIST_MAX`], and whether there are more.
    Queues {
        /// By name.
        queues: Vec<QueueDescription>,
        /// Whether to ask for the next page.
        more: bool,
    },
    /// To `DeleteQueue`, `PurgeQueue`, `StopConsume`, `KeepNode`, and to `RemoveNode` at last.
    Done,
    /// To `Send`.
    Sent(SentBatch),
    /// To `Receive`, `Consume` and `Peek`: the contents follow the header in the order of the
    /// deliveries.
    Deliveries {
        /// The messages.
        deliveries: Vec<DeliveryLabel>,
    },
    /// To `Delete`: one result per receipt.
    Deleted(Vec<DeleteResult>),
    /// To `Extend`: one result per receipt, with the milliseconds that each stays hidden.
    Extended(Vec<Result<u64, Refusal>>),
    /// To `Release`: one result per receipt.
    Released(Vec<Result<(), Refusal>>),
    /// To `Status`.
    Status(Box<Status>),
    /// To `RemoveNode`: the node leaves.
    Leaving {
        /// How many messages still depend on it, as far as that was counted.
        left: Option<u64>,
    },
}

/// What a client needs to know of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that the node speaks.
    pub version: u16,
    /// The node that answers.
    pub node: NodeId,
    /// All nodes it knows, itself among them.
    pub members: Vec<ClusterMember>,
}

/// A node as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMember {
    /// Which one.
    pub node: NodeId,
    /// Where clients reach it.
    pub address: SocketAddr,
    /// Whether clients should go there.
    pub standing: Standing,
}

/// Whether clients should use a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Standing {
    /// All is well.
    Ready,
    /// It is up but does not serve yet, or no more.
    NotReady,
    /// Its disk or processor is slow: only if there is no other.
    Slow,
    /// It is not reachable.
    Down,
    /// Its disk is full: it takes no sends, and others hand out for it if they can.
    Full,
}

/// A queue as the table has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueDescription {
    /// This incarnation.
    pub id: QueueId,
    /// Its name.
    pub name: QueueName,
    /// Its settings.
    pub settings: Settings,
}

/// The outcome of a batch of sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentBatch {
    /// When the coordinator accepted it.
    pub accepted: Stamp,
    /// How many nodes have each message on disk that is not named below.
    pub copies: u8,
    /// The messages, by position in the batch, that fared otherwise.
    pub exceptions: Vec<(u32, SendException)>,
}

/// How a message fared that was not simply stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendException {
    /// It was stored by an earlier attempt, and delivered and deleted since: done.
    Gone,
    /// It was not done, or that is unknown.
    Refused(Refusal),
}

/// One delivery, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryLabel {
    /// Proof of it.
    pub receipt: Receipt,
    /// The message.
    pub label: Label,
    /// When a coordinator accepted the message.
    pub accepted: Stamp,
    /// For how much longer it stays hidden, in milliseconds; 0 for one that was only looked at.
    pub lease_ms: u64,
    /// Of a strict queue: where it stands.
    pub position: Option<Position>,
}

/// Where a message of a strict partition stands, as the pinned hosts agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Position {
    /// In its place: the messages of a partition come in the order of these, those of an ordering
    /// key exactly so.
    InOrder {
        /// The round that released it.
        round: u64,
        /// Its place in that, from 0.
        index: u32,
    },
    /// It came too late for its place.
    Late {
        /// The round that says so.
        round: u64,
        /// The watermark by then: nothing up to here was to come in order any more.
        watermark: Stamp,
    },
}

impl DeliveryLabel {
    /// It waited for so long before it was said: its lease began before. Of one that is over a
    /// millisecond stays, so that it can be told from none.
    pub fn waited(&mut self, time: Duration) {
        if self.lease_ms > 0 {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            self.lease_ms = self.lease_ms.saturating_sub(ms).max(1);
        }
    }
}

/// How a delete fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeleteResult {
    /// It is gone for good.
    Deleted,
    /// It is gone for good, though by the receipt of an older delivery: another consumer may have
    /// it too.
    DeletedByOlderReceipt,
    /// It was not done, or that is unknown.
    Refused(Refusal),
}

/// How the cluster is, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The node that answers.
    pub node: NodeId,
    /// All members; those that did not answer in time have no report.
    pub members: Vec<MemberStatus>,
    /// The queues that were asked for, by name.
    pub queues: Vec<QueueStatus>,
    /// Whether there are more after these.
    pub more: bool,
}

/// One node in the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Which one.
    pub node: NodeId,
    /// Where clients reach it.
    pub client_address: SocketAddr,
    /// Where peers reach it.
    pub peer_address: SocketAddr,
    /// Its zone; empty when it has none.
    pub zone: String,
    /// As the answering node sees it.
    pub standing: Standing,
    /// What it reports of itself.
    pub report: Option<NodeReport>,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// How old this report is, in milliseconds.
    pub age_ms: u64,
    /// Its run.
    pub boot: u64,
    /// Whether it hands out messages.
    pub ready: bool,
    /// The nodes it has a session with.
    pub sessions: Vec<NodeId>,
    /// Its wall clock minus that of the answering node, in nanoseconds, as far as measured.
    pub clock_offset_ns: Option<i64>,
    /// Bytes of its store on disk.
    pub disk_bytes: u64,
    /// Bytes there is room for, on that disk and within the store; the last twentieth or 8 GiB of
    /// the disk is for deletes alone.
    pub disk_free_bytes: u64,
    /// Bytes of the socket buffer that the system granted.
    pub socket_buffer_bytes: u64,
    /// Counters by name.
    pub counters: Vec<(String, u64)>,
}

/// One queue in the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// The queue.
    pub name: QueueName,
    /// This incarnation.
    pub id: QueueId,
    /// What each node holds of it.
    pub nodes: Vec<(NodeId, QueueCounts)>,
    /// Cluster-wide: each message counted once, by its custodian.
    pub total: QueueCounts,
    /// Of what was accepted by the nodes that answered, since each of them started.
    pub skew: ArrivalSkew,
}

/// Figures of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCounts {
    /// Copies on disk; in the total: messages that are not deleted.
    pub messages: u64,
    /// Received and not yet deleted.
    pub in_flight: u64,
    /// Age since acceptance of the oldest that is ready, in milliseconds.
    pub oldest_age_ms: u64,
    /// How old these figures are, in milliseconds.
    pub age_ms: u64,
}

/// The most queues of one page of a list.
pub const LIST_MAX: usize = 1000;
