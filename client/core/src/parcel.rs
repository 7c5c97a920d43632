//! What goes in at the front and what comes out there: the words between the pure client and
//! whoever drives it for an application.
//!
//! A caller is known by a ticket, a number that the driver chose; every ticket gets exactly one
//! result. What this file does not do: it holds no state.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{
    DeliveryLabel, Label, MessageId, QueueName, Receipt, Refusal, Request, Response, Stamp,
};

/// A message that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Who gets the result.
    pub ticket: u64,
    /// Where it goes.
    pub queue: Arc<QueueName>,
    /// What its partition follows: the hash of its ordering key, see
    /// [`key_hash`](crate::key_hash), or one that its producer keeps. None: any partition.
    pub key: Option<u64>,
    /// All but number and stamp, which are given in here.
    pub label: Label,
    /// Head and body.
    pub content: Bytes,
    /// How long it may take, from now.
    pub within: Duration,
}

/// That a message is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Its stamp: where it stands in the order of everything.
    pub stamp: Stamp,
    /// Its id.
    pub id: MessageId,
    /// How many nodes have it on disk; 0 when it was delivered and deleted already.
    pub copies: u8,
}

/// A request other than a send, a settlement or a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who gets the result.
    pub ticket: u64,
    /// What is asked.
    pub request: Request,
    /// How long it may take, from now; what a `Receive` waits for messages comes on top.
    pub within: Duration,
}

/// The answer to an [`Ask`], with the contents of its deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Never a refusal.
    pub response: Response,
    /// One for each delivery in it.
    pub contents: Vec<Bytes>,
}

/// What is to become of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// The message is done.
    Delete,
    /// It stays hidden for so many milliseconds from now.
    Extend(u64),
    /// It goes back, and is ready again after so many milliseconds.
    Release(u64),
}

/// A delivery that is to be deleted, extended or released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// Who gets the result.
    pub ticket: u64,
    /// What is to be done.
    pub verb: Verb,
    /// Proof of the delivery.
    pub receipt: Receipt,
    /// How long it may take, from now.
    pub within: Duration,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is deleted.
    Deleted,
    /// It is deleted, by an older delivery's receipt: another consumer may have it too.
    DeletedByOlderReceipt,
    /// It stays hidden for so many milliseconds.
    Extended(u64),
    /// It was given back.
    Released,
}

/// Why there is no result, after all that could be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A node said no. With an outcome that is not [`gaggle_wire::Outcome::Unknown`].
    Refused(Refusal),
    /// No node could be asked in time. Nothing was done.
    TimedOut,
    /// It may have been done.
    Unknown {
        /// The last thing that a node said of it.
        last: Option<Refusal>,
    },
    /// The client was closed before it began.
    Closed,
}

/// A stream of deliveries that an application wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its name, chosen by the driver, never used again.
    pub consumer: u64,
    /// From where.
    pub queue: Arc<QueueName>,
    /// How many deliveries may wait to be taken.
    pub credit: u64,
    /// How long each stays hidden; as the queue says when `None`.
    pub visibility_ms: Option<u64>,
}

/// A delivery with its content.
pub type Delivered = (DeliveryLabel, Bytes);
