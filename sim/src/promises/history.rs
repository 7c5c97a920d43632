//! Histories for the tests of watchers: what clients ask and hear, and what the world sees, said
//! step by step; all watchers look on.
//!
//! One queue with two copies per message, node 1 (at place 0) as custodian of everything, clients
//! by number. What this file does not do: it runs no node.

mod hosts;

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{
    Attempt, DeleteResult, DeliveryLabel, Label, Message, Order, ProcessId, QueueDescription,
    QueueId, QueueName, Receipt, Refusal, Request, Response, SendException, SentBatch, Settings,
    Stamp,
};

use crate::judge::{Judge, Subject, Witness};
use crate::options::node_id;
use crate::oracle::{Answer, Fact, Place};

/// A client, by number.
pub(super) type Client = usize;
pub(super) const A: Client = 1;
pub(super) const B: Client = 2;

/// How long a delivery is hidden.
pub(super) const LEASE_MS: u64 = 10_000;
const PRODUCER: ProcessId = ProcessId(9);

pub(super) struct History {
    judge: Judge,
    now: u64,
    requests: u64,
    boot: u64,
    custodian: usize,
    accepted: u64,
    at_least: u8,
    witness: Witness,
    /// Whether it was said who has the tombstone. If not, it is who has the message.
    order: Order,
    buried_said: bool,
    /// On which of its connections a client asks.
    line: u64,
    /// When the next answer was given, if that is not now.
    handed_at: Option<u64>,
    /// Requests that wait for their answer, and streams, by client.
    sends: BTreeMap<(Client, u64), u64>,
    streams: BTreeMap<Client, u64>,
    receipts: BTreeMap<(Client, u64), Receipt>,
}

impl History {
    /// Nothing has failed for long.
    pub(super) fn fair() -> Self {
        Self::of_queue(2)
    }

    /// The same, with a queue that asks for at least so many copies.
    pub(super) fn of_queue(at_least: u8) -> Self {
        let mut history = Self {
            judge: Judge::default(),
            now: 1_000 * MS,
            requests: 0,
            boot: 1,
            custodian: 0,
            accepted: 0,
            at_least,
            witness: Witness {
                up: BTreeSet::from([0, 1, 2]),
                holders: BTreeSet::from([0, 1, 2]),
                ..Witness::default()
            },
            order: Order::BestEffort,
            buried_said: false,
            line: 0,
            handed_at: None,
            sends: BTreeMap::new(),
            streams: BTreeMap::new(),
            receipts: BTreeMap::new(),
        };
        history.describes();
        history
    }

    /// The queue is a strict one.
    pub(super) fn strict(&mut self) -> &mut Self {
        self.order = Order::Strict;
        self.describes()
    }

    /// A node says that the queue is there.
    pub(super) fn describes(&mut self) -> &mut Self {
        let visibility_timeout_ms = LEASE_MS;
        let at_least = self.at_least;
        let order = self.order;
        let settings = Settings { at_least, visibility_timeout_ms, order, ..Settings::default() };
        let queue = QueueDescription { id: queue(), name: name(), settings };
        self.hears(A, 0, &Response::Queue(Box::new(queue)))
    }

    pub(super) fn purges(&mut self) -> &mut Self {
        let asked = self.asks(A, &Request::PurgeQueue { name: name() });
        self.hears(A, asked, &Response::Done)
    }

    pub(super) fn deletes_queue(&mut self) -> &mut Self {
        let asked = self.asks(A, &Request::DeleteQueue { name: name() });
        self.hears(A, asked, &Response::Done)
    }

    /// The queue is created while the deletion of one of its name is under way.
    pub(super) fn created_in_a_delete(said: &Response) -> Self {
        let mut history = Self::fair();
        history.judge = Judge::default();
        let asked = history.asks(A, &Request::DeleteQueue { name: name() });
        history.describes().hears(A, asked, said);
        history
    }

    /// A purge is asked for, and nobody answers.
    pub(super) fn asks_purge(&mut self) -> &mut Self {
        self.asks(A, &Request::PurgeQueue { name: name() });
        self
    }

    /// The world looks whether anybody waits.
    pub(super) fn looks(&mut self) -> &mut Self {
        self.fact(&Fact::Later)
    }

    pub(super) fn removes(&mut self, at: usize, number: u64) -> &mut Self {
        self.fact(&Fact::Removed { at, name: (queue(), 0, PRODUCER, number) })
    }

    pub(super) fn after_ms(&mut self, ms: u64) -> &mut Self {
        self.now += ms * MS;
        self
    }

    /// Something fails now.
    pub(super) fn disturbed(&mut self) -> &mut Self {
        self.judge.weather.disturb();
        self
    }

    pub(super) fn troubles(&mut self, a: usize, b: usize) -> &mut Self {
        self.judge.weather.trouble(self.now, a, b);
        self
    }

    /// Its custodian is another run from now on.
    pub(super) fn restarts(&mut self) -> &mut Self {
        self.boot += 1;
        self
    }

