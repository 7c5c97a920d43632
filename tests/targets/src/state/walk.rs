//! What may happen to one node, drawn from bytes: requests as clients make them and as nobody
//! would, time, disks, deaths.
//!
//! What this file does not do: what happens between nodes is in `flock.rs`.

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::Unstructured;
use bytes::Bytes;
use gaggle_core::effect::Effect;
use gaggle_core::envelope::{Envelope, PEER_VERSION, PeerHello};
use gaggle_core::event::{ClientId, Event, LinkId, Reply, Surroundings};
use gaggle_core::ledger::MessageKey;
use gaggle_wire::{
    Attempt, Label, NodeId, ProcessId, QueueId, QueueName, Receipt, Request, Response,
    SettingsChange, Stamp,
};

use super::disk::LastCommit;
use super::{EPOCH, House, meeting};
use crate::drawn::Met;

/// What was met and made so far, and the peers of a node that has none.
pub(super) struct Walk {
    pub(super) met: Met,
    queues: Vec<QueueId>,
    receipts: Vec<Receipt>,
    pub(super) links: BTreeMap<LinkId, NodeId>,
    packets: Vec<Bytes>,
    numbers: u64,
    requests: u64,
    /// Kinds of what was said, if anybody wants to know.
    pub(super) kinds: Option<BTreeSet<String>>,
}

impl Walk {
    pub(super) fn new() -> Self {
        Self {
            met: Met::default(),
            queues: Vec::new(),
            receipts: Vec::new(),
            links: BTreeMap::new(),
            packets: meeting(),
            numbers: 0,
            requests: 0,
            kinds: None,
        }
    }

    /// Makes a first queue, or little can happen.
    pub(super) fn queue(&mut self, house: &mut House) {
        let name = QueueName::parse("orders").expect("it is a good name");
        let change = SettingsChange {
            partitions: Some(2),
            confirms: Some(1),
            replicas: Some(2),
            ..SettingsChange::default()
        };
        self.request(house, 0, Request::CreateQueue { name, change });
        house.settle();
        self.hear(house);
    }

    fn request(&mut self, house: &mut House, client: u64, request: Request) {
        self.requests += 1;
        let reply = Reply { client: ClientId(client), stream: 0, request: self.requests };
        house.handle(Event::Request { reply, request });
    }

    /// Something that happens to a node without any other.
    pub(super) fn alone(&mut self, house: &mut House, u: &mut Unstructured<'_>) {
        let client = u.int_in_range(0..=2_u64).unwrap_or(0);
        match u.int_in_range(0..=19_u8).unwrap_or(0) {
            0..=3 => {
                if let Some(request) = self.met.draw::<Request>(u) {
                    self.request(house, client, request);
                }
            }
            4..=5 => self.send(house, u),
            6 => self.receive(house, (client, u)),
            7 => self.delete(house, (client, u)),
            8 => house.begin_commit(),
            9 => house.end_commit(),
            10 => {
                house.answer(None);
            }
            11 => house.settle(),
            12 => {
                house.answer(u.arbitrary::<u8>().ok().map(usize::from));
            }
            13..=14 => {
                house.pass(*u.choose(&[1, 100, 500, 1000, 2500, 11_000]).unwrap_or(&1));
            }
            15 => {
                house.step(*u.choose(&[0, -3_600_000, 400, 3_600_000, i64::MAX, -1]).unwrap_or(&0));
            }
            16 => {
                house.crash(if client == 0 { LastCommit::Lost } else { LastCommit::Made });
                self.links.clear();
            }
            17 => {
                let client = ClientId(client);
                house.handle(Event::ClientClosed(client));
                house.handle(Event::ClientOpened(client));
            }
            18 => {
                if let Ok(Receipt { queue, partition, stamp, .. }) = u.choose(&self.receipts) {
                    let (queue, partition, stamp) = (*queue, *partition, *stamp);
                    let key = MessageKey { queue, partition, stamp };
                    house.handle(Event::BodyLost { key, missed: None });
                }
            }
            _ => self.rare(house, u),
        }
    }

    fn rare(&mut self, house: &mut House, u: &mut Unstructured<'_>) {
        match u.int_in_range(0..=5_u8).unwrap_or(0) {
            0 => house.handle(Event::Drain),
            1 => house.pass(u.arbitrary::<u32>().unwrap_or(0).into()),
            _ => {
                let measured = Surroundings {
                    commit_running_ms: u.int_in_range(0..=6000).unwrap_or(0),
                    commit_p99_ms: u.int_in_range(0..=300).unwrap_or(0),
                    ..Surroundings::default()
                };
                house.handle(Event::Measured(measured));
            }
        }
    }

    /// A send as the SDK makes it.
    fn send(&mut self, house: &mut House, u: &mut Unstructured<'_>) {
        let Ok(queue) = u.choose(&self.queues).copied() else { return };
        let again = u.ratio(1, 4_u8).unwrap_or(false) && self.numbers > 0;
        let first =
            if again { u.int_in_range(1..=self.numbers).unwrap_or(1) } else { self.numbers + 1 };
        let count = u.int_in_range(1..=3_u64).unwrap_or(1);
        let delay_ms = if u.ratio(1, 8_u8).unwrap_or(false) { 700 } else { 0 };
        let labels: Vec<Label> = (first..first + count).map(|n| label(n, delay_ms)).collect();
        self.numbers = self.numbers.max(first + count - 1);
        for label in &labels {
            self.met.add("Label", label);
            self.met.add("Stamp", &label.stamp);
        }
        let request = Request::Send {
            queue,
            partition: u.int_in_range(0..=1).unwrap_or(0),
            attempt: if again { Attempt::Again } else { Attempt::First },
            within_ms: 1000,
            labels,
        };
        self.request(house, 0, request);
    }

