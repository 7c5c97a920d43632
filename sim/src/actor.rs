//! Actors: the clients of a simulated cluster.
//!
//! An actor hears of its connections and acts through its [`Desk`]. What this file does not do:
//! it has no network of its own; the world carries (`lines.rs`).

use std::collections::BTreeMap;

use gaggle_client_core::{Stream, Target};
use gaggle_wire::{RequestFrame, Response};
use rand_pcg::Pcg64Mcg;

use crate::client::Client;
use crate::judge::Judge;

/// A client.
#[derive(Debug)]
pub(crate) enum Actor {
    /// Does what a scenario says and keeps the answers.
    Hand(Hand),
    /// The client that is shipped, with an application.
    Client(Box<Client>),
    /// It has died.
    Gone,
}

/// Asks what it is told to, and keeps answers by request.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    pub(crate) answers: BTreeMap<u64, Vec<(u64, Response)>>,
}

/// What an actor wants done.
#[derive(Debug)]
pub(crate) enum Act {
    /// Make a connection.
    Dial { link: u64, target: Target },
    /// Close one.
    HangUp { link: u64 },
    /// Send a request.
    Transmit { link: u64, stream: Stream, frame: RequestFrame },
    /// Be woken then.
    Wake { at: u64 },
}

/// What an actor works with.
pub(crate) struct Desk<'a> {
    /// Which actor it is.
    pub(crate) actor: usize,
    pub(crate) now: u64,
    pub(crate) rng: &'a mut Pcg64Mcg,
    pub(crate) judge: &'a mut Judge,
    pub(crate) acts: Vec<Act>,
}