    /// From now on another node hands out, and answers.
    pub(super) fn by(&mut self, at: usize) -> &mut Self {
        self.custodian = at;
        self
    }

    /// The weather is fair again.
    pub(super) fn recovers(&mut self) -> &mut Self {
        for now in [self.now, self.now + 3000 * MS] {
            self.judge.weather.looks(now, true);
        }
        self
    }

    /// The custodian is about to hand a message out.
    pub(super) fn hands_out(&mut self, number: u64) -> &mut Self {
        let name = (queue(), 0, PRODUCER, number);
        self.fact(&Fact::HandedOut { name, by: node_id(self.custodian) })
    }

    pub(super) fn sends(&mut self, client: Client, number: u64) -> &mut Self {
        self.sends_label(client, label(number))
    }

    /// Its stamp has this time.
    pub(super) fn sends_at(&mut self, client: Client, number: u64, time: u64) -> &mut Self {
        let mut label = label(number);
        label.stamp.time = time;
        self.sends_label(client, label)
    }

    fn sends_label(&mut self, client: Client, label: Label) -> &mut Self {
        let (queue, attempt, within_ms) = (queue(), Attempt::Again, 10_000);
        let number = label.number;
        let labels = vec![label];
        let request = Request::Send { queue, partition: 0, attempt, within_ms, labels };
        let asked = self.asks(client, &request);
        self.sends.insert((client, number), asked);
        self
    }

    /// The next confirm has this stamp.
    pub(super) fn accepted_at(&mut self, time: u64) -> &mut Self {
        self.accepted = time - 1;
        self
    }

    pub(super) fn confirms(&mut self, client: Client, number: u64, copies: u8) -> &mut Self {
        self.accepted += 1;
        self.sent(client, number, copies, Vec::new())
    }

    /// The coordinator has counted enough hosts of what is confirmed next: what says so is still to
    /// be handed over.
    pub(super) fn counts(&mut self) -> &mut Self {
        let accepted = Stamp { time: self.accepted + 1, count: 0, process: ProcessId(1) };
        self.judge.oracle.counts(self.now, accepted);
        self
    }

    pub(super) fn hears_gone(&mut self, client: Client, number: u64) -> &mut Self {
        self.accepted += 1;
        self.sent(client, number, 2, vec![(0, SendException::Gone)])
    }

    pub(super) fn refuses_send(&mut self, client: Client, number: u64, no: Refusal) -> &mut Self {
        let asked = self.sends[&(client, number)];
        self.hears(client, asked, &Response::Refused(no))
    }

    fn sent(
        &mut self,
        client: Client,
        number: u64,
        copies: u8,
        exceptions: Vec<(u32, SendException)>,
    ) -> &mut Self {
        let asked = self.sends[&(client, number)];
        let accepted = Stamp { time: self.accepted, count: 0, process: ProcessId(1) };
        self.hears(client, asked, &Response::Sent(SentBatch { accepted, copies, exceptions }))
    }

    pub(super) fn consumes(&mut self, client: Client) -> &mut Self {
        let queue = name();
        let request = Request::Consume { queue, visibility_ms: None, credit: 100 };
        let asked = self.asks(client, &request);
        self.streams.insert(client, asked);
        self
    }

    pub(super) fn takes(&mut self, client: Client, taken: u64) -> &mut Self {
        let consumer = self.streams[&client];
        self.asks(client, &Request::Credit { consumer, limit: 100 + taken, taken });
        self
    }

    pub(super) fn stops(&mut self, client: Client, taken: u64) -> &mut Self {
        let consumer = self.streams[&client];
        self.asks(client, &Request::StopConsume { consumer, taken });
        self
    }

    /// From now on clients ask on other connections.
    pub(super) fn reconnects(&mut self) -> &mut Self {
        self.line += 1;
        self
    }

    /// A client hears that the connection before its present one has ended.
    pub(super) fn loses_older_connection(&mut self, client: Client) -> &mut Self {
        let place = self.place(client);
        self.judge.lost(self.now, Place { line: place.line - 1, ..place });
        self
    }

    /// Nothing comes through any more between a client and the custodian.
    pub(super) fn cut(&mut self, client: Client) -> &mut Self {
        self.judge.oracle.cut(self.now, (client, self.custodian));
        self
    }

    pub(super) fn loses_connection(&mut self, client: Client) -> &mut Self {
        self.judge.lost(self.now, self.place(client));
        self
    }

    /// The next answer was on its way for so long.
    pub(super) fn held_for_ms(&mut self, ms: u64) -> &mut Self {
        self.handed_at = Some(self.now - ms * MS);
        self
    }

    pub(super) fn delivers(&mut self, client: Client, number: u64) -> &mut Self {
        self.delivers_changed(client, number, |_| {})
    }

