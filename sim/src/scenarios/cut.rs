//! A cut through the cluster: both sides go on as far as their queue allows, and after it heals
//! nothing is lost and what was deleted stays so.

use gaggle_wire::{DeliveryLabel, QueueDescription, Refusal, Request, Response, SettingsChange};

use super::support::{
    SECOND, create, delete, drained, formed, labels, name, one_partition, received, sent,
};
use crate::World;

fn both_sides_of_a_cut_go_on_and_what_they_deleted_stays_deleted() {
    let mut world = formed(3, 51);
    let queue = create(&mut world, SettingsChange { at_least: Some(1), ..one_partition() });
    let before = labels(&world, 7, 1, 10);
    sent(&mut world, 0, &queue, &before);
    world.run(SECOND);
    world.isolate(2);
    world.run(15 * SECOND);
    for (node, process) in [(0, 8), (2, 9)] {
        let own = labels(&world, process, 1, 10);
        sent(&mut world, node, &queue, &own);
        let came = received(&mut world, node, 2000);
        assert_eq!(came.len(), 20, "each side serves what it holds");
        let some = came.iter().filter(|delivery| delivery.label.number <= 5);
        delete(&mut world, node, some.map(|delivery| delivery.receipt.clone()).collect());
    }
    world.heal_all();
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)));
    world.run(31 * SECOND);
    let mut left = drained(&mut world, 1);
    left.sort_unstable();
    let expected: Vec<u64> = (6..=10).flat_map(|number| [number; 3]).collect();
    assert_eq!(left, expected, "P1, P4");
}

fn the_minority_refuses_what_it_may_not_confirm() {
    let mut world = formed(3, 52);
    let queue = create(&mut world, one_partition());
    world.isolate(2);
    world.run(10 * SECOND);
    let one = labels(&world, 7, 1, 1);
    let refused = world.call(2, super::support::send(&queue, &one, gaggle_wire::Attempt::First));
    assert!(matches!(refused, Response::Refused(Refusal::NotEnoughHosts { .. })), "{refused:?}");
    assert_eq!(sent(&mut world, 0, &queue, &one).copies, 2);
    world.heal_all();
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)));
    assert_eq!(drained(&mut world, 2), [1]);
}

fn a_queue_that_both_sides_made_is_one_queue() {
    let mut world = formed(3, 53);
    world.isolate(2);
    world.run(10 * SECOND);
    let change = SettingsChange { at_least: Some(1), ..one_partition() };
    let mut ids = Vec::new();
    for (node, process) in [(0, 7), (2, 8)] {
        let made = world.call(node, Request::CreateQueue { name: name(), change });
        let Response::Queue(queue) = made else { panic!("{made:?}") };
        let own = labels(&world, process, 1, 3);
        sent(&mut world, node, &queue, &own);
        ids.push(queue.id);
    }
    ids.sort_unstable();
    assert_ne!(ids[0], ids[1], "each side made its own");
    let waiter = world.hand();
    let asked = world.ask(waiter, 1, super::support::receive(10, 60_000));
    world.run(SECOND);
    assert_eq!(world.answers(waiter, asked).len(), 1);
    let consume = Request::Consume { queue: name(), visibility_ms: None, credit: 100 };
    let stream = world.ask(waiter, 1, consume);
    world.run(SECOND);
    world.heal_all();
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)));
    world.run(5 * SECOND);
    let came = streamed(&world, (waiter, stream));
    assert_eq!(came.len(), 3, "P10: who waits for the name gets what the other side sent");

    for node in 0..3 {
        assert_eq!(described(&mut world, node).map(|queue| queue.id), Some(ids[0]), "{node}");
    }
    let queue = described(&mut world, 1).expect("it was described");
    let one = labels(&world, 9, 1, 1);
    sent(&mut world, 1, &queue, &one);
    world.run(SECOND);
    let came = streamed(&world, (waiter, stream));
    let into: Vec<_> = came[3..].iter().map(|delivery| delivery.receipt.queue).collect();
    assert_eq!(into, [ids[0]], "what is sent to the name goes to the smaller id");

    ids.iter().for_each(|id| world.judge.oracle.excuse(*id));
    assert_eq!(world.call(2, Request::DeleteQueue { name: name() }), Response::Done);
    world.run(5 * SECOND);
    for node in 0..3 {
        assert_eq!(described(&mut world, node), None, "{node}: a delete takes both");
        assert_eq!(world.stored(node), 0, "{node}");
    }
}

/// All that a stream has brought so far.
fn streamed(world: &World, (who, stream): (usize, u64)) -> Vec<DeliveryLabel> {
    let answers = world.answers(who, stream);
    let deliveries = answers.iter().flat_map(|(_, answer)| match answer {
        Response::Deliveries { deliveries } => deliveries.clone(),
        other => panic!("{other:?}"),
    });
    deliveries.collect()
}

/// The queue to which a client sends, as this node says.
fn described(world: &mut World, node: usize) -> Option<QueueDescription> {
    match world.call(node, Request::DescribeQueue { name: name() }) {
        Response::Queue(queue) => Some(*queue),
        Response::Refused(Refusal::QueueNotFound { .. }) => None,
        other => panic!("{other:?}"),
    }
}

fn a_copy_at_a_stand_in_comes_although_its_coordinator_is_gone_before_it_has_told_all() {
    let one_copy = SettingsChange { replicas: Some(1), confirms: Some(1), ..one_partition() };
    let mut shown = false;
    for other in 1..3 {
        let mut world = formed(3, 54);
        let queue = create(&mut world, one_copy);
        let first = labels(&world, 7, 1, 1);
        sent(&mut world, 0, &queue, &first);
        let home = (0..3).find(|at| world.stored(*at) == 1).expect("it lies somewhere");
        let (coordinator, stand_in) = ((home + other) % 3, (home + 3 - other) % 3);
        world.cut(coordinator, home);
        world.run(10 * SECOND);
        let second = labels(&world, 7, 2, 2);
        sent(&mut world, coordinator, &queue, &second);
        world.isolate(coordinator);
        if world.stored(stand_in) == 0 {
            // The coordinator stands in itself: the others cannot know.
            continue;
        }
        shown = true;
        world.run(10 * SECOND);
        assert_eq!(drained(&mut world, home), [1, 2], "P10");
    }
    assert!(shown, "one of the two is the stand-in of the other's sends");
}

scenarios![
    both_sides_of_a_cut_go_on_and_what_they_deleted_stays_deleted,
    the_minority_refuses_what_it_may_not_confirm,
    a_queue_that_both_sides_made_is_one_queue,
    a_copy_at_a_stand_in_comes_although_its_coordinator_is_gone_before_it_has_told_all,
];
