//! Rows that vanish, or cannot be read at all, unnoticed by the node that runs on them.

use std::time::Duration;

use super::*;

fn counted(bench: &Bench, counter: &str) -> u64 {
    bench.node.run.counters.get(counter).copied().unwrap_or_default()
}

/// A message whose deliveries are counted, and its key.
fn delivered_before(bench: &mut Bench, queue: QueueId) -> MessageKey {
    bench.send(queue, 1..=1);
    for delivery in 1..=2 {
        let came = bench.receive(1, 0).unwrap().remove(0);
        assert_eq!(came.receipt.delivery, delivery);
        bench.ask(Request::Release { receipts: vec![came.receipt], delay_ms: 0 });
    }
    MessageKey { queue, partition: 0, stamp: bench.label(1).stamp }
}

#[test]
fn a_count_of_deliveries_goes_once_its_message_was_lost_everywhere_and_not_before() {
    let mut bench = Bench::new();
    bench.node.config.scrub_every = Duration::from_secs(1);
    let queue = bench.queue(one_partition());
    let key = delivered_before(&mut bench, queue);
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
    let mut bench = Bench::new();
    bench.node.config.scrub_every = Duration::from_secs(1);
    let queue = bench.queue(one_partition());
    let key = delivered_before(&mut bench, queue);
    bench.rows.insert(key.encode(), Vec::new());
    bench.pass(3000);
    assert_eq!(counted(&bench, "copies_lost"), 1);
    bench.send(queue, 1..=1);
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
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    let key = delivered_before(&mut bench, queue);
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
