//! Writing frames to a stream, all that wait at once, and never more than a bounded pile of them.
//!
//! One task per stream takes everything that has gathered and hands it to quinn in one go. The
//! bytes that wait are counted per connection; above the limit nothing is taken in any more, and
//! the caller closes the connection: whoever does not read must not fill our memory. What is large
//! is not even encoded while much waits; who holds it back is told when there is room again.
//!
//! Invariant: frames leave in the order in which they were sent. A stream that is given up with
//! frames waiting is reset, never finished, so that no half answer looks like a whole one. What
//! this file does not do: it knows no frame from another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quinn::{SendStream, VarInt, WriteError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};

/// Bytes that wait to be written on one connection, and how many may.
#[derive(Clone, Debug)]
pub(crate) struct Pile {
    counts: Arc<Counts>,
    limit: usize,
    high: usize,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    /// All that was ever handed to quinn.
    taken: AtomicUsize,
    /// Whether somebody waits for room.
    wanted: AtomicBool,
}

impl Pile {
    /// An empty one, which takes nothing above `limit`, and nothing large above `high`.
    pub(crate) fn new(limit: usize, high: usize) -> Self {
        Self { counts: Arc::default(), limit, high }
    }

    /// Whether something large may come on top, with so many bytes that are on their way to it.
    pub(crate) fn has_room(&self, coming: usize) -> bool {
        self.counts.waiting.load(Ordering::SeqCst) + coming <= self.high
    }

    /// Has it told, by [`Writers::room`], when something was taken. To be called before one looks
    /// for the last time whether there is room.
    pub(crate) fn want_room(&self) {
        self.counts.wanted.store(true, Ordering::SeqCst);
    }

    /// How many bytes the other end has ever taken.
    pub(crate) fn taken(&self) -> usize {
        self.counts.taken.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) {
        self.counts.taken.fetch_add(bytes, Ordering::Relaxed);
        self.counts.waiting.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// How many writers have not ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers {
    count: Arc<watch::Sender<usize>>,
    room: Arc<Notify>,
}

impl Writers {
    /// Waits until somewhere something was taken for which somebody waits.
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Waits until all have ended, for so long at most.
    pub(crate) async fn ended(&self, within: Duration) {
        let mut count = self.count.subscribe();
        let _ = tokio::time::timeout(within, count.wait_for(|count| *count == 0)).await;
    }
}

/// The other end does not read: too much is waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The sending end of a stream. When all of them are dropped the stream is finished.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    frames: UnboundedSender<Bytes>,
    pile: Pile,
}

impl Outbox {
    /// An outbox, and the writer that must be run for it.
    pub(crate) fn new(stream: SendStream, pile: Pile, writers: &Writers) -> (Self, Writer) {
        let (sender, frames) = unbounded_channel();
        writers.count.send_modify(|count| *count += 1);
        let writer = Writer { stream, frames, pile: pile.clone(), writers: writers.clone() };
        (Self { frames: sender, pile }, writer)
    }

    /// Puts a frame behind the others.
    pub(crate) fn send(&self, frame: Bytes) -> Result<(), Full> {
        let length = weight(&frame);
        let waiting = self.pile.counts.waiting.fetch_add(length, Ordering::SeqCst);
        // One frame may always be under way, however large it is.
        if waiting > 0 && waiting + length > self.pile.limit {
            self.pile.counts.waiting.fetch_sub(length, Ordering::SeqCst);
            return Err(Full);
        }
        // A writer that is gone has lost its connection, which its supervisor reports.
        let _ = self.frames.send(frame);
        Ok(())
    }

    /// What waits on its connection.
    pub(crate) fn pile(&self) -> &Pile {
        &self.pile
    }
}

/// Writes what the outbox is given.
#[derive(Debug)]
pub(crate) struct Writer {
    stream: SendStream,
    frames: UnboundedReceiver<Bytes>,
    pile: Pile,
    writers: Writers,
}

impl Writer {
    /// Writes until the outbox is dropped, then finishes the stream and waits for the other end
    /// to have it all.
    pub(crate) async fn run(mut self) -> Result<(), WriteError> {
        let mut batch = Vec::new();
        while self.frames.recv_many(&mut batch, FRAMES).await > 0 {
            let mut written = 0;
            while written < batch.len() {
                let now = self.stream.write_chunks(&mut batch[written..]).await?;
                written += now.chunks;
                self.pile.take(now.bytes + now.chunks * FRAME_BYTES);
                if self.pile.counts.wanted.swap(false, Ordering::SeqCst) {
                    self.writers.room.notify_one();
                }
            }
            batch.clear();
        }
        // Neither fails but on a stream that the other end has given up, and then nobody waits.
        if self.stream.finish().is_ok() {
            let _ = tokio::time::timeout(FINISH_MAX, self.stream.stopped()).await;
        }
        Ok(())
    }
}

impl Drop for Writer {
    /// A writer that is dropped in mid-frame must not finish the stream, as quinn would.
    fn drop(&mut self) {
        let _ = self.stream.reset(VarInt::from_u32(0));
        self.writers.count.send_modify(|count| *count -= 1);
    }
}

/// What a frame takes up while it waits: itself and the handle to it.
fn weight(frame: &Bytes) -> usize {
    frame.len() + FRAME_BYTES
}

/// A handle, its place in the queue, and the slack of its allocation, rounded up.
const FRAME_BYTES: usize = 256;
/// Frames that are handed to quinn in one go.
const FRAMES: usize = 256;
/// How long the other end may take to receive the rest of a finished stream.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(2);
