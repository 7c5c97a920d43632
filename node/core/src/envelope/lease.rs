//! Deliveries and their leases, as nodes tell each other of them.

use gaggle_wire::{NodeId, Stamp};
use serde::{Deserialize, Serialize};

/// Which delivery of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRef {
    /// Who handed it out.
    pub custodian: NodeId,
    /// The run of that node.
    pub boot: u64,
    /// The how-manieth delivery it was.
    pub delivery: u32,
}

/// One lease, as it is told to other holders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseTold {
    /// The number of the message.
    pub number: u64,
    /// Its stamp.
    pub stamp: Stamp,
    /// For how much longer, in milliseconds; 0 when it ended.
    pub remaining_ms: u64,
    /// Who handed it out.
    pub custodian: NodeId,
    /// The run of that node.
    pub boot: u64,
    /// Which delivery it is.
    pub delivery: u32,
}

/// Whether a client may have heard of deliveries that it has not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Heard {
    /// It may: its connection broke. They count as delivered.
    Perhaps,
    /// It was not told of them, or said that it does not use them: as if never handed out.
    No,
}

/// What to do to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseChange {
    /// Hide it for this long from now, in milliseconds.
    Extend(u64),
    /// Give it back, ready again after so many milliseconds.
    Release(u64),
}
