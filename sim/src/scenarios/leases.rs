//! Leases, delays, ages.

use std::time::Duration;

use gaggle_wire::{Attempt, Message, Refusal, Request, Response, SettingsChange, Stamp};

use super::support::{
    MS, SECOND, create, delete, formed, formed_of, labels, one_partition, receive, received, send,
    sent,
};
use crate::options::{Options, place};
use crate::process::EPOCH;

fn short_leases() -> SettingsChange {
    SettingsChange { visibility_timeout_ms: Some(2000), ..one_partition() }
}

fn an_expired_lease_is_delivered_again_and_the_old_receipt_is_stale() {
    let mut world = formed(3, 21);
    let queue = create(&mut world, short_leases());
    let one = labels(&world, 7, 1, 1);
    sent(&mut world, 0, &queue, &one);
    let first = received(&mut world, 1, 1000).remove(0).receipt;
    assert!(received(&mut world, 1, 500).is_empty(), "it is hidden");
    let second = received(&mut world, 2, 5000).remove(0).receipt;
    assert_eq!((first.delivery, second.delivery), (1, 2));
    let extend = Request::Extend { receipts: vec![first.clone()], visibility_ms: 9000 };
    let answer = world.call(1, extend);
    assert_eq!(answer, Response::Extended(vec![Err(Refusal::StaleReceipt)]));
    let release = Request::Release { receipts: vec![first], delay_ms: 0 };
    let answer = world.call(1, release);
    assert_eq!(answer, Response::Released(vec![Err(Refusal::StaleReceipt)]));
    delete(&mut world, 0, vec![second]);
}

fn a_receipt_is_not_given_twice_though_the_message_was_out_of_sight_in_between() {
    let mut options = Options::calm(3, 26);
    options.window_max = 2;
    let mut world = formed_of(options);
    let queue = create(&mut world, short_leases());
    let all = labels(&world, 7, 1, 20);
    sent(&mut world, 0, &queue, &all);
    let mut given = std::collections::BTreeSet::new();
    for time in 0..3 {
        let mut came = 0;
        while came < 20 {
            for delivery in received(&mut world, time, 5000) {
                let receipt = delivery.receipt;
                let proof = (receipt.number, receipt.custodian, receipt.boot, receipt.delivery);
                assert!(given.insert(proof), "F6: {proof:?} is given again");
                came += 1;
            }
        }
        world.run(3 * SECOND);
    }
}

fn an_extended_lease_stays_hidden_and_a_released_one_comes_after_its_delay() {
    let mut world = formed(3, 22);
    let queue = create(&mut world, short_leases());
    let one = labels(&world, 7, 1, 1);
    sent(&mut world, 0, &queue, &one);
    let receipt = received(&mut world, 1, 1000).remove(0).receipt;
    let extend = Request::Extend { receipts: vec![receipt.clone()], visibility_ms: 6000 };
    assert_eq!(world.call(2, extend), Response::Extended(vec![Ok(6000)]));
    assert!(received(&mut world, 0, 4000).is_empty());
    let release = Request::Release { receipts: vec![receipt], delay_ms: 1000 };
    assert_eq!(world.call(2, release), Response::Released(vec![Ok(())]));
    let released_at = world.now();
    let again = received(&mut world, 0, 5000).remove(0);
    assert_eq!(again.receipt.delivery, 2);
    let after = world.now() - released_at;
    assert!((900 * MS..1200 * MS).contains(&after), "{} ms", after / MS);
}

fn a_delayed_message_comes_when_it_is_due_and_not_before() {
    let mut world = formed(3, 23);
    let queue = create(&mut world, one_partition());
    let stamp = Stamp { time: EPOCH + world.now(), count: 0, process: gaggle_wire::ProcessId(7) };
    let (label, _) = Message::new("later").pack(1, stamp, 3000).expect("it is small");
    let consumer = world.hand();
    let asked = world.ask(consumer, 2, receive(1, 20_000));
    let sent_at = world.now();
    let answer = world.call(0, send(&queue, &[label], Attempt::First));
    assert!(matches!(answer, Response::Sent(_)), "{answer:?}");
    assert!(world.run_until(10 * SECOND, |world| !world.answers(consumer, asked).is_empty()));
    let after = world.now() - sent_at;
    assert!((3000 * MS..3200 * MS).contains(&after), "{} ms", after / MS);
}

