//! The link: one connection to a node, with three streams on it.
//!
//! Each stream has one task that writes and one that reads; what they read goes to the driver in
//! batches, decoded. A link that is dropped is closed and its streams are reset: a stream that
//! was merely dropped would be *finished*, and the node could take half a frame for the end.
//!
//! What this file does not do: it knows no requests and matches no answers.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle_client_core::{Stream, Target};
use gaggle_wire::frame::{FRAME_LENGTH_MAX, Frame, FrameError, Splitter, encode};
use gaggle_wire::{RequestFrame, Response, ResponseFrame};
use quinn::{Connection, ConnectionError, RecvStream, SendStream, TransportErrorCode, VarInt};
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use crate::dialer::{DialError, Dialer, FAREWELL};

/// See the top of this file.
pub(crate) struct Link {
    /// Where it goes.
    pub(crate) target: Target,
    writers: [UnboundedSender<Outbound>; STREAMS],
    task: AbortHandle,
}

/// A request and its contents.
type Outbound = (RequestFrame, Vec<Bytes>);

/// An answer and its contents.
pub(crate) type Inbound = (ResponseFrame, Vec<Bytes>);

/// What a link tells the driver.
pub(crate) enum Report {
    /// It is up.
    Dialled(u64),
    /// Answers came.
    Frames(u64, Vec<Inbound>),
    /// It is gone, or never was.
    Lost(u64, Loss),
}

/// How a link was lost.
pub(crate) struct Loss {
    pub(crate) why: String,
    /// Whether dialling the same place again will end the same way.
    pub(crate) hopeless: bool,
}

