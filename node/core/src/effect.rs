//! Everything a node may ask for, and the one rule of their order.
//!
//! **Write before speak.** All writes of a batch of effects are durable before any `Send` or
//! `Answer` of that batch leaves, and before any of a later batch does. The runtime may commit
//! the writes of many batches together but never lets a word overtake a write that stands before
//! it. A crash then loses only what nobody was told. What claims nothing does not wait: `SendNow`
//! (copies of new messages on their way to other holders), `Gossip` and `Stop` leave at once.
//!
//! What this file does not do: it does not say why anything is asked; see the rooms.

use std::net::SocketAddr;

use bytes::Bytes;
use gaggle_wire::{NodeId, Response, Welcome};

use crate::envelope::Envelope;
use crate::event::{LinkId, LoadId, Reply};
use crate::ledger::Write;

/// Something to be done by the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make a change durable.
    Write(Write),
    /// Say something to another node, after the writes before it.
    Send {
        /// The connection; if it is gone, nothing is said.
        link: LinkId,
        /// What to say; the runtime puts the contents behind it.
        envelope: Envelope,
    },
    /// Say something to another node at once: it claims nothing.
    SendNow {
        /// The connection.
        link: LinkId,
        /// What to say.
        envelope: Envelope,
    },
    /// Answer a client, after the writes before it.
    Answer {
        /// Where to.
        reply: Reply,
        /// The answer; the runtime puts the contents behind it.
        response: Response,
    },
    /// Tell every client the members.
    Welcome(Welcome),
    /// Send a packet of gossip, on whatever connection there is, or dial.
    Gossip {
        /// Where the other listens.
        to: SocketAddr,
        /// Who it is, when known.
        node: Option<NodeId>,
        /// The packet.
        packet: Bytes,
    },
    /// Keep connections to exactly these nodes: dial those that are not connected, again and
    /// again. Of two nodes the one with the smaller id dials.
    Links(Vec<(NodeId, SocketAddr)>),
    /// End a connection.
    CloseLink(LinkId),
    /// Read rows, as of a moment after the writes before it are durable.
    Load {
        /// To pair the answer.
        load: LoadId,
        /// The first key.
        from: Vec<u8>,
        /// The key before which to end.
        to: Vec<u8>,
        /// The most rows.
        limit: usize,
        /// Whether the contents of messages are to be read as well.
        contents: Contents,
    },
    /// All is handed over: the node may be closed.
    Drained,
    /// The node is another host from now on, or no member any more, after the writes before it: it
    /// is to be closed, and opened anew on rows that say so.
    Renewed,
    /// End the node at once and without a goodbye: nothing that it would still say is true.
    Stop(Stop),
}

/// Why a node has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A process that was started earlier lives under its name.
    NameTaken {
        /// Where peers reach that one.
        by: SocketAddr,
    },
}

/// What a read of rows does about the contents of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Only headers are read.
    LeftAlone,
    /// Contents are read and checked; the answer names each that is not whole. The page may end
    /// sooner than at the most rows, as contents are large.
    Checked,
}

/// The effects of one or more events, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// No effects.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes all of them out, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.0.drain(..)
    }

    /// All of them, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Effect] {
        &self.0
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    pub(crate) fn write(&mut self, write: Write) {
        self.0.push(Effect::Write(write));
    }

    /// A change that stands before all from here on.
    pub(crate) fn write_before(&mut self, at: usize, write: Write) {
        self.0.insert(at, Effect::Write(write));
    }

    pub(crate) fn send(&mut self, link: LinkId, envelope: Envelope) {
        self.0.push(Effect::Send { link, envelope });
    }

    pub(crate) fn send_now(&mut self, link: LinkId, envelope: Envelope) {
        self.0.push(Effect::SendNow { link, envelope });
    }

    pub(crate) fn answer(&mut self, reply: Reply, response: Response) {
        self.0.push(Effect::Answer { reply, response });
    }
}
