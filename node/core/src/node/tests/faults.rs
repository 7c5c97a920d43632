//! What others met, at one node: clocks that are wrong, receipts that are old, consumers that
//! are gone, rows without their queue. `docs/faults.md` says which case is which.

use super::*;
use crate::node::opening::OpenError;

const HOUR_MS: u64 = 3_600_000;

/// Opens a node on these rows as a new run of its process.
fn restart(rows: BTreeMap<Vec<u8>, Vec<u8>>, at_ms: u64, seed: u64) -> Bench {
    let node = open(&rows, at_ms, seed).unwrap();
    let mut bench = Bench::with(node, rows, at_ms);
    bench.handle(Event::Started);
    bench
}

fn open(rows: &BTreeMap<Vec<u8>, Vec<u8>>, at_ms: u64, seed: u64) -> Result<Node, OpenError> {
    let address = "127.0.0.1:7400".parse().unwrap();
    let queue_defaults = Settings::standalone();
    let config = Config { queue_defaults, seed, ..Config::new(ME, address, address) };
    let mut read = rows.iter().map(|(key, value)| Row { key: key.clone(), value: value.clone() });
    Node::open(config, at(at_ms), &mut read)
}

/// Sends a message with this stamp at this time.
fn send_stamped(
    bench: &mut Bench,
    now: Now,
    queue: QueueId,
    number: u64,
    stamp: Stamp,
) -> Response {
    let (label, _) = Message::new("x").pack(number, stamp, 0).unwrap();
    let attempt = Attempt::First;
    let labels = vec![label];
    let request = Request::Send { queue, partition: 0, attempt, within_ms: 1000, labels };
    bench.request += 1;
    let reply = Reply { client: ClientId(1), stream: 0, request: bench.request };
    let mut effects = Effects::new();
    bench.node.handle(now, Event::Request { reply, request }, &mut effects);
    let mut answer = None;
    for effect in effects.drain().collect::<Vec<_>>() {
        match effect {
            Effect::Write(write) => bench.write(write),
            Effect::Answer { response, .. } => answer = Some(response),
            _ => {}
        }
    }
    answer.expect("a lone node answers at once")
}

/// Sends a message that was stamped just now; the accept stamp.
fn accepted(bench: &mut Bench, now: Now, queue: QueueId, number: u64) -> Stamp {
    let stamp = Stamp { time: now.wall.0, count: 0, process: PRODUCER };
    match send_stamped(bench, now, queue, number, stamp) {
        Response::Sent(sent) => sent.accepted,
        other => panic!("{other:?}"),
    }
}

fn message_rows(bench: &Bench) -> usize {
    bench.rows.keys().filter(|key| matches!(Key::parse(key), Some(Key::Message(_)))).count()
}

#[test]
fn no_stamp_is_made_twice_however_far_the_wall_is_set_back_over_a_restart() {
    for back_ms in [0, 1, 100, 1000, 8 * HOUR_MS] {
        let start_ms = 9 * HOUR_MS;
        let mut bench = restart(BTreeMap::new(), start_ms, 1);
        let queue = bench.queue(one_partition());
        let before = accepted(&mut bench, at(start_ms), queue, 1);
        let mut bench = restart(bench.rows, start_ms - back_ms, 2);
        let after = accepted(&mut bench, at(start_ms - back_ms), queue, 2);
        assert_ne!(before.process, after.process, "P8: another run, another process");
        if back_ms <= 100 {
            assert!(after > before, "P8: {back_ms} ms back: {before} and then {after}");
        }
    }
}

#[test]
fn a_stamp_that_cannot_be_is_refused_and_counted_and_does_not_move_the_clock() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.pass(10);
    let now = at(bench.at_ms);
    let rows = bench.rows.clone();
    let hour = 3600 * 1_000_000_000;
    for (time, count) in [(now.wall.0 + hour, 0), (now.wall.0, u32::MAX), (u64::MAX, u32::MAX)] {
        let stamp = Stamp { time, count, process: PRODUCER };
        let answer = send_stamped(&mut bench, now, queue, 1, stamp);
        let Response::Refused(refusal) = answer else { panic!("{stamp}: {answer:?}") };
        let ahead = matches!(refusal, Refusal::ClockAhead { .. });
        assert_eq!(ahead, time > now.wall.0, "{refusal:?}");
    }
    assert_eq!(bench.rows, rows, "nothing was written");
    assert_eq!(bench.node.run.counters["stamps_refused"], 3);
    let after = accepted(&mut bench, now, queue, 1);
    assert_eq!(after.time, now.wall.0, "P14: the clock goes by its own wall");
}

