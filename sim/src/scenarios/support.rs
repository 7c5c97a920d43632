//! What scenarios share: clusters, queues, sends and receives in few words.

use gaggle_wire::{
    Attempt, DeleteResult, DeliveryLabel, Label, Message, ProcessId, QueueDescription, QueueName,
    Receipt, Request, Response, SentBatch, SettingsChange, Stamp,
};

use crate::options::Options;
use crate::process::EPOCH;
use crate::{Detail, World};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;

/// So many nodes that have come together.
pub(super) fn formed(nodes: usize, seed: u64) -> World {
    formed_of(Options::calm(nodes, seed))
}

pub(super) fn formed_of(options: Options) -> World {
    let nodes = options.nodes;
    formed_with_room(options, nodes)
}

/// So many nodes have come together, of those that there is room for.
pub(super) fn formed_with_room(options: Options, nodes: usize) -> World {
    let mut world = World::new(options, detail());
    world.form(nodes);
    world
}

/// A run is printed when asked for.
fn detail() -> Detail {
    if std::env::var_os("GAGGLE_SIM_REPORT").is_some() { Detail::Print } else { Detail::Off }
}

pub(super) fn name() -> QueueName {
    crate::plan::queue_name()
}

pub(super) fn create(world: &mut World, change: SettingsChange) -> QueueDescription {
    match world.call(0, Request::CreateQueue { name: name(), change }) {
        Response::Queue(queue) => *queue,
        other => panic!("{other:?}"),
    }
}

pub(super) fn one_partition() -> SettingsChange {
    SettingsChange { partitions: Some(1), ..Default::default() }
}

pub(super) fn labels(world: &World, process: u64, first: u64, last: u64) -> Vec<Label> {
    let label = |number: u64| {
        let time = EPOCH + world.now() + number - first;
        let stamp = Stamp { time, count: 0, process: ProcessId(process) };
        Message::new(format!("{number}")).pack(number, stamp, 0).expect("it is small").0
    };
    (first..=last).map(label).collect()
}

pub(super) fn send(queue: &QueueDescription, labels: &[Label], attempt: Attempt) -> Request {
    let labels = labels.to_vec();
    Request::Send { queue: queue.id, partition: 0, attempt, within_ms: 10_000, labels }
}

pub(super) fn sent(
    world: &mut World,
    node: usize,
    queue: &QueueDescription,
    labels: &[Label],
) -> SentBatch {
    match world.call(node, send(queue, labels, Attempt::First)) {
        Response::Sent(batch) => batch,
        other => panic!("{other:?}"),
    }
}

pub(super) fn receive(max: u32, wait_ms: u64) -> Request {
    Request::Receive { queue: name(), max, wait_ms, visibility_ms: None }
}

pub(super) fn received(world: &mut World, node: usize, wait_ms: u64) -> Vec<DeliveryLabel> {
    match world.call(node, receive(1000, wait_ms)) {
        Response::Deliveries { deliveries } => deliveries,
        other => panic!("{other:?}"),
    }
}

/// Receives until so many have come: one receive is answered with what was read by then.
pub(super) fn all_received(world: &mut World, node: usize, count: usize) -> Vec<DeliveryLabel> {
    let mut came = Vec::new();
    while came.len() < count {
        came.extend(received(world, node, 1000));
    }
    came
}

/// Receives until nothing has come for a second; numbers, in the order in which they came.
pub(super) fn drained(world: &mut World, node: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let came = received(world, node, 1000);
        if came.is_empty() {
            return numbers;
        }
        numbers.extend(came.iter().map(|delivery| delivery.label.number));
        let receipts = came.into_iter().map(|delivery| delivery.receipt).collect();
        delete(world, node, receipts);
    }
}

/// Whether so many messages were deleted, each once.
pub(super) fn is_drained(world: &World, messages: usize) -> bool {
    let deleted = world.judge.oracle.fates().filter(|(_, fate)| fate.deleted.is_some()).count();
    deleted == messages
}

pub(super) fn delete(world: &mut World, node: usize, receipts: Vec<Receipt>) {
    for result in try_delete(world, node, receipts) {
        assert!(!matches!(result, DeleteResult::Refused(_)), "{result:?}");
    }
}

pub(super) fn try_delete(
    world: &mut World,
    node: usize,
    receipts: Vec<Receipt>,
) -> Vec<DeleteResult> {
    match world.call(node, Request::Delete { receipts }) {
        Response::Deleted(results) => results,
        other => panic!("{other:?}"),
    }
}
