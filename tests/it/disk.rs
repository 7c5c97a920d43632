//! Disks that lose, tear, fail, fill and rot, under the store and under whole nodes.
//!
//! A store is broken at every single write and sync of a commit, and again at every one of the
//! opening that follows. What a commit said it did must be there, all of it or nothing of what
//! it did not say, whatever the seed lets the disk keep. What these tests do not do: they break
//! no order of events between nodes; the simulator does.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use gaggle_client::SettingsChange;
use gaggle_core::ledger::{Key, MessageKey, MessageRecord, Row, Write};
use gaggle_node::store::{Change, Store, StoreError};
use gaggle_support::faulty_disk::{Fault, FaultyDisk};
use gaggle_support::indoors::Indoors;
use gaggle_support::tally::{Tally, spawn_consumer, spawn_producer, stop};
use gaggle_support::{is_ready, until, wait_until};
use gaggle_wire::{Label, Message, NodeId, ProcessId, QueueId, Stamp};

const SEEDS: std::ops::Range<u64> = 0..3;

/// What a store should have: messages and their contents.
type Rows = BTreeMap<MessageKey, Bytes>;

fn message(time: u64) -> (MessageKey, Label, Bytes) {
    let stamp = Stamp { time, count: 0, process: ProcessId(7) };
    let queue = QueueId(Stamp { time: 1, count: 0, process: ProcessId(1) });
    // Some fill a page, some are larger than one.
    let length = usize::try_from(time * 977 % 9000).unwrap();
    let (label, content) = Message::new(vec![b'x'; length]).pack(time, stamp, 0).unwrap();
    (MessageKey { queue, partition: 0, stamp }, label, content)
}

/// The changes of a step: twelve messages come, and a third of those of the last step go.
fn step(number: u64) -> Vec<Change> {
    let come = (number * 12..number * 12 + 12).map(|time| {
        let (key, label, content) = message(time);
        let record = MessageRecord { label, accepted: key.stamp, holders: vec![NodeId(1)] };
        let write = Write::PutMessage { key, header: record.encode(&key), label };
        Change { write, content: Some(content) }
    });
    let gone = (number.saturating_sub(1) * 12..number * 12).step_by(3).map(|time| {
        let write = Write::Delete { key: message(time).0.encode() };
        Change { write, content: None }
    });
    come.chain(gone).collect()
}

/// What is there after so many steps.
fn after(steps: u64) -> Rows {
    let all = (0..steps * 12).map(message);
    let stays = |time: u64| !time.is_multiple_of(3) || time >= steps.saturating_sub(1) * 12;
    all.filter(|(key, ..)| stays(key.stamp.time)).map(|(key, _, content)| (key, content)).collect()
}

/// What a store has; every content must be whole.
fn rows(store: &Store) -> Rows {
    let keys: Vec<MessageKey> = store
        .read_all(|rows| {
            let keys = rows.filter_map(|row| match Key::parse(&row.key) {
                Some(Key::Message(key)) => Some(key),
                _ => None,
            });
            keys.collect()
        })
        .unwrap();
    let wanted: Vec<_> = keys.iter().map(|key| (*key, message(key.stamp.time).1)).collect();
    let contents = store.read(&wanted).unwrap();
    keys.into_iter().zip(contents.into_iter().map(|content| content.expect("whole"))).collect()
}

/// A disk on which some steps were committed before the power failed.
fn used_disk(seed: u64, steps: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    let store = disk.open().unwrap();
    for number in 0..steps {
        store.commit(&step(number)).unwrap();
    }
    disk.crash();
    disk
}

/// What is there must be what was confirmed, or that with all of what was not.
fn assert_whole(found: &Rows, steps: u64, told: &Result<(), StoreError>, why: &str) {
    if *found == after(steps + 1) {
        return;
    }
    assert!(told.is_err(), "P1: {why}: a commit that returned is not there");
    assert!(*found == after(steps), "P1: {why}: half of a commit is there");
}

/// Commits a step with a fault at its n-th write or sync; `None` when it has fewer.
fn broken_commit(disk: &FaultyDisk, nth: u64, fault: Fault) -> Option<Result<(), StoreError>> {
    let store = disk.open().unwrap();
    disk.fail_at(nth, fault);
    let told = store.commit(&step(STEPS));
    (!disk.is_waiting()).then_some(told)
}

const STEPS: u64 = 3;

