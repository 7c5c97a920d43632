//! Nodes within the process of the test, on disks that fail.
//!
//! A kill of a process leaves the system's page cache as it was, so it cannot show that what was
//! confirmed was synced. Here every node has a runtime of its own and a [`FaultyDisk`]: when the
//! power fails, its tasks vanish between two steps, and what was not synced with them.
//!
//! What this file does not do: it kills no processes; [`crate::TestCluster`] does.

use std::net::SocketAddr;
use std::time::Duration;

use gaggle_client::tls::Credentials;
use gaggle_client::{Client, ConnectOptions};
use gaggle_node::cert::{self, NodePaths};
use gaggle_node::cluster::free_addresses;
use gaggle_node::config::{ServeConfig, ServeOptions};
use gaggle_node::{ServeError, Server};
use gaggle_wire::{ClientName, ClusterName, NodeId};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::faulty_disk::FaultyDisk;
use crate::{is_ready, wait_until};

/// Nodes that run in this process. To be stopped, or their threads run to its end.
#[derive(Debug)]
pub struct Indoors {
    dir: TempDir,
    credentials: Credentials,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    address: SocketAddr,
    disk: FaultyDisk,
    running: Option<(Runtime, Server)>,
}

impl Indoors {
    /// Prepares nodes with empty disks, which fail as this seed says; none runs yet.
    ///
    /// # Panics
    /// When there is no room for it.
    #[must_use]
    pub fn prepare(nodes: u64, seed: u64) -> Self {
        let dir = tempfile::Builder::new().prefix("gaggle-test-").tempdir().expect("a directory");
        let name = ClusterName::parse("indoors").expect("it is a name");
        cert::init(dir.path(), &name).expect("certificates");
        let client = ClientName::parse("test").expect("it is a name");
        let client = cert::client(dir.path(), &client).expect("certificates");
        let count = usize::try_from(nodes).expect("they are few");
        let addresses = free_addresses(count).expect("free ports");
        let nodes = addresses.into_iter().zip(0..).map(|(address, index)| {
            cert::node(dir.path(), NodeId(index + 1)).expect("certificates");
            Node { address, disk: FaultyDisk::new(seed + index), running: None }
        });
        let nodes = nodes.collect();
        Self { credentials: Credentials::load(&client).expect("certificates"), dir, nodes }
    }

    /// Starts the nodes that do not run, and waits until all are ready.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn start_all(&mut self) {
        for index in 0..self.nodes.len() {
            self.start(index).await.expect("a node that runs");
        }
        for index in 0..self.nodes.len() {
            let options = self.options().node_only(self.nodes[index].address.to_string());
            let client = Client::connect_with(options).await.expect("the node answers");
            let nodes = self.nodes.len();
            wait_until(&client, "all nodes are ready", |status| is_ready(status, nodes)).await;
            client.close().await;
        }
    }

    /// Starts a node on its disk, as it is.
    ///
    /// # Errors
    /// When the node says that it cannot run so.
    ///
    /// # Panics
    /// When the system has no threads.
    pub async fn start(&mut self, index: usize) -> Result<(), ServeError> {
        if self.nodes[index].running.is_some() {
            return Ok(());
        }
        let config = self.config(index);
        let node = &mut self.nodes[index];
        node.disk.power_on();
        let source = node.disk.source();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads");
        let started = runtime.spawn(Server::start_on(config, source)).await;
        match started.expect("starting does not panic") {
            Ok(server) => {
                node.running = Some((runtime, server));
                Ok(())
            }
            Err(error) => {
                shut(runtime).await;
                Err(error)
            }
        }
    }

    /// The power of all nodes fails at once.
    pub async fn cut_power(&mut self) {
        self.nodes.iter().for_each(|node| node.disk.power_off());
        for node in &mut self.nodes {
            if let Some((runtime, server)) = node.running.take() {
                drop(server);
                shut(runtime).await;
            }
        }
    }

    /// Stops all nodes well.
    ///
    /// # Panics
    /// When one had failed.
    pub async fn stop_all(&mut self) {
        for node in &mut self.nodes {
            if let Some((runtime, server)) = node.running.take() {
                let stopped = runtime.spawn(server.stop()).await;
                stopped.expect("stopping does not panic").expect("the node was well");
                shut(runtime).await;
            }
        }
    }

    /// The disk of a node.
    #[must_use]
    pub fn disk(&self, index: usize) -> &FaultyDisk {
        &self.nodes[index].disk
    }

    /// A client of all nodes.
    ///
    /// # Panics
    /// When none answers.
    pub async fn client(&self) -> Client {
        Client::connect_with(self.options()).await.expect("a node that answers")
    }

    fn options(&self) -> ConnectOptions {
        let addresses = self.nodes.iter().map(|node| node.address.to_string());
        ConnectOptions::new(addresses, self.credentials.clone())
    }

    fn config(&self, index: usize) -> ServeConfig {
        let id = NodeId(index as u64 + 1);
        let paths = NodePaths::in_dir(self.dir.path(), id);
        let own = self.nodes[index].address;
        let others = self.nodes.iter().map(|node| node.address).filter(|other| *other != own);
        let options = ServeOptions {
            data: Some(self.dir.path().join(format!("data-{id}"))),
            listen: Some(own),
            seeds: Some(others.map(|other| other.to_string()).collect()),
            standalone: Some(self.nodes.len() == 1),
            node_ca: Some(paths.node_ca),
            client_ca: Some(paths.client_ca),
            certificate: Some(paths.certificate),
            key: Some(paths.key),
            ..ServeOptions::default()
        };
        ServeConfig::load(None, options).expect("it is a configuration")
    }
}

/// Drops all tasks of a runtime between two steps, with the sockets that they hold.
async fn shut(runtime: Runtime) {
    let shut = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(SHUT_WITHIN));
    shut.await.expect("dropping tasks does not panic");
}

/// Only a thread that opens a store may take a while; it is of no use any more.
const SHUT_WITHIN: Duration = Duration::from_secs(5);
