//! The corridor: links to other nodes, on which sessions live.
//!
//! ```text
//!   smaller id                              larger id
//!      |  connect, certificates both ways      |
//!      |  control stream: hello  ------------> |
//!      |  copies stream: opening ------------> |
//!      |  <----------- hello on control stream |
//!   LinkUp                                  LinkUp
//!      |  <==== envelopes on both streams ===> |
//!   LinkDown, once, when either stream ends, is reset or brings what is no envelope
//! ```
//!
//! Of two nodes the one with the smaller id dials, so that two never hold two links for one. An
//! envelope is a frame with the contents of its messages behind it; contents are checked here,
//! and one that is damaged ends the link: what is lost on a session ends it.
//!
//! Invariant: the driver hears `LinkUp` before and `LinkDown` after everything else of a link,
//! each once. What this file does not do: when to dial is in `dial.rs`, gossip in `gossip.rs`.

pub(crate) mod dial;

use std::sync::Arc;
use std::time::Duration;

use gaggle_core::envelope::{Envelope, Lane, PEER_VERSION, PeerHello};
use gaggle_core::event::LinkId;
use gaggle_wire::NodeId;
use gaggle_wire::frame::{self, FRAME_LENGTH_MAX, Frame, HELLO_LENGTH_MAX};
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::close::{Close, Closes};
use super::inbox::{Inbox, InboxError, More};
use super::outbox::{Full, Outbox, Pile};
use super::{Network, Own};
use crate::driver::input::{Input, Said};

/// By which the driver reaches another node.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    connection: Connection,
    closes: Arc<Closes>,
    node: NodeId,
    control: Outbox,
    copies: Outbox,
}

impl Link {
    /// Who is at the other end.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Sends an encoded envelope, or closes the link because the other end does not read.
    pub(crate) fn send(&self, lane: Lane, frame: bytes::Bytes) {
        let outbox = match lane {
            Lane::Control => &self.control,
            Lane::Copies => &self.copies,
        };
        match outbox.send(frame) {
            Ok(()) => {}
            Err(Full) => self.close(Close::NotReading),
        }
    }

    /// What waits for it.
    pub(crate) fn pile(&self) -> &Pile {
        self.control.pile()
    }

    /// Ends the link.
    pub(crate) fn close(&self, why: Close) {
        tracing::info!(node = %self.node, why = why.reason(), "closing a link");
        self.closes.close(&self.connection, why);
    }
}

/// The first frame of a stream says which one it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Opening {
    /// What is said in sessions; and who is there.
    Control(Box<PeerHello>),
    /// What carries contents.
    Copies,
}

/// One stream of a link that is coming up.
struct Stream {
    writing: SendStream,
    reading: Inbox,
}

/// Why a connection does not become a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmet {
    /// For this reason.
    For(Close),
    /// The other end speaks this version.
    Version(u16),
}

impl From<Close> for Unmet {
    fn from(why: Close) -> Self {
        Self::For(why)
    }
}

/// Both streams of a link whose ends know each other.
struct Meeting {
    hello: Box<PeerHello>,
    control: Stream,
    copies: Stream,
    life: u64,
}

/// Makes a link of a connection that we dialled, and carries envelopes until it ends.
pub(crate) async fn dialled(network: &Arc<Network>, connection: &Connection, node: NodeId) {
    let Some(own) = network.own().await else { return };
    let meeting = timeout(MEET_WITHIN, introduce(connection, &own)).await;
    carry(network, connection, node, meeting.unwrap_or(Err(Close::NoHello.into()))).await;
}

/// Waits whether the node that dialled us makes a link of its connection, and carries envelopes
/// until it ends. A connection for gossip alone stays here until it is closed; more than gossip
/// there never is with a process under this node's own name.
pub(crate) async fn accepted(network: &Arc<Network>, connection: &Connection, node: NodeId) {
    let Ok(first) = connection.accept_bi().await else { return };
    if node >= network.node {
        network.closes.close(connection, Close::NotWanted);
        return;
    }
    let Some(own) = network.own().await else { return };
    let meeting = timeout(MEET_WITHIN, receive(connection, first, &own)).await;
    carry(network, connection, node, meeting.unwrap_or(Err(Close::NoHello.into()))).await;
}

