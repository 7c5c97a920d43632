//! Limits that a user of SQS knows: how many messages of a queue may be in flight.

use super::*;

#[test]
fn messages_in_flight_are_limited_per_queue_and_not_per_partition() {
    let mut bench = Bench::new();
    bench.node.config.in_flight_max = 5;
    let queue = bench.queue(SettingsChange { partitions: Some(2), ..SettingsChange::default() });
    for (partition, numbers) in [(0, 1..=4), (1, 5..=8)] {
        let labels = numbers.map(|number| bench.label(number)).collect();
        let (attempt, within_ms) = (Attempt::First, 1000);
        bench.ask(Request::Send { queue, partition, attempt, within_ms, labels });
    }
    let mut given = Vec::new();
    while given.len() < 5 {
        given.extend(bench.receive(10, 0).unwrap());
    }
    assert_eq!(given.len(), 5);
    assert_eq!(bench.receive(10, 50), None, "it waits");
    bench.pass(60);
    bench.ask(Request::Delete { receipts: vec![given[0].receipt.clone()] });
    assert_eq!(bench.receive(10, 0).unwrap().len(), 1, "there is room for one again");
}
