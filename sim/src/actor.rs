//! Actors: the clients of a simulated cluster, each a small state machine.
//!
//! An actor is woken, answered, or told that a connection is lost, and acts through its
//! [`Desk`]. What this file does not do: it has no network of its own; the world carries.

use std::collections::BTreeMap;

use gaggle_wire::{Request, Response};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::consumer::Consumer;
use crate::producer::Producer;

/// A client.
#[derive(Debug)]
pub(crate) enum Actor {
    /// Does what a scenario says and keeps the answers.
    Hand(Hand),
    /// Sends.
    Producer(Producer),
    /// Receives and deletes.
    Consumer(Consumer),
}

/// Keeps answers by request.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    pub(crate) answers: BTreeMap<u64, Vec<(u64, Response)>>,
    pub(crate) lost: bool,
}

/// What an actor wants done.
#[derive(Debug)]
pub(crate) enum Act {
    /// Ask a node.
    Ask { node: usize, number: u64, request: Request },
    /// Close the connection to a node.
    Leave { node: usize },
    /// Be woken then.
    Wake { at: u64 },
}

/// What an actor works with.
pub(crate) struct Desk<'a> {
    pub(crate) now: u64,
    pub(crate) rng: &'a mut Pcg64Mcg,
    /// Nodes that a client would try: those that are not known to be down.
    pub(crate) up: &'a [usize],
    pub(crate) acts: Vec<Act>,
}

impl Desk<'_> {
    pub(crate) fn ask(&mut self, node: usize, number: u64, request: Request) {
        self.acts.push(Act::Ask { node, number, request });
    }

    pub(crate) fn wake_in(&mut self, after: u64) {
        self.acts.push(Act::Wake { at: self.now + after });
    }

    /// Any node that is up.
    pub(crate) fn any_node(&mut self) -> Option<usize> {
        if self.up.is_empty() {
            return None;
        }
        Some(self.up[self.rng.random_range(0..self.up.len())])
    }

    /// A number within the span.
    pub(crate) fn within(&mut self, (low, high): (u64, u64)) -> u64 {
        self.rng.random_range(low..=high)
    }

    /// Whether something with this chance in a thousand happens now.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.random_range(0..1000) < per_mille
    }
}

impl Actor {
    pub(crate) fn wake(&mut self, desk: &mut Desk<'_>) {
        match self {
            Self::Hand(_) => {}
            Self::Producer(producer) => producer.wake(desk),
            Self::Consumer(consumer) => consumer.wake(desk),
        }
    }

    pub(crate) fn answered(
        &mut self,
        node: usize,
        (number, response): (u64, Response),
        desk: &mut Desk<'_>,
    ) {
        match self {
            Self::Hand(hand) => {
                hand.answers.entry(number).or_default().push((desk.now, response));
            }
            Self::Producer(producer) => producer.answered(number, &response, desk),
            Self::Consumer(consumer) => consumer.answered(node, (number, response), desk),
        }
    }

    /// A node says that it does not serve, or no more.
    pub(crate) fn unready(&mut self, node: usize, desk: &mut Desk<'_>) {
        if let Self::Consumer(consumer) = self {
            consumer.unready(node, desk);
        }
    }

    pub(crate) fn lost(&mut self, node: usize, desk: &mut Desk<'_>) {
        match self {
            Self::Hand(hand) => hand.lost = true,
            Self::Producer(producer) => producer.lost(node, desk),
            Self::Consumer(consumer) => consumer.lost(node, desk),
        }
    }
}
