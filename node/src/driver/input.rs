//! What the network hands to the driver, in batches: one entry per wakeup of a reader, never one
//! per message.
//!
//! Invariant: what comes from one client or one link comes in the order in which it happened,
//! opened first and closed last. What this file does not do: it parses nothing; what is in here
//! was parsed and checked by the door or the corridor.

use bytes::Bytes;
use gaggle_core::envelope::{Envelope, PeerHello};
use gaggle_core::event::{ClientId, LinkId};
use gaggle_wire::{NodeId, Refusal, Request};
use tokio::sync::oneshot;

use crate::net::corridor::Link;
use crate::net::door::Client;
use crate::net::outbox::Outbox;

/// Something that happened on a connection.
#[derive(Debug)]
pub(crate) enum Input {
    /// A client said hello on its first stream, which has number 0.
    ClientOpened {
        /// Its connection.
        client: ClientId,
        /// By which it is answered.
        door: Client,
        /// The number of its hello.
        request: u64,
        /// The first stream.
        answers: Outbox,
    },
    /// A client opened another stream.
    StreamOpened {
        /// Its connection.
        client: ClientId,
        /// The number of the stream.
        stream: u32,
        /// The stream.
        answers: Outbox,
    },
    /// A client asks.
    Asked {
        /// Its connection.
        client: ClientId,
        /// On which stream.
        stream: u32,
        /// What, in order.
        asked: Vec<Asked>,
    },
    /// A client finished a stream: nothing more is answered there.
    StreamClosed {
        /// Its connection.
        client: ClientId,
        /// The number of the stream.
        stream: u32,
    },
    /// A client is gone.
    ClientClosed(ClientId),
    /// Both streams of a link are up.
    LinkUp {
        /// The link.
        link: LinkId,
        /// What the other said.
        hello: Box<PeerHello>,
        /// By which it is told things.
        corridor: Link,
        /// Which opening of this node told the other its hello.
        life: u64,
    },
    /// Another node says things.
    Said {
        /// The link.
        link: LinkId,
        /// What, in order.
        said: Vec<Said>,
    },
    /// A link is gone.
    LinkDown(LinkId),
}

/// What waits for nothing, not even for a full disk.
#[derive(Debug)]
pub(crate) enum Urgent {
    /// A packet of gossip.
    Gossip {
        /// Who sent it, by its certificate.
        from: NodeId,
        /// The packet.
        packet: Bytes,
    },
    /// The socket is of no use any more: nobody can be heard.
    Deaf,
    /// The node shall stop; answered when all is handed over and closed.
    Stop(oneshot::Sender<()>),
}

/// One request.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its number.
    pub(crate) request: u64,
    /// What, with the contents of a send; or why it is refused without asking the core.
    pub(crate) what: Result<(Request, Vec<Bytes>), Refusal>,
}

/// One envelope with the contents that came behind it.
#[derive(Debug)]
pub(crate) struct Said {
    /// The envelope.
    pub(crate) envelope: Envelope,
    /// The contents of its messages.
    pub(crate) contents: Vec<Bytes>,
}
