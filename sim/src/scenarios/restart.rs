//! Nodes that die and come back, with their disks or without.

use std::time::Duration;

use gaggle_wire::{Attempt, Label, QueueDescription, Refusal, Response, SentBatch, SettingsChange};

use super::support::{
    MS, SECOND, create, delete, drained, formed, formed_of, labels, one_partition, receive,
    received, send, sent,
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

/// A message that one of four nodes accepted while it was cut off, and whose send did not come to
/// be confirmed. Its two home hosts have no copy; they and the one that has, which is cut off
/// still.
struct Unconfirmed {
    world: World,
    queue: QueueDescription,
    message: Vec<Label>,
    homes: [usize; 2],
    keeper: usize,
}

impl Unconfirmed {
    fn new(seed: u64) -> Self {
        for keeper in 0..4 {
            let mut options = Options::calm(4, seed);
            options.resend_window = Duration::from_secs(4);
            options.serve_alone_after = Duration::from_secs(1);
            let mut world = formed_of(options);
            let [replicas, confirms, at_least] = [Some(2); 3];
            let change = SettingsChange { replicas, confirms, at_least, ..one_partition() };
            let queue = create(&mut world, change);
            let first = labels(&world, 8, 1, 1);
            sent(&mut world, 0, &queue, &first);
            world.run(SECOND);
            let homes: Vec<usize> = (0..4).filter(|at| world.stored(*at) == 1).collect();
            assert_eq!(drained(&mut world, 0), [1]);
            if homes.contains(&keeper) {
                continue;
            }
            world.isolate(keeper);
            let message = labels(&world, 7, 1, 1);
            let said = world.call(keeper, send(&queue, &message, Attempt::First));
            assert_eq!(said, Response::Refused(Refusal::OutcomeUnknown));
            assert_eq!((world.stored(keeper), world.stored(homes[0])), (1, 0));
            return Self { world, queue, message, homes: [homes[0], homes[1]], keeper };
        }
        unreachable!("two of four are not among two");
    }

    /// The client sends it again.
    fn sent_again(&mut self, to: usize) -> SentBatch {
        match self.world.call(to, send(&self.queue, &self.message, Attempt::Again)) {
            Response::Sent(batch) => batch,
            other => panic!("{other:?}"),
        }
    }

    /// A node comes back without its disk, and all are in session.
    fn wipe(&mut self, at: usize) {
        let world = &mut self.world;
        world.crash(at);
        world.wipe(at);
        world.run(SECOND);
        world.heal_all();
        world.start(at);
        assert!(world.run_until(30 * SECOND, |world| world.is_whole(4)));
        world.run(10 * SECOND);
    }
}

fn what_its_coordinator_knows_to_be_unconfirmed_is_not_taken_for_confirmed_when_a_disk_is_lost() {
    let mut scene = Unconfirmed::new(45);
    let [first, other] = scene.homes;
    assert_eq!(scene.sent_again(other).copies, 2);
    assert_eq!(drained(&mut scene.world, other), [1]);
    scene.world.run(15 * SECOND);
    let kept: Vec<_> = scene.homes.iter().flat_map(|at| scene.world.leftovers(*at)).collect();
    assert!(kept.is_empty(), "its tombstone is forgotten: {kept:?}");
    scene.wipe(first);
    assert_eq!(drained(&mut scene.world, other), [0; 0], "P4: only its coordinator had a copy");
    assert_eq!(scene.world.stored(scene.keeper), 0, "it goes, for nobody counts on it");
}

fn what_another_confirm_counts_on_is_no_less_safe_where_a_send_of_it_was_not_confirmed() {
    let mut scene = Unconfirmed::new(46);
    let [first, other] = scene.homes;
    (0..4).filter(|at| ![first, scene.keeper].contains(at)).for_each(|at| scene.world.isolate(at));
    scene.world.heal(first, scene.keeper);
    scene.world.heal(scene.keeper, first);
    scene.world.run(10 * SECOND);
    assert_eq!(scene.sent_again(first).copies, 2);
    assert_eq!(scene.world.stored(other), 0, "it was counted with the one that had it before");
    scene.world.isolate(first);
    scene.world.isolate(scene.keeper);
    scene.wipe(first);
    assert_eq!(drained(&mut scene.world, other), [1], "P1: its coordinator kept its disk");
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
    what_its_coordinator_knows_to_be_unconfirmed_is_not_taken_for_confirmed_when_a_disk_is_lost,
    what_another_confirm_counts_on_is_no_less_safe_where_a_send_of_it_was_not_confirmed,
    who_found_its_copy_damaged_and_ended_before_it_had_another_does_not_deny_that_it_had_one,
];