fn the_next_custodian_goes_on_and_honours_the_leases_it_was_told() {
    let mut options = Options::calm(3, 24);
    options.suspicion = Duration::from_millis(900);
    let mut world = formed_of(options);
    let queue =
        create(&mut world, SettingsChange { visibility_timeout_ms: Some(8000), ..one_partition() });
    let two = labels(&world, 7, 1, 2);
    sent(&mut world, 0, &queue, &two);
    let first = match world.call(0, receive(1, 1000)) {
        Response::Deliveries { mut deliveries } => deliveries.remove(0).receipt,
        other => panic!("{other:?}"),
    };
    let given_at = world.now();
    world.run(SECOND);
    let custodian = place(first.custodian);
    world.crash(custodian);
    let at = (custodian + 1) % 3;
    let next = received(&mut world, at, 10_000);
    assert_eq!(next.len(), 1, "P10: the next one goes on");
    assert_eq!(next[0].label.number, 2);
    assert!(world.now() - given_at < 5 * SECOND);
    let again = received(&mut world, at, 20_000);
    assert_eq!((again[0].label.number, again[0].receipt.delivery), (1, 2));
    assert!(world.now() - given_at >= 7900 * MS, "its lease is honoured");
}

fn what_reaches_its_age_is_gone_everywhere() {
    let mut world = formed(3, 25);
    let change = SettingsChange { retention_ms: Some(2000), ..one_partition() };
    let queue = create(&mut world, change);
    let some = labels(&world, 7, 1, 5);
    sent(&mut world, 0, &queue, &some);
    world.judge.oracle.excuse(queue.id);
    world.run(3 * SECOND);
    assert!(received(&mut world, 1, 500).is_empty());
    world.run(5 * SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [0; 3]);
}

fn who_stops_tells_its_leases_before_the_others_hear_that_it_is_gone() {
    for seed in 1..=10 {
        let mut options = Options::calm(2, seed);
        options.commit = (50 * MS, 100 * MS);
        let mut world = formed_of(options);
        let queue = create(&mut world, one_partition());
        let one = labels(&world, 7, 1, 1);
        sent(&mut world, 0, &queue, &one);
        let custodian = place(received(&mut world, 0, 1000).remove(0).receipt.custodian);
        let other = 1 - custodian;
        world.drain(custodian);
        let left = |world: &crate::World| !world.is_up(custodian);
        assert!(world.run_until(10 * SECOND, left), "seed {seed}: it does not stop");
        assert!(received(&mut world, other, 5000).is_empty(), "P3, seed {seed}: it is leased");
    }
}

fn who_stops_has_one_last_session_with_each_of_the_others() {
    let mut options = Options::calm(4, 3);
    options.commit = (20 * MS, 60 * MS);
    let mut world = formed_of(options);
    let before = world.counted("sessions_ended");
    world.drain(3);
    assert!(world.run_until(10 * SECOND, |world| !world.is_up(3)), "it does not stop");
    world.run(SECOND);
    assert_eq!(world.counted("sessions_ended") - before, 3);
}

fn who_stops_and_is_back_at_once_hears_of_the_leases_that_it_told() {
    for seed in 1..=5 {
        let mut world = formed(3, seed);
        let queue = create(&mut world, one_partition());
        let one = labels(&world, 7, 1, 1);
        sent(&mut world, 0, &queue, &one);
        let custodian = place(received(&mut world, 0, 1000).remove(0).receipt.custodian);
        world.drain(custodian);
        assert!(world.run_until(10 * SECOND, |world| !world.is_up(custodian)), "seed {seed}");
        world.start(custodian);
        let other = (custodian + 1) % 3;
        assert!(received(&mut world, other, 5000).is_empty(), "P3, seed {seed}: it is leased");
    }
}

scenarios![
    an_expired_lease_is_delivered_again_and_the_old_receipt_is_stale,
    a_receipt_is_not_given_twice_though_the_message_was_out_of_sight_in_between,
    an_extended_lease_stays_hidden_and_a_released_one_comes_after_its_delay,
    a_delayed_message_comes_when_it_is_due_and_not_before,
    the_next_custodian_goes_on_and_honours_the_leases_it_was_told,
    what_reaches_its_age_is_gone_everywhere,
    who_stops_tells_its_leases_before_the_others_hear_that_it_is_gone,
    who_stops_has_one_last_session_with_each_of_the_others,
    who_stops_and_is_back_at_once_hears_of_the_leases_that_it_told,
];
