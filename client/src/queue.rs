//! The handle on one queue: send, receive, peek; the way to its producers and consumers.
//!
//! It costs nothing to make and asks nothing: the name is resolved when it is first used, and
//! again when the queue turns out to have been deleted and made anew.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle_client_core::{Answer, Confirmed};
use gaggle_wire::{AttributeValue, QueueName, RECEIVE_MAX, Request, Response};

use crate::command::{Command, Handle};
use crate::consumer::ConsumerBuilder;
use crate::delivery::{Delivery, Received, millis};
use crate::error::{ReceiveError, SendError};
use crate::outgoing::Outgoing;
use crate::producer::Producer;

/// A queue, by name.
///
/// ```no_run
/// # async fn tour(orders: gaggle_client::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// orders.send("one flat white").key("table-7").await?;
/// for delivery in orders.receive(10, Duration::from_secs(20)).await? {
///     println!("{}", String::from_utf8_lossy(delivery.body()));
///     delivery.delete().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Queue {
    name: Arc<QueueName>,
    handle: Handle,
}

impl Queue {
    pub(crate) fn new(name: QueueName, handle: Handle) -> Self {
        Self { name: Arc::new(name), handle }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// Sends a message when awaited; it is confirmed once its copies are safe. Before that, key,
    /// attributes, delay and time limit can be added.
    pub fn send(&self, message: impl Into<Outgoing>) -> SendCall {
        SendCall { queue: self.clone(), outgoing: message.into() }
    }

    /// A producer, for many sends under way at once.
    #[must_use]
    pub fn producer(&self) -> Producer {
        Producer::new(Arc::clone(&self.name), self.handle.clone())
    }

    /// Receives up to `max` messages (1,000 at most), waiting for so long until there is one.
    ///
    /// # Errors
    /// See [`ReceiveError`]. No messages within `wait` are an empty list and no error.
    pub async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>, ReceiveError> {
        self.receive_for(max, wait, None).await
    }

    /// As [`Queue::receive`], with a visibility timeout other than the queue's.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn receive_for(
        &self,
        max: usize,
        wait: Duration,
        visibility: Option<Duration>,
    ) -> Result<Vec<Delivery>, ReceiveError> {
        let request = Request::Receive {
            queue: QueueName::clone(&self.name),
            max: bounded(max),
            wait_ms: millis(wait),
            visibility_ms: visibility.map(millis),
        };
        let answer = self.handle.receive(request).await?;
        Ok(self.deliveries(answer))
    }

    /// Looks at the first ready messages, `max` at most, without receiving them.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn peek(&self, max: usize) -> Result<Vec<Received>, ReceiveError> {
        let queue = QueueName::clone(&self.name);
        let answer = self.handle.ask(Request::Peek { queue, max: bounded(max) }).await?;
        // Taken apart, so that nothing is released: nothing was received.
        Ok(self.deliveries(answer).into_iter().map(|peeked| peeked.into_parts().0).collect())
    }

    /// A stream of deliveries, once it is opened.
    pub fn consumer(&self) -> ConsumerBuilder {
        ConsumerBuilder::new(Arc::clone(&self.name), self.handle.clone())
    }

    /// What came, but for what was damaged on its way: that comes again.
    fn deliveries(&self, answer: Answer) -> Vec<Delivery> {
        let Answer { response: Response::Deliveries { deliveries }, contents } = answer else {
            return Vec::new();
        };
        let now = crate::clock::instant();
        let unpack = |delivered| match Delivery::unpack(delivered, now, self.handle.clone()) {
            Ok(delivery) => Some(delivery),
            Err(error) => {
                tracing::error!(%error, "a damaged delivery is skipped");
                None
            }
        };
        deliveries.into_iter().zip(contents).filter_map(unpack).collect()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.name).finish()
    }
}

/// A send that happens when it is awaited.
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct SendCall {
    queue: Queue,
    outgoing: Outgoing,
}

impl SendCall {
    /// See [`Outgoing::key`].
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.outgoing = self.outgoing.key(key);
        self
    }

    /// See [`Outgoing::attribute`].
    pub fn attribute(mut self, key: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        self.outgoing = self.outgoing.attribute(key, value);
        self
    }

    /// See [`Outgoing::delay`].
    pub fn delay(mut self, delay: Duration) -> Self {
        self.outgoing = self.outgoing.delay(delay);
        self
    }

    /// See [`Outgoing::within`].
    pub fn within(mut self, within: Duration) -> Self {
        self.outgoing = self.outgoing.within(within);
        self
    }

    async fn run(self) -> Result<Confirmed, SendError> {
        let Queue { name, handle } = self.queue;
        let (posted, waiting) = handle.post(&name, &self.outgoing, None, None).await?;
        handle.tell(Command::Send(vec![posted]));
        Ok(waiting.await.map_err(|_| SendError::Closed)??)
    }
}

impl IntoFuture for SendCall {
    type Output = Result<Confirmed, SendError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

fn bounded(max: usize) -> u32 {
    u32::try_from(max.clamp(1, RECEIVE_MAX)).expect("at most 1,000")
}
