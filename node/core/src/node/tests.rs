//! One node alone, event by event: whole lists of effects. Clusters are the simulator's.

mod counts;
mod deleting;
mod faults;
mod figures;
mod forgetting;
mod giving;
mod hostile;
mod joining;
mod leaving;
mod limits;
mod making_up;
mod many_queues;
mod oldest;
mod parts;
mod passing;
mod putting_back;
mod repair;
mod resending;
mod rows;
mod sessions;
mod space;
mod strict;
mod tables;
mod unseen;

use std::collections::BTreeSet;

use gaggle_wire::{
    Attempt, DeleteResult, DeliveryLabel, Label, Message, ProcessId, QueueName, Receipt, Request,
    Response, SentBatch, Settings, SettingsChange,
};

use super::*;
use crate::custody::burial::BlockRecord;
use crate::event::{ClientId, LoadId, Reply, ScanEnd};
use crate::ledger::{MessageKey, MessageRecord, Row};
use crate::now::Wall;

const ME: NodeId = NodeId(1);
const PRODUCER: ProcessId = ProcessId(77);

/// A node alone, with its disk.
struct Bench {
    node: Node,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Messages whose contents are damaged.
    rotten: BTreeSet<MessageKey>,
    at_ms: u64,
    /// How far its wall clock was set ahead, or back.
    wall_off_ms: i64,
    request: u64,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self::open(BTreeMap::new(), 0);
        bench.handle(Event::Started);
        bench
    }

    fn open(rows: BTreeMap<Vec<u8>, Vec<u8>>, at_ms: u64) -> Self {
        let address = "127.0.0.1:7400".parse().unwrap();
        let config = Config {
            queue_defaults: Settings::standalone(),
            strict_queues: true,
            ..Config::new(ME, address, address)
        };
        let mut read =
            rows.iter().map(|(key, value)| Row { key: key.clone(), value: value.clone() });
        let node = Node::open(config, at(at_ms), &mut read).unwrap();
        Self::with(node, rows, at_ms)
    }

    fn with(node: Node, rows: BTreeMap<Vec<u8>, Vec<u8>>, at_ms: u64) -> Self {
        Self { node, rows, rotten: BTreeSet::new(), at_ms, wall_off_ms: 0, request: 0 }
    }

    /// Handles an event, keeps its writes, and answers its reads until there are none. How far the
    /// disk has come then is left out of what is told.
    fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Effects::new();
        self.node.handle(self.now(), event, &mut effects);
        self.node.check();
        let mut seen = Vec::new();
        for effect in effects.drain().collect::<Vec<_>>() {
            match &effect {
                Effect::Write(write) => {
                    self.write(write.clone());
                    if matches!(write, Write::Put { key, .. } if *key == commits_key()) {
                        continue;
                    }
                }
                Effect::Load { load, from, to, limit, .. } => {
                    let (rows, end) = self.scan(from, to, *limit);
                    let keys = rows.iter().filter_map(|row| MessageKey::parse(&row.key));
                    let damaged = keys.filter(|key| self.rotten.contains(key)).collect();
                    seen.extend(self.handle(Event::Loaded { load: *load, rows, end, damaged }));
                    continue;
                }
                _ => {}
            }
            seen.push(effect);
        }
        seen
    }

    fn now(&self) -> Now {
        let Now { mono, wall } = at(self.at_ms);
        Now { mono, wall: Wall(wall.0.saturating_add_signed(self.wall_off_ms * 1_000_000)) }
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Put { key, value } => {
                self.rows.insert(key, value);
            }
            Write::PutMessage { key, header, .. } => {
                self.rotten.remove(&key);
                self.rows.insert(key.encode(), header);
            }
            Write::PutHeader { key, header } => {
                self.rows.insert(key.encode(), header);
            }
            Write::Delete { key } => {
                self.rows.remove(&key);
            }
            Write::DeleteRange { from, to } => {
                self.rows.retain(|key, _| *key < from || *key >= to);
            }
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> (Vec<Row>, ScanEnd) {
        let mut range = self.rows.range(from.to_vec()..to.to_vec());
        let rows: Vec<Row> = range
            .by_ref()
            .take(limit)
            .map(|(key, value)| Row { key: key.clone(), value: value.clone() })
            .collect();
        (rows, if range.next().is_some() { ScanEnd::More } else { ScanEnd::Reached })
    }

    /// Asks something; the answer, and the effects that are not about the node itself.
    fn ask(&mut self, request: Request) -> (Option<Response>, Vec<Effect>) {
        self.request += 1;
        let reply = Reply { client: ClientId(1), stream: 0, request: self.request };
        let effects = self.handle(Event::Request { reply, request });
        let answer = effects.iter().find_map(|effect| match effect {
            Effect::Answer { response, .. } => Some(response.clone()),
            _ => None,
        });
        (answer, effects)
    }

    /// Time passes, timer by timer.
    fn pass(&mut self, ms: u64) -> Vec<Effect> {
        let end = self.at_ms + ms;
        let mut effects = Vec::new();
        while let Some(next) = self.node.next_wakeup()
            && next.0.div_ceil(1_000_000) <= end
        {
            self.at_ms = self.at_ms.max(next.0.div_ceil(1_000_000));
            effects.extend(self.handle(Event::Wakeup));
        }
        self.at_ms = end;
        effects.extend(self.handle(Event::Wakeup));
        effects
    }

    fn queue(&mut self, change: SettingsChange) -> QueueId {
        let name = QueueName::parse("orders").unwrap();
        let (answer, _) = self.ask(Request::CreateQueue { name, change });
        let Some(Response::Queue(queue)) = answer else { panic!("{answer:?}") };
        queue.id
    }

    fn send(&mut self, queue: QueueId, numbers: std::ops::RangeInclusive<u64>) -> Vec<Effect> {
        let labels = numbers.map(|number| self.label(number)).collect();
        let (attempt, partition, within_ms) = (Attempt::First, 0, 1000);
        self.ask(Request::Send { queue, partition, attempt, within_ms, labels }).1
    }

    fn label(&self, number: u64) -> Label {
        let time = at(0).wall.0 + number;
        let stamp = Stamp { time, count: 0, process: PRODUCER };
        Message::new("x").pack(number, stamp, 0).unwrap().0
    }

    fn receive(&mut self, max: u32, wait_ms: u64) -> Option<Vec<DeliveryLabel>> {
        let queue = QueueName::parse("orders").unwrap();
        let request = Request::Receive { queue, max, wait_ms, visibility_ms: None };
        match self.ask(request).0? {
            Response::Deliveries { deliveries } => Some(deliveries),
            other => panic!("{other:?}"),
        }
    }

    fn peek(&mut self, max: u32) -> Option<Vec<DeliveryLabel>> {
        let queue = QueueName::parse("orders").unwrap();
        match self.ask(Request::Peek { queue, max }).0? {
            Response::Deliveries { deliveries } => Some(deliveries),
            other => panic!("{other:?}"),
        }
    }

    fn delete(&mut self, receipts: Vec<Receipt>) -> Vec<DeleteResult> {
        match self.ask(Request::Delete { receipts }).0 {
            Some(Response::Deleted(results)) => results,
            other => panic!("{other:?}"),
        }
    }
}

