//! What tests with real processes share: a cluster to kill and to cut, and waiting for events.
//!
//! Nodes are processes of the fresh binary on free ports in a temporary directory. Nothing here
//! sleeps for a guessed time: it is always a condition that is awaited, by asking the cluster.
//! What this crate does not do: it asserts nothing about the product; tests do.

pub mod faulty_disk;
pub mod indoors;
pub mod netns;
pub mod proxy;
pub mod relay;
pub mod small_disk;
pub mod store_medium;
pub mod tally;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gaggle_client::tls::Credentials;
use gaggle_client::{Client, ConnectOptions, Status};
use gaggle_node::cert::{self, NodePaths};
use gaggle_node::cluster::{Cluster, Plan, free_addresses};
use gaggle_wire::{NodeId, Standing};
use tempfile::TempDir;

pub use gaggle_node::cluster::NodeSettings;

use netns::Namespaces;
use proxy::{Proxy, ProxyOptions};
use relay::{Relay, Relays};

/// A cluster of real processes that vanishes with its directory.
#[derive(Debug)]
pub struct TestCluster {
    /// Its processes.
    pub nodes: Cluster,
    relays: Vec<Relay>,
    _dir: TempDir,
}

impl TestCluster {
    /// Prepares a cluster of this program; nothing runs yet.
    ///
    /// # Panics
    /// When there is no room for it.
    #[must_use]
    pub fn prepare(executable: &str, nodes: usize) -> Self {
        Self::prepare_at(executable, free_addresses(nodes).expect("free ports"))
    }

    /// As [`TestCluster::prepare`], with every node in a network namespace of its own.
    ///
    /// # Panics
    /// When there is no room for it.
    #[must_use]
    pub fn prepare_in(executable: &str, nodes: usize, namespaces: &Namespaces) -> Self {
        let addresses = (0..nodes).map(|index| namespaces.address(index)).collect();
        let mut cluster = Self::prepare_at(executable, addresses);
        for index in 0..nodes {
            cluster.nodes.launch_by(index, namespaces.launcher(index));
        }
        cluster
    }

    fn prepare_at(executable: &str, addresses: Vec<SocketAddr>) -> Self {
        let dir = tempfile::Builder::new().prefix("gaggle-test-").tempdir().expect("a directory");
        let executable = PathBuf::from(executable);
        let plan = Plan { executable, dir: dir.path().to_owned(), addresses };
        let nodes = Cluster::prepare(plan).expect("a directory that can be written");
        Self { nodes, relays: Vec::new(), _dir: dir }
    }

