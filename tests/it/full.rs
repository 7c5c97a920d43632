//! A node whose disk fills, with messages or by somebody else, on a real file system (F12, F13).
//!
//! What this file does not do: nothing is lost of what was written; see `disk.rs`.

use std::time::Duration;

use bytes::Bytes;
use gaggle_client::{Client, SettingsChange};
use gaggle_support::small_disk::SmallDisk;
use gaggle_support::tally::{Tally, spawn_consumer, spawn_producer};
use gaggle_support::{TestCluster, is_ready, until, wait_until};
use gaggle_wire::{NodeId, Refusal, Standing, Status};

use crate::EXECUTABLE;

/// The node with the small disk.
const SMALL: usize = 1;
/// It is full when a quarter of this is left.
const DISK_BYTES: u64 = 512 << 20;
const OTHERS_BYTES: u64 = 256 << 20;
/// With what is stored before it, a body takes a power of two of pages.
const BODY_BYTES: usize = 60_000;
/// Far more than there is room for within a store that was never larger.
const QUEUES: usize = 3000;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_full_of_messages_takes_nothing_new_until_they_are_deleted() {
    let Some((mut cluster, disk)) = cluster_with_a_small_disk() else { return };
    disk.fill(OTHERS_BYTES);
    cluster.start_all().await;
    let (all, small) = (cluster.client().await, cluster.client_of(SMALL).await);
    all.create_queue("many", SettingsChange::default()).await.unwrap();
    all.create_queue("kept", SettingsChange::default()).await.unwrap();
    let (many, kept) = (Tally::default(), Tally::default());
    // What is kept lies all over the store, so its file does not become shorter.
    for number in 0..25 {
        send(&all, "many", (number * 100, 100), &many).await;
        send(&all, "kept", (number, 1), &kept).await;
    }
    wait_until(&all, "the disk is full", |status| standing(status) == Some(Standing::Full)).await;
    assert_eq!(refusal(&small).await, Refusal::DiskFull);

    receive_all(&all, "many", &many).await;
    wait_until(&all, "there is room again", |status| is_ready(status, 3)).await;
    send(&small, "many", (3000, 100), &many).await;
    receive_all(&all, "many", &many).await;
    receive_all(&all, "kept", &kept).await;
    cluster.kill_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_others_filled_to_the_last_byte_can_be_emptied_all_the_same() {
    let Some((mut cluster, disk)) = cluster_with_a_small_disk() else { return };
    cluster.start_all().await;
    let (all, small) = (cluster.client().await, cluster.client_of(SMALL).await);
    all.create_queue("many", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    send(&all, "many", (0, 200), &tally).await;
    let reserve = cluster.nodes.data(SMALL).join("reserve");
    assert!(reserve.exists());

    disk.fill(DISK_BYTES);
    wait_until(&all, "the disk is full", |status| standing(status) == Some(Standing::Full)).await;
    assert_eq!(refusal(&small).await, Refusal::DiskFull);
    write_until(&small, || !reserve.exists()).await;
    receive_all(&small, "many", &tally).await;

    disk.clear();
    wait_until(&all, "there is room again", |status| is_ready(status, 3)).await;
    until(|| reserve.exists()).await;
    send(&small, "many", (1000, 100), &tally).await;
    receive_all(&small, "many", &tally).await;
    cluster.kill_all().await;
}

/// Three nodes that are not started, and the disk of one of them; none where the machine cannot.
fn cluster_with_a_small_disk() -> Option<(TestCluster, SmallDisk)> {
    let cluster = TestCluster::prepare(EXECUTABLE, 3);
    match SmallDisk::mount(cluster.nodes.data(SMALL), DISK_BYTES) {
        Ok(disk) => Some((cluster, disk)),
        Err(why) => {
            let required = std::env::var_os("GAGGLE_REQUIRE_MOUNT").is_some();
            assert!(!required, "GAGGLE_REQUIRE_MOUNT is set, and this machine cannot: {why}");
            println!("skipped: no small disk here: {why}");
            None
        }
    }
}

/// Sends so many bodies from a number on; others are enough where a node is full.
async fn send(client: &Client, queue: &str, (from, count): (usize, usize), tally: &Tally) {
    let rest = "x".repeat(BODY_BYTES);
    let body = |number| Bytes::from(format!("{number} {rest}"));
    let bodies = (from..from + count).map(body).collect();
    spawn_producer(client.clone(), queue, bodies, tally).await.unwrap();
    assert!(tally.failed().is_empty(), "{:?}", tally.failed());
}

/// Receives and deletes all that was sent.
async fn receive_all(client: &Client, queue: &str, tally: &Tally) {
    let consumer = spawn_consumer(client.clone(), queue, tally);
    tally.wait_complete(PATIENCE).await;
    until(|| tally.deleted_count() == tally.confirmed_count()).await;
    tally.assert_complete();
    consumer.abort();
}

/// Has rows written for which there is room within the store, until there is none: all that may
/// still be written to a full node is queues.
async fn write_until(client: &Client, mut over: impl FnMut() -> bool) {
    for number in 0..QUEUES {
        if over() {
            return;
        }
        // Of the one for which there was no room the outcome is unknown.
        let _ = client.create_queue(&format!("more-{number}"), SettingsChange::default()).await;
    }
    panic!("there is still room after {QUEUES} queues");
}

/// How the node with the small disk stands.
fn standing(status: &Status) -> Option<Standing> {
    let small = NodeId(SMALL as u64 + 1);
    status.members.iter().find(|member| member.node == small).map(|member| member.standing)
}

/// Why a node refuses a send, as it does at last.
async fn refusal(client: &Client) -> Refusal {
    let sent = client.queue("many").unwrap().send("more").within(Duration::from_secs(1)).await;
    let error = sent.expect_err("there is no room for it");
    error.refusal().cloned().unwrap_or_else(|| panic!("{error:?}"))
}
