//! What two nodes say of themselves before a session begins.

use gaggle_wire::{NodeId, ProcessId};
use serde::{Deserialize, Serialize};

use crate::space::Space;

/// The version of the node protocol.
pub const PEER_VERSION: u16 = 8;

/// What each side says first on a new connection between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerHello {
    /// Its [`PEER_VERSION`].
    pub version: u16,
    /// Who it is; must be the node in its certificate.
    pub node: NodeId,
    /// Its run.
    pub boot: u64,
    /// Its disk.
    pub store: u128,
    /// Its process: drawn anew whenever the disk is opened.
    pub process: ProcessId,
    /// How many commits the disk had when it was opened.
    pub commits: u64,
    /// Where peers reach it.
    pub peer_address: std::net::SocketAddr,
    /// Where clients reach it.
    pub client_address: std::net::SocketAddr,
    /// Its zone.
    pub zone: String,
    /// How much room its disk has.
    pub space: Space,
}
