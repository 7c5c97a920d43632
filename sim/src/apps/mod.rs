//! Applications: what runs on top of a simulated client, through the handle that a real one has.
//!
//! An application says what it wants and hears what became of it; numbers, stamps, connections and
//! attempts are the client's. What this file does not do: it judges nothing; the oracle hears what
//! applications are told.

pub(crate) mod consumer;
pub(crate) mod producer;
mod work;

use std::sync::Arc;
use std::time::Duration;

use gaggle_client_core::{
    Answer, Ask, Confirmed, Event, Failure, Parcel, Settle, Settled, Subscription, Verb, key_hash,
};
use gaggle_wire::{DeliveryLabel, Message, QueueName, Receipt, Request, Stamp};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::judge::Judge;
use crate::options::Span;
use consumer::Consumer;
use producer::Producer;

/// What runs on top of a client.
#[derive(Debug)]
pub(crate) enum App {
    /// Sends.
    Producer(Producer),
    /// Receives and settles.
    Consumer(Consumer),
}

/// What an application has of its client, and of the world.
pub(crate) struct Handle<'a> {
    pub(crate) actor: usize,
    pub(crate) now: u64,
    pub(crate) rng: &'a mut Pcg64Mcg,
    pub(crate) judge: &'a mut Judge,
    pub(crate) last_name: &'a mut u64,
    /// What it says to the client.
    pub(crate) said: &'a mut Vec<Event>,
}

impl Handle<'_> {
    fn name(&mut self) -> u64 {
        *self.last_name += 1;
        *self.last_name
    }

    /// Sends a message of which nothing is alike; its ticket.
    pub(crate) fn send(&mut self, queue: &Arc<QueueName>, how: Shipment) -> u64 {
        let ticket = self.name();
        let Shipment { key, within, delay_ms } = how;
        let body = format!("{}-{ticket}", self.actor);
        let (mut label, content) =
            Message::new(body).pack(0, Stamp::ZERO, delay_ms).expect("it is small");
        let due = self.now + within;
        self.judge.ships((self.actor, ticket), &content, (self.now, due));
        let key = key.map(|key| key_hash(&key.to_be_bytes()));
        label.key = key.unwrap_or(0);
        let (queue, within) = (Arc::clone(queue), Duration::from_nanos(within));
        self.said.push(Event::Send(Parcel { ticket, queue, key, label, content, within }));
        ticket
    }

    /// Asks something; its ticket.
    pub(crate) fn ask(&mut self, request: Request) -> u64 {
        let ticket = self.name();
        self.said.push(Event::Ask(Ask { ticket, request, within: REQUEST_TIMEOUT }));
        ticket
    }

    /// Settles a delivery; the ticket.
    pub(crate) fn settle(&mut self, verb: Verb, receipt: Receipt) -> u64 {
        let ticket = self.name();
        let due = self.now + REQUEST_TIMEOUT_NS;
        self.judge.settles((self.actor, ticket), &receipt, due);
        self.said.push(Event::Settle(Settle { ticket, verb, receipt, within: REQUEST_TIMEOUT }));
        ticket
    }

    /// Opens a stream of deliveries; its name.
    pub(crate) fn subscribe(
        &mut self,
        queue: &Arc<QueueName>,
        (credit, visibility_ms): (u64, Option<u64>),
    ) -> u64 {
        let consumer = self.name();
        let queue = Arc::clone(queue);
        let subscription = Subscription { consumer, queue, credit, visibility_ms };
        self.said.push(Event::Subscribe(subscription));
        consumer
    }

    /// Tells how many deliveries of a run were taken.
    pub(crate) fn taken(&mut self, consumer: u64, (run, taken): (u64, u64)) {
        self.said.push(Event::Taken { consumer, run, taken });
    }

    /// Has a lease extended until [`Handle::unkeep`]; a name for that.
    pub(crate) fn keep(&mut self, receipt: Receipt, remaining: Duration, lease: Duration) -> u64 {
        let name = self.name();
        let visibility = lease;
        self.said.push(Event::Keep { lease: name, receipt, remaining, visibility });
        name
    }

    pub(crate) fn unkeep(&mut self, lease: u64) {
        self.said.push(Event::Unkeep { lease });
    }

    /// A number within the span.
    pub(crate) fn within(&mut self, (low, high): Span) -> u64 {
        self.rng.random_range(low..=high)
    }

    /// Whether something with this chance in a thousand happens now.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.random_range(0..1000) < per_mille
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shipment {
    /// Its ordering key.
    pub(crate) key: Option<u64>,
    /// How long it may take, in nanoseconds.
    pub(crate) within: u64,
    /// How long it is not handed out.
    pub(crate) delay_ms: u64,
}

impl App {
    /// The one that takes its place when it dies.
    pub(crate) fn successor(&self, now: u64) -> Self {
        match self {
            Self::Producer(producer) => Self::Producer(producer.successor(now)),
            Self::Consumer(consumer) => Self::Consumer(Consumer::new(consumer.habits.clone(), now)),
        }
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, handle: &mut Handle<'_>) {
        match self {
            Self::Producer(producer) => producer.wake(handle),
            Self::Consumer(consumer) => consumer.wake(handle),
        }
    }

    /// When something is due next.
    pub(crate) fn next_wakeup(&self) -> Option<u64> {
        match self {
            Self::Producer(producer) => producer.next_wakeup(),
            Self::Consumer(consumer) => consumer.next_wakeup(),
        }
    }

    pub(crate) fn sent(
        &mut self,
        ticket: u64,
        _: &Result<Confirmed, Failure>,
        handle: &mut Handle<'_>,
    ) {
        match self {
            Self::Producer(producer) => producer.sent(ticket, handle),
            Self::Consumer(_) => unreachable!("it sends nothing"),
        }
    }

    pub(crate) fn answered(
        &mut self,
        ticket: u64,
        result: Result<Answer, Failure>,
        handle: &mut Handle<'_>,
    ) {
        match self {
            Self::Producer(_) => unreachable!("it asks nothing"),
            Self::Consumer(consumer) => consumer.answered(ticket, result, handle),
        }
    }

    pub(crate) fn settled(
        &mut self,
        ticket: u64,
        _: &Result<Settled, Failure>,
        handle: &mut Handle<'_>,
    ) {
        match self {
            Self::Producer(_) => unreachable!("it settles nothing"),
            Self::Consumer(consumer) => consumer.settled(ticket, handle),
        }
    }

    pub(crate) fn delivered(
        &mut self,
        from: (u64, u64),
        deliveries: Vec<DeliveryLabel>,
        handle: &mut Handle<'_>,
    ) {
        if let Self::Consumer(consumer) = self {
            consumer.delivered(from, deliveries, handle);
        }
    }

    pub(crate) fn swept(&mut self) {
        if let Self::Consumer(consumer) = self {
            consumer.swept();
        }
    }

    pub(crate) fn ended(&mut self, _: u64, _: Option<&Failure>, handle: &mut Handle<'_>) {
        if let Self::Consumer(consumer) = self {
            consumer.ended(handle);
        }
    }
}

/// As the client has it by default for what is no send.
const REQUEST_TIMEOUT: Duration = Duration::from_nanos(REQUEST_TIMEOUT_NS);
const REQUEST_TIMEOUT_NS: u64 = 10_000_000_000;