#[test]
fn a_power_cut_at_any_write_of_a_commit_or_of_the_next_opening_loses_nothing_confirmed() {
    for seed in SEEDS {
        let used = used_disk(seed, STEPS);
        for nth in 1.. {
            let disk = used.copy(seed ^ (nth << 8));
            let Some(told) = broken_commit(&disk, nth, Fault::PowerCut) else {
                assert!(nth > 3, "a commit writes something");
                break;
            };
            disk.power_on();
            for again in 1.. {
                let why = format!("seed {seed}, write {nth}, then {again} of the opening");
                let disk = disk.copy(seed ^ (nth << 16) ^ (again << 8));
                disk.fail_at(again, Fault::PowerCut);
                let opened = disk.open();
                let last = disk.is_waiting();
                drop(opened);
                disk.crash();
                let store = disk.open().unwrap_or_else(|error| panic!("{why}: {error}"));
                let found = rows(&store);
                assert_whole(&found, STEPS, &told, &why);
                drop(store);
                disk.crash();
                assert!(rows(&disk.open().unwrap()) == found, "{why}: what was read is gone");
                if last {
                    break;
                }
            }
        }
    }
}

#[test]
fn what_is_read_after_a_kill_is_still_there_after_a_power_cut() {
    for seed in SEEDS {
        let used = used_disk(seed, STEPS);
        for nth in 1.. {
            let disk = used.copy(seed ^ (nth << 8));
            let Some(told) = broken_commit(&disk, nth, Fault::Kill) else { break };
            let why = format!("seed {seed}, write {nth}");
            let store = disk.open().unwrap_or_else(|error| panic!("{why}: {error}"));
            let found = rows(&store);
            assert_whole(&found, STEPS, &told, &why);
            // Dropping it would close it well.
            disk.crash();
            drop(store);
            assert!(rows(&disk.open().unwrap()) == found, "{why}: a phantom was read");
        }
    }
}