fn at(ms: u64) -> Now {
    let epoch = 1_800_000_000_000_000_000;
    Now { mono: Mono(ms * 1_000_000), wall: Wall(epoch + ms * 1_000_000) }
}

fn one_partition() -> SettingsChange {
    SettingsChange { partitions: Some(1), ..SettingsChange::default() }
}

fn commits_key() -> Vec<u8> {
    Key::Meta(meta::COMMITS).encode()
}

fn numbers(deliveries: &[DeliveryLabel]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.receipt.number).collect()
}

/// Copies of messages that were accepted with the first of them.
fn copy_of(
    (queue, partition): (QueueId, u16),
    holders: Vec<NodeId>,
    labels: Vec<Label>,
) -> Envelope {
    let (batch, accepted, attempt) = (1, labels[0].stamp, Attempt::First);
    Envelope::Copy { batch, queue, partition, accepted, holders, attempt, labels }
}

#[test]
fn a_send_is_written_before_it_is_confirmed_and_nothing_else_happens() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.pass(10);
    let effects = bench.send(queue, 1..=1);
    let label = bench.label(1);
    let key = MessageKey { queue, partition: 0, stamp: label.stamp };
    let Some(Effect::Write(Write::PutMessage { header, .. })) = effects.first() else {
        panic!("{effects:?}")
    };
    let record = MessageRecord::decode(&key, header).unwrap();
    assert_eq!((record.label, &record.holders), (label, &vec![ME]));
    let sent = SentBatch { accepted: record.accepted, copies: 1, exceptions: Vec::new() };
    let reply = Reply { client: ClientId(1), stream: 0, request: 2 };
    assert_eq!(
        effects,
        [
            Effect::Write(Write::PutMessage { key, header: header.clone(), label }),
            Effect::Answer { reply, response: Response::Sent(sent) },
        ]
    );
}