/// Why a link ended.
#[derive(Debug, Error)]
enum LinkError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Write(#[from] quinn::WriteError),
    #[error(transparent)]
    Read(#[from] quinn::ReadError),
    #[error("the node sent what is no frame: {0}")]
    Frame(#[from] FrameError),
    #[error("the node closed a stream")]
    StreamEnded,
    #[error("the node is silent")]
    Silent,
}

impl LinkError {
    /// Whether one side does not accept the other's certificate. That of the client is judged
    /// after its handshake has ended, so it shows as an early end of the connection.
    fn is_hopeless(&self) -> bool {
        let (Self::Connection(error) | Self::Dial(DialError::Handshake { error, .. })) = self
        else {
            return false;
        };
        match error {
            ConnectionError::TransportError(error) => is_of_tls(error.code),
            ConnectionError::ConnectionClosed(close) => is_of_tls(close.error_code),
            ConnectionError::ApplicationClosed(close) => close.error_code == NOT_ALLOWED,
            _ => false,
        }
    }
}

fn is_of_tls(code: TransportErrorCode) -> bool {
    CRYPTO_ERRORS.contains(&u64::from(code))
}

impl Link {
    /// Makes a connection in the background.
    pub(crate) fn dial(
        link: u64,
        target: Target,
        dialer: Arc<Dialer>,
        reports: UnboundedSender<Report>,
    ) -> Self {
        let (control, to_control) = unbounded_channel();
        let (sends, to_sends) = unbounded_channel();
        let (deliveries, to_deliveries) = unbounded_channel();
        let queues = [to_control, to_sends, to_deliveries];
        let task = tokio::spawn(async move {
            let Err(error) = run(link, target, (&dialer, &reports), queues).await;
            tracing::debug!(link, %error, "a connection is gone");
            // The driver may be gone as well.
            let loss = Loss { why: error.to_string(), hopeless: error.is_hopeless() };
            let _ = reports.send(Report::Lost(link, loss));
        });
        Self { target, writers: [control, sends, deliveries], task: task.abort_handle() }
    }

    /// Sends a request; one that cannot be sent any more is as good as lost on its way.
    pub(crate) fn transmit(&self, stream: Stream, frame: RequestFrame, contents: Vec<Bytes>) {
        let _ = self.writers[stream as usize].send((frame, contents));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Closes the connection however its task ends.
struct Closing(Connection);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(VarInt::from_u32(0), FAREWELL);
    }
}

/// Resets the stream however its task ends.
struct Resetting(SendStream);

impl Drop for Resetting {
    fn drop(&mut self) {
        // An error means that it is over already.
        let _ = self.0.reset(VarInt::from_u32(0));
    }
}

enum Never {}

async fn run(
    link: u64,
    target: Target,
    (dialer, reports): (&Arc<Dialer>, &UnboundedSender<Report>),
    queues: [UnboundedReceiver<Outbound>; STREAMS],
) -> Result<Never, LinkError> {
    let connection = Closing(dialer.dial(target).await?);
    // Tasks end with the set, and the set before the connection.
    let mut tasks = JoinSet::new();
    for queue in queues {
        let (send, receive) = connection.0.open_bi().await?;
        tasks.spawn(write(Resetting(send), queue));
        tasks.spawn(read(link, receive, reports.clone()));
    }
    let _ = reports.send(Report::Dialled(link));
    let ended = tokio::select! {
        ended = tasks.join_next() => ended,
        () = silence(&connection.0) => return Err(LinkError::Silent),
    };
    match ended {
        Some(Ok(Err(error))) => match connection.0.close_reason() {
            Some(reason) => Err(reason.into()),
            None => Err(error),
        },
        // A panic in a task is the end of its connection, not of the client.
        _ => Err(LinkError::StreamEnded),
    }
}

/// Waits until nothing was heard for so long that the node, or the way to it, must be gone: it
/// answers every keep-alive. Looks are counted and not time, so that a pause of this very process
/// is no silence of the node.
async fn silence(connection: &Connection) {
    let heard = || connection.stats().udp_rx.datagrams;
    let (mut last, mut silences) = (heard(), 0);
    while silences < SILENCES_MAX {
        tokio::time::sleep(LISTEN_FOR).await;
        let now = heard();
        silences = if now == last { silences + 1 } else { 0 };
        last = now;
    }
}

async fn write(
    mut stream: Resetting,
    mut queue: UnboundedReceiver<Outbound>,
) -> Result<Never, LinkError> {
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    let mut frames = Vec::with_capacity(WRITE_BATCH);
    while queue.recv_many(&mut batch, WRITE_BATCH).await > 0 {
        frames.extend(batch.drain(..).map(|(frame, contents)| encode(&frame, &contents)));
        stream.0.write_all_chunks(&mut frames).await?;
        frames.clear();
    }
    Err(LinkError::StreamEnded)
}

async fn read(
    link: u64,
    mut stream: RecvStream,
    reports: UnboundedSender<Report>,
) -> Result<Never, LinkError> {
    let mut splitter = Splitter::new(FRAME_LENGTH_MAX);
    while let Some(chunk) = stream.read_chunk(READ_CHUNK, true).await? {
        splitter.push(&chunk.bytes);
        let mut answers = Vec::new();
        while let Some(frame) = splitter.next_frame()? {
            answers.push(decode(&frame)?);
        }
        if !answers.is_empty() && reports.send(Report::Frames(link, answers)).is_err() {
            break;
        }
    }
    Err(LinkError::StreamEnded)
}

fn decode(frame: &Frame) -> Result<Inbound, FrameError> {
    let header: ResponseFrame = frame.header()?;
    let contents = match &header.body {
        Response::Deliveries { deliveries } => {
            frame.contents(deliveries.iter().map(|delivery| &delivery.label))?
        }
        _ => frame.contents([])?,
    };
    Ok((header, contents))
}

/// The codes of QUIC that carry an alert of TLS (RFC 9001, 4.8).
const CRYPTO_ERRORS: RangeInclusive<u64> = 0x100..=0x1ff;
/// By which a node closes a connection whose certificate is not that of a client.
const NOT_ALLOWED: VarInt = VarInt::from_u32(2);
const LISTEN_FOR: Duration = Duration::from_secs(1);
/// Two keep-alives may be lost before that.
const SILENCES_MAX: u32 = 3;
const STREAMS: usize = 3;
/// Frames that are encoded before the stream is given them.
const WRITE_BATCH: usize = 16;
const READ_CHUNK: usize = 256 * 1024;
