//! What a backlog costs: memory and speed that do not follow it, and a restart that does not wait.
//!
//! Two clusters of real processes, one with a small backlog and one that grows, on the same
//! machine at the same time: what else the machine does then weighs on both, and what is compared
//! are neighbours in time. What these tests do not do: they measure no speed as such; `gaggle
//! bench` does.

use std::time::{Duration, Instant};

use bytes::Bytes;
use gaggle_client::{Client, SettingsChange, Status};
use gaggle_support::{TestCluster, wait_until};

use crate::EXECUTABLE;

/// What is in the queue when memory is looked at first.
const SMALL: usize = 50_000;
/// What is in it when it is looked at again.
const LARGE: usize = 200_000;
/// What one measured send of many takes to both clusters in turn.
const TURN: usize = 2000;
const TURNS: usize = 9;
const MIB: u64 = 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_speed_do_not_follow_the_backlog_and_a_restart_does_not_wait_for_it() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client().await;
    create(&client).await;
    fill(&client, SMALL).await;
    let before = peaks(&cluster);
    fill(&client, LARGE - SMALL).await;
    let after = peaks(&cluster);
    for (index, (before, after)) in before.iter().zip(&after).enumerate() {
        let grown = after.saturating_sub(*before);
        let told = format!("node {index}: {} MiB, then {} MiB", before / MIB, after / MIB);
        println!("{told}");
        assert!(grown < 20 * MIB, "P12: memory follows the backlog: {told}");
    }

    let fresh = TestCluster::start(EXECUTABLE, 3).await;
    let other = fresh.client().await;
    create(&other).await;
    let mut ratios = Vec::new();
    for _ in 0..TURNS {
        let small = timed(&other).await;
        let large = timed(&client).await;
        ratios.push(small.as_secs_f64() / large.as_secs_f64());
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let median = ratios[TURNS / 2];
    println!("rates with the backlog, of those without: {ratios:.2?}");
    assert!(median > 0.6, "sends become slower with the backlog: {ratios:?}");
    other.close().await;
    drop(fresh);

    // Another node tells, so that no client's patience with a silent node is measured.
    let witness = cluster.client_of(0).await;
    let killed = cluster.nodes.id(1);
    let boot_of = |status: &Status| {
        let member = status.members.iter().find(|member| member.node == killed);
        member.and_then(|member| member.report.as_ref()).map(|report| (report.boot, report.ready))
    };
    let (before, _) = boot_of(&witness.status().await.unwrap()).expect("it is asked");
    cluster.kill(1).await;
    let start = Instant::now();
    cluster.restart(1);
    wait_until(&witness, "the killed node is ready", |status| {
        boot_of(status) == Some((before + 1, true))
    })
    .await;
    let took = start.elapsed();
    println!("ready {took:?} after the kill");
    assert!(took < Duration::from_secs(5), "a restart took {took:?}");
}

async fn create(client: &Client) {
    client.create_queue("backlog", SettingsChange::default()).await.unwrap();
}

/// Sends so many messages of 100 bytes; all must be confirmed.
async fn fill(client: &Client, count: usize) {
    let producer = client.queue("backlog").unwrap().producer();
    let results = producer.send_all((0..count).map(|_| Bytes::from_static(&[b'x'; 100]))).await;
    let failed: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} of {count}: {:?}", failed.len(), failed[0]);
}

async fn timed(client: &Client) -> Duration {
    let start = Instant::now();
    fill(client, TURN).await;
    start.elapsed()
}

/// The peak memory of every node so far.
fn peaks(cluster: &TestCluster) -> Vec<u64> {
    (0..3).map(|index| cluster.nodes.memory_peak(index).expect("a process that runs")).collect()
}