async fn introduce(connection: &Connection, own: &Own) -> Result<Meeting, Unmet> {
    let mut control = Stream::new(connection.open_bi().await.map_err(|_| Close::NoHello)?);
    control.say(&Opening::Control(Box::new(own.hello.clone()))).await?;
    let mut copies = Stream::new(connection.open_bi().await.map_err(|_| Close::NoHello)?);
    copies.say(&Opening::Copies).await?;
    match control.hear().await? {
        Opening::Control(hello) => Ok(Meeting { hello, control, copies, life: own.life }),
        Opening::Copies => Err(Close::BadHello.into()),
    }
}

async fn receive(
    connection: &Connection,
    first: (SendStream, RecvStream),
    own: &Own,
) -> Result<Meeting, Unmet> {
    let mut first = Stream::new(first);
    let opening = first.hear().await?;
    let mut second = Stream::new(connection.accept_bi().await.map_err(|_| Close::NoHello)?);
    let (hello, mut control, copies) = match (opening, second.hear().await?) {
        (Opening::Control(hello), Opening::Copies) => (hello, first, second),
        (Opening::Copies, Opening::Control(hello)) => (hello, second, first),
        (Opening::Control(_), Opening::Control(_)) | (Opening::Copies, Opening::Copies) => {
            return Err(Close::BadHello.into());
        }
    };
    control.say(&Opening::Control(Box::new(own.hello.clone()))).await?;
    Ok(Meeting { hello, control, copies, life: own.life })
}

impl Stream {
    fn new((writing, reading): (SendStream, RecvStream)) -> Self {
        Self { writing, reading: Inbox::new(reading, HELLO_LENGTH_MAX) }
    }

    async fn say(&mut self, opening: &Opening) -> Result<(), Close> {
        let frame = frame::encode(opening, []);
        self.writing.write_chunk(frame).await.map_err(|_| Close::NoHello)
    }

    async fn hear(&mut self) -> Result<Opening, Unmet> {
        match self.reading.frame().await {
            Ok(Some(frame)) if !frame.has_contents() => opening(&frame),
            Ok(Some(_)) | Err(InboxError::Frame(_)) => Err(Close::BadHello.into()),
            Ok(None) | Err(InboxError::Cut | InboxError::Slow | InboxError::Lost(_)) => {
                Err(Close::NoHello.into())
            }
        }
    }
}

/// The first frame of a stream. The version comes first in a hello, whatever else a later one says.
fn opening(frame: &Frame) -> Result<Opening, Unmet> {
    if let Some((CONTROL, version)) = frame.front::<(u8, u16)>()
        && version != PEER_VERSION
    {
        return Err(Unmet::Version(version));
    }
    frame.header().map_err(|_| Close::BadHello.into())
}

/// Ends a connection that does not become a link. Who speaks another version is told both.
fn turn_away(network: &Network, connection: &Connection, node: NodeId, why: Unmet) {
    match why {
        Unmet::For(why) => {
            tracing::info!(%node, why = why.reason(), "no link");
            network.closes.close(connection, why);
        }
        Unmet::Version(theirs) => {
            let words = format!(
                "another version of the protocol between nodes: {PEER_VERSION} here, {theirs} there"
            );
            tracing::warn!(%node, why = words, "no link");
            network.closes.close_saying(connection, Close::BadVersion, &words);
        }
    }
}

