//! Disks of real processes that are put back from a copy, announced or not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use bytes::Bytes;
use gaggle_client::{Client, SettingsChange};
use gaggle_support::tally::{Tally, spawn_consumer, spawn_producer};
use gaggle_support::{TestCluster, until};
use gaggle_wire::{NodeId, Status};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::EXECUTABLE;

const COUNT: usize = 300;
/// The node whose disk is put back.
const VICTIM: usize = 1;

/// Three nodes, and a copy of the disk of one that has messages which were deleted since; who
/// consumes goes on.
struct Scene {
    cluster: TestCluster,
    client: Client,
    tally: Tally,
    consumer: JoinHandle<()>,
    copy: PathBuf,
}

impl Scene {
    async fn new() -> Self {
        let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
        let client = cluster.client_of(0).await;
        client.create_queue("orders", SettingsChange::default()).await.unwrap();
        let tally = Tally::default();
        let bodies = (0..COUNT).map(|index| Bytes::from(format!("{index}"))).collect();
        spawn_producer(cluster.client().await, "orders", bodies, &tally).await.unwrap();
        // What is settled is written down by then.
        sleep(Duration::from_secs(2)).await;
        cluster.kill(VICTIM).await;
        let copy = cluster.nodes.data(VICTIM).join("copy");
        fs::copy(store(&cluster), &copy).unwrap();
        cluster.start_all().await;
        let consumer = spawn_consumer(cluster.client_of(0).await, "orders", &tally);
        tally.wait_complete(Duration::from_secs(60)).await;
        let deleted = || tally.received_count() == COUNT;
        until(deleted).await;
        // And all that is to be told of it is told.
        sleep(Duration::from_secs(3)).await;
        Self { cluster, client, tally, consumer, copy }
    }

    async fn put_back(&mut self) {
        self.cluster.kill(VICTIM).await;
        fs::copy(&self.copy, store(&self.cluster)).unwrap();
    }

    /// The node comes back and nothing that was deleted does.
    async fn comes_back(&mut self) {
        self.cluster.start_all().await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(self.tally.resurrected(), [], "P4: {}", self.cluster.logs());
        assert_eq!(self.tally.received_count(), COUNT);
    }

    /// What the others have counted under this name.
    async fn counted(&self, name: &str) -> u64 {
        let status = self.client.status().await.unwrap();
        let victim = self.cluster.nodes.id(VICTIM);
        let others = status.members.iter().filter(|member| member.node != victim);
        let counters = others.filter_map(|member| member.report.as_ref()).flat_map(|r| &r.counters);
        counters.filter(|(found, _)| found == name).map(|(_, count)| *count).sum()
    }

    fn restore(&self, data: &Path) -> Output {
        let mut command = Command::new(EXECUTABLE);
        command.args(["restore", "--config"]).arg(self.cluster.nodes.config_path(VICTIM));
        command.arg("--data").arg(data).output().unwrap()
    }
}

fn store(cluster: &TestCluster) -> PathBuf {
    cluster.nodes.data(VICTIM).join("store.redb")
}

fn boot(status: &Status, node: NodeId) -> u64 {
    let member = status.members.iter().find(|member| member.node == node).unwrap();
    member.report.as_ref().unwrap().boot
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_does_not_come_from_a_disk_that_is_put_back_and_its_node_is_told() {
    let mut scene = Scene::new().await;
    let node = scene.cluster.nodes.id(VICTIM);
    let before = boot(&scene.client.status().await.unwrap(), node);
    for _ in 0..2 {
        let noticed = scene.counted("disks_put_back").await;
        scene.put_back().await;
        scene.comes_back().await;
        assert!(scene.counted("disks_put_back").await > noticed, "{}", scene.cluster.logs());
    }
    let log = fs::read_to_string(scene.cluster.nodes.log_path(VICTIM)).unwrap();
    assert_eq!(log.matches("a new host begins").count(), 2, "{log}");
    assert_ne!(boot(&scene.client.status().await.unwrap(), node), before, "P3");
    scene.consumer.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_put_back_and_announced_makes_a_new_host_that_nobody_has_to_tell() {
    let mut scene = Scene::new().await;
    let data = scene.cluster.nodes.data(VICTIM).to_owned();
    let running = scene.restore(&data);
    assert_eq!(running.status.code(), Some(1), "{}", told(&running));
    assert!(told(&running).contains("try: stop the node first"), "{}", told(&running));
    let empty = scene.restore(&data.join("nothing"));
    assert_eq!(empty.status.code(), Some(2), "{}", told(&empty));
    assert!(!data.join("nothing").exists(), "nothing is made");

    scene.put_back().await;
    let restored = scene.restore(&data);
    assert_eq!(restored.status.code(), Some(0), "{}", told(&restored));
    assert_eq!(String::from_utf8_lossy(&restored.stdout), "node 2 is a new host from now on\n");
    scene.comes_back().await;
    assert_eq!(scene.counted("disks_put_back").await, 0);
    assert_eq!(scene.counted("disks_replaced").await, 2);
    scene.consumer.abort();
}
