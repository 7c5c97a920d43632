//! Reading frames from a stream, as many at once as are there.
//!
//! A reader waits for the first bytes and then takes what else has come without waiting again, up
//! to a bound, so that one wakeup hands a whole batch on. Invariant: no more than one frame and
//! one batch of bytes are held; frames above the limit are refused before they are gathered, and
//! large ones of clients wait for a place (`intake.rs`).
//! What this file does not do: it does not know what the frames say.

use bytes::Bytes;
use futures_util::FutureExt as _;
use gaggle_wire::frame::{Frame, FrameError, Splitter};
use quinn::{ReadError, RecvStream};
use thiserror::Error;
use tokio::time::timeout_at;

use super::intake::{Intake, Large, SMALL};

/// Why no more frames come.
#[derive(Debug, Error)]
pub(crate) enum InboxError {
    /// What came is no frame: the connection is of no use.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A large frame took too long, and others need its place.
    #[error("a large frame was not whole in time")]
    Slow,
    /// The stream ended inside a frame, which is thereby refused whole.
    #[error("the stream ended inside a frame")]
    Cut,
    /// The stream was reset or the connection is gone.
    #[error(transparent)]
    Lost(#[from] ReadError),
}

/// Whether more may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// The stream goes on.
    Maybe,
    /// The other end finished it.
    Never,
}

/// The reading end of a stream.
#[derive(Debug)]
pub(crate) struct Inbox {
    stream: RecvStream,
    splitter: Splitter,
    chunks: Vec<Bytes>,
    /// Where large frames need a place.
    intake: Option<Intake>,
    large: Option<Large>,
}

impl Inbox {
    /// Reads frames of at most `limit` bytes.
    pub(crate) fn new(stream: RecvStream, limit: usize) -> Self {
        let chunks = vec![Bytes::new(); CHUNKS];
        let splitter = Splitter::new(limit);
        Self { stream, splitter, chunks, intake: None, large: None }
    }

    /// Makes large frames wait for a place.
    pub(crate) fn set_intake(&mut self, intake: Intake) {
        self.intake = Some(intake);
    }

    /// Changes the limit for the frames to come.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.splitter.set_limit(limit);
    }

    /// The next frame; `None` when the stream was finished behind a whole one.
    pub(crate) async fn frame(&mut self) -> Result<Option<Frame>, InboxError> {
        loop {
            if let Some(frame) = self.splitter.next_frame()? {
                return Ok(Some(frame));
            }
            let read = self.stream.read_chunks(&mut self.chunks[..1]).await?;
            if self.take(read)? == (0, More::Never) {
                return Ok(None);
            }
        }
    }

    /// Appends all frames that are here, waiting for the first one.
    pub(crate) async fn batch(&mut self, frames: &mut Vec<Frame>) -> Result<More, InboxError> {
        let mut bytes = 0;
        loop {
            while let Some(frame) = self.splitter.next_frame()? {
                frames.push(frame);
                self.large = None;
            }
            if frames.is_empty() {
                self.make_room().await;
            }
            let reading = self.stream.read_chunks(&mut self.chunks);
            let read = if let (true, Some(large)) = (frames.is_empty(), &self.large) {
                timeout_at(large.until, reading).await.map_err(|_| InboxError::Slow)??
            } else if frames.is_empty() {
                reading.await?
            } else if bytes < BATCH_BYTES {
                match reading.now_or_never() {
                    Some(read) => read?,
                    None => return Ok(More::Maybe),
                }
            } else {
                return Ok(More::Maybe);
            };
            let (taken, more) = self.take(read)?;
            bytes += taken;
            if more == More::Never {
                return Ok(more);
            }
        }
    }

    async fn make_room(&mut self) {
        if let (Some(intake), None) = (&self.intake, &self.large)
            && self.splitter.buffered() > SMALL
        {
            self.large = Some(intake.large().await);
        }
    }

    fn take(&mut self, read: Option<usize>) -> Result<(usize, More), InboxError> {
        let Some(chunks) = read else {
            return if self.splitter.is_mid_frame() {
                Err(InboxError::Cut)
            } else {
                Ok((0, More::Never))
            };
        };
        let mut bytes = 0;
        for chunk in &mut self.chunks[..chunks] {
            bytes += chunk.len();
            self.splitter.push(chunk);
            *chunk = Bytes::new();
        }
        Ok((bytes, More::Maybe))
    }
}

/// Datagrams carry about 1,200 bytes of a stream each; so many are taken under one lock of quinn.
const CHUNKS: usize = 64;

/// Enough for hundreds of small requests, little enough that thousands of readers hold no memory
/// to speak of.
const BATCH_BYTES: usize = SMALL;
