//! A node without disk and network, for measuring the core alone.
//!
//! Writes are kept only as far as reads ask for them again: headers in an ordered map. What this
//! crate does not do: it does not simulate; time passes as the events need it.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_core::effect::{Effect, Effects};
use gaggle_core::event::{ClientId, Event, Reply, ScanEnd};
use gaggle_core::ledger::{Row, Write};
use gaggle_core::now::{Mono, Now, Wall};
use gaggle_core::{Config, Node};
use gaggle_wire::{
    Attempt, DeliveryLabel, Label, Message, NodeId, ProcessId, QueueId, QueueName, Receipt,
    Request, Response, Settings, SettingsChange, Stamp,
};

/// A standalone node with one queue of one partition.
#[derive(Debug)]
pub struct Lone {
    node: Node,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    queue: QueueId,
    request: u64,
    label: Label,
    now: Now,
}

impl Lone {
    /// A node that has just started, with its queue.
    ///
    /// # Panics
    /// Never: its settings are valid.
    #[must_use]
    pub fn new() -> Self {
        let address = "127.0.0.1:7400".parse().expect("it is an address");
        let config = Config {
            queue_defaults: Settings::standalone(),
            in_flight_max: usize::MAX,
            ..Config::new(NodeId(1), address, address)
        };
        let node = Node::open(config, NOW, &mut std::iter::empty()).expect("there are no rows");
        let stamp = Stamp { time: 0, count: 0, process: ProcessId(7) };
        let (label, _) = Message::new("x").pack(1, stamp, 0).expect("it is small");
        let queue = QueueId(Stamp::ZERO);
        let rows = BTreeMap::new();
        let mut lone = Self { node, rows, queue, request: 0, label, now: NOW };
        lone.handle(Event::Started);
        let change = SettingsChange { partitions: Some(1), ..SettingsChange::default() };
        let created = lone.ask(Request::CreateQueue { name: name(), change });
        if let Some(Response::Queue(queue)) = created {
            lone.queue = queue.id;
        }
        lone
    }

    /// Sends a batch, numbered from `first`.
    pub fn send(&mut self, first: u64, count: u64) {
        let labels = (first..first + count).map(|number| {
            let stamp = Stamp { time: WALL + number, ..self.label.stamp };
            Label { number, stamp, ..self.label }
        });
        let labels = labels.collect();
        let (queue, partition, attempt) = (self.queue, 0, Attempt::First);
        self.ask(Request::Send { queue, partition, attempt, within_ms: 1000, labels });
    }

    /// Receives up to `max` messages.
    pub fn receive(&mut self, max: u32) -> Vec<DeliveryLabel> {
        let visibility_ms = Some(3_600_000);
        let request = Request::Receive { queue: name(), max, wait_ms: 0, visibility_ms };
        match self.ask(request) {
            Some(Response::Deliveries { deliveries }) => deliveries,
            _ => Vec::new(),
        }
    }

    /// Deletes what was received.
    pub fn delete(&mut self, deliveries: Vec<DeliveryLabel>) {
        let receipts: Vec<Receipt> =
            deliveries.into_iter().map(|delivery| delivery.receipt).collect();
        self.ask(Request::Delete { receipts });
    }

    /// Lets a second pass, with all that is due in it.
    pub fn second(&mut self) {
        let second = Duration::from_secs(1);
        let wall = Wall(self.now.wall.0 + second.as_nanos() as u64);
        self.now = Now { mono: self.now.mono.plus(second), wall };
        self.handle(Event::Wakeup);
    }

    fn ask(&mut self, request: Request) -> Option<Response> {
        self.request += 1;
        let reply = Reply { client: ClientId(1), stream: 0, request: self.request };
        self.handle(Event::Request { reply, request })
    }

    fn handle(&mut self, event: Event) -> Option<Response> {
        let mut effects = Effects::new();
        self.node.handle(self.now, event, &mut effects);
        let mut answer = None;
        for effect in effects.drain().collect::<Vec<_>>() {
            match effect {
                Effect::Write(write) => self.write(write),
                Effect::Load { load, from, to, limit, .. } => {
                    let mut range = self.rows.range(from..to);
                    let row = |(key, value): (&Vec<u8>, &Vec<u8>)| Row {
                        key: key.clone(),
                        value: value.clone(),
                    };
                    let rows: Vec<Row> = range.by_ref().take(limit).map(row).collect();
                    let end = if range.next().is_some() { ScanEnd::More } else { ScanEnd::Reached };
                    let damaged = Vec::new();
                    answer = self.handle(Event::Loaded { load, rows, end, damaged }).or(answer);
                }
                Effect::Answer { response, .. } => answer = Some(response),
                _ => {}
            }
        }
        answer
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Put { key, value } => {
                self.rows.insert(key, value);
            }
            Write::PutMessage { key, header, .. } | Write::PutHeader { key, header } => {
                self.rows.insert(key.encode(), header);
            }
            Write::Delete { key } => {
                self.rows.remove(&key);
            }
            Write::DeleteRange { from, to } => self.rows.retain(|key, _| *key < from || *key >= to),
        }
    }
}

impl Default for Lone {
    fn default() -> Self {
        Self::new()
    }
}

fn name() -> QueueName {
    QueueName::parse("bench").expect("it is a name")
}

/// Some time in 2027, in nanoseconds.
const WALL: u64 = 1_800_000_000_000_000_000;
const NOW: Now = Now { mono: Mono(1_000_000_000), wall: Wall(WALL) };
