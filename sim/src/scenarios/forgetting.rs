//! Deleted queues: remembered while somebody might not know it, and then forgotten.

use std::time::Duration;

use gaggle_wire::{Refusal, Request, Response};

use super::support::{
    SECOND, create, formed_of, formed_with_room, labels, name, one_partition, received, sent,
};
use crate::World;
use crate::options::Options;

/// Three nodes, and a queue with messages of which some are in flight.
fn used(seed: u64) -> World {
    let mut options = Options::calm(3, seed);
    options.resend_window = Duration::from_secs(5);
    let mut world = formed_of(options);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, 100);
    sent(&mut world, 0, &queue, &all);
    received(&mut world, 1, 10);
    world
}

fn deleted(world: &mut World, at: usize) {
    assert_eq!(world.call(at, Request::DeleteQueue { name: name() }), Response::Done);
}

fn remembered(world: &World) -> Vec<usize> {
    (0..3).map(|at| world.queues_stored(at)).collect()
}

fn is_gone(world: &mut World) {
    for at in 0..3 {
        let answer = world.call(at, Request::DescribeQueue { name: name() });
        assert!(
            matches!(answer, Response::Refused(Refusal::QueueNotFound { .. })),
            "P13: {answer:?}"
        );
    }
}

fn a_deleted_queue_is_forgotten_when_all_have_had_the_time_to_hear_of_it() {
    let mut world = used(301);
    deleted(&mut world, 2);
    world.run(4 * SECOND);
    assert_eq!(remembered(&world), [1, 1, 1], "something may still be on its way");
    world.run(12 * SECOND);
    assert_eq!(remembered(&world), [0, 0, 0], "P12");
    is_gone(&mut world);
    assert!((0..3).all(|at| world.leftovers(at).is_empty()), "L5");
    create(&mut world, one_partition());
    world.run(12 * SECOND);
    assert_eq!(remembered(&world), [1, 1, 1], "one that lives stays");
}

fn with_a_member_away_it_is_remembered_and_who_returns_does_not_bring_it_back() {
    let mut world = used(302);
    world.crash(0);
    world.run(5 * SECOND);
    deleted(&mut world, 1);
    world.run(60 * SECOND);
    assert_eq!(remembered(&world), [1, 1, 1]);
    world.start(0);
    world.run(3 * SECOND);
    is_gone(&mut world);
    world.run(15 * SECOND);
    assert_eq!(remembered(&world), [0, 0, 0], "P12");
    is_gone(&mut world);
}

fn a_restart_forgets_none_of_it() {
    let mut world = used(303);
    deleted(&mut world, 1);
    world.run(SECOND);
    for at in 0..3 {
        world.crash(at);
    }
    (0..3).for_each(|at| world.start(at));
    world.run(5 * SECOND);
    is_gone(&mut world);
    world.run(15 * SECOND);
    assert_eq!(remembered(&world), [0, 0, 0], "P12");
}

/// It does not know a member that came and went while it was down, and asked all that it knew.
fn a_node_that_was_down_remembers_it_for_a_member_that_came_and_went_meanwhile() {
    let mut options = Options::calm(3, 304);
    options.resend_window = Duration::from_secs(5);
    let mut world = formed_with_room(options, 2);
    create(&mut world, one_partition());
    world.crash(0);
    world.run(4 * SECOND);
    world.start(2);
    assert!(world.run_until(10 * SECOND, |world| world.queues_stored(2) == 1));
    world.run(SECOND);
    world.crash(2);
    world.run(4 * SECOND);
    world.start(0);
    world.run(5 * SECOND);
    deleted(&mut world, 0);
    world.run(30 * SECOND);
    assert_eq!(remembered(&world), [1, 1, 1]);
    world.crash(1);
    world.run(4 * SECOND);
    world.start(2);
    world.run(15 * SECOND);
    for at in [0, 2] {
        let answer = world.call(at, Request::DescribeQueue { name: name() });
        let refused = matches!(answer, Response::Refused(Refusal::QueueNotFound { .. }));
        assert!(refused, "P13: at {at}: {answer:?}");
    }
}

scenarios! {
    a_node_that_was_down_remembers_it_for_a_member_that_came_and_went_meanwhile,
    a_deleted_queue_is_forgotten_when_all_have_had_the_time_to_hear_of_it,
    with_a_member_away_it_is_remembered_and_who_returns_does_not_bring_it_back,
    a_restart_forgets_none_of_it,
}