    pub(super) fn delivers_changed(
        &mut self,
        client: Client,
        number: u64,
        change: impl FnOnce(&mut Label),
    ) -> &mut Self {
        let mut delivery = self.delivery(number);
        self.receipts.insert((client, number), delivery.receipt.clone());
        change(&mut delivery.label);
        let asked = self.streams.get(&client).copied().unwrap_or(0);
        self.hears(client, asked, &Response::Deliveries { deliveries: vec![delivery] })
    }

    /// The custodian gives a message: what says so is still to be handed over.
    pub(super) fn gives(&mut self, number: u64) -> &mut Self {
        let delivery = self.delivery(number);
        self.judge.oracle.gives(self.now, &delivery);
        self
    }

    /// A node hands a message to somebody whom it does not reach.
    pub(super) fn hands(&mut self, number: u64) -> &mut Self {
        let deliveries = vec![self.delivery(number)];
        self.judge.oracle.handed(self.now, &Response::Deliveries { deliveries });
        self
    }

    fn delivery(&self, number: u64) -> DeliveryLabel {
        let label = label(number);
        let receipt = Receipt {
            queue: queue(),
            partition: 0,
            number,
            stamp: label.stamp,
            holders: vec![node_id(0), node_id(1)],
            custodian: node_id(self.custodian),
            boot: self.boot,
            delivery: 1,
        };
        DeliveryLabel { receipt, label, accepted: label.stamp, lease_ms: LEASE_MS, position: None }
    }

    /// Many deliveries, beginning with this one, none of which was seen before.
    pub(super) fn delivers_many(&mut self, client: Client, count: u64, first: u64) -> &mut Self {
        for number in first..first + count {
            self.sends(client, number).delivers(client, number);
        }
        self
    }

    pub(super) fn asks_delete(&mut self, client: Client, number: u64) -> &mut Self {
        let receipts = vec![self.receipts[&(client, number)].clone()];
        self.asks(client, &Request::Delete { receipts });
        self
    }

    pub(super) fn deletes(&mut self, client: Client, number: u64) -> &mut Self {
        self.asks_delete(client, number).hears_deleted(client)
    }

    /// The answer to what was asked last.
    pub(super) fn hears_deleted(&mut self, client: Client) -> &mut Self {
        let (asked, witness) = (self.requests, self.witness.clone());
        if !self.buried_said {
            self.witness.buried = witness.holders.clone();
        }
        self.hears(client, asked, &Response::Deleted(vec![DeleteResult::Deleted]));
        self.witness = witness;
        self
    }

    pub(super) fn refuses_delete(&mut self, client: Client, number: u64, no: Refusal) -> &mut Self {
        self.asks_delete(client, number);
        let asked = self.requests;
        self.hears(client, asked, &Response::Deleted(vec![DeleteResult::Refused(no)]))
    }

    pub(super) fn releases(&mut self, client: Client, number: u64) -> &mut Self {
        let receipts = vec![self.receipts[&(client, number)].clone()];
        self.asks(client, &Request::Release { receipts, delay_ms: 0 });
        self
    }

    pub(super) fn extends(&mut self, client: Client, number: u64, ms: u64) -> &mut Self {
        let receipts = vec![self.receipts[&(client, number)].clone()];
        let asked = self.asks(client, &Request::Extend { receipts, visibility_ms: ms });
        self.hears(client, asked, &Response::Extended(vec![Ok(ms)]))
    }

    pub(super) fn ends(&mut self) -> &mut Self {
        self.fact(&Fact::Over)
    }

    pub(super) fn fact(&mut self, fact: &Fact) -> &mut Self {
        let witness = &self.witness;
        self.judge.judge(self.now, fact, &|_: &Subject| witness.clone());
        self
    }

    /// This promise is broken, once, and no other one.
    pub(super) fn breaks(&self, promise: u8) {
        let broken: Vec<u8> = self.judge.violations().iter().map(|v| v.promise).collect();
        assert_eq!(broken, [promise], "{:?}", self.judge.violations());
    }

    pub(super) fn breaks_nothing(&self) {
        assert_eq!(self.judge.violations(), []);
    }

    fn place(&self, client: Client) -> Place {
        Place { actor: client, node: self.custodian, line: self.line }
    }

    fn asks(&mut self, client: Client, request: &Request) -> u64 {
        self.requests += 1;
        self.judge.asks(self.now, self.place(client), self.requests, request);
        self.requests
    }

    fn hears(&mut self, client: Client, number: u64, response: &Response) -> &mut Self {
        let place = self.place(client);
        let witness = &self.witness;
        let at = self.handed_at.take().unwrap_or(self.now);
        let answer = Answer { place, number, at, response };
        self.judge.hears(self.now, &answer, &|_| witness.clone());
        self
    }
}

fn queue() -> QueueId {
    QueueId(Stamp { time: 1, count: 0, process: ProcessId(1) })
}

fn name() -> QueueName {
    QueueName::parse("q").unwrap()
}

fn label(number: u64) -> Label {
    let stamp = Stamp { time: 1_000 + number, count: 0, process: PRODUCER };
    Message::new(format!("{number}")).pack(number, stamp, 0).unwrap().0
}

const MS: u64 = 1_000_000;
