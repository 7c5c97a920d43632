//! The door: where clients come in, are asked for a hello, and are served.
//!
//! Everything a client sends is parsed here into requests, with contents cut and checked, or the
//! connection is closed with a counted reason; what is well-formed but makes no sense is refused
//! and the connection stays. Nothing of one client slows another down: each stream has a reader
//! and a writer of its own, the pile of unread answers is bounded, and a reader that gets ahead
//! of the driver waits, which the client feels as flow control.
//!
//! ```text
//!   handshake -> certificate -> first stream -> hello -> [welcome] -> requests on <= 4 streams
//!   '------------------- 5 s, 4 KiB ----------------'
//! ```
//!
//! Invariant: the driver hears `ClientOpened` before and `ClientClosed` after everything else of
//! a client, each once. What this file does not do: it answers nothing but through the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gaggle_core::event::ClientId;
use gaggle_wire::frame::{FRAME_LENGTH_MAX, HELLO_LENGTH_MAX};
use gaggle_wire::{Refusal, Request, RequestFrame, Response, ResponseFrame, VERSION};
use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::close::{Close, Closes};
use super::inbox::{Inbox, InboxError, More};
use super::outbox::{Full, Outbox, Pile};
use super::transport::WINDOW_FIRST;
use super::{Network, request};
use crate::driver::input::Input;

/// By which the driver reaches a client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    connection: Connection,
    closes: Arc<Closes>,
}

impl Client {
    /// Ends the connection.
    pub(crate) fn close(&self, why: Close) {
        self.closes.close(&self.connection, why);
    }
}

/// Counts a client as long as it lives.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place if there is one.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let place = Self(Arc::clone(taken));
        (taken.fetch_add(1, Ordering::Relaxed) < limit).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one client until it is gone. `deadline` is when it must have said hello.
pub(crate) async fn serve(network: Arc<Network>, connection: Connection, deadline: Instant) {
    let Some(_place) = Place::take(&network.clients, network.clients_max) else {
        network.closes.close(&connection, Close::TooMany);
        return;
    };
    let hello = match timeout_at(deadline, hello(&connection)).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(why)) => {
            network.closes.close(&connection, why);
            return;
        }
        Err(_) => {
            network.closes.close(&connection, Close::NoHello);
            return;
        }
    };
    connection.set_receive_window(window(&network));
    let client = ClientId(network.next_id());
    let pile = Pile::new(PILE_MAX, PILE_HIGH);
    let door = Visit { network, connection, client, pile, tasks: JoinSet::new() };
    door.serve(hello).await;
}

/// How much a client may have on its way to us: less when there are many.
fn window(network: &Network) -> VarInt {
    let clients = network.clients.load(Ordering::Relaxed).max(1);
    let share = (WINDOWS_BYTES / clients).min(WINDOW_MAX);
    VarInt::from_u32(u32::try_from(share).unwrap_or(0).max(WINDOW_FIRST))
}

/// What a client said first, and the stream on which it did.
struct Hello {
    request: u64,
    answers: SendStream,
    requests: Inbox,
}

async fn hello(connection: &Connection) -> Result<Hello, Close> {
    let (mut answers, requests) = connection.accept_bi().await.map_err(|_| Close::NoHello)?;
    let mut requests = Inbox::new(requests, HELLO_LENGTH_MAX);
    let frame = match requests.frame().await {
        Ok(Some(frame)) => frame,
        Ok(None) | Err(InboxError::Cut | InboxError::Slow | InboxError::Lost(_)) => {
            return Err(Close::NoHello);
        }
        Err(InboxError::Frame(_)) => return Err(Close::BadFrame),
    };
    // The version comes first in a hello, whatever else a later one says.
    if let Some((request, HELLO, version)) = frame.front::<(u64, u8, u16)>()
        && version != VERSION
    {
        let refusal = Refusal::UnsupportedVersion { version: VERSION };
        let frame = ResponseFrame { request, clock: 0, body: Response::Refused(refusal) };
        // The client is told, or it is gone; in either case it is not served.
        let _ = answers.write_chunk(gaggle_wire::frame::encode(&frame, [])).await;
        let _ = answers.finish();
        let _ = answers.stopped().await;
        return Err(Close::BadVersion);
    }
    let said: RequestFrame = frame.header().map_err(|_| Close::BadHello)?;
    let Request::Hello { process, .. } = said.body else { return Err(Close::BadHello) };
    if frame.has_contents() || said.request == 0 || process.0 == 0 {
        return Err(Close::BadHello);
    }
    requests.set_limit(FRAME_LENGTH_MAX);
    Ok(Hello { request: said.request, answers, requests })
}