#[test]
fn a_wall_that_jumped_ahead_and_came_back_loses_nothing_and_a_restart_recovers_the_clock() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    let before = accepted(&mut bench, at(1000), queue, 1);
    let ahead = Now { mono: at(2000).mono, wall: at(8 * HOUR_MS).wall };
    let jumped = accepted(&mut bench, ahead, queue, 2);
    let back = accepted(&mut bench, at(2001), queue, 3);
    assert!(
        before < jumped && jumped < back,
        "P8: stamps of a process rise whatever the wall does"
    );
    let later = accepted(&mut bench, at(4000), queue, 4);
    assert_eq!(later.time, at(4000).wall.0, "and go back as those of another process");
    assert_ne!(later.process, back.process);
    let mut bench = restart(bench.rows, 4050, 2);
    let recovered = accepted(&mut bench, at(4100), queue, 5);
    assert!(recovered.time < at(4600).wall.0, "the ceiling of the wrong time is dropped");
    assert_ne!(recovered.process, later.process);
    bench.pass(10);
    let mut got = numbers(&bench.receive(9, 1000).unwrap());
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4, 5]);
}

#[test]
fn an_old_receipt_neither_extends_nor_releases_and_its_delete_counts_and_says_so() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let first = bench.receive(1, 0).unwrap().remove(0).receipt;
    bench.pass(31_000);
    let second = bench.receive(1, 0).unwrap().remove(0).receipt;
    assert_eq!((first.delivery, second.delivery), (1, 2));
    let until = |bench: &Bench| {
        let flights = &bench.node.partitions[&(queue, 0)].flights;
        flights.with(second.stamp).expect("it is in flight").until
    };
    let hidden_until = until(&bench);
    let receipts = vec![first.clone()];
    let extend = Request::Extend { receipts: receipts.clone(), visibility_ms: 60_000 };
    assert_eq!(bench.ask(extend).0, Some(Response::Extended(vec![Err(Refusal::StaleReceipt)])));
    let release = Request::Release { receipts: receipts.clone(), delay_ms: 0 };
    assert_eq!(bench.ask(release).0, Some(Response::Released(vec![Err(Refusal::StaleReceipt)])));
    assert_eq!(until(&bench), hidden_until, "the present lease is as it was");
    assert_eq!(bench.delete(receipts), [DeleteResult::DeletedByOlderReceipt]);
    assert_eq!(bench.delete(vec![second]), [DeleteResult::Deleted], "once more is no harm");
    bench.pass(60_000);
    assert_eq!(bench.receive(1, 0), None, "P4: it is gone");
}

#[test]
fn a_lease_ends_at_its_time_and_no_sooner_when_its_consumer_is_gone() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=40);
    let in_flight = |bench: &Bench| bench.node.partitions[&(queue, 0)].flights.len();
    assert_eq!(bench.receive(40, 0).unwrap().len(), 40);
    bench.handle(Event::ClientClosed(ClientId(1)));
    bench.pass(29_000);
    assert_eq!((bench.receive(99, 0), in_flight(&bench)), (None, 40));
    bench.pass(1100);
    assert_eq!(in_flight(&bench), 0);
    let again = bench.receive(99, 0).unwrap();
    assert_eq!(numbers(&again), (1..=40).collect::<Vec<_>>());
    // Leases are not written down: a restart of their custodian ends them.
    let mut bench = restart(bench.rows, bench.at_ms + 5, 2);
    bench.pass(10);
    let again = bench.receive(99, 1000).unwrap();
    assert_eq!(again.len(), 40);
    let receipts = again.into_iter().map(|delivery| delivery.receipt).collect();
    assert!(bench.delete(receipts).iter().all(|result| *result == DeleteResult::Deleted));
    assert_eq!((in_flight(&bench), message_rows(&bench)), (0, 0));
}

