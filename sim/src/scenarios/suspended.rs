//! Machines that are suspended while the others go on.

use gaggle_wire::{Attempt, Request, Response};

use super::support::{
    MS, SECOND, create, delete, drained, formed, labels, one_partition, received, send, sent,
};
use crate::World;
use crate::options::place;
use crate::suspension::Standstill;

/// The custodian of twenty messages is suspended for ten seconds, while the others hand them out
/// and delete them: it, and the moment after it has woken.
fn suspended(seed: u64, stands: Standstill) -> (World, usize) {
    let mut world = formed(3, seed);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, 20);
    sent(&mut world, 0, &queue, &all);
    let came = received(&mut world, 0, 5000);
    assert_eq!(came.len(), 20);
    let first = place(came[0].receipt.custodian);
    let receipts = came.into_iter().map(|delivery| delivery.receipt).collect();
    let released = world.call(first, Request::Release { receipts, delay_ms: 0 });
    assert_eq!(released, Response::Released(vec![Ok(()); 20]));
    world.run(SECOND);
    let wakes = world.now() + 10 * SECOND;
    world.suspend(first, 10 * SECOND, stands);
    world.run(4 * SECOND);
    let taken = drained(&mut world, (first + 1) % 3);
    assert_eq!(taken.len(), 20, "P1: the others go on");
    world.run(wakes + MS - world.now());
    (world, first)
}

fn who_was_suspended_hands_nothing_out_that_was_deleted_meanwhile() {
    for stands in [Standstill::None, Standstill::Steady] {
        for seed in 81..=85 {
            let (mut world, first) = suspended(seed, stands);
            let came = received(&mut world, first, 5000);
            assert_eq!(came.len(), 0, "P4: seed {seed} {stands:?}");
            assert!(world.run_until(5 * SECOND, |world| world.is_whole(3)), "L1");
        }
    }
}

fn a_clock_that_is_set_forward_again_and_again_keeps_its_node_from_nothing() {
    let mut world = formed(3, 86);
    let queue = create(&mut world, one_partition());
    let mut number = 0;
    for _ in 0..60 {
        world.step_clock(0, 5_000_000_000);
        world.run(400 * MS);
        number += 1;
        let one = labels(&world, 7, number, number);
        sent(&mut world, 1, &queue, &one);
        world.run(600 * MS);
    }
    assert!((1..=7).contains(&world.counted("pauses_by_wall")), "P14");
    let mut came = received(&mut world, 0, 1000);
    assert_eq!(came.len(), 60, "P1");
    let receipts = came.drain(..).map(|delivery| delivery.receipt).collect();
    delete(&mut world, 0, receipts);
}

/// A send that came to a machine while it was suspended with both its clocks was stored when it
/// went on. Its client had long had it confirmed by another node, it was delivered and deleted, and
/// nobody had its tombstone any more.
fn what_is_said_to_a_suspended_machine_comes_while_its_client_waits_or_not_at_all() {
    for (seconds, heard) in [(1, true), (8, true), (11, false), (180, false)] {
        let mut world = formed(3, 87);
        let queue = create(&mut world, one_partition());
        let hand = world.hand();
        world.suspend(0, seconds * SECOND, Standstill::Both);
        let label = labels(&world, 7, 1, 1);
        world.ask(hand, 0, send(&queue, &label, Attempt::First));
        world.run((seconds + 5) * SECOND);
        let stored = (0..3).any(|at| world.stored(at) > 0);
        assert_eq!(stored, heard, "after {seconds} s");
    }
}

scenarios![
    what_is_said_to_a_suspended_machine_comes_while_its_client_waits_or_not_at_all,
    who_was_suspended_hands_nothing_out_that_was_deleted_meanwhile,
    a_clock_that_is_set_forward_again_and_again_keeps_its_node_from_nothing,
];
