//! The consumer: a stream of deliveries that survives the node it comes from.
//!
//! Credit bounds how many deliveries wait here to be taken. When a node fails or drains, the
//! stream is opened again at another one; what was not taken by then goes back and comes again.
//! [`Consumer::run`] is the loop that most applications want: it works on several messages at
//! once, extends their leases for as long as that takes, deletes what succeeds and releases what
//! fails.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use gaggle_client_core::Subscription;
use gaggle_wire::QueueName;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::command::{Command, Handle};
use crate::delivery::{Delivery, Received, millis};
use crate::error::ReceiveError;
use crate::lease::Lease;
use crate::shelf::{Shelf, Take};

/// What a consumer is to be like.
#[must_use = "nothing is received until it is opened"]
pub struct ConsumerBuilder {
    queue: Arc<QueueName>,
    handle: Handle,
    credit: u64,
    visibility: Option<Duration>,
}

impl ConsumerBuilder {
    pub(crate) fn new(queue: Arc<QueueName>, handle: Handle) -> Self {
        Self { queue, handle, credit: CREDIT, visibility: None }
    }

    /// How many deliveries may wait here to be taken; 64 unless it is set, at least 1. Their
    /// leases run while they wait, so where the work on one is long, let few of them wait.
    pub fn credit(mut self, deliveries: u64) -> Self {
        self.credit = deliveries.max(1);
        self
    }

    /// How long each delivery stays hidden from others, instead of the queue's visibility timeout.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Opens the stream. That is no request to wait for: what is wrong (there is no such queue,
    /// say) is the stream's first item.
    #[must_use]
    pub fn open(self) -> Consumer {
        let consumer = self.handle.name();
        let shelf = Arc::new(Shelf::default());
        let subscription = Subscription {
            consumer,
            queue: self.queue,
            credit: self.credit,
            visibility_ms: self.visibility.map(millis),
        };
        let command = Command::Subscribe { subscription, shelf: Arc::clone(&shelf) };
        if !self.handle.tell(command) {
            shelf.end(Some(ReceiveError::Closed));
        }
        let (retry_delay, extension) = (RETRY_DELAY, Extension::On);
        Consumer { consumer, shelf, handle: self.handle, retry_delay, extension }
    }
}

impl fmt::Debug for ConsumerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConsumerBuilder").field(&self.queue).finish()
    }
}

/// A stream of deliveries. Dropping it gives back what was not taken.
///
/// ```no_run
/// # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// let mut consumer = orders.consumer().credit(8).open();
/// while let Some(delivery) = consumer.next().await {
///     let delivery = delivery?;
///     println!("{}", String::from_utf8_lossy(delivery.body()));
///     delivery.delete().await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct Consumer {
    consumer: u64,
    shelf: Arc<Shelf>,
    handle: Handle,
    retry_delay: Duration,
    extension: Extension,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extension {
    On,
    Off,
}

impl Consumer {
    /// The next delivery; `None` when the consumer is closed.
    pub async fn next(&mut self) -> Option<Result<Delivery, ReceiveError>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// After how long a message is ready again whose work failed; 1 s unless it is set.
    #[must_use]
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Leaves leases as they are while [`Consumer::run`] works.
    #[must_use]
    pub fn without_extension(mut self) -> Self {
        self.extension = Extension::Off;
        self
    }

