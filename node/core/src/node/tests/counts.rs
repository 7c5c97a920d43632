//! Rows that count deliveries go with the message they count for, in whatever order it is learned
//! that it is gone.

use super::*;
use crate::node::deleting::NewTombstones;

fn counts(bench: &Bench) -> usize {
    bench.rows.keys().filter(|key| matches!(Key::parse(key), Some(Key::Deliveries(_)))).count()
}

/// A peer tells of tombstones; reads are not answered.
fn bury(bench: &mut Bench, queue: QueueId, numbers: Ranges, stamps: Vec<Stamp>) -> Vec<Effect> {
    let messages = vec![(PRODUCER, numbers)];
    let (leases, known) = (Vec::new(), Vec::new());
    let new = NewTombstones { id: (queue, 0), holders: vec![ME], messages, stamps, leases, known };
    let mut effects = Effects::new();
    bench.node.bury(bench.now(), new, &mut effects);
    let effects: Vec<Effect> = effects.drain().collect();
    for effect in &effects {
        if let Effect::Write(write) = effect {
            bench.write(write.clone());
        }
    }
    effects
}

/// The page that a node asked for, as it lies there now.
fn page(bench: &Bench, effects: &[Effect]) -> Event {
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Load { load, from, to, limit, .. } => Some((*load, from, to, *limit)),
        _ => None,
    });
    let (load, from, to, limit) = asked.expect("it reads");
    let (rows, end) = bench.scan(from, to, limit);
    Event::Loaded { load, rows, end, damaged: vec![] }
}

#[test]
fn a_message_that_is_told_gone_again_before_its_row_was_found_leaves_no_count() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    bench.receive(10, 0).unwrap();
    bench.pass(31_000);
    bench.receive(10, 0).unwrap();
    assert_eq!(counts(&bench), 1, "it was delivered twice");
    bench.send(queue, 2..=2);
    let sweep = bury(&mut bench, queue, Ranges::of(1, 1), Vec::new());
    let stamps = [1, 2].map(|number| bench.label(number).stamp).to_vec();
    bury(&mut bench, queue, Ranges::of(1, 2), stamps);
    let page = page(&bench, &sweep);
    bench.handle(page);
    assert_eq!(counts(&bench), 0);
}

#[test]
fn a_count_that_was_written_since_a_page_was_read_goes_with_its_message() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=2);
    bench.receive(10, 0).unwrap();
    let sweep = bury(&mut bench, queue, Ranges::of(2, 2), Vec::new());
    let stale = page(&bench, &sweep);
    bench.pass(31_000);
    assert_eq!(counts(&bench), 1, "its lease has ended");
    bury(&mut bench, queue, Ranges::of(1, 1), Vec::new());
    bench.handle(stale);
    assert_eq!(counts(&bench), 0);
}
