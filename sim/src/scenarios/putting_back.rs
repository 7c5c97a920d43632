//! Disks that are put back to an earlier state: the others notice, and nothing wrong comes of them.

use gaggle_wire::{DeliveryLabel, QueueDescription, Receipt};

use super::support::{
    SECOND, create, delete, drained, formed_of, labels, one_partition, received, sent,
};
use crate::World;
use crate::options::Options;
use crate::planted::border::Border;
use crate::planted::memory::PUT_BACK_UNNOTICED;

const COUNT: usize = 50;
const RESEND_WINDOW: u64 = 5 * SECOND;

/// Three nodes that all hold some messages, known to all to be confirmed.
fn all_hold(seed: u64) -> (World, QueueDescription) {
    let mut options = Options::calm(3, seed);
    options.resend_window = std::time::Duration::from_nanos(RESEND_WINDOW);
    let mut world = formed_of(options);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, COUNT as u64);
    sent(&mut world, 0, &queue, &all);
    world.run(2 * SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [COUNT; 3]);
    (world, queue)
}

fn receipts(came: &[DeliveryLabel]) -> Vec<Receipt> {
    came.iter().map(|delivery| delivery.receipt.clone()).collect()
}

fn put_back(world: &mut World, victim: usize) {
    world.put_back(victim);
    world.run(SECOND);
    world.start(victim);
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)), "L1");
}

/// Nobody has anything left of any message.
fn forgotten(world: &World) -> bool {
    (0..3).all(|at| world.leftovers(at).is_empty())
}

/// All messages are deleted and forgotten, and then a disk is put back that has them: what comes.
fn deleted_and_put_back(seed: u64, victim: usize, border: Option<&'static Border>) -> Vec<u64> {
    let (mut world, _) = all_hold(seed);
    world.border = border;
    // What the watchers would say is for the caller to find out.
    world.over = border.is_some();
    world.keep_disk(victim);
    let came = received(&mut world, 0, 1000);
    assert_eq!(came.len(), COUNT);
    delete(&mut world, 0, receipts(&came));
    assert!(world.run_until(60 * SECOND, forgotten), "L5");
    world.put_back(victim);
    world.run(SECOND);
    world.start(victim);
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)), "L1");
    let came = drained(&mut world, victim);
    assert!(border.is_some() || world.run_until(60 * SECOND, forgotten), "L5");
    came
}

fn what_was_deleted_and_forgotten_by_all_does_not_come_from_a_disk_that_is_put_back() {
    for victim in 0..3 {
        assert_eq!(deleted_and_put_back(901, victim, None), [0; 0], "P4");
    }
}

fn what_was_deleted_comes_from_a_disk_that_is_put_back_if_nobody_notices() {
    let came =
        (0..3).map(|victim| deleted_and_put_back(901, victim, Some(&PUT_BACK_UNNOTICED)).len());
    assert!(came.sum::<usize>() >= COUNT, "or the scenario before this one says nothing");
}

fn what_a_disk_that_is_put_back_has_lost_is_made_up_and_what_it_has_is_confirmed_by_others() {
    for victim in 0..3 {
        let (mut world, queue) = all_hold(903);
        world.keep_disk(victim);
        let more = labels(&world, 8, 1, COUNT as u64);
        sent(&mut world, 0, &queue, &more);
        put_back(&mut world, victim);
        assert!(world.run_until(10 * SECOND, |world| world.stored(victim) == 2 * COUNT), "P1");
        for other in (0..3).filter(|at| *at != victim) {
            world.crash(other);
        }
        world.run(11 * SECOND + RESEND_WINDOW);
        let came = received(&mut world, victim, 1000);
        assert_eq!(came.len(), 2 * COUNT, "P1: it is a host as any other");
    }
}

fn a_disk_is_noticed_each_time_that_it_is_put_back_and_by_those_who_were_restarted_since() {
    let (mut world, _) = all_hold(904);
    let victim = 1;
    world.keep_disk(victim);
    let came = received(&mut world, 0, 1000);
    delete(&mut world, 0, receipts(&came));
    assert!(world.run_until(60 * SECOND, forgotten), "L5");
    for _ in 0..3 {
        put_back(&mut world, victim);
        world.run(2 * SECOND);
        assert_eq!(drained(&mut world, victim), [0; 0], "P4");
        assert!(world.run_until(60 * SECOND, forgotten), "L5");
        (0..3).for_each(|at| world.crash(at));
        for at in (0..3).filter(|at| *at != victim) {
            world.start(at);
        }
        assert!(world.run_until(30 * SECOND, |world| world.is_ready(0) && world.is_ready(2)));
    }
}

scenarios![
    what_was_deleted_and_forgotten_by_all_does_not_come_from_a_disk_that_is_put_back,
    what_was_deleted_comes_from_a_disk_that_is_put_back_if_nobody_notices,
    what_a_disk_that_is_put_back_has_lost_is_made_up_and_what_it_has_is_confirmed_by_others,
    a_disk_is_noticed_each_time_that_it_is_put_back_and_by_those_who_were_restarted_since,
];