    fn receive(&mut self, house: &mut House, (client, u): (u64, &mut Unstructured<'_>)) {
        let queue = QueueName::parse("orders").expect("it is a good name");
        let request = if u.arbitrary().unwrap_or(false) {
            Request::Receive { queue, max: 2, wait_ms: 500, visibility_ms: Some(700) }
        } else {
            Request::Consume { queue, visibility_ms: Some(900), credit: 3 }
        };
        self.request(house, client, request);
    }

    fn delete(&mut self, house: &mut House, (client, u): (u64, &mut Unstructured<'_>)) {
        let Ok(receipt) = u.choose(&self.receipts) else { return };
        let receipts = vec![receipt.clone()];
        let request = match u.int_in_range(0..=3_u8).unwrap_or(0) {
            0 => Request::Extend { receipts, visibility_ms: 800 },
            1 => Request::Release { receipts, delay_ms: 100 },
            _ => Request::Delete { receipts },
        };
        self.request(house, client, request);
    }

    /// Takes up what was said, for what can be said later.
    pub(super) fn hear(&mut self, house: &mut House) {
        for word in std::mem::take(&mut house.words) {
            self.learn(&word);
        }
    }

    pub(super) fn learn(&mut self, word: &Effect) {
        if let Some(kinds) = &mut self.kinds {
            kinds.insert(kind(word));
        }
        match word {
            Effect::Answer { response: Response::Queue(queue), .. } => {
                if !self.queues.contains(&queue.id) {
                    self.queues.push(queue.id);
                }
                self.met.add("QueueId", &queue.id);
                self.met.add("Stamp", &queue.id.0);
            }
            Effect::Answer { response: Response::Deliveries { deliveries }, .. } => {
                for delivery in deliveries {
                    self.met.add("Receipt", &delivery.receipt);
                    self.met.add("DeliveryLabel", delivery);
                    self.receipts.push(delivery.receipt.clone());
                }
            }
            Effect::Send { envelope: Envelope::Table { entries, .. }, .. } => {
                for entry in entries {
                    self.met.add("Entry", entry);
                }
            }
            Effect::CloseLink(link) => {
                self.links.remove(link);
            }
            _ => {}
        }
    }

    pub(super) fn link(&mut self, u: &mut Unstructured<'_>) -> LinkId {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        u.choose(&links).copied().unwrap_or(LinkId(0))
    }

    pub(super) fn link_up(&mut self, house: &mut House, u: &mut Unstructured<'_>) {
        let odd = u.ratio(1, 4_u8).unwrap_or(false);
        let drawn = if odd { self.met.draw::<PeerHello>(u) } else { None };
        let node = NodeId(u.int_in_range(2..=4).unwrap_or(2));
        let hello = drawn.unwrap_or_else(|| PeerHello {
            version: PEER_VERSION,
            node,
            boot: u.int_in_range(1..=3).unwrap_or(1),
            store: 7,
            process: ProcessId(u.int_in_range(1..=2).unwrap_or(1)),
            commits: u.int_in_range(0..=3).unwrap_or(0),
            peer_address: ([127, 0, 0, 1], 7402).into(),
            client_address: ([127, 0, 0, 1], 8402).into(),
            zone: String::new(),
            space: gaggle_core::Space::Plenty,
        });
        self.requests += 1;
        let link = LinkId(self.requests);
        self.links.insert(link, hello.node);
        house.handle(Event::LinkUp { link, hello: Box::new(hello) });
    }

    pub(super) fn gossip(&mut self, house: &mut House, u: &mut Unstructured<'_>) {
        let Ok(packet) = u.choose(&self.packets) else { return };
        let mut packet = packet.to_vec();
        if u.arbitrary().unwrap_or(false) {
            let at = u.choose_index(packet.len()).unwrap_or(0);
            packet[at] ^= u.arbitrary::<u8>().unwrap_or(0);
        }
        house.handle(Event::Gossip { from: NodeId(2), packet: packet.into() });
    }
}

/// The names of the variants that a word is made of.
fn kind(word: &Effect) -> String {
    let text = match word {
        Effect::Answer { response: Response::Refused(refusal), .. } => format!("{refusal:?}"),
        Effect::Answer { response, .. } => format!("{response:?}"),
        Effect::Send { envelope, .. } | Effect::SendNow { envelope, .. } => format!("{envelope:?}"),
        other => format!("{other:?}"),
    };
    text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn label(number: u64, delay_ms: u64) -> Label {
    let stamp = Stamp { time: EPOCH + number, count: 0, process: ProcessId(70) };
    Label { number, stamp, head_length: 0, body_length: 1, crc: 7, delay_ms, key: 0 }
}