#[test]
fn a_peek_into_a_queue_that_nobody_has_received_from_shows_what_is_there_and_hides_nothing() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=3);
    for _ in 0..2 {
        assert_eq!(numbers(&bench.peek(2).unwrap()), [1, 2]);
    }
    let mut again = Bench::open(bench.rows, bench.at_ms + 1);
    again.handle(Event::Started);
    again.pass(11_000);
    assert_eq!(numbers(&again.peek(9).unwrap()), [1, 2, 3]);
    assert_eq!(numbers(&again.receive(9, 0).unwrap()), [1, 2, 3]);
    assert_eq!(again.peek(9).unwrap(), []);
}

#[test]
fn a_first_hand_out_writes_nothing_and_a_second_its_count() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let name = QueueName::parse("orders").unwrap();
    let receive = Request::Receive { queue: name, max: 1, wait_ms: 0, visibility_ms: Some(500) };
    let (answer, effects) = bench.ask(receive.clone());
    assert!(matches!(&effects[..], [Effect::Answer { .. }]), "{effects:?}");
    let Some(Response::Deliveries { deliveries }) = answer else { panic!() };
    assert_eq!(deliveries[0].receipt.delivery, 1);

    bench.pass(600);
    let (answer, effects) = bench.ask(receive);
    let key = MessageKey { queue, partition: 0, stamp: deliveries[0].receipt.stamp };
    let count = Write::Put { key: Key::Deliveries(key).encode(), value: record::encode(&2_u32) };
    assert_eq!(effects[0], Effect::Write(count));
    let Some(Response::Deliveries { deliveries }) = answer else { panic!() };
    assert_eq!(deliveries[0].receipt.delivery, 2);
}

#[test]
fn a_delete_writes_its_tombstone_and_removes_the_row() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=2);
    let deliveries = bench.receive(10, 0).unwrap();
    assert_eq!(numbers(&deliveries), [1, 2]);
    let receipt = deliveries[0].receipt.clone();
    let (_, effects) = bench.ask(Request::Delete { receipts: vec![receipt.clone()] });
    let key = MessageKey { queue, partition: 0, stamp: receipt.stamp };
    let Effect::Write(Write::Put { value, .. }) = &effects[1] else { panic!("{effects:?}") };
    let block: BlockRecord = record::decode(value).unwrap();
    assert_eq!(block.messages, [(PRODUCER, Ranges::of(1, 1))]);
    assert_eq!(block.holders, [ME]);
    let reply = Reply { client: ClientId(1), stream: 0, request: 4 };
    let tombstone = Key::Tombstones(queue, 0, 0).encode();
    assert_eq!(
        effects,
        [
            Effect::Write(Write::Delete { key: key.encode() }),
            Effect::Write(Write::Put { key: tombstone, value: value.clone() }),
            Effect::Answer { reply, response: Response::Deleted(vec![DeleteResult::Deleted]) },
        ]
    );
    bench.pass(31_000);
    assert_eq!(numbers(&bench.receive(10, 0).unwrap()), [2]);
}