async fn carry(
    network: &Arc<Network>,
    connection: &Connection,
    node: NodeId,
    meeting: Result<Meeting, Unmet>,
) {
    let meeting = meeting.and_then(|meeting| {
        if meeting.hello.node == node { Ok(meeting) } else { Err(Close::BadHello.into()) }
    });
    let Meeting { hello, mut control, mut copies, life } = match meeting {
        Ok(meeting) => meeting,
        Err(why) => return turn_away(network, connection, node, why),
    };
    // Both know each other now. The end that dialled has heard nothing on the copies stream yet.
    control.reading.set_limit(FRAME_LENGTH_MAX);
    copies.reading.set_limit(FRAME_LENGTH_MAX);
    connection.set_receive_window(VarInt::from_u32(WINDOW));
    let pile = Pile::new(PILE_MAX, PILE_HIGH);
    let (control_outbox, control_writer) =
        Outbox::new(control.writing, pile.clone(), &network.writers);
    let (copies_outbox, copies_writer) = Outbox::new(copies.writing, pile, &network.writers);
    let corridor = Link {
        connection: connection.clone(),
        closes: Arc::clone(&network.closes),
        node,
        control: control_outbox,
        copies: copies_outbox,
    };
    let link = LinkId(network.next_id());
    if network.inputs.send(Input::LinkUp { link, hello, corridor, life }).await.is_err() {
        return;
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { control_writer.run().await.map_err(|_| Close::NotWanted) });
    tasks.spawn(async move { copies_writer.run().await.map_err(|_| Close::NotWanted) });
    tasks.spawn(read(Arc::clone(network), link, control.reading));
    tasks.spawn(read(Arc::clone(network), link, copies.reading));
    // Whichever ends first ends the link: a session lives on both streams or not at all.
    let why = match tasks.join_next().await {
        Some(Ok(Err(why))) => why,
        _ => Close::NotWanted,
    };
    // Who closed it first said why: this node, the other one, or nobody but the silence.
    match connection.close_reason() {
        Some(reason) => tracing::info!(%node, why = told(&reason), "a link has ended"),
        None => tracing::info!(%node, why = why.reason(), "a link is ended"),
    }
    network.closes.close(connection, why);
    tasks.shutdown().await;
    // Nobody listens any more when the node has been closed.
    let _ = network.inputs.send(Input::LinkDown(link)).await;
}

/// Why a connection ended, in words.
fn told(reason: &ConnectionError) -> String {
    match reason {
        ConnectionError::LocallyClosed => "closed here".to_owned(),
        ConnectionError::ApplicationClosed(closed) => {
            format!("the other node: {}", String::from_utf8_lossy(&closed.reason))
        }
        ConnectionError::TimedOut => "nothing was heard for too long".to_owned(),
        other => other.to_string(),
    }
}

async fn read(network: Arc<Network>, link: LinkId, mut stream: Inbox) -> Result<(), Close> {
    let mut frames = Vec::new();
    loop {
        let read = stream.batch(&mut frames).await;
        let said: Vec<Said> = frames.drain(..).map(parse).collect::<Result<_, _>>()?;
        if !said.is_empty() {
            let said = Input::Said { link, said };
            network.inputs.send(said).await.map_err(|_| Close::Stopping)?;
        }
        match read {
            Ok(More::Maybe) => {}
            Ok(More::Never) | Err(InboxError::Cut | InboxError::Slow | InboxError::Lost(_)) => {
                return Ok(());
            }
            Err(InboxError::Frame(_)) => return Err(Close::BadFrame),
        }
    }
}

fn parse(frame: Frame) -> Result<Said, Close> {
    let envelope: Envelope = frame.header().map_err(|_| Close::BadFrame)?;
    let messages = envelope.messages();
    let labels = messages.iter().map(|(_, label)| label);
    let contents = frame.contents(labels).map_err(|_| Close::BadFrame)?;
    let whole = messages.iter().zip(&contents).all(|((_, label), content)| label.matches(content));
    if whole { Ok(Said { envelope, contents }) } else { Err(Close::BadFrame) }
}

/// How an [`Opening::Control`] begins.
const CONTROL: u8 = 0;

/// How long a connection may take to become a link.
const MEET_WITHIN: Duration = Duration::from_secs(5);

/// What waits for a node that does not read; at 100 MB/s more than half a second's worth.
const PILE_MAX: usize = 64 * 1024 * 1024;
/// With so much waiting, contents stay with the driver: the largest still fits on top, and what
/// carries none has room of its own.
const PILE_HIGH: usize = 32 * 1024 * 1024;

/// What a node may have on its way to us: both of its streams' windows, and room.
const WINDOW: u32 = 8 * 1024 * 1024;
