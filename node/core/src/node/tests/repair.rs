//! Copies that rot or vanish at a node that has nobody to ask.

use std::time::Duration;

use super::*;

fn counted(bench: &Bench, counter: &str) -> u64 {
    bench.node.run.counters.get(counter).copied().unwrap_or_default()
}

#[test]
fn a_content_that_is_lost_takes_its_row_along_and_is_counted_once() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=3);
    let key = MessageKey { queue, partition: 0, stamp: bench.label(2).stamp };
    let removed = Effect::Write(Write::Delete { key: key.encode() });
    assert_eq!(bench.handle(Event::BodyLost(key)), [removed]);
    assert_eq!(bench.handle(Event::BodyLost(key)), [], "its row is not there any more");
    bench.pass(5000);
    assert_eq!(counted(&bench, "copies_lost"), 1);
    assert_eq!(counted(&bench, "lost_everywhere"), 1, "no other host should have it");
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [1, 3]);
}

#[test]
fn the_scrub_finds_rows_that_vanished_and_removes_those_that_cannot_be_read() {
    let mut bench = Bench::new();
    (bench.node.config.scrub_every, bench.node.config.page_rows) = (Duration::from_secs(1), 2);
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=5);
    let [second, fourth] = [2, 4].map(|number| {
        let stamp = bench.label(number).stamp;
        MessageKey { queue, partition: 0, stamp }.encode()
    });
    bench.rows.get_mut(&second).unwrap()[20] ^= 1;
    bench.rows.remove(&fourth);
    let effects = bench.pass(3000);
    let removed = Effect::Write(Write::Delete { key: second });
    assert_eq!(effects.iter().filter(|effect| **effect == removed).count(), 1);
    assert_eq!(counted(&bench, "rows_damaged"), 1);
    assert_eq!(counted(&bench, "copies_lost"), 2);
    assert!(counted(&bench, "scrubs") > 2);
    bench.node.config.page_rows = 1000;
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [1, 3, 5]);
    bench.send(queue, 4..=4);
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [4], "it may be sent again");
}

#[test]
fn what_comes_and_goes_while_rows_are_read_is_not_taken_for_lost() {
    let mut bench = Bench::new();
    bench.node.config.scrub_every = Duration::from_millis(50);
    let queue = bench.queue(one_partition());
    for round in 0..40 {
        bench.send(queue, round * 5 + 1..=round * 5 + 5);
        bench.pass(7);
        let came = bench.receive(3, 0).unwrap();
        bench.delete(came.into_iter().map(|delivery| delivery.receipt).collect());
    }
    bench.pass(1000);
    assert!(counted(&bench, "scrubs") > 10);
    assert_eq!(counted(&bench, "copies_lost"), 0);
}
