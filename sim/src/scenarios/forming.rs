//! A message reaches whoever waits for it, wherever.

use gaggle_wire::{Refusal, Response};

use super::support::{MS, SECOND, create, formed, labels, one_partition, receive, send, sent};
use crate::World;

/// Sends at one node to a consumer that waits at another; how long it took.
fn hand_over(world: &mut World, (from, to): (usize, usize), number: u64, waits: u64) -> u64 {
    let queue = create(world, one_partition());
    let consumer = world.hand();
    let asked = world.ask(consumer, to, receive(1, 20_000));
    world.run(waits);
    let labels = labels(world, 7, number, number);
    let sent_at = world.now();
    sent(world, from, &queue, &labels);
    world.run(50 * MS);
    let [(at, Response::Deliveries { deliveries })] = world.answers(consumer, asked) else {
        panic!("P10: {from} -> {to}: {:?}", world.answers(consumer, asked));
    };
    assert_eq!(deliveries.len(), 1);
    at - sent_at
}

fn a_message_reaches_a_waiting_consumer_from_any_node_to_any_node() {
    let mut world = formed(3, 1);
    let mut number = 0;
    for to in 0..3 {
        for from in 0..3 {
            number += 1;
            let took = hand_over(&mut world, (from, to), number, 3 * SECOND);
            assert!(took < 50 * MS, "P10: {from} -> {to} took {} ms", took / MS);
        }
    }
}

fn a_message_reaches_a_consumer_of_a_queue_that_was_never_used() {
    for to in 0..3 {
        let mut world = formed(3, 2 + to as u64);
        let took = hand_over(&mut world, (0, to), 1, 100 * MS);
        assert!(took < 50 * MS, "P10: a cold queue took {} ms", took / MS);
    }
}

fn a_send_without_enough_hosts_is_refused_at_once_and_leaves_nothing() {
    let mut world = formed(3, 5);
    let queue = create(&mut world, one_partition());
    world.crash(1);
    world.crash(2);
    world.run(10 * SECOND);
    let labels = labels(&world, 7, 1, 1);
    let asked_at = world.now();
    let answer = world.call(0, send(&queue, &labels, gaggle_wire::Attempt::First));
    let Response::Refused(Refusal::NotEnoughHosts { wanted: 2, reachable: 1 }) = answer else {
        panic!("{answer:?}");
    };
    assert!(world.now() - asked_at < 50 * MS);
    assert_eq!(world.stored(0), 0);
}

scenarios![
    a_message_reaches_a_waiting_consumer_from_any_node_to_any_node,
    a_message_reaches_a_consumer_of_a_queue_that_was_never_used,
    a_send_without_enough_hosts_is_refused_at_once_and_leaves_nothing,
];
