//! A node whose disk fills, as a real file system fills: by its messages first, and then by
//! somebody else to the last byte (F12, F13).

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
const DISK_BYTES: u64 = 96 << 20;
const BODY_BYTES: usize = 64 << 10;
/// Bodies that one node cannot take, and three can.
const COUNT: usize = 1800;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_nothing_new_and_gives_up_all_that_is_deleted() {
    let mut cluster = TestCluster::prepare(EXECUTABLE, 3);
    let disk = match SmallDisk::mount(cluster.nodes.data(SMALL), DISK_BYTES) {
        Ok(disk) => disk,
        Err(why) => {
            let required = std::env::var_os("GAGGLE_REQUIRE_MOUNT").is_some();
            assert!(!required, "GAGGLE_REQUIRE_MOUNT is set, and this machine cannot: {why}");
            println!("skipped: no small disk here: {why}");
            return;
        }
    };
    cluster.start_all().await;
    let (all, small) = (cluster.client().await, cluster.client_of(SMALL).await);
    all.create_queue("full", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    spawn_producer(all.clone(), "full", bodies("first", COUNT), &tally).await.unwrap();
    assert!(tally.failed().is_empty(), "the other two are enough: {:?}", tally.failed());
    wait_until(&all, "the disk is full", |status| standing(status) == Some(Standing::Full)).await;
    assert_eq!(refusal(&small).await, Refusal::DiskFull);

    // Nothing is free any more: the first commit that needs a byte gives the reserve back.
    disk.fill_up();
    let consumer = spawn_consumer(small.clone(), "full", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    until(|| tally.deleted_count() == COUNT).await;
    consumer.abort();
    assert!(cluster.logs().contains("the disk is full"), "it was full to the last byte");
    // What is deleted makes room in the store, and the store gives that to the disk.
    wait_until(&all, "all are well again", |status| is_ready(status, 3)).await;
    until(|| cluster.nodes.data(SMALL).join("reserve").exists()).await;
    spawn_producer(small.clone(), "full", bodies("second", 50), &tally).await.unwrap();
    assert!(tally.failed().is_empty(), "{:?}", tally.failed());
    let consumer = spawn_consumer(all.clone(), "full", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    consumer.abort();
    cluster.kill_all().await;
    drop(disk);
}

fn bodies(name: &str, count: usize) -> Vec<Bytes> {
    let rest = "x".repeat(BODY_BYTES);
    (0..count).map(|number| Bytes::from(format!("{name} {number} {rest}"))).collect()
}

/// How the node with the small disk stands.
fn standing(status: &Status) -> Option<Standing> {
    let small = NodeId(SMALL as u64 + 1);
    status.members.iter().find(|member| member.node == small).map(|member| member.standing)
}

/// Why a node refuses a send, as it does at last.
async fn refusal(client: &Client) -> Refusal {
    let sent = client.queue("full").unwrap().send("more").within(Duration::from_secs(1)).await;
    let error = sent.expect_err("there is no room for it");
    error.refusal().cloned().unwrap_or_else(|| panic!("{error:?}"))
}
