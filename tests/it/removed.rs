//! Members of a real cluster that are removed under load (F17).

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use gaggle_client::SettingsChange;
use gaggle_support::tally::{Tally, spawn_consumer, spawn_producer, stop};
use gaggle_support::{TestCluster, until, wait_until};

use crate::EXECUTABLE;
use crate::shell::Shell;

const COUNT: usize = 6000;
/// The node that is removed.
const LEAVER: usize = 0;
/// Longer than a lease.
const PATIENCE: Duration = Duration::from_secs(60);

fn bodies() -> Vec<Bytes> {
    (0..COUNT).map(|index| Bytes::from(format!("{index}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_removed_under_load_and_nothing_is_lost_and_it_never_comes_back() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    let client = cluster.client().await;
    client.create_queue("orders", SettingsChange::default()).await.unwrap();
    let tally = Tally::default();
    let producer = spawn_producer(cluster.client().await, "orders", bodies(), &tally);
    until(|| tally.confirmed_count() > COUNT / 10).await;
    let id = cluster.nodes.id(LEAVER).to_string();

    // While another one is away nobody knows what only the leaver holds.
    cluster.kill(1).await;
    let refused = shell.run(&["node", "remove", &id, "--yes", "--timeout", "1s"], b"");
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    cluster.restart(1);
    // Whether it had begun to leave before that was noticed or not.
    let kept = shell.run(&["node", "keep", &id], b"");
    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    cluster.wait_until_ready().await;

    let removed = shell.run(&["node", "remove", &id, "--yes"], b"");
    assert_eq!(removed.status.code(), Some(0), "{removed:?} {}", cluster.logs());
    assert_eq!(String::from_utf8_lossy(&removed.stdout), format!("node {id} is removed\n"));
    let log = cluster.nodes.log_path(LEAVER).to_owned();
    until(|| cluster.nodes.ended(LEAVER).is_some()).await;
    assert!(fs::read_to_string(&log).unwrap().contains("was removed from the cluster"));
    let again = shell.run(&["node", "remove", &id, "--yes", "--json"], b"");
    assert_eq!(again.status.code(), Some(0), "it is removed already: {again:?}");
    let unknown = shell.run(&["node", "remove", "77", "--yes"], b"");
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");

    // The others are stopped and started one after the other, under load.
    for index in [1, 2] {
        cluster.nodes.stop(index).await.unwrap();
        cluster.restart(index);
        let ready = |status: &gaggle_wire::Status| gaggle_support::is_ready(status, 2);
        let other = cluster.client_of(index).await;
        wait_until(&other, "two nodes that are ready", ready).await;
    }
    producer.await.unwrap();

    // With its old disk it ends, with an empty one it is a new host.
    cluster.restart(LEAVER);
    until(|| cluster.nodes.ended(LEAVER).is_some()).await;
    fs::remove_dir_all(cluster.nodes.data(LEAVER)).unwrap();
    cluster.restart(LEAVER);
    cluster.wait_until_ready().await;

    let consumer = spawn_consumer(cluster.client_of(LEAVER).await, "orders", &tally);
    tally.wait_complete(PATIENCE).await;
    tally.assert_complete();
    stop(vec![consumer]).await;
}
