//! Everything that can happen to a node.
//!
//! The runtime turns what it hears from sockets, disk and signals into these, in order, one at a
//! time. Whatever is missing in here cannot influence the core: time comes beside the event, as
//! `Now`, randomness as a seed at open.

use bytes::Bytes;
use gaggle_wire::{NodeId, Receipt, Request};

use crate::envelope::{Envelope, PeerHello};
use crate::ledger::{MessageKey, Row};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node was opened and may speak. The first event of a run.
    Started,
    /// A client passed authentication and said hello.
    ClientOpened(ClientId),
    /// A client's connection is gone.
    ClientClosed(ClientId),
    /// A client asks for something. The contents of a send are with the runtime, checked.
    Request {
        /// Where the answer goes.
        reply: Reply,
        /// What is asked.
        request: Request,
    },
    /// A connection to another node is up and both have said hello.
    LinkUp {
        /// The connection.
        link: LinkId,
        /// What the other said.
        hello: Box<PeerHello>,
    },
    /// A connection to another node is gone.
    LinkDown {
        /// The connection.
        link: LinkId,
    },
    /// Another node says something. Contents are with the runtime, checked.
    Envelope {
        /// The connection.
        link: LinkId,
        /// What it says.
        envelope: Envelope,
    },
    /// A packet of gossip came from this node.
    Gossip {
        /// Who sent it, by its certificate.
        from: NodeId,
        /// The packet.
        packet: Bytes,
    },
    /// Rows that were asked for, in key order, as of the last commit.
    Loaded {
        /// Which question.
        load: LoadId,
        /// The rows.
        rows: Vec<Row>,
        /// Whether the range has more.
        end: ScanEnd,
        /// The messages among them whose contents are not whole, if these were to be checked.
        damaged: Vec<MessageKey>,
    },
    /// The content of a message could not be read back whole. It may have been deleted, or be here
    /// again: the core looks at its row before it believes it.
    BodyLost {
        /// Which message.
        key: MessageKey,
        /// The delivery that went without it.
        missed: Option<Missed>,
    },
    /// Time passed: `next_wakeup` is due.
    Wakeup,
    /// What the runtime measured of its surroundings; at least once a second.
    Measured(Surroundings),
    /// What the runtime has counted since its start, by name: for those who ask for the status.
    Counted(Vec<(&'static str, u64)>),
    /// Please stop: no more sends, hand everything over.
    Drain,
}

/// A delivery that was left out of what was said, as its content could not be read: nobody has
/// heard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Which delivery.
    pub receipt: Receipt,
    /// The answer it was in; none for what was granted to another node.
    pub reply: Option<Reply>,
}

/// A client's connection, numbered by the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A connection to another node, numbered by the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A question to the store, numbered by the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadId(pub u64);

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reply {
    /// The client.
    pub client: ClientId,
    /// Its stream, numbered by the runtime.
    pub stream: u32,
    /// The number of its request.
    pub request: u64,
}

/// Whether a scan came to the end of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// Nothing follows in the range.
    Reached,
    /// More rows follow.
    More,
}

/// What the runtime measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Bytes of the store on disk.
    pub disk_bytes: u64,
    /// Bytes that are free on the disk and within the store: none when what was kept back for a
    /// full disk is spent.
    pub disk_free_bytes: u64,
    /// Bytes that the disk has; 0 when that is not known.
    pub disk_total_bytes: u64,
    /// Bytes of the socket buffer that the system granted.
    pub socket_buffer_bytes: u64,
    /// How long the commit that is under way has been running, in milliseconds.
    pub commit_running_ms: u64,
    /// The 99th percentile of commit times over the last 10 s, in milliseconds.
    pub commit_p99_ms: u64,
    /// The 99th percentile of how late the loop around the core was for what was due, over the
    /// last 10 s, in milliseconds.
    pub loop_p99_ms: u64,
}