#[test]
fn a_resend_of_what_is_held_is_stored_once_and_of_what_is_gone_not_at_all() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=2);
    let first = bench.receive(1, 0).unwrap();
    bench.delete(vec![first[0].receipt.clone()]);
    let effects = bench.send(queue, 1..=3);
    let stored = effects.iter().filter(|e| matches!(e, Effect::Write(Write::PutMessage { .. })));
    assert_eq!(stored.count(), 1, "only the third is new");
    let Some(Effect::Answer { response: Response::Sent(sent), .. }) = effects.last() else {
        panic!("{effects:?}")
    };
    assert_eq!(sent.exceptions, [(0, gaggle_wire::SendException::Gone)]);
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [2, 3]);
}

#[test]
fn another_message_under_a_known_id_is_refused_and_changes_nothing() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=3);
    let mut labels: Vec<_> = (1..=3).map(|number| bench.label(number)).collect();
    labels[1].crc ^= 1;
    labels[2].stamp.count += 1;
    let (attempt, within_ms) = (Attempt::First, 1000);
    let send = Request::Send { queue, partition: 0, attempt, within_ms, labels };
    let (answer, effects) = bench.ask(send);
    let Some(Response::Sent(sent)) = answer else { panic!("{answer:?}") };
    let clash = gaggle_wire::SendException::Refused(Refusal::IdClash);
    assert_eq!(sent.exceptions, [(1, clash.clone()), (2, clash)]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Write(_))));
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [1, 2, 3]);
}

#[test]
fn what_was_stored_is_there_after_a_restart_and_what_was_deleted_is_not() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=9);
    let deliveries = bench.receive(4, 0).unwrap();
    bench.delete(deliveries.into_iter().map(|delivery| delivery.receipt).collect());
    let mut bench = Bench::open(bench.rows, bench.at_ms + 5);
    bench.handle(Event::Started);
    bench.pass(10);
    assert_eq!(numbers(&bench.receive(99, 1000).unwrap()), [5, 6, 7, 8, 9]);
    let effects = bench.send(queue, 1..=2);
    let Some(Effect::Answer { response: Response::Sent(sent), .. }) = effects.last() else {
        panic!("{effects:?}")
    };
    assert_eq!(sent.exceptions.len(), 2, "P11: also after a restart");
}

#[test]
fn a_backlog_beyond_the_window_is_read_page_by_page() {
    let mut bench = Bench::new();
    bench.node.config.window_max = 8;
    bench.node.config.page_rows = 3;
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=50);
    let mut got = Vec::new();
    while let Some(deliveries) = bench.receive(7, 0)
        && !deliveries.is_empty()
    {
        assert!(bench.node.partitions[&(queue, 0)].window.len() <= 8);
        got.extend(numbers(&deliveries));
        bench.delete(deliveries.into_iter().map(|delivery| delivery.receipt).collect());
    }
    assert_eq!(got, (1..=50).collect::<Vec<_>>());
}

#[test]
fn a_waiting_receive_is_answered_by_the_send_itself() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.pass(10);
    assert_eq!(bench.receive(5, 20_000), None);
    let effects = bench.send(queue, 1..=1);
    let answered = effects.iter().any(|effect| {
        matches!(effect, Effect::Answer { response: Response::Deliveries { deliveries }, .. }
            if numbers(deliveries) == [1])
    });
    assert!(answered, "{effects:?}");
}

#[test]
fn a_receive_of_an_empty_queue_ends_at_its_deadline() {
    let mut bench = Bench::new();
    bench.queue(one_partition());
    assert_eq!(bench.receive(5, 200), None);
    let early = bench.pass(199);
    assert!(!early.iter().any(|effect| matches!(effect, Effect::Answer { .. })));
    let effects = bench.pass(2);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Answer { .. })));
}

#[test]
fn an_answer_that_nobody_asked_for_is_ignored() {
    let mut bench = Bench::new();
    let load = LoadId(99);
    assert!(
        bench
            .handle(Event::Loaded { load, rows: vec![], end: ScanEnd::Reached, damaged: vec![] })
            .is_empty()
    );
}