#[test]
fn runs_are_counted_from_a_number_that_is_drawn_for_an_empty_store_alone() {
    let address = "127.0.0.1:7400".parse().unwrap();
    let open = |rows: &BTreeMap<Vec<u8>, Vec<u8>>| {
        let config = Config { first_boot: 77, ..Config::new(ME, address, address) };
        let mut read =
            rows.iter().map(|(key, value)| Row { key: key.clone(), value: value.clone() });
        Node::open(config, at(0), &mut read).unwrap()
    };
    let node = open(&BTreeMap::new());
    assert_eq!(node.run.boot, 77);
    let mut bench = Bench::with(node, BTreeMap::new(), 0);
    bench.handle(Event::Started);
    assert_eq!(open(&bench.rows).run.boot, 78);
}

#[test]
fn what_a_broken_stream_left_untaken_comes_again_under_a_receipt_of_its_own() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let first = stream(&mut bench);
    bench.handle(Event::ClientClosed(ClientId(1)));
    // The client may have heard, may be back by another connection, and may release it (F6).
    let second = bench.receive(1, 0).unwrap().remove(0).receipt;
    assert_eq!((first.delivery, second.delivery), (1, 2));
    let release = Request::Release { receipts: vec![first], delay_ms: 0 };
    assert_eq!(bench.ask(release).0, Some(Response::Released(vec![Err(Refusal::StaleReceipt)])));
    assert_eq!(bench.receive(1, 0), None, "P3: it is in flight");
}

#[test]
fn what_a_stream_that_is_stopped_left_untaken_counts_as_never_handed_out() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let first = stream(&mut bench);
    let stop = Request::StopConsume { consumer: bench.request, taken: 0 };
    assert_eq!(bench.ask(stop).0, Some(Response::Done));
    assert_eq!(bench.receive(1, 0).unwrap().remove(0).receipt, first);
}

/// Opens a stream; the one delivery that comes of it.
fn stream(bench: &mut Bench) -> Receipt {
    let queue = QueueName::parse("orders").unwrap();
    let consume = Request::Consume { queue, visibility_ms: None, credit: 10 };
    match bench.ask(consume).0 {
        Some(Response::Deliveries { mut deliveries }) => deliveries.remove(0).receipt,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_of_a_queue_that_nobody_knows_are_kept_until_it_is_known_again() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=5);
    let entry = bench.rows.remove(&Key::Queue(queue).encode()).unwrap();
    let mut bench = restart(bench.rows, bench.at_ms + 5, 2);
    bench.pass(600_000);
    assert_eq!(message_rows(&bench), 5, "P13: nothing goes because metadata is missing");
    bench.rows.insert(Key::Queue(queue).encode(), entry);
    let mut bench = restart(bench.rows, bench.at_ms + 5, 3);
    bench.pass(10);
    assert_eq!(numbers(&bench.receive(9, 1000).unwrap()), [1, 2, 3, 4, 5]);
}

#[test]
fn a_damaged_entry_of_a_queue_is_fatal_and_a_deleted_one_takes_its_messages_along() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=5);
    let key = Key::Queue(queue).encode();
    let mut damaged = bench.rows.clone();
    damaged.get_mut(&key).unwrap()[9] ^= 1;
    assert_eq!(open(&damaged, bench.at_ms, 2).unwrap_err(), OpenError::BadRow(key));

    let name = QueueName::parse("orders").unwrap();
    bench.ask(Request::DeleteQueue { name });
    bench.pass(1000);
    assert_eq!(message_rows(&bench), 0);
}

#[test]
fn a_lease_lasts_its_length_however_the_wall_clock_is_set() {
    for off in [-1, 1].map(|hours| hours * HOUR_MS as i64) {
        let mut bench = Bench::new();
        let queue = bench.queue(one_partition());
        bench.send(queue, 1..=2);
        assert_eq!(bench.receive(2, 0).unwrap().len(), 2);
        bench.wall_off_ms = off;
        bench.pass(29_900);
        assert_eq!(bench.receive(2, 0), None, "{off}: it is hidden");
        bench.wall_off_ms = 0;
        bench.pass(200);
        assert_eq!(numbers(&bench.receive(2, 0).unwrap()), [1, 2], "{off}: and not longer");
    }
}

