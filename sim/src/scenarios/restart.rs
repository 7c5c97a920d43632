//! Nodes that die and come back, with their disks or without.

use std::time::Duration;

use gaggle_wire::SettingsChange;

use super::support::{
    MS, SECOND, create, delete, drained, formed, formed_of, labels, one_partition, receive,
    received, sent,
};
use crate::World;
use crate::options::Options;

fn whole(world: &mut World) {
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)));
}

fn after_the_death_of_all_what_was_confirmed_is_there_and_what_was_deleted_is_not() {
    let mut world = formed(3, 41);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, 100);
    sent(&mut world, 0, &queue, &all);
    let came = received(&mut world, 1, 1000);
    let gone: Vec<_> = came.iter().filter(|delivery| delivery.label.number % 2 == 0).collect();
    delete(&mut world, 2, gone.iter().map(|delivery| delivery.receipt.clone()).collect());
    for at in 0..3 {
        world.crash(at);
    }
    world.run(SECOND);
    for at in 0..3 {
        world.start(at);
    }
    whole(&mut world);
    let left: Vec<u64> = (1..=100).filter(|number| number % 2 == 1).collect();
    let mut out = drained(&mut world, 1);
    out.sort_unstable();
    assert_eq!(out, left, "P1, P4");
}

fn a_node_that_lost_its_disk_is_filled_again() {
    let mut world = formed(3, 42);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, 300);
    sent(&mut world, 0, &queue, &all);
    world.crash(1);
    world.wipe(1);
    world.run(SECOND);
    world.start(1);
    whole(&mut world);
    assert!(world.run_until(10 * SECOND, |world| world.stored(1) == 300), "{}", world.stored(1));
    assert_eq!(drained(&mut world, 1).len(), 300);
}

fn copies_that_a_lone_host_confirmed_are_made_up_when_the_others_return() {
    let mut world = formed(3, 43);
    let queue = create(&mut world, SettingsChange { at_least: Some(1), ..one_partition() });
    world.crash(1);
    world.crash(2);
    world.run(10 * SECOND);
    let all = labels(&world, 7, 1, 10);
    assert_eq!(sent(&mut world, 0, &queue, &all).copies, 1, "the confirm says so");
    world.start(1);
    world.start(2);
    whole(&mut world);
    let made_up = |world: &World| (0..3).all(|at| world.stored(at) == 10);
    assert!(world.run_until(10 * SECOND, made_up));
    assert_eq!(drained(&mut world, 2).len(), 10);
}

/// All three are down. Two have a message on disk that was confirmed, and were not told so; the
/// first of them, and the other one.
fn confirmed_and_not_told(seed: u64) -> (World, usize, usize) {
    for coordinator in 0..3 {
        let mut options = Options::calm(3, seed);
        options.resend_window = Duration::from_secs(4);
        options.serve_alone_after = Duration::from_secs(1);
        let mut world = formed_of(options);
        let two = SettingsChange { replicas: Some(2), confirms: Some(2), ..one_partition() };
        let queue = create(&mut world, two);
        let one = labels(&world, 7, 1, 1);
        assert_eq!(sent(&mut world, coordinator, &queue, &one).copies, 2);
        world.run(MS);
        let homes: Vec<usize> = (0..3).filter(|at| world.stored(*at) == 1).collect();
        if !homes.contains(&coordinator) {
            (0..3).for_each(|at| world.crash(at));
            return (world, homes[0], homes[1]);
        }
    }
    unreachable!("one of three is not among two");
}

fn what_was_confirmed_stays_with_its_other_host_when_one_has_lost_its_disk() {
    let (mut world, wiped, _) = confirmed_and_not_told(44);
    world.wipe(wiped);
    world.run(SECOND);
    (0..3).for_each(|at| world.start(at));
    whole(&mut world);
    world.run(10 * SECOND);
    assert_eq!(drained(&mut world, wiped), [1], "P1: the other one kept its disk");
}

fn who_found_its_copy_damaged_and_ended_before_it_had_another_does_not_deny_that_it_had_one() {
    let (mut world, rotten, other) = confirmed_and_not_told(48);
    world.rot(rotten, 1000);
    world.run(5 * SECOND);
    world.start(rotten);
    let asks = world.hand();
    world.ask(asks, rotten, receive(1, 3000));
    world.run(5 * SECOND);
    assert_eq!(world.counted("bodies_lost"), 1);
    world.crash(rotten);
    (0..3).for_each(|at| world.start(at));
    whole(&mut world);
    world.run(10 * SECOND);
    assert_eq!(drained(&mut world, other), [1], "P1: the other one has it");
}

scenarios![
    after_the_death_of_all_what_was_confirmed_is_there_and_what_was_deleted_is_not,
    a_node_that_lost_its_disk_is_filled_again,
    copies_that_a_lone_host_confirmed_are_made_up_when_the_others_return,
    what_was_confirmed_stays_with_its_other_host_when_one_has_lost_its_disk,
    who_found_its_copy_damaged_and_ended_before_it_had_another_does_not_deny_that_it_had_one,
];
