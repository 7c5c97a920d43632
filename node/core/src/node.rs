//! placeholder
use crate::config::Config;
use crate::effect::Effects;
use crate::event::Event;
use crate::ledger::Row;
use crate::now::{Mono, Now};
use thiserror::Error;

/// Why a node cannot be opened on these rows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// A row of the node itself cannot be read.
    #[error("the row {0:?} of the store is damaged or of a later version")]
    BadRow(Vec<u8>),
}

/// A node.
#[derive(Debug)]
pub struct Node {
    config: Config,
}

impl Node {
    /// Opens a node on all rows of its store, in key order (of messages only the headers).
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was changed.
    pub fn open(
        config: Config,
        now: Now,
        rows: &mut dyn Iterator<Item = Row>,
    ) -> Result<Self, OpenError> {
        let _ = (now, rows);
        Ok(Self { config })
    }

    /// Handles one event.
    pub fn handle(&mut self, now: Now, event: Event, effects: &mut Effects) {
        let _ = (now, event, effects, &self.config);
    }

    /// When [`Event::Wakeup`] is due.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Mono> {
        None
    }

    /// What this node says first on a connection to another.
    #[must_use]
    pub fn hello(&self) -> crate::envelope::PeerHello {
        crate::envelope::PeerHello {
            version: crate::envelope::PEER_VERSION,
            node: self.config.node,
            boot: 0,
            store: 0,
            peer_address: self.config.peer_address,
            client_address: self.config.client_address,
            zone: self.config.zone.clone(),
        }
    }

    /// What this node tells a client first.
    #[must_use]
    pub fn welcome(&self) -> gaggle_wire::Welcome {
        gaggle_wire::Welcome {
            version: gaggle_wire::VERSION,
            node: self.config.node,
            members: Vec::new(),
        }
    }

    /// The node's hybrid time, for answers: nanoseconds since 1970.
    #[must_use]
    pub fn clock(&self, now: Now) -> u64 {
        now.wall.0
    }

    /// Checks the invariants that are visible inside one node.
    ///
    /// # Panics
    /// When one does not hold, naming the promise.
    pub fn check(&self) {}
}
