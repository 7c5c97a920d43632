//! Rows that vanish, or cannot be read at all, unnoticed by the node that runs on them.

use std::time::Duration;

use gaggle_wire::{Refusal, SendException};

use super::repair::{HOLDER, counted, of_two_holders};
use super::*;

#[test]
fn a_resend_of_what_was_lost_unnoticed_is_stored_again_and_is_no_clash() {
    for vanished in [true, false] {
        let mut bench = Bench::new();
        let queue = bench.queue(one_partition());
        bench.send(queue, 1..=3);
        let key = MessageKey { queue, partition: 0, stamp: bench.label(2).stamp };
        if vanished {
            bench.rows.remove(&key.encode());
        } else {
            bench.rows.insert(key.encode(), Vec::new());
        }
        bench.node.config.page_rows = 2;
        bench.send(queue, 1..=3);
        assert!(bench.rows.get(&key.encode()).is_some_and(|row| !row.is_empty()), "P11");
        assert_eq!(counted(&bench, "copies_lost"), 1);
        assert!(bench.node.sends.under_way.is_empty(), "nobody is waited for");
        bench.node.config.page_rows = 1000;
        assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [1, 2, 3]);
    }
}

#[test]
fn another_message_with_an_id_under_another_stamp_is_refused_wherever_it_lies() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=5);
    bench.node.config.page_rows = 2;
    let mut label = bench.label(4);
    label.stamp.time += 1;
    let (attempt, within_ms) = (Attempt::Again, 1000);
    let send = Request::Send { queue, partition: 0, attempt, within_ms, labels: vec![label] };
    let Some(Response::Sent(sent)) = bench.ask(send).0 else { panic!("it is answered") };
    assert_eq!(sent.exceptions, [(0, SendException::Refused(Refusal::IdClash))]);
    assert_eq!(counted(&bench, "copies_lost"), 0);
}

#[test]
fn a_copy_that_comes_again_and_was_lost_unnoticed_is_not_said_to_be_held() {
    let ((mut bench, queue), (peer, link)) = (of_two_holders(), HOLDER);
    let labels = vec![bench.label(1), bench.label(2)];
    let envelope = copy_of((queue, 0), vec![ME, peer], labels);
    bench.handle(Event::Envelope { link, envelope: envelope.clone() });
    let key = MessageKey { queue, partition: 0, stamp: bench.label(2).stamp };
    bench.rows.remove(&key.encode());
    let effects = bench.handle(Event::Envelope { link, envelope });
    let is = |of: fn(&Envelope) -> bool| {
        effects.iter().any(|e| matches!(e, Effect::Send { envelope, .. } if of(envelope)))
    };
    assert!(is(|envelope| matches!(envelope, Envelope::Declined { .. })), "P1");
    assert!(!is(|envelope| matches!(envelope, Envelope::Held { .. })), "P1");
    assert_eq!(counted(&bench, "copies_lost"), 1);
}

/// A node that scrubs each second and holds a message whose deliveries are counted, and its key.
fn delivered_before() -> (Bench, MessageKey) {
    let mut bench = Bench::new();
    bench.node.config.scrub_every = Duration::from_secs(1);
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    for delivery in 1..=2 {
        let came = bench.receive(1, 0).unwrap().remove(0);
        assert_eq!(came.receipt.delivery, delivery);
        bench.ask(Request::Release { receipts: vec![came.receipt], delay_ms: 0 });
    }
    let stamp = bench.label(1).stamp;
    (bench, MessageKey { queue, partition: 0, stamp })
}

#[test]
fn a_count_of_deliveries_goes_once_its_message_was_lost_everywhere_and_not_before() {
    let (mut bench, key) = delivered_before();
    let count = Key::Deliveries(key).encode();
    bench.rows.remove(&key.encode());
    bench.pass(3000);
    assert_eq!(counted(&bench, "copies_lost"), 1);
    assert!(bench.rows.contains_key(&count), "F6: it may be here again");
    bench.pass(15_000);
    assert_eq!(counted(&bench, "lost_everywhere"), 1);
    assert!(!bench.rows.contains_key(&count));
}

#[test]
fn a_message_whose_row_says_nothing_keeps_its_count_for_when_it_is_here_again() {
    let (mut bench, key) = delivered_before();
    bench.rows.insert(key.encode(), Vec::new());
    bench.pass(3000);
    assert_eq!(counted(&bench, "copies_lost"), 1);
    bench.send(key.queue, 1..=1);
    let again = bench.receive(1, 0).unwrap();
    assert_eq!(again[0].receipt.delivery, 3, "P3: no receipt names two deliveries");
}

#[test]
fn what_the_scrub_removes_as_unreadable_is_not_handed_out_from_memory() {
    let mut bench = Bench::new();
    (bench.node.config.scrub_every, bench.node.config.page_rows) = (Duration::from_secs(1), 2);
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=5);
    bench.node.config.scrub_rate = 1;
    let came = bench.receive(1, 0).unwrap();
    assert_eq!(numbers(&came), [1]);
    let key = MessageKey { queue, partition: 0, stamp: bench.label(2).stamp };
    bench.rows.insert(key.encode(), Vec::new());
    while bench.rows.contains_key(&key.encode()) {
        bench.pass(1);
    }
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [3], "P1: its row is gone");
}

#[test]
fn what_nobody_can_tell_the_message_of_goes_when_a_node_opens() {
    let (bench, key) = delivered_before();
    let count = Key::Deliveries(key).encode();
    let mut rows = bench.rows.clone();
    let mut bench = Bench::open(rows.clone(), 1000);
    bench.handle(Event::Started);
    assert!(bench.rows.contains_key(&count), "its message is here");
    rows.insert(key.encode(), Vec::new());
    rows.retain(|row, _| !matches!(Key::parse(row), Some(Key::Settled(..))));
    let mut bench = Bench::open(rows, 1000);
    bench.node.config.scrub_every = Duration::from_secs(1);
    bench.handle(Event::Started);
    bench.pass(3000);
    assert!(!bench.rows.contains_key(&count), "L5");
    assert!(!bench.rows.contains_key(&key.encode()), "L5: the scrub passed where nothing is known");
}
