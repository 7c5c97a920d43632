//! Copies that rot or vanish, mostly at a node that has nobody to ask.

use std::time::Duration;

use super::*;
use crate::envelope::{CopyItem, LeaseTold, delivery_message};
use crate::event::{LinkId, Missed};
use crate::table::Entry;

pub(super) fn counted(bench: &Bench, counter: &str) -> u64 {
    bench.node.run.counters.get(counter).copied().unwrap_or_default()
}

fn lost(key: MessageKey) -> Event {
    Event::BodyLost { key, missed: None }
}

/// Word that a delivery went out without its content.
fn missed(bench: &Bench, delivery: &DeliveryLabel) -> Event {
    let reply = Reply { client: ClientId(1), stream: 0, request: bench.request };
    let missed = Missed { receipt: delivery.receipt.clone(), reply: Some(reply) };
    Event::BodyLost { key: delivery_message(delivery).0, missed: Some(missed) }
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
    bench.rotten.insert(delivery_message(&deliveries[0]).0);
    let effects = bench.handle(missed(&bench, &deliveries[0]));
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
    bench.rotten.insert(key);
    assert_eq!(bench.handle(lost(key)), [], "a node that ends now still knows that it had it");
    assert_eq!(bench.handle(lost(key)), []);
    let removed = Effect::Write(Write::Delete { key: key.encode() });
    assert!(bench.pass(15_000).contains(&removed), "nobody else had it twice in a row");
    assert_eq!(counted(&bench, "copies_lost"), 1);
    assert_eq!(counted(&bench, "lost_everywhere"), 1, "no other host should have it");
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [1, 3]);
}

#[test]
fn late_word_of_damage_is_not_believed_of_a_copy_that_is_here_again() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let key = MessageKey { queue, partition: 0, stamp: bench.label(1).stamp };
    assert_eq!(bench.handle(lost(key)), []);
    assert_eq!(counted(&bench, "copies_lost"), 0, "it was read again, and is whole");
    assert_eq!(numbers(&bench.receive(9, 0).unwrap()), [1]);
}

#[test]
fn a_delivery_that_nobody_heard_of_is_made_again_and_one_that_was_heard_of_is_not() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let first = bench.receive(1, 0).unwrap();
    let key = delivery_message(&first[0]).0;
    bench.handle(missed(&bench, &first[0]));
    let again = bench.receive(1, 0).unwrap();
    assert_eq!(again[0].receipt, first[0].receipt, "nobody has heard of the first");
    bench.rotten.insert(key);
    bench.handle(lost(key));
    assert_eq!(counted(&bench, "copies_lost"), 1);
    bench.send(queue, 1..=1);
    assert_eq!(bench.receive(1, 0), None, "P3: its lease runs on");
    bench.pass(30_000);
    let second = bench.receive(1, 0).unwrap();
    assert_eq!(second[0].receipt.delivery, 2, "P3: no receipt names two deliveries");
    bench.rotten.insert(key);
    bench.handle(lost(key));
    let receipts = vec![second[0].receipt.clone()];
    bench.ask(Request::Release { receipts, delay_ms: 0 });
    bench.send(queue, 1..=1);
    let third = bench.receive(1, 0).unwrap();
    assert_eq!(third[0].receipt.delivery, 3, "P3: also where its lease ended without a copy");
}

#[test]
fn a_row_that_has_vanished_is_not_handed_out_again_and_again_until_the_scrub_comes() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let first = bench.receive(1, 0).unwrap();
    let key = delivery_message(&first[0]).0;
    bench.rows.remove(&key.encode());
    bench.handle(missed(&bench, &first[0]));
    assert_eq!(counted(&bench, "copies_lost"), 1);
    assert_eq!(bench.receive(1, 0), None, "it is not here");
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

#[test]
fn a_copy_that_is_here_again_keeps_its_own_count_beside_the_lease_of_another_custodian() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    for delivery in 1..=3 {
        let came = bench.receive(1, 0).unwrap().remove(0);
        assert_eq!(came.receipt.delivery, delivery);
        bench.ask(Request::Release { receipts: vec![came.receipt], delay_ms: 0 });
    }
    let stamp = bench.label(1).stamp;
    let key = MessageKey { queue, partition: 0, stamp };
    bench.rotten.insert(key);
    bench.handle(lost(key));
    let (custodian, boot) = (NodeId(2), 7);
    let lease = LeaseTold { number: 1, stamp, remaining_ms: 5000, custodian, boot, delivery: 1 };
    let now = bench.now();
    bench.node.leases_told(now, (queue, 0), &[lease], &mut Effects::new());
    bench.send(queue, 1..=1);
    assert_eq!(bench.receive(1, 0), None, "P3: the lease runs");
    bench.pass(6000);
    assert_eq!(bench.receive(1, 0).unwrap()[0].receipt.delivery, 4, "P3");
}

/// The other holder of a queue of two, and the connection to it.
pub(super) const HOLDER: (NodeId, LinkId) = (NodeId(2), LinkId(1));

/// A node that has been up for long, in session with the other holder of a queue of two.
pub(super) fn of_two_holders() -> (Bench, QueueId) {
    let (peer, link) = HOLDER;
    let mut bench = Bench::open(BTreeMap::new(), 200_000);
    bench.handle(Event::Started);
    let hello = PeerHello { node: peer, store: 9, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link, hello: Box::new(hello) });
    let settings = Settings { replicas: 2, confirms: 2, at_least: 2, ..Settings::standalone() };
    let queue = QueueId(bench.label(1).stamp);
    let entry = Entry::new(queue, QueueName::parse("orders").unwrap(), settings);
    let envelope = Envelope::Table { call: 0, entries: vec![entry], removals: Vec::new() };
    bench.handle(Event::Envelope { link, envelope });
    (bench, queue)
}

/// Who fetches has lost its copy, and so counts for one more host: an old copy that nobody was
/// known to share was not given, and who was asked for it later said that it has it.
#[test]
fn an_old_copy_is_given_to_who_has_lost_its_own_though_nobody_has_said_that_both_have_it() {
    let ((mut bench, queue), (peer, link)) = (of_two_holders(), HOLDER);
    let (holders, label) = (vec![ME, peer], bench.label(1));
    let envelope = copy_of((queue, 0), holders.clone(), vec![label]);
    bench.handle(Event::Envelope { link, envelope });
    let messages = vec![(PRODUCER, Ranges::of(1, 1))];
    let envelope = Envelope::Fetch { call: 7, queue, partition: 0, messages: messages.clone() };
    let effects = bench.handle(Event::Envelope { link, envelope });
    let said = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { envelope, .. } => Some(envelope),
        _ => None,
    });
    let said: Vec<Envelope> = said.collect();
    let [Envelope::Inventory { call: 7, .. }, listed, made_up] = &said[..] else {
        panic!("{said:?}")
    };
    let list = Envelope::Listed { queue, partition: 0, holders: holders.clone(), messages };
    assert_eq!(*listed, list);
    let items = vec![CopyItem { label, accepted: label.stamp, holders, lease: None }];
    assert_eq!(*made_up, Envelope::MakeUp { batch: 0, queue, partition: 0, items });
}