    /// Works on the messages, `concurrency` at a time, until the stream ends: what `work` returns
    /// `Ok` for is deleted, what fails or panics is released. Leases are extended meanwhile (that
    /// one could not be, the work sees at once in its [`Received::lease`]), and closing the client
    /// ends the stream and waits for work that was begun.
    ///
    /// ```no_run
    /// # async fn brew(body: &[u8]) -> Result<(), String> { Ok(()) }
    /// # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// let consumer = orders.consumer().open();
    /// consumer.run(4, |received| async move { brew(&received.message.body).await }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What ended the stream, if it was not closed. Work that was begun is finished before.
    pub async fn run<F, W, E>(mut self, concurrency: usize, work: F) -> Result<(), ReceiveError>
    where
        F: Fn(Received) -> W,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let mut under_way = JoinSet::new();
        let ended = loop {
            while under_way.len() >= concurrency.max(1) {
                under_way.join_next().await;
            }
            match self.next().await {
                Some(Ok(delivery)) => {
                    let job = self.begin(delivery);
                    let working = work(job.received.clone());
                    under_way.spawn(job.finish(working));
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            }
            while under_way.try_join_next().is_some() {}
        };
        while under_way.join_next().await.is_some() {}
        ended
    }

    fn begin(&self, delivery: Delivery) -> Job {
        let mut received = delivery.received().clone();
        let lease = (self.extension == Extension::On).then(|| {
            let (lost, watched) = Lease::kept();
            received.lease = watched;
            let lease = self.handle.name();
            self.handle.tell(Command::Keep {
                lease,
                receipt: delivery.receipt().clone(),
                remaining: delivery.lease_remaining(),
                visibility: delivery.lease(),
                lost,
            });
            Kept { lease, handle: self.handle.clone() }
        });
        Job { delivery, received, lease, retry_delay: self.retry_delay }
    }

    /// Stops the stream and waits until the node has taken back what was not taken here.
    pub async fn close(self) {
        let (done, waiting) = oneshot::channel();
        self.handle.tell(Command::Unsubscribe { consumer: self.consumer, done: Some(done) });
        // An error means that the client is closed, and all its consumers with it.
        let _ = waiting.await;
    }
}

impl Stream for Consumer {
    type Item = Result<Delivery, ReceiveError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Poll::Ready(take) = self.shelf.poll_take(context) else { return Poll::Pending };
            match take {
                Take::One(delivered, arrived, tell) => {
                    if tell {
                        self.handle.tell(Command::Taken { consumer: self.consumer });
                    }
                    match Delivery::unpack(delivered, arrived, self.handle.clone()) {
                        // Others have it by now.
                        Ok(delivery) if delivery.is_expired() => drop(delivery.into_parts()),
                        Ok(delivery) => return Poll::Ready(Some(Ok(delivery))),
                        Err(error) => tracing::error!(%error, "a damaged delivery is skipped"),
                    }
                }
                Take::End(reason) => return Poll::Ready(reason.map(Err)),
            }
        }
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("consumer", &self.consumer).finish_non_exhaustive()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.handle.tell(Command::Unsubscribe { consumer: self.consumer, done: None });
    }
}

/// A delivery that is being worked on.
struct Job {
    delivery: Delivery,
    /// What the work is given of it.
    received: Received,
    lease: Option<Kept>,
    retry_delay: Duration,
}

impl Job {
    /// Dropping the delivery half-way (the work panicked, the runtime ends) releases it.
    async fn finish<E: fmt::Display>(self, work: impl Future<Output = Result<(), E>>) {
        let result = work.await;
        let settled = match result {
            Ok(()) => self.delivery.delete().await.err().map(|error| error.to_string()),
            Err(error) => {
                tracing::warn!(%error, "the work on a message failed; it is released");
                let released = self.delivery.release(self.retry_delay).await;
                released.err().map(|error| error.to_string())
            }
        };
        if let Some(error) = settled {
            tracing::warn!(error, "a message could not be settled; it may come again");
        }
        // Last, because closing the client waits for kept leases.
        drop(self.lease);
    }
}

/// A lease that is extended for as long as this lives.
struct Kept {
    lease: u64,
    handle: Handle,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.handle.tell(Command::Unkeep { lease: self.lease });
    }
}

/// Two round trips' worth at some ten thousand messages per second, few enough to spread well
/// over several consumers.
const CREDIT: u64 = 64;

/// Long enough that a message which always fails does not keep a processor busy.
const RETRY_DELAY: Duration = Duration::from_secs(1);
