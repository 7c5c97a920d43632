//! Wall clocks that are wrong: they harm only their own node, and stop no send.

use gaggle_wire::{Attempt, Message, ProcessId, Refusal, Request, Response, Stamp};

use super::support::{
    MS, SECOND, create, delete, drained, formed, labels, one_partition, receive, received, send,
    sent,
};
use crate::World;
use crate::process::EPOCH;

const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;

/// A cluster in which the wall clock of the first node is wrong by so much since a while.
fn off_by(nanos: i64, seed: u64) -> World {
    let mut world = formed(3, seed);
    world.step_clock(0, nanos);
    world.run(3 * SECOND);
    world
}

fn a_node_whose_clock_is_wrong_goes_on_accepting_and_moves_no_other_clock() {
    for (hours, seed) in [(8, 71), (-8, 72)] {
        let mut world = off_by(hours * HOUR, seed);
        let queue = create(&mut world, one_partition());
        for node in 0..3 {
            let some = labels(&world, 7 + node as u64, 1, 10);
            assert_eq!(sent(&mut world, node, &queue, &some).exceptions, [], "P14");
        }
        assert_eq!(drained(&mut world, 1).len(), 30, "P1");
    }
}

fn a_producer_whose_clock_is_ahead_is_told_so_by_nodes_that_agree() {
    let mut world = formed(3, 73);
    let queue = create(&mut world, one_partition());
    let mut ahead = labels(&world, 7, 1, 1);
    let time = EPOCH + world.now() + HOUR.unsigned_abs();
    ahead[0].stamp = Stamp { time, ..ahead[0].stamp };
    let refused = world.call(0, send(&queue, &ahead, Attempt::First));
    let ahead = matches!(refused, Response::Refused(Refusal::ClockAhead { .. }));
    assert!(ahead, "P14: {refused:?}");
}

fn a_clock_that_jumps_days_ahead_expires_nothing() {
    let mut world = formed(3, 71);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, 20);
    sent(&mut world, 0, &queue, &all);
    world.run(2 * SECOND);
    for at in 0..3 {
        world.step_clock(at, 5 * DAY);
        world.run(10 * SECOND);
        // Whoever hands out looks at the age first.
        let came = received(&mut world, at, 1000);
        assert_eq!(came.len(), 20, "P14: a clock that is wrong expires what is young");
        let receipts = came.into_iter().map(|delivery| delivery.receipt).collect();
        let released = world.call(at, Request::Release { receipts, delay_ms: 0 });
        assert_eq!(released, Response::Released(vec![Ok(()); 20]));
        world.step_clock(at, -5 * DAY);
        world.run(10 * SECOND);
    }
    assert_eq!(world.counted("clock_sick_times"), 3);
    assert_eq!(drained(&mut world, 1), (1..=20).collect::<Vec<_>>(), "P14: none was expired");
}

fn a_node_whose_clock_is_behind_goes_on_accepting_with_the_time_of_the_others() {
    let mut world = formed(3, 72);
    let queue = create(&mut world, one_partition());
    world.run(2 * SECOND);
    world.step_clock(1, -HOUR);
    for number in 1..=20 {
        let one = labels(&world, 7, number, number);
        let accepted = sent(&mut world, 1, &queue, &one).accepted;
        let off = accepted.time.abs_diff(EPOCH + world.now());
        assert!(off < 600 * MS, "P14: it accepts as if it were {} ms elsewhere", off / MS);
        world.run(200 * MS);
    }
    world.crash(1);
    world.run(SECOND);
    world.start(1);
    assert!(world.run_until(20 * SECOND, |world| world.is_whole(3)));
    world.run(2 * SECOND);
    let one = labels(&world, 7, 21, 21);
    let accepted = sent(&mut world, 1, &queue, &one).accepted;
    assert!(accepted.time.abs_diff(EPOCH + world.now()) < 600 * MS, "and after a restart");
    assert_eq!(drained(&mut world, 2).len(), 21);
}

fn a_delay_is_as_long_as_it_is_although_clocks_step() {
    let mut world = formed(3, 73);
    let queue = create(&mut world, one_partition());
    world.run(2 * SECOND);
    for (number, step) in [(1, -HOUR), (2, HOUR)] {
        for at in 0..3 {
            let time = EPOCH + world.now();
            let stamp = Stamp { time, count: 0, process: ProcessId(7 + at as u64) };
            let (label, _) = Message::new("later").pack(number, stamp, 5000).expect("it is small");
            let answer = world.call(0, send(&queue, &[label], Attempt::First));
            assert!(matches!(answer, Response::Sent(_)), "{answer:?}");
            let sent_at = world.now();
            world.step_clock(at, step);
            let consumer = world.hand();
            let asked = world.ask(consumer, 2, receive(1, 20_000));
            assert!(world.run_until(20 * SECOND, |w| !w.answers(consumer, asked).is_empty()));
            let after = world.now() - sent_at;
            assert!((4500 * MS..6500 * MS).contains(&after), "F11: {} ms", after / MS);
            let [(_, Response::Deliveries { deliveries })] = world.answers(consumer, asked) else {
                panic!("{:?}", world.answers(consumer, asked));
            };
            let receipts = deliveries.iter().map(|delivery| delivery.receipt.clone()).collect();
            delete(&mut world, 2, receipts);
            world.step_clock(at, -step);
            world.run(3 * SECOND);
        }
    }
}

scenarios![
    a_node_whose_clock_is_wrong_goes_on_accepting_and_moves_no_other_clock,
    a_producer_whose_clock_is_ahead_is_told_so_by_nodes_that_agree,
    a_clock_that_jumps_days_ahead_expires_nothing,
    a_node_whose_clock_is_behind_goes_on_accepting_with_the_time_of_the_others,
    a_delay_is_as_long_as_it_is_although_clocks_step,
];
