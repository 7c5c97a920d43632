//! The age of the oldest message in status: also of a queue from which nobody has received.

use super::*;

fn status() -> Request {
    Request::Status { prefix: String::new(), after: None }
}

fn reads(effects: &[Effect]) -> Vec<(LoadId, Vec<u8>, Vec<u8>, usize)> {
    let read = |effect: &Effect| match effect {
        Effect::Load { load, from, to, limit, .. } => {
            Some((*load, from.clone(), to.clone(), *limit))
        }
        _ => None,
    };
    effects.iter().filter_map(read).collect()
}

/// Asks for the status without answering what is read for it.
fn ask_unread(bench: &mut Bench, request: u64) -> Vec<Effect> {
    let reply = Reply { client: ClientId(1), stream: 0, request };
    let mut effects = Effects::new();
    bench.node.handle(bench.now(), Event::Request { reply, request: status() }, &mut effects);
    effects.drain().collect()
}

/// In whole seconds: a stamp of acceptance may be a moment ahead of the wall.
fn age(response: Option<&Response>) -> u64 {
    match response {
        Some(Response::Status(status)) => (status.queues[0].total.oldest_age_ms + 1) / 1000,
        other => panic!("{other:?}"),
    }
}

fn answer(effects: &[Effect]) -> Option<&Response> {
    effects.iter().find_map(|effect| match effect {
        Effect::Answer { response, .. } => Some(response),
        _ => None,
    })
}

#[test]
fn the_oldest_of_a_queue_nobody_received_from_is_read_once_and_told_then() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    bench.pass(7000);
    bench.send(queue, 2..=2);
    let asked = ask_unread(&mut bench, 901);
    let reads_now = reads(&asked);
    assert_eq!(reads_now.len(), 1, "one page of few rows");
    assert!(answer(&asked).is_none(), "it is told when that is read");
    let (load, from, to, limit) = reads_now[0].clone();
    assert!(limit <= 16);
    let (rows, end) = bench.scan(&from, &to, limit);
    let told = bench.handle(Event::Loaded { load, rows, end, damaged: vec![] });
    assert_eq!(age(answer(&told)), 7);
    let again = ask_unread(&mut bench, 902);
    assert!(reads(&again).is_empty(), "it is known by now");
    assert_eq!(age(answer(&again)), 7);
}

#[test]
fn what_is_in_flight_counts_and_what_is_deleted_does_not_and_a_restart_changes_nothing() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    bench.pass(5000);
    bench.send(queue, 2..=2);
    bench.pass(2000);
    let delivery = bench.receive(1, 0).unwrap().remove(0);
    assert_eq!(age(bench.ask(status()).0.as_ref()), 7);
    let mut again = Bench::open(bench.rows.clone(), bench.at_ms + 1000);
    again.handle(Event::Started);
    again.pass(20_000);
    assert_eq!(age(again.ask(status()).0.as_ref()), 28);
    bench.ask(Request::Delete { receipts: vec![delivery.receipt] });
    assert_eq!(age(bench.ask(status()).0.as_ref()), 2);
}
