//! Everything that can happen to a client, and everything it may ask for in return.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{ProcessId, Receipt, Refusal, RequestFrame, ResponseFrame};

use crate::parcel::Subscription;
use crate::parcel::{Answer, Ask, Confirmed, Delivered, Failure, Parcel, Settle, Settled};

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection that was asked for is up, with its three streams.
    Dialled {
        /// Which one.
        link: u64,
    },
    /// A connection is gone, or could not be made. What was on its way on it may have arrived.
    Lost {
        /// Which one.
        link: u64,
    },
    /// An answer came.
    Frame {
        /// On which connection.
        link: u64,
        /// The answer.
        response: ResponseFrame,
        /// One for each delivery in it.
        contents: Vec<Bytes>,
    },
    /// The application sends. The message leaves with the next [`Event::Tick`] at the earliest, so
    /// that those which come together travel together.
    Send(Parcel),
    /// The application asks.
    Ask(Ask),
    /// The application settles a delivery. Leaves with the next [`Event::Tick`].
    Settle(Settle),
    /// The application wants a stream of deliveries.
    Subscribe(Subscription),
    /// The application has taken so many deliveries of this run of the consumer.
    Taken {
        /// Which consumer.
        consumer: u64,
        /// Which run of it, as told with the deliveries.
        run: u64,
        /// How many in all since the run began.
        taken: u64,
    },
    /// The application wants no more deliveries; answered with [`Effect::Ended`].
    Unsubscribe {
        /// Which consumer.
        consumer: u64,
    },
    /// The application works on a delivery for longer: its lease is to be extended until
    /// [`Event::Unkeep`].
    Keep {
        /// A name for it, never used again.
        lease: u64,
        /// Proof of the delivery.
        receipt: Receipt,
        /// How long the lease still runs.
        remaining: Duration,
        /// What it is extended to each time.
        visibility: Duration,
    },
    /// The work is over.
    Unkeep {
        /// The name.
        lease: u64,
    },
    /// Everything that happened at this moment was told, or a timer may be due.
    Tick,
}

/// On which of a connection's streams something goes. They are apart so that a consumer that
/// does not read holds up neither sends nor deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Everything that is small and urgent.
    Control,
    /// Messages that are sent.
    Sends,
    /// Messages that are received.
    Deliveries,
}

/// Where a connection is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the address of this position among those that the driver was given.
    Seed(usize),
    /// To this address, which the cluster has told.
    Address(SocketAddr),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make a connection; answered with `Dialled` or `Lost`.
    Dial {
        /// Its name.
        link: u64,
        /// Where to.
        target: Target,
    },
    /// Close a connection. Not answered; nothing more is heard of it.
    HangUp {
        /// Which one.
        link: u64,
    },
    /// Send a request.
    Transmit {
        /// On which connection.
        link: u64,
        /// On which stream.
        stream: Stream,
        /// The request.
        frame: RequestFrame,
        /// The contents of its labels.
        contents: Vec<Bytes>,
    },
    /// The first node has said welcome. Said once.
    Connected,
    /// A node does not want this client.
    Rejected(Refusal),
    /// The result of a send.
    Sent {
        /// Whose.
        ticket: u64,
        /// What became of it.
        result: Result<Confirmed, Failure>,
    },
    /// The result of a question.
    Answered {
        /// Whose.
        ticket: u64,
        /// What became of it.
        result: Result<Answer, Failure>,
    },
    /// The result of a settlement.
    Settled {
        /// Whose.
        ticket: u64,
        /// What became of it.
        result: Result<Settled, Failure>,
    },
    /// Deliveries for a consumer.
    Deliver {
        /// Which one.
        consumer: u64,
        /// Which opening of it. With another one than before, what was not taken is void.
        run: u64,
        /// The deliveries.
        deliveries: Vec<Delivered>,
    },
    /// What this consumer has not taken goes to others: sweep it off.
    Sweep {
        /// Which one.
        consumer: u64,
    },
    /// A consumer has ended: by its wish, or for this reason.
    Ended {
        /// Which one.
        consumer: u64,
        /// Why, if it was not its wish.
        reason: Option<Failure>,
    },
    /// A lease could not be extended in time: others may have the message.
    LeaseLost {
        /// Which one; see [`Event::Keep`].
        lease: u64,
    },
    /// From now on stamps are made under this process.
    Renewed(ProcessId),
}
