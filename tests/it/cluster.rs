//! Three real processes under load, some of them killed: nothing confirmed is lost.

use std::time::Duration;

use bytes::Bytes;
use gaggle_client::{Outgoing, SendError, SettingsChange};
use gaggle_support::tally::{Tally, spawn_consumer, spawn_producer, stop};
use gaggle_support::{TestCluster, until, wait_until};
use gaggle_wire::{Refusal, Status};

use crate::EXECUTABLE;

/// The default limit of a queue.
const MIB: usize = 1024 * 1024;
/// Longer than a lease: what was in flight at a killed node has come again by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// The sizes of the bodies that are sent, and how many of each.
fn sizes() -> Vec<(usize, usize)> {
    vec![(2500, 0), (2500, 1), (30_000, 100), (14_900, 1024), (50, MIB - 1), (50, MIB)]
}

/// Bodies of all sizes, so mixed that every producer has some of each.
fn mixed_bodies(producers: usize) -> Vec<Vec<Bytes>> {
    let mut shares = vec![Vec::new(); producers];
    let mut serial = 0_u64;
    for (count, length) in sizes() {
        for _ in 0..count {
            let mut body = serial.to_le_bytes().to_vec();
            body.resize(length.max(body.len()), b'x');
            body.truncate(length);
            let share = usize::try_from(serial).expect("fits") % producers;
            shares[share].push(Bytes::from(body));
            serial += 1;
        }
    }
    for share in &mut shares {
        // Large ones come in between the small ones and not at the end.
        let length = share.len();
        for index in 0..length {
            share.swap(index, index * 7919 % length);
        }
    }
    shares
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_confirmed_is_lost_while_nodes_are_killed_and_restarted() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client().await;
    client.create_queue("storm", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    let mut consumers = Vec::new();
    let mut producers = Vec::new();
    for (index, bodies) in mixed_bodies(8).into_iter().enumerate() {
        // Each node has a consumer that asks it alone; where the others ask is up to the lot.
        let receives = match index {
            0..3 => cluster.client_of(index).await,
            _ => cluster.client().await,
        };
        consumers.push(spawn_consumer(receives, "storm", &tally));
        producers.push(spawn_producer(cluster.client().await, "storm", bodies, &tally));
    }
    let all: usize = sizes().iter().map(|(count, _)| count).sum();

    until(|| tally.confirmed_count() > all / 4).await;
    wait_until(&client, "every node has confirmed sends and given deliveries", |status| {
        ["sends_confirmed", "deliveries_given"].iter().all(|name| {
            let nodes = counters(status, name);
            nodes.len() == 3 && nodes.iter().all(|count| *count > 0)
        })
    })
    .await;
    cluster.kill(1).await;
    until(|| tally.confirmed_count() > all / 2).await;
    cluster.restart(1);
    cluster.wait_until_ready().await;
    let confirmed = tally.confirmed_count();
    assert!(confirmed < all, "all was sent before the second kill, which then shows little");
    cluster.kill(2).await;
    cluster.restart(2);
    for producer in producers {
        producer.await.unwrap();
    }
    tally.wait_complete(PATIENCE).await;
    tally.assert_complete();
    assert_eq!(tally.failed(), Vec::<SendError>::new(), "every send had its deadline of 30 s");
    assert_eq!(tally.confirmed_count(), all);
    assert_eq!(tally.resurrected(), [], "P4: deleted messages came again");

    cluster.wait_until_ready().await;
    wait_until(&client, "the queue is empty and nothing is in flight", |status| {
        let queue = status.queues.iter().find(|queue| queue.name.as_str() == "storm");
        queue.is_some_and(|queue| queue.total.messages == 0 && queue.total.in_flight == 0)
    })
    .await;
    assert_eq!(tally.received_count(), all, "P2: what came was sent, and nothing else came");
    stop(consumers).await;
    tally.assert_complete();
}

/// What each node has counted under a name.
fn counters(status: &Status, name: &str) -> Vec<u64> {
    let reports = status.members.iter().filter_map(|member| member.report.as_ref());
    let counted = reports.flat_map(|report| &report.counters).filter(|(found, _)| found == name);
    counted.map(|(_, value)| *value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_above_the_limit_is_refused_and_one_at_the_limit_comes_back() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client().await;
    client.create_queue("limit", SettingsChange::default()).await.unwrap();
    let queue = client.queue("limit").unwrap();
    let refused = queue.send(Outgoing::new(vec![1; MIB + 1])).await.unwrap_err();
    let Some(Refusal::MessageTooLarge { limit, length }) = refused.refusal() else {
        panic!("{refused:?}");
    };
    assert_eq!((*limit as usize, *length as usize), (MIB, MIB + 1));
    queue.send(Outgoing::new(vec![2; MIB])).await.unwrap();
    let received = queue.receive(10, Duration::from_secs(20)).await.unwrap();
    assert_eq!(received.len(), 1);
    assert!(received[0].body() == vec![2; MIB]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_confirmed_survives_the_death_of_all_nodes_and_what_was_deleted_stays_deleted() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client().await;
    client.create_queue("dark", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    let bodies = |part: usize| -> Vec<Bytes> {
        (0..5000).map(|index| Bytes::from(format!("{part}-{index}"))).collect()
    };
    let mut tasks = Vec::new();
    for part in 0..4 {
        tasks.push(spawn_producer(cluster.client().await, "dark", bodies(part), &tally));
    }
    for _ in 0..2 {
        tasks.push(spawn_consumer(cluster.client().await, "dark", &tally));
    }
    until(|| tally.confirmed_count() > 8000 && tally.received_count() > 1000).await;
    cluster.kill_all().await;
    // Nobody notes an answer that comes later: what was noted was confirmed before the end.
    stop(tasks).await;
    client.close().await;
    assert_eq!(tally.resurrected(), [], "P4: deleted messages came again");
    assert!(tally.deleted_count() > 500, "{} deletes show little", tally.deleted_count());
    tally.begin_epoch();

    cluster.start_all().await;
    let consumer = spawn_consumer(cluster.client().await, "dark", &tally);
    tally.wait_complete(PATIENCE).await;
    tally.assert_complete();
    assert_eq!(tally.resurrected(), [], "P4: deleted messages came again");
    consumer.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_of_all_nodes_keeps_everything_and_delivers_nothing_twice() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client().await;
    client.create_queue("night", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    let bodies = (0..2000).map(|index| Bytes::from(format!("{index}"))).collect();
    spawn_producer(client.clone(), "night", bodies, &tally).await.unwrap();
    assert_eq!(tally.confirmed_count(), 2000);
    client.close().await;
    cluster.nodes.stop_all().await.unwrap();

    cluster.start_all().await;
    let consumer = spawn_consumer(cluster.client().await, "night", &tally);
    tally.wait_complete(PATIENCE).await;
    tally.assert_complete();
    assert_eq!(tally.duplicates(), 0, "P3: a graceful stop is no fault");
    consumer.abort();
}
