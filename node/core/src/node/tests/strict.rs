//! Strict queues, at a node that is the only pinned host: when a message comes, and in which order.

use gaggle_wire::{LateBy, Order, Position};

use super::*;

fn strict() -> SettingsChange {
    SettingsChange { order: Some(Order::Strict), window_ms: Some(200), ..one_partition() }
}

/// A message of some producer that was made so many nanoseconds after the first moment.
fn made(process: u64, number: u64, time: u64, key: u64) -> Label {
    let stamp = Stamp { time: at(0).wall.0 + time, count: 0, process: ProcessId(process) };
    Label { key, ..Message::new("x").pack(number, stamp, 0).unwrap().0 }
}

fn send(bench: &mut Bench, queue: QueueId, labels: Vec<Label>) -> Option<Response> {
    let (attempt, partition, within_ms) = (Attempt::First, 0, 1000);
    bench.ask(Request::Send { queue, partition, attempt, within_ms, labels }).0
}

/// What comes at once: number, delivery, and the round that released it, or none if it is late.
fn come(bench: &mut Bench, max: u32) -> Vec<(u64, u32, Option<u64>)> {
    let came = bench.receive(max, 0).unwrap_or_else(|| {
        // Who asked has waited for long enough then.
        bench.pass(1000);
        Vec::new()
    });
    let round = |position: Option<Position>| match position {
        Some(Position::InOrder { round, .. }) => Some(round),
        Some(Position::Late { .. }) => None,
        None => panic!("it has no position"),
    };
    let each = came
        .iter()
        .map(|given| (given.receipt.number, given.receipt.delivery, round(given.position)));
    each.collect()
}

#[test]
fn a_message_comes_in_the_order_of_stamps_once_its_window_has_passed() {
    let mut bench = Bench::new();
    let queue = bench.queue(SettingsChange { window_ms: Some(3000), ..strict() });
    assert_eq!(come(&mut bench, 9), [], "a node that looked once knows of later ones");
    send(&mut bench, queue, vec![made(2, 1, 7, 0)]);
    send(&mut bench, queue, vec![made(1, 1, 5, 0), made(1, 2, 9, 0)]);
    bench.pass(900);
    assert_eq!(come(&mut bench, 9), []);
    bench.pass(200);
    let came = bench.receive(9, 0).unwrap();
    let stamps: Vec<u64> = came.iter().map(|given| given.label.stamp.time).collect();
    assert_eq!(stamps, [5, 7, 9].map(|time| at(0).wall.0 + time));
    let position = |index| Some(Position::InOrder { round: 1, index });
    let positions: Vec<_> = came.iter().map(|given| given.position).collect();
    assert_eq!(positions, [position(0), position(1), position(2)]);
}

#[test]
fn the_next_of_a_key_waits_until_the_former_one_is_gone_and_other_keys_do_not() {
    let mut bench = Bench::new();
    let queue = bench.queue(strict());
    let labels = vec![made(1, 1, 1, 7), made(1, 2, 2, 7), made(1, 3, 3, 8)];
    send(&mut bench, queue, labels);
    bench.pass(300);
    let first = bench.receive(1, 0).unwrap().remove(0);
    assert_eq!(first.receipt.number, 1);
    assert_eq!(come(&mut bench, 9), [(3, 1, Some(1))], "P9");
    assert_eq!(come(&mut bench, 9), []);
    assert_eq!(bench.delete(vec![first.receipt]), [DeleteResult::Deleted]);
    assert_eq!(come(&mut bench, 9), [(2, 1, Some(1))]);
}

#[test]
fn what_is_behind_a_message_that_is_given_back_is_given_back_with_it() {
    let mut bench = Bench::new();
    let queue = bench.queue(strict());
    let labels = vec![made(1, 1, 1, 7), made(1, 2, 2, 7), made(1, 3, 3, 7), made(1, 4, 4, 8)];
    send(&mut bench, queue, labels);
    bench.pass(300);
    let group = bench.receive(9, 0).unwrap();
    assert_eq!(numbers(&group), [1, 2, 3, 4]);
    let release = Request::Release { receipts: vec![group[1].receipt.clone()], delay_ms: 0 };
    assert_eq!(bench.ask(release).0, Some(Response::Released(vec![Ok(())])));
    assert_eq!(come(&mut bench, 9), [], "the first one of the key is still out");
    assert_eq!(bench.delete(vec![group[0].receipt.clone()]), [DeleteResult::Deleted]);
    assert_eq!(come(&mut bench, 9), [(2, 2, Some(1)), (3, 2, Some(1))]);
}

#[test]
fn what_comes_behind_something_newer_is_late_by_key_or_by_the_watermark() {
    for (late_by, key, late) in [
        (LateBy::Key, 7, true),
        (LateBy::Key, 8, false),
        (LateBy::Watermark, 7, true),
        (LateBy::Watermark, 8, true),
    ] {
        let mut bench = Bench::new();
        let queue = bench.queue(SettingsChange { late_by: Some(late_by), ..strict() });
        send(&mut bench, queue, vec![made(1, 1, 5, 7)]);
        bench.pass(300);
        send(&mut bench, queue, vec![made(2, 3, 4, key)]);
        bench.pass(300);
        let round = (!late).then_some(2);
        // It is older, and nothing of its key is out: so it comes before.
        let expected = [(3, 1, round), (1, 1, Some(1))];
        assert_eq!(come(&mut bench, 9), expected, "{late_by:?} {key}");
    }
}

#[test]
fn what_was_agreed_on_outlasts_a_restart() {
    let mut bench = Bench::new();
    let queue = bench.queue(strict());
    send(&mut bench, queue, vec![made(1, 1, 1, 7), made(1, 2, 2, 7)]);
    bench.pass(300);
    let first = bench.receive(1, 0).unwrap().remove(0);
    assert_eq!(bench.delete(vec![first.receipt]), [DeleteResult::Deleted]);
    send(&mut bench, queue, vec![made(2, 9, 1, 7)]);
    let mut again = Bench::open(bench.rows, bench.at_ms + 1);
    again.handle(Event::Started);
    again.pass(1900);
    assert_eq!(come(&mut again, 9), [], "P9: a turn of the earlier run may last");
    again.pass(15_000);
    assert_eq!(come(&mut again, 9), [(9, 1, None), (2, 1, Some(1))], "P6");
}

#[test]
fn what_a_strict_queue_does_not_have_yet_is_refused() {
    let mut bench = Bench::new();
    let queue = bench.queue(strict());
    let delayed = Label { delay_ms: 5, ..made(1, 1, 1, 0) };
    let refused = send(&mut bench, queue, vec![delayed]);
    assert!(matches!(refused, Some(Response::Refused(Refusal::BadRequest { .. }))), "{refused:?}");
    let name = QueueName::parse("orders").unwrap();
    let refused = bench.ask(Request::PurgeQueue { name }).0;
    assert!(matches!(refused, Some(Response::Refused(Refusal::BadRequest { .. }))), "{refused:?}");

    bench.node.config.strict_queues = false;
    let name = QueueName::parse("others").unwrap();
    let refused = bench.ask(Request::CreateQueue { name, change: strict() }).0;
    let why = "strict queues are not there yet".to_owned();
    let refusal = Refusal::BadSetting { setting: "order".to_owned(), why };
    assert_eq!(refused, Some(Response::Refused(refusal)));
}
