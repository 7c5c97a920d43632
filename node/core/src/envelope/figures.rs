//! What a node tells of a queue when it is asked how it is.

use gaggle_wire::{ArrivalSkew, QueueCounts, QueueId};
use serde::{Deserialize, Serialize};

/// The figures of a queue at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTold {
    /// The queue.
    pub queue: QueueId,
    /// Of its copies.
    pub held: QueueCounts,
    /// Of those in its custody.
    pub own: QueueCounts,
    /// Of what it accepted since it started.
    pub skew: ArrivalSkew,
}
