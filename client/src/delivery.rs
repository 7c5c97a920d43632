//! The delivery: a message in an application's hands, and what may be done with it.
//!
//! Deleting and releasing consume it, so doing either twice does not compile. One that is dropped
//! unsettled is released at once, so that a consumer which fails half-way holds nothing up until
//! the lease ends. What this file does not do: it renews no lease by itself; see
//! [`Consumer::run`](crate::Consumer::run).

use std::time::{Duration, Instant};

use gaggle_client_core::{Delivered, Failure, Settled, Verb};
use gaggle_wire::{Attributes, Message, MessageError, MessageId, Receipt, Stamp};

use crate::command::{Command, Handle};
use crate::error::{DeleteError, ExtendError, ReleaseError};
use crate::lease::Lease;

/// A message that was received, with the right to settle it for as long as its lease runs.
///
/// ```no_run
/// # type Outcome = Result<(), Box<dyn std::error::Error>>;
/// # async fn tour(mut delivery: gaggle_client::Delivery) -> Outcome {
/// use std::time::Duration;
///
/// if delivery.lease_remaining() < Duration::from_secs(10) {
///     delivery.extend(Duration::from_secs(60)).await?;
/// }
/// match String::from_utf8(delivery.body().to_vec()) {
///     Ok(order) => println!("{order}, delivery {}", delivery.delivery_count()),
///     Err(_) => return Ok(delivery.release(Duration::from_secs(5)).await?),
/// }
/// delivery.delete().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a delivery that is dropped is released"]
pub struct Delivery {
    /// `None` once it is settled or taken apart.
    held: Option<(Received, Receipt)>,
    lease_end: Instant,
    lease: Duration,
    handle: Handle,
}

/// What was received: the message and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The message.
    pub message: Message,
    /// Its id.
    pub id: MessageId,
    /// When it was produced.
    pub stamp: Stamp,
    /// When a node accepted it.
    pub accepted: Stamp,
    /// Which delivery of it this is, from 1.
    pub delivery_count: u32,
    /// Whether it is still the receiver's.
    pub lease: Lease,
}

/// How a delete was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// By the present receipt.
    ByReceipt,
    /// By the receipt of an older delivery, so another consumer may have the message too.
    ByOlderReceipt,
}

impl Delivery {
    /// Makes one of what came; refused when the content is not what the label was made for.
    pub(crate) fn unpack(
        delivered: Delivered,
        arrived: Instant,
        handle: Handle,
    ) -> Result<Self, MessageError> {
        let (label, content) = delivered;
        if !label.label.matches(&content) {
            return Err(MessageError::BadHead);
        }
        let message = Message::unpack(&label.label, &content)?;
        let lease = Duration::from_millis(label.lease_ms);
        let received = Received {
            message,
            id: label.label.id(),
            stamp: label.label.stamp,
            accepted: label.accepted,
            delivery_count: label.receipt.delivery,
            lease: Lease::default(),
        };
        let held = Some((received, label.receipt));
        Ok(Self { held, lease_end: arrived + lease, lease, handle })
    }

    fn held(&self) -> &(Received, Receipt) {
        self.held.as_ref().expect("only what consumes a delivery empties it")
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.held().0.message
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.message().body
    }

    /// Its attributes.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.message().attributes
    }

    /// The message and all that is known of it.
    #[must_use]
    pub fn received(&self) -> &Received {
        &self.held().0
    }

    /// Which delivery of the message this is, from 1.
    #[must_use]
    pub fn delivery_count(&self) -> u32 {
        self.held().0.delivery_count
    }

    /// Proof of this delivery.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.held().1
    }

    /// For how much longer the message stays hidden from others.
    #[must_use]
    pub fn lease_remaining(&self) -> Duration {
        self.lease_end.saturating_duration_since(crate::clock::instant())
    }

    /// Whether the lease ended before anything could be done.
    pub(crate) fn is_expired(&self) -> bool {
        !self.lease.is_zero() && self.lease_remaining().is_zero()
    }

    /// How long the lease was when it began or was last extended.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Removes the message for good: it is done.
    ///
    /// # Errors
    /// See [`DeleteError`]. The message may come again when its lease has ended.
    pub async fn delete(mut self) -> Result<Deleted, DeleteError> {
        deleted(self.settle(Verb::Delete).await)
    }

    /// Gives the message back; others get it after `delay`.
    ///
    /// # Errors
    /// See [`ReleaseError`]. The message comes again when its lease has ended.
    #[doc(alias = "nack")]
    pub async fn release(mut self, delay: Duration) -> Result<(), ReleaseError> {
        released(self.settle(Verb::Release(millis(delay))).await)
    }

    /// Hides the message from others for so long, from now.
    ///
    /// # Errors
    /// See [`ExtendError`]; with `StaleReceipt` others may have the message already.
    pub async fn extend(&mut self, visibility: Duration) -> Result<(), ExtendError> {
        let verb = Verb::Extend(millis(visibility));
        let results = self.handle.settle(verb, vec![self.receipt().clone()]).await;
        let lease = extended(only(results))?;
        self.lease_end = crate::clock::instant() + lease;
        self.lease = lease;
        Ok(())
    }

    /// Takes the delivery apart. Whoever holds the receipt settles it from now on: nothing is
    /// released by itself any more.
    #[must_use]
    pub fn into_parts(mut self) -> (Received, Receipt) {
        self.held.take().expect("only what consumes a delivery empties it")
    }

    async fn settle(&mut self, verb: Verb) -> Result<Settled, Failure> {
        let (_, receipt) = self.held.take().expect("only what consumes a delivery empties it");
        only(self.handle.settle(verb, vec![receipt]).await)
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("held", &self.held).finish_non_exhaustive()
    }
}

impl From<Delivery> for Receipt {
    fn from(delivery: Delivery) -> Self {
        delivery.into_parts().1
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some((_, receipt)) = self.held.take() {
            let verb = Verb::Release(0);
            self.handle.tell(Command::Settle { verb, receipts: vec![receipt], done: None });
        }
    }
}

fn only(results: Vec<Result<Settled, Failure>>) -> Result<Settled, Failure> {
    results.into_iter().next().expect("one receipt has one result")
}

pub(crate) fn deleted(result: Result<Settled, Failure>) -> Result<Deleted, DeleteError> {
    match result? {
        Settled::DeletedByOlderReceipt => Ok(Deleted::ByOlderReceipt),
        Settled::Deleted | Settled::Extended(_) | Settled::Released => Ok(Deleted::ByReceipt),
    }
}

pub(crate) fn extended(result: Result<Settled, Failure>) -> Result<Duration, ExtendError> {
    match result? {
        Settled::Extended(ms) => Ok(Duration::from_millis(ms)),
        Settled::Deleted | Settled::DeletedByOlderReceipt | Settled::Released => Ok(Duration::ZERO),
    }
}

pub(crate) fn released(result: Result<Settled, Failure>) -> Result<(), ReleaseError> {
    result?;
    Ok(())
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
