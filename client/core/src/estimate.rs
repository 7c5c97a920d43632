//! What a client knows of the cluster's time, and how well.
//!
//! What this file does not do: it estimates nothing; see `clock.rs`.

use gaggle_wire::NodeId;

/// The cluster's time as a client knows it, against the calendar time of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockEstimate {
    /// The cluster's time minus that of this machine, in nanoseconds: stamps are made by the
    /// cluster's.
    pub offset_ns: i64,
    /// By how much it may be wrong, in nanoseconds, if that node's clock is right: half the round
    /// trip of the reading, and what a clock drifts in the time since.
    pub error_ns: u64,
    /// The node whose clock it is: the middle one of all that had answered in the twenty seconds
    /// before the last answer.
    pub like: NodeId,
    /// Each node that has answered this process: the longer ago, the greater its error.
    pub nodes: Vec<NodeClock>,
}

/// The clock of a node as a client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock {
    /// The node.
    pub node: NodeId,
    /// Its time minus the cluster's, in nanoseconds.
    pub offset_ns: i64,
    /// By how much that may be wrong, in nanoseconds.
    pub error_ns: u64,
}
