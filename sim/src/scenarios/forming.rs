//! Nodes form a cluster and hand messages over to consumers anywhere.

use gaggle_wire::{
    Attempt, Label, Message, ProcessId, QueueDescription, QueueName, Request, Response,
    SettingsChange, Stamp,
};

use crate::options::Options;
use crate::process::EPOCH;
use crate::{Detail, World};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) fn formed(nodes: usize, seed: u64) -> World {
    let mut world = World::new(Options::calm(nodes, seed), detail());
    world.form(nodes);
    world
}

/// A seed's run is printed when asked for.
pub(super) fn detail() -> Detail {
    if std::env::var_os("GAGGLE_SIM_REPORT").is_some() { Detail::Print } else { Detail::Off }
}

pub(super) fn name(text: &str) -> QueueName {
    QueueName::parse(text).unwrap()
}

pub(super) fn create(world: &mut World, node: usize, change: SettingsChange) -> QueueDescription {
    match world.call(node, Request::CreateQueue { name: name("q"), change }) {
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
        Message::new(format!("{number}")).pack(number, stamp, 0).unwrap().0
    };
    (first..=last).map(label).collect()
}

pub(super) fn send(queue: &QueueDescription, labels: Vec<Label>, attempt: Attempt) -> Request {
    Request::Send { queue: queue.id, partition: 0, attempt, within_ms: 10_000, labels }
}

pub(super) fn receive(max: u32, wait_ms: u64) -> Request {
    Request::Receive { queue: name("q"), max, wait_ms, visibility_ms: None }
}

#[test]
fn a_message_reaches_a_waiting_consumer_from_any_node_to_any_node() {
    let mut world = formed(3, 1);
    let queue = create(&mut world, 0, one_partition());
    let mut number = 0;
    for to in 0..3 {
        for from in 0..3 {
            let consumer = world.hand();
            let asked = world.ask(consumer, to, receive(1, 20_000));
            world.run(3 * SECOND);
            number += 1;
            let labels = labels(&world, 7, number, number);
            let sent_at = world.now();
            let sent = world.call(from, send(&queue, labels, Attempt::First));
            assert!(matches!(sent, Response::Sent(_)), "{sent:?}");
            world.run(50 * MS);
            let [(at, Response::Deliveries { deliveries })] = world.answers(consumer, asked)
            else {
                panic!("{from} -> {to}: {:?}", world.answers(consumer, asked));
            };
            assert_eq!(deliveries.len(), 1);
            assert!(at - sent_at < 50 * MS, "P10: {from} -> {to} took {} ms", (at - sent_at) / MS);
        }
    }
}
