//! The batch: messages of one partition that travel together, and the attempts to get them
//! stored.
//!
//! Several attempts may be under way at once (a hedge), each knowing which of the messages it
//! carries, so that positions in an answer mean the same however many were settled meanwhile.

use std::time::Duration;

use gaggle_wire::{NodeId, QueueId};

use super::lane::Item;

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) queue: QueueId,
    pub(super) partition: u16,
    /// By position; `None` once settled.
    pub(super) items: Vec<Option<Item>>,
    pub(super) flights: Vec<Flight>,
    /// Attempts so far.
    pub(super) attempts: u32,
    /// When to try the next one, whatever happens to those under way.
    pub(super) next_attempt: Duration,
    /// The node that said no last.
    pub(super) avoid: Vec<NodeId>,
}

/// An attempt that is not answered.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) request: u64,
    pub(super) node: NodeId,
    pub(super) sent: Duration,
    /// Positions of the messages that it carries.
    pub(super) carries: Vec<usize>,
}

impl Batch {
    pub(super) fn new(queue: QueueId, partition: u16, items: Vec<Item>) -> Self {
        let items = items.into_iter().map(Some).collect();
        let (flights, avoid) = (Vec::new(), Vec::new());
        let (attempts, next_attempt) = (0, Duration::ZERO);
        Self { queue, partition, items, flights, attempts, next_attempt, avoid }
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (usize, &Item)> {
        self.items.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_ref()?)))
    }

    pub(super) fn is_settled(&self) -> bool {
        self.items.iter().all(Option::is_none)
    }

    /// The nodes that have an attempt under way.
    pub(super) fn asked(&self) -> Vec<NodeId> {
        self.flights.iter().map(|flight| flight.node).collect()
    }

    pub(super) fn take_flight(&mut self, request: u64) -> Option<Flight> {
        let at = self.flights.iter().position(|flight| flight.request == request)?;
        Some(self.flights.remove(at))
    }

    /// Whether any of these may have been stored by an earlier attempt, or one still under way.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.flights.is_empty() || self.open().any(|(_, item)| item.doubt)
    }
}