#[test]
fn after_a_failed_commit_nothing_is_said_to_be_done_and_the_store_opens_again() {
    for (seed, fault) in SEEDS.flat_map(|seed| [(seed, Fault::Io), (seed, Fault::Full)]) {
        let used = used_disk(seed, STEPS);
        for nth in 1.. {
            let why = format!("seed {seed}, {fault:?} at write {nth}");
            let disk = used.copy(seed ^ (nth << 8));
            let store = disk.open().unwrap();
            disk.fail_at(nth, fault);
            let told = store.commit(&step(STEPS));
            if disk.is_waiting() {
                break;
            }
            if told.is_err() {
                let second = store.commit(&step(STEPS + 1));
                assert!(second.is_err(), "{why}: a store that failed went on");
            }
            drop(store);
            disk.crash();
            let store = disk.open().unwrap_or_else(|error| panic!("{why}: {error}"));
            assert_whole(&rows(&store), STEPS, &told, &why);
            store.commit(&step(STEPS)).unwrap();
            drop(store);
            disk.crash();
            assert!(rows(&disk.open().unwrap()) == after(STEPS + 1), "{why}: not usable");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_room_at_any_write_of_a_send_loses_nothing_confirmed() {
    let mut nodes = Indoors::prepare(1, 14);
    nodes.start_all().await;
    let client = nodes.client().await;
    client.create_queue("tight", SettingsChange::default()).await.unwrap();
    let queue = client.queue("tight").unwrap();
    let mut confirmed = BTreeMap::new();
    // More often than a disk may fail for another reason before the node ends.
    for nth in 1..=12 {
        nodes.disk(0).fail_at(nth, Fault::Full);
        let body = format!("at write {nth}");
        let sent = queue.send(body.clone()).within(Duration::from_secs(30)).await;
        confirmed.insert(sent.unwrap().stamp, body);
        assert!(!nodes.disk(0).is_waiting() || nth > 3, "a send is some writes and syncs");
    }
    let mut came = BTreeMap::new();
    while came.len() < confirmed.len() {
        for delivery in queue.receive(10, Duration::from_secs(20)).await.unwrap() {
            let body = String::from_utf8(delivery.body().to_vec()).unwrap();
            came.insert(delivery.received().stamp, body);
            delivery.delete().await.unwrap();
        }
    }
    assert_eq!(came, confirmed, "P1, P2");
    client.close().await;
    nodes.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_disk_is_full_is_away_until_there_is_room_and_then_well_by_itself() {
    let mut nodes = Indoors::prepare(3, 15);
    nodes.start_all().await;
    let client = nodes.client().await;
    client.create_queue("full", SettingsChange::default()).await.unwrap();
    let (tally, bodies) = (Tally::default(), |from: u32| {
        (from..from + 500).map(|number| Bytes::from(number.to_string())).collect::<Vec<_>>()
    });
    nodes.disk(0).fill_up();
    spawn_producer(client.clone(), "full", bodies(0), &tally).await.unwrap();
    assert!(tally.failed().is_empty(), "the other two are enough: {:?}", tally.failed());
    wait_until(&client, "the node is away", |status| !is_ready(status, 3)).await;

    // With a second one full there are not enough hosts, and a send does not pretend otherwise.
    nodes.disk(1).fill_up();
    let queue = client.queue("full").unwrap();
    let refused = loop {
        match queue.send("too much").within(Duration::from_secs(1)).await {
            // It was not noticed yet.
            Ok(confirmed) => tally.sent(b"too much", Ok(confirmed)),
            Err(error) => break error,
        }
    };
    assert_ne!(refused.outcome(), gaggle_client::Outcome::Done);
    nodes.disk(0).make_room();
    nodes.disk(1).make_room();
    wait_until(&client, "all are well again", |status| is_ready(status, 3)).await;
    spawn_producer(client.clone(), "full", bodies(500), &tally).await.unwrap();
    assert!(tally.failed().is_empty(), "{:?}", tally.failed());
    let consumer = spawn_consumer(client.clone(), "full", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    consumer.abort();
    client.close().await;
    nodes.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_confirmed_survives_a_power_cut_of_all_nodes_and_what_was_deleted_stays_deleted() {
    let mut nodes = Indoors::prepare(3, 11);
    nodes.start_all().await;
    let client = nodes.client().await;
    client.create_queue("dark", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    let mut tasks = Vec::new();
    for part in 0..4 {
        let bodies = (0..5000).map(|index| Bytes::from(format!("{part}-{index}"))).collect();
        tasks.push(spawn_producer(nodes.client().await, "dark", bodies, &tally));
    }
    for _ in 0..2 {
        tasks.push(spawn_consumer(nodes.client().await, "dark", &tally));
    }
    until(|| tally.confirmed_count() > 5000 && tally.received_count() > 1000).await;
    nodes.cut_power().await;
    stop(tasks).await;
    client.close().await;
    assert_eq!(tally.resurrected(), [], "P4: deleted messages came again");
    assert!(tally.deleted_count() > 500, "{} deletes show little", tally.deleted_count());
    tally.begin_epoch();

    nodes.start_all().await;
    let consumer = spawn_consumer(nodes.client().await, "dark", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    assert_eq!(tally.resurrected(), [], "P4: deleted messages came again");
    consumer.abort();
    nodes.cut_power().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_rotted_at_one_node_comes_whole_from_another() {
    let mut nodes = Indoors::prepare(3, 12);
    nodes.start_all().await;
    let client = nodes.client().await;
    let change = SettingsChange { confirms: Some(3), ..SettingsChange::default() };
    client.create_queue("rot", change).await.unwrap();
    let bodies: Vec<Bytes> =
        (0..30).map(|index| Bytes::from(format!("rotting message {index:02}."))).collect();
    let tally = Tally::default();
    spawn_producer(client.clone(), "rot", bodies.clone(), &tally).await.unwrap();
    assert_eq!(tally.confirmed_count(), bodies.len());
    client.close().await;
    nodes.stop_all().await;
    for (index, body) in bodies.iter().enumerate() {
        assert!(nodes.disk(index % 3).flip_bit(body, 3) > 0, "{body:?} is on its disk");
    }

    nodes.start_all().await;
    let client = nodes.client().await;
    let consumer = spawn_consumer(client.clone(), "rot", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    let status = client.status().await.unwrap();
    let reports = status.members.iter().filter_map(|member| member.report.as_ref());
    let counters = reports.flat_map(|report| &report.counters);
    let lost = counters.filter(|(name, _)| name == "bodies_lost").map(|(_, count)| count);
    assert!(lost.sum::<u64>() > 0, "it is counted");
    consumer.abort();
    nodes.cut_power().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_damaged_tombstone_does_not_run_as_if_nothing_had_been_deleted() {
    let mut nodes = Indoors::prepare(1, 13);
    nodes.start_all().await;
    let client = nodes.client().await;
    client.create_queue("gone", SettingsChange::default()).await.unwrap();
    let queue = client.queue("gone").unwrap();
    queue.send("once").await.unwrap();
    let received = queue.receive(1, Duration::from_secs(20)).await.unwrap();
    for delivery in received {
        delivery.delete().await.unwrap();
    }
    client.close().await;
    nodes.stop_all().await;

    let disk = nodes.disk(0);
    let store = disk.copy(0).open().unwrap();
    let is_tombstone = |key: &[u8]| matches!(Key::parse(key), Some(Key::Tombstones(..)));
    let found = |mut rows: &mut dyn Iterator<Item = Row>| {
        Iterator::find(&mut rows, |row: &Row| is_tombstone(&row.key))
    };
    let row = store.read_all(found).unwrap();
    assert!(disk.flip_bit(&row.expect("a tombstone is kept").value, 5) > 0);
    let refused = nodes.start(0).await.unwrap_err().to_string();
    assert!(refused.contains("damaged"), "{refused}");
}