/// How a [`Request::Hello`] begins.
const HELLO: u8 = 0;

/// One client, from its hello to its end.
struct Visit {
    network: Arc<Network>,
    connection: Connection,
    client: ClientId,
    pile: Pile,
    tasks: JoinSet<()>,
}

impl Visit {
    async fn serve(mut self, hello: Hello) {
        let door = Client {
            connection: self.connection.clone(),
            closes: Arc::clone(&self.network.closes),
        };
        let answers = self.writer(hello.answers);
        let client = self.client;
        let opened = Input::ClientOpened { client, door, request: hello.request, answers };
        if self.network.inputs.send(opened).await.is_err() {
            return;
        }
        self.reader(0, hello.requests);
        for stream in 1.. {
            let Ok((answers, requests)) = self.connection.accept_bi().await else { break };
            self.open(stream, answers, requests).await;
            while self.tasks.try_join_next().is_some() {}
        }
        self.tasks.shutdown().await;
        // Nobody listens any more when the node has been closed.
        let _ = self.network.inputs.send(Input::ClientClosed(client)).await;
    }

    async fn open(&mut self, stream: u32, answers: SendStream, requests: RecvStream) {
        let answers = self.writer(answers);
        let opened = Input::StreamOpened { client: self.client, stream, answers };
        if self.network.inputs.send(opened).await.is_ok() {
            self.reader(stream, Inbox::new(requests, FRAME_LENGTH_MAX));
        }
    }

    fn writer(&mut self, answers: SendStream) -> Outbox {
        let (outbox, writer) = Outbox::new(answers, self.pile.clone(), &self.network.writers);
        self.tasks.spawn(async move {
            // The connection's end is seen by whoever accepts streams.
            let _ = writer.run().await;
        });
        outbox
    }

    fn reader(&mut self, stream: u32, mut requests: Inbox) {
        requests.set_intake(self.network.intake.clone());
        let reader = Reader {
            network: Arc::clone(&self.network),
            connection: self.connection.clone(),
            client: self.client,
            stream,
        };
        self.tasks.spawn(reader.run(requests));
    }
}

/// Reads the requests of one stream.
struct Reader {
    network: Arc<Network>,
    connection: Connection,
    client: ClientId,
    stream: u32,
}

impl Reader {
    async fn run(self, mut requests: Inbox) {
        let (client, stream) = (self.client, self.stream);
        let mut frames = Vec::new();
        loop {
            let read = requests.batch(&mut frames).await;
            let asked: Result<Vec<_>, Close> = frames.drain(..).map(request::parse).collect();
            let asked = match asked {
                Ok(asked) => asked,
                Err(why) => return self.network.closes.close(&self.connection, why),
            };
            if !asked.is_empty() {
                let asked = Input::Asked { client, stream, asked };
                if self.network.inputs.send(asked).await.is_err() {
                    return;
                }
            }
            match read {
                Ok(More::Maybe) => {}
                Ok(More::Never) | Err(InboxError::Lost(_)) => break,
                Err(InboxError::Cut) => {
                    // It is as if it had never been sent.
                    self.network.closes.count_cut();
                    break;
                }
                Err(InboxError::Slow) => {
                    return self.network.closes.close(&self.connection, Close::NotSending);
                }
                Err(InboxError::Frame(error)) => {
                    tracing::debug!(%error, "a client's stream");
                    return self.network.closes.close(&self.connection, Close::BadFrame);
                }
            }
        }
        let _ = self.network.inputs.send(Input::StreamClosed { client, stream }).await;
    }
}

impl Outbox {
    /// Sends an answer, or closes the client because it reads none.
    pub(crate) fn answer(&self, door: &Client, frame: bytes::Bytes) {
        match self.send(frame) {
            Ok(()) => {}
            Err(Full) => door.close(Close::NotReading),
        }
    }
}

/// Until when whoever dials must have shown who it is and said hello.
pub(crate) const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// Answers that wait to be read, per client: some batches of deliveries of the largest size.
const PILE_MAX: usize = 32 * 1024 * 1024;
/// With so much waiting, deliveries stay with the driver: the largest still fits on top.
const PILE_HIGH: usize = 15 * 1024 * 1024;

/// What all clients together may have on its way to us while the driver does not keep up.
const WINDOWS_BYTES: usize = 512 * 1024 * 1024;
/// 8 MiB carry 400 MB/s at 20 ms.
const WINDOW_MAX: usize = 8 * 1024 * 1024;