    /// Starts a cluster of this program and waits until all of it is ready.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn start(executable: &str, nodes: usize) -> Self {
        let mut cluster = Self::prepare(executable, nodes);
        cluster.start_all().await;
        cluster
    }

    /// As [`TestCluster::start`], with every node behind a relay, so that it can be cut off.
    ///
    /// # Panics
    /// When it does not become ready.
    pub async fn start_behind_relays(executable: &str, nodes: usize) -> Self {
        let mut cluster = Self::prepare(executable, nodes);
        for index in 0..nodes {
            let listen = cluster.nodes.settings_mut(index).listen;
            cluster.relays.push(Relay::start(listen).await.expect("a relay"));
        }
        let advertised: Vec<SocketAddr> = cluster.relays.iter().map(Relay::address).collect();
        for index in 0..nodes {
            let settings = cluster.nodes.settings_mut(index);
            settings.advertise = Some(advertised[index]);
            // Clients go past the relays: what is cut is node from node.
            settings.advertise_client = Some(settings.listen);
            let others = advertised.iter().copied().filter(|other| *other != advertised[index]);
            settings.seeds = others.collect();
        }
        cluster.start_all().await;
        cluster
    }

    /// Starts every node that is not running, and waits until all are ready.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn start_all(&mut self) {
        self.nodes.start_all().expect("processes");
        self.wait_until_ready().await;
    }

    /// Kills a node with SIGKILL.
    ///
    /// # Panics
    /// When the system does not let us.
    pub async fn kill(&mut self, index: usize) {
        self.nodes.kill(index).await.expect("a process to kill");
    }

    /// Kills all nodes at once.
    ///
    /// # Panics
    /// When the system does not let us.
    pub async fn kill_all(&mut self) {
        for index in 0..self.nodes.len() {
            self.nodes.signal(index, rustix::process::Signal::KILL).expect("a process to kill");
        }
        for index in 0..self.nodes.len() {
            self.kill(index).await;
        }
    }

    /// Starts a node; does not wait until it is ready.
    ///
    /// # Panics
    /// When there is no process to be had.
    pub fn restart(&mut self, index: usize) {
        self.nodes.start(index).expect("a process");
    }

    /// Its relays, to cut nodes off with.
    #[must_use]
    pub fn take_relays(&mut self) -> Relays {
        let listens = (0..self.nodes.len()).map(|index| self.nodes.settings_mut(index).listen);
        Relays { listens: listens.collect(), relays: std::mem::take(&mut self.relays) }
    }

    /// How to connect, over all nodes.
    ///
    /// # Panics
    /// When the certificates cannot be read.
    #[must_use]
    pub fn options(&self) -> ConnectOptions {
        self.nodes.connect_options().expect("certificates").connect_timeout(CONNECT_WITHIN)
    }

    /// A client of the whole cluster.
    ///
    /// # Panics
    /// When no node answers.
    pub async fn client(&self) -> Client {
        Client::connect_with(self.options()).await.expect("a node that answers")
    }

    /// A client of one node and no other.
    ///
    /// # Panics
    /// When the node does not answer.
    pub async fn client_of(&self, index: usize) -> Client {
        let options = self.options().node_only(self.nodes.address(index).to_string());
        Client::connect_with(options).await.expect("the node answers")
    }

    /// A proxy in front of a node that swallows answers to sends.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn proxy(&self, index: usize, swallow_every: u64) -> Proxy {
        let certs = self.nodes.dir().join("certs");
        let id = NodeId(PROXY_ID + index as u64);
        let mut node = NodePaths::in_dir(&certs, id);
        if !node.certificate.exists() {
            node = cert::node(&certs, id).expect("a certificate");
        }
        let target = self.nodes.address(index);
        let client = Credentials::load(self.nodes.credential_paths()).expect("certificates");
        let options = ProxyOptions { target, node: &node, client, swallow_every };
        Proxy::start(&options).expect("a proxy")
    }

    /// Waits until every node is ready and in session with every other, as each of them sees it.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn wait_until_ready(&mut self) {
        let nodes = self.nodes.len();
        for index in 0..nodes {
            let client = self.client_of(index).await;
            wait_until(&client, "all nodes are ready", |status| is_ready(status, nodes)).await;
            client.close().await;
        }
    }

    /// The logs of all nodes, for a failure to show.
    #[must_use]
    pub fn logs(&self) -> String {
        let read = |index| std::fs::read_to_string(self.nodes.log_path(index)).unwrap_or_default();
        (0..self.nodes.len()).map(|index| format!("-- node {index}\n{}", read(index))).collect()
    }
}

/// Whether a node sees so many members, all of them ready and in session with each other.
#[must_use]
pub fn is_ready(status: &Status, nodes: usize) -> bool {
    let all: BTreeSet<NodeId> = status.members.iter().map(|member| member.node).collect();
    all.len() == nodes
        && status.members.iter().all(|member| {
            let report = member.report.as_ref();
            member.standing == Standing::Ready
                && report.is_some_and(|report| report.ready && report.sessions.len() + 1 == nodes)
        })
}

/// The sum of a counter over all three nodes; one that never counted is not told.
///
/// # Panics
/// When a node does not report.
#[must_use]
pub fn counter(status: &Status, name: &str) -> u64 {
    let reports: Vec<_> =
        status.members.iter().filter_map(|member| member.report.as_ref()).collect();
    assert_eq!(reports.len(), 3, "every node reports");
    let counters = reports.into_iter().flat_map(|report| &report.counters);
    counters.filter(|(found, _)| found == name).map(|(_, value)| *value).sum()
}

/// Asks a client's cluster until its status is so.
///
/// # Panics
/// When that takes more than a minute.
pub async fn wait_until(
    client: &Client,
    what: &str,
    mut holds: impl FnMut(&Status) -> bool,
) -> Status {
    let deadline = Instant::now() + WAIT_MAX;
    let mut last = String::new();
    while Instant::now() < deadline {
        match client.status().await {
            Ok(status) if holds(&status) => return status,
            Ok(status) => last = format!("{status:#?}"),
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
    panic!("it did not come to this: {what}; last: {last}");
}

/// Waits for something that other tasks of a test bring about.
///
/// # Panics
/// When that takes more than minutes: a task has died, or the product hangs.
pub async fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + UNTIL_MAX;
    while !holds() {
        assert!(Instant::now() < deadline, "what the test waits for does not happen");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Far above what anything here takes, for machines that are busy with other tests.
const WAIT_MAX: Duration = Duration::from_secs(90);
const CONNECT_WITHIN: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// As long as the longest storm takes on a slow machine.
const UNTIL_MAX: Duration = Duration::from_secs(240);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// No node of a test has such an id.
const PROXY_ID: u64 = 900;
