//! Copies that rot or vanish at a node that has nobody to ask.

use std::time::Duration;

use super::*;

fn counted(bench: &Bench, counter: &str) -> u64 {
    bench.node.run.counters.get(counter).copied().unwrap_or_default()
}

fn lost(key: MessageKey) -> Event {
    Event::BodyLost { key, missed: None }
}

#[test]
fn a_stream_that_was_to_be_given_a_damaged_message_has_room_for_another_one() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=2);
    let name = QueueName::parse("orders").unwrap();
    let consume = Request::Consume { queue: name, visibility_ms: None, credit: 1 };
    let Some(Response::Deliveries { deliveries }) = bench.ask(consume).0 else {
        panic!("the first one comes");
    };
    assert_eq!(numbers(&deliveries), [1]);
    let key = MessageKey { queue, partition: 0, stamp: deliveries[0].receipt.stamp };
    let reply = Reply { client: ClientId(1), stream: 0, request: bench.request };
    let effects = bench.handle(Event::BodyLost { key, missed: Some(reply) });
    let given = effects.iter().find_map(|effect| match effect {
        Effect::Answer { response: Response::Deliveries { deliveries }, .. } => {
            Some(numbers(deliveries))
        }
        _ => None,
    });
    assert_eq!(given, Some(vec![2]), "P10");
}

#[test]
fn a_content_that_is_lost_is_counted_once_and_its_row_stays_until_nobody_has_it() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=3);
    let key = MessageKey { queue, partition: 0, stamp: bench.label(2).stamp };
    assert_eq!(bench.handle(lost(key)), [], "a node that ends now still knows that it had it");
    assert_eq!(bench.handle(lost(key)), []);
    let removed = Effect::Write(Write::Delete { key: key.encode() });
    assert!(bench.pass(15_000).contains(&removed), "nobody else had it twice in a row");
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