/// Sends a message that is to wait.
fn send_delayed(bench: &mut Bench, queue: QueueId, number: u64, delay_ms: u64) {
    let stamp = Stamp { time: bench.now().wall.0, count: 0, process: PRODUCER };
    let (label, _) = Message::new("x").pack(number, stamp, delay_ms).unwrap();
    let (attempt, labels) = (Attempt::First, vec![label]);
    let request = Request::Send { queue, partition: 0, attempt, within_ms: 1000, labels };
    assert!(matches!(bench.ask(request).0, Some(Response::Sent(_))));
}

#[test]
fn a_delay_goes_by_the_wall_clock_and_no_timer_sleeps_through_its_correction() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.pass(10_000);
    send_delayed(&mut bench, queue, 1, 30_000);
    assert_eq!(bench.receive(1, 120_000), None);
    bench.wall_off_ms = -(HOUR_MS as i64);
    bench.pass(60_000);
    bench.wall_off_ms = 0;
    let effects = bench.pass(2000);
    let delivered = |effect: &Effect| {
        matches!(effect, Effect::Answer { response: Response::Deliveries { .. }, .. })
    };
    assert_eq!(effects.iter().filter(|effect| delivered(effect)).count(), 1, "{effects:?}");
}

#[test]
fn a_delay_that_is_not_over_outlasts_a_restart_and_is_over_when_the_wall_clock_says_so() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.pass(1000);
    send_delayed(&mut bench, queue, 1, 30_000);
    let mut bench = restart(bench.rows, 10_000, 2);
    bench.pass(10);
    assert_eq!(bench.receive(1, 0), None);
    bench.pass(20_000);
    assert_eq!(bench.receive(1, 0), None, "29 s after it was accepted");
    bench.pass(1100);
    assert_eq!(numbers(&bench.receive(1, 100).unwrap()), [1]);
}

#[test]
fn retention_goes_by_the_time_of_acceptance_and_not_by_the_stamp() {
    let minutes = |minutes: u64| minutes * 60_000;
    let mut bench = restart(BTreeMap::new(), HOUR_MS, 1);
    let change = SettingsChange { retention_ms: Some(minutes(5)), ..one_partition() };
    let queue = bench.queue(change);
    let (time, now) = (at(HOUR_MS - minutes(10)).wall.0, bench.now());
    let stamp = Stamp { time, count: 0, process: PRODUCER };
    let sent = send_stamped(&mut bench, now, queue, 1, stamp);
    assert!(matches!(sent, Response::Sent(_)), "{sent:?}");
    bench.pass(minutes(5) - 1000);
    let got = bench.receive(1, 0).unwrap();
    assert_eq!(numbers(&got), [1], "a producer ten minutes behind loses nothing of the five");
    bench.pass(minutes(2));
    assert_eq!(bench.receive(1, 0), None, "and gains nothing");
    assert_eq!(message_rows(&bench), 0);
}

#[test]
fn what_was_written_down_of_messages_that_a_purge_took_goes_also_after_a_crash() {
    let settled = |bench: &Bench| {
        bench.rows.keys().filter(|key| matches!(Key::parse(key), Some(Key::Settled(..)))).count()
    };
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=3);
    bench.pass(3000);
    bench.ask(Request::PurgeQueue { name: QueueName::parse("orders").unwrap() });
    assert_eq!((message_rows(&bench), settled(&bench)), (0, 1));
    let mut bench = restart(bench.rows, 4000, 2);
    bench.pass(3000);
    assert_eq!(settled(&bench), 0);
}

#[test]
fn what_is_sent_after_a_purge_by_a_clock_ahead_is_accepted_above_it_under_stamps_of_its_own() {
    for ahead_ms in [100, HOUR_MS] {
        let mut bench = restart(BTreeMap::new(), HOUR_MS, 1);
        let queue = bench.queue(one_partition());
        let now = bench.now();
        let mut entry = bench.node.table.entry(queue).unwrap().clone();
        let time = now.wall.0 + ahead_ms * 1_000_000;
        entry.purge(Stamp { time, count: 0, process: PRODUCER });
        bench.node.table.merge(&entry);
        let send = |bench: &mut Bench, number| accepted(bench, at(HOUR_MS + number), queue, number);
        let [one, other] = [1, 2].map(|number| send(&mut bench, number));
        assert!(one > entry.purged && other > entry.purged, "it outlives the purge");
        assert_ne!(one, other, "P8: {ahead_ms} ms ahead");
    }
}
