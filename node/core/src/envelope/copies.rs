//! What is said of a single copy: what a host lacks, and why one was not simply stored.

use gaggle_wire::{Label, NodeId, Stamp};
use serde::{Deserialize, Serialize};

use super::LeaseTold;

/// A message that a host lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyItem {
    /// The message.
    pub label: Label,
    /// When it was accepted.
    pub accepted: Stamp,
    /// Who should hold it.
    pub holders: Vec<NodeId>,
    /// The lease it is under: the receiver may be its custodian as soon as it has it.
    pub lease: Option<LeaseTold>,
}

/// Why a copy was not simply stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyException {
    /// It is gone for good.
    Gone,
    /// Another message has its id.
    Clash,
    /// The queue was purged after its acceptance, at this stamp.
    Purged(Stamp),
}
