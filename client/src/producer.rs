//! The producer: many sends under way at once, and a bound on how many.
//!
//! `send` returns as soon as there is room, with a [`Sending`] to await the confirm by; a slow
//! cluster thus slows the producer instead of filling its memory. Messages that are under way
//! together travel in batches. What this file does not do: it batches nothing itself.

use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use gaggle_client_core::Confirmed;
use gaggle_wire::QueueName;
use tokio::sync::Semaphore;

use crate::command::{Command, Handle, Posted, Waiting};
use crate::error::SendError;
use crate::outgoing::Outgoing;

/// Sends to one queue, many at a time. Clones share the bound, and are one producer.
#[derive(Clone)]
pub struct Producer {
    queue: Arc<QueueName>,
    handle: Handle,
    window: Arc<Semaphore>,
    /// What the partition of a message without key follows, if not the batch.
    hash: Option<u64>,
}

/// Which partitions the messages of a producer go to, but for those with an ordering key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Each batch to the next partition: even, and in no order. The default.
    #[default]
    Batch,
    /// All to one partition, in the order in which they are sent. Two producers may share one.
    Producer,
}

impl Producer {
    pub(crate) fn new(queue: Arc<QueueName>, handle: Handle) -> Self {
        Self { queue, handle, window: Arc::new(Semaphore::new(UNDER_WAY_MAX)), hash: None }
    }

    /// Spreads the messages over the partitions of the queue in this way.
    ///
    /// ```no_run
    /// # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use gaggle_client::Spread;
    ///
    /// let producer = orders.producer().spread(Spread::Producer);
    /// producer.send_all(["opened", "paid", "shipped"]).await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn spread(mut self, spread: Spread) -> Self {
        self.hash = match spread {
            Spread::Batch => None,
            Spread::Producer => Some(RandomState::new().hash_one(self.handle.name())),
        };
        self
    }

    /// How many messages may be under way at once; 1,024 unless it is set.
    #[must_use]
    pub fn under_way_max(mut self, messages: usize) -> Self {
        self.window = Arc::new(Semaphore::new(messages.clamp(1, Semaphore::MAX_PERMITS)));
        self
    }

    /// Sends a message as soon as there is room for it. The message is on its way when this
    /// returns, whether or not the result is awaited.
    ///
    /// # Errors
    /// When the message is beyond all limits, or the client closed.
    pub async fn send(&self, message: impl Into<Outgoing>) -> Result<Sending, SendError> {
        let (posted, waiting) = self.admit(&message.into()).await?;
        self.handle.tell(Command::Send(vec![posted]));
        Ok(Sending { waiting })
    }

    /// Sends all of these and waits for all; one result for each, in order.
    pub async fn send_all<M: Into<Outgoing>>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Vec<Result<Confirmed, SendError>> {
        let mut pending: Vec<Result<Waiting, SendError>> = Vec::new();
        let mut ready = Vec::new();
        for message in messages {
            let outgoing = message.into();
            let mut admission = pin!(self.admit(&outgoing));
            let posted = match poll_once(admission.as_mut()).await {
                Poll::Ready(posted) => posted,
                Poll::Pending => {
                    // What is in hand must go before waiting, or nothing would make room.
                    self.handle.tell(Command::Send(std::mem::take(&mut ready)));
                    admission.await
                }
            };
            pending.push(posted.map(|(posted, waiting)| {
                ready.push(posted);
                waiting
            }));
            if ready.len() >= CHUNK {
                self.handle.tell(Command::Send(std::mem::take(&mut ready)));
            }
        }
        self.handle.tell(Command::Send(ready));
        let mut results = Vec::with_capacity(pending.len());
        for waiting in pending {
            results.push(match waiting {
                Ok(waiting) => Sending { waiting }.await,
                Err(error) => Err(error),
            });
        }
        results
    }

    /// Waits for room for a message, in the producer's window and among the bytes under way.
    async fn admit(&self, outgoing: &Outgoing) -> Result<(Posted, Waiting), SendError> {
        let window = Arc::clone(&self.window).acquire_owned().await;
        let window = window.map_err(|_| SendError::Closed)?;
        self.handle.post(&self.queue, outgoing, self.hash, Some(window)).await
    }
}

/// Whether a future is ready without waiting.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Producer").field(&self.queue).finish()
    }
}

/// A message under way: a future of its confirm.
#[derive(Debug)]
pub struct Sending {
    waiting: Waiting,
}

impl Future for Sending {
    type Output = Result<Confirmed, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.waiting).poll(context).map(|result| match result {
            Ok(result) => result.map_err(SendError::from),
            Err(_) => Err(SendError::Closed),
        })
    }
}

/// About 30 ms of 1 KiB messages at 30,000 per second: more than a round trip with its fsyncs.
const UNDER_WAY_MAX: usize = 1024;

/// Big enough to make the wakeup of the driver cheap, small enough to start before all is packed.
const CHUNK: usize = 256;
