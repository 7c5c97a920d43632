//! A cluster on this machine: real node processes on loopback, to be killed and started again.
//!
//! `gaggle dev`, `gaggle demo`, `gaggle bench` and the tests use it. Everything lives in one
//! directory: a throw-away authority, a config file, a log and a store per node. Starting again
//! on the same directory gives the same cluster with its messages.
//!
//! ```text
//!   DIR/certs/      both authorities, the nodes' certificates, one client's
//!   DIR/node-1.toml node-1.log node-1/     and so on
//! ```
//!
//! Invariant: no node outlives this process. Each has a pipe for its stdin and stops when that
//! closes, which the system does even for a process that is killed. Nodes are in process groups
//! of their own, so that a Ctrl-C reaches only the one that watches over them. What this file
//! does not do: it does not wait until nodes are ready; that is asked by status.

mod local_node;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use gaggle_client::ConnectOptions;
use gaggle_client::tls::{CredentialPaths, Credentials, TlsError};
use gaggle_wire::{ClientName, ClusterName, NodeId};
use rustix::process::Signal;
use thiserror::Error;

use crate::cert::{self, CertError, NodePaths};

use local_node::LocalNode;
pub use local_node::NodeSettings;

/// Why a cluster on this machine does not do what it should.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// No certificates.
    #[error(transparent)]
    Cert(#[from] CertError),
    /// The certificates that are there cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A file or directory cannot be written or read.
    #[error("{}: {error}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The process of a node cannot be started or stopped.
    #[error("the process of node {node}: {error}")]
    Process {
        /// Which node.
        node: NodeId,
        /// What the system said.
        error: io::Error,
    },
    /// There are no free ports.
    #[error("no free UDP port on the loopback: {0}")]
    Ports(io::Error),
}

/// What a cluster on this machine is to be like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The `gaggle` program.
    pub executable: PathBuf,
    /// Where everything is kept.
    pub dir: PathBuf,
    /// Where each node listens.
    pub addresses: Vec<SocketAddr>,
}

impl Plan {
    /// A cluster of this very program.
    ///
    /// # Errors
    /// When the system does not say where the program is.
    pub fn of_this_program(dir: &Path, addresses: Vec<SocketAddr>) -> Result<Self, ClusterError> {
        let executable = std::env::current_exe()
            .map_err(|error| ClusterError::File { path: PathBuf::from("/proc/self/exe"), error })?;
        Ok(Self { executable, dir: dir.to_owned(), addresses })
    }
}

/// Node processes on this machine.
#[derive(Debug)]
pub struct Cluster {
    plan: Plan,
    credentials: CredentialPaths,
    nodes: Vec<LocalNode>,
}

impl Cluster {
    /// Makes the directory and whatever is missing in it; starts nothing yet.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub fn prepare(plan: Plan) -> Result<Self, ClusterError> {
        make_dir(&plan.dir)?;
        let dir = plan.dir.canonicalize();
        let dir = dir.map_err(|error| ClusterError::File { path: plan.dir.clone(), error })?;
        let plan = Plan { dir, ..plan };
        let certs = plan.dir.join("certs");
        if !certs.join("client-ca.pem").exists() {
            cert::init(&certs, &cluster_name())?;
        }
        let mut nodes = Vec::new();
        for (id, listen) in (1..).map(NodeId).zip(&plan.addresses) {
            let mut paths = NodePaths::in_dir(&certs, id);
            if !paths.certificate.exists() {
                paths = cert::node(&certs, id)?;
            }
            let others = plan.addresses.iter().copied().filter(|address| address != listen);
            let settings = NodeSettings {
                listen: *listen,
                advertise: None,
                advertise_client: None,
                seeds: others.collect(),
                zone: None,
                standalone: plan.addresses.len() == 1,
                suspicion: None,
                serve_alone_after: None,
                data: plan.dir.join(format!("node-{id}")),
                node_ca: paths.node_ca,
                client_ca: paths.client_ca,
                certificate: paths.certificate,
                key: paths.key,
            };
            nodes.push(LocalNode { id, settings, launcher: Vec::new(), child: None });
        }
        let credentials = client_paths(&certs)?;
        Ok(Self { plan, credentials, nodes })
    }

    /// How many nodes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Where everything is kept.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.plan.dir
    }

    /// Who a client of it is.
    #[must_use]
    pub fn credential_paths(&self) -> &CredentialPaths {
        &self.credentials
    }

    /// The settings of a node, to be changed before it is started.
    pub fn settings_mut(&mut self, index: usize) -> &mut NodeSettings {
        &mut self.nodes[index].settings
    }

    /// Starts a node by another program from now on, which must become it: `ip netns exec NAME`.
    pub fn launch_by(&mut self, index: usize, launcher: impl IntoIterator<Item = String>) {
        self.nodes[index].launcher = launcher.into_iter().collect();
    }

    /// The id of a node.
    #[must_use]
    pub fn id(&self, index: usize) -> NodeId {
        self.nodes[index].id
    }

    /// Where clients reach a node.
    #[must_use]
    pub fn address(&self, index: usize) -> SocketAddr {
        let settings = &self.nodes[index].settings;
        settings.advertise_client.or(settings.advertise).unwrap_or(settings.listen)
    }

    /// How to connect to the cluster.
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn connect_options(&self) -> Result<ConnectOptions, ClusterError> {
        let addresses = (0..self.len()).map(|index| self.address(index).to_string());
        Ok(ConnectOptions::new(addresses, Credentials::load(&self.credentials)?))
    }

    /// How to connect to one node of it and no other.
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn node_options(&self, index: usize) -> Result<ConnectOptions, ClusterError> {
        Ok(self.connect_options()?.node_only(self.address(index).to_string()))
    }

    /// Starts every node that is not running.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub fn start_all(&mut self) -> Result<(), ClusterError> {
        (0..self.len()).try_for_each(|index| self.start(index))
    }

    /// Starts a node, unless it is running.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub fn start(&mut self, index: usize) -> Result<(), ClusterError> {
        if self.is_running(index) {
            return Ok(());
        }
        let config = self.config_path(index);
        self.nodes[index].start(&self.plan.executable, &config)
    }

    /// The directory of the store of a node.
    #[must_use]
    pub fn data(&self, index: usize) -> &Path {
        &self.nodes[index].settings.data
    }

    /// Whether the process of a node is there.
    pub fn is_running(&mut self, index: usize) -> bool {
        self.nodes[index].is_running()
    }

    /// How the process of a node ended, once it did so without being told.
    pub fn ended(&mut self, index: usize) -> Option<ExitStatus> {
        self.nodes[index].ended()
    }

    /// Kills a node with SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn kill(&mut self, index: usize) -> Result<(), ClusterError> {
        self.nodes[index].kill().await
    }

    /// Sends a signal to a node.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub fn signal(&self, index: usize, signal: Signal) -> Result<(), ClusterError> {
        self.nodes[index].signal(signal)
    }

    /// Tells a node to drain and stop, and waits for it; kills it when it takes too long.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn stop(&mut self, index: usize) -> Result<(), ClusterError> {
        self.nodes[index].stop().await
    }

    /// Tells all nodes to stop, and waits for them.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn stop_all(&mut self) -> Result<(), ClusterError> {
        for index in 0..self.len() {
            self.signal(index, Signal::TERM)?;
        }
        for index in 0..self.len() {
            self.stop(index).await?;
        }
        Ok(())
    }

    /// The process id of a node that runs.
    #[must_use]
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.nodes[index].pid()
    }

    /// The most memory that a running node has had so far, in bytes.
    #[must_use]
    pub fn memory_peak(&self, index: usize) -> Option<u64> {
        self.nodes[index].memory_peak()
    }

    /// Bytes of a node's store on disk.
    #[must_use]
    pub fn disk_bytes(&self, index: usize) -> u64 {
        self.nodes[index].disk_bytes()
    }

    /// Where the settings of a node are.
    #[must_use]
    pub fn config_path(&self, index: usize) -> PathBuf {
        self.plan.dir.join(format!("node-{}.toml", self.nodes[index].id))
    }

    /// Where the log of a node is.
    #[must_use]
    pub fn log_path(&self, index: usize) -> PathBuf {
        self.config_path(index).with_extension("log")
    }
}

/// Addresses on the loopback that nobody uses now.
///
/// # Errors
/// When the system has none.
pub fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, ClusterError> {
    // All are held until all are found, so that no two are the same.
    let held: io::Result<Vec<_>> =
        (0..count).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    let held = held.map_err(ClusterError::Ports)?;
    held.iter().map(|socket| socket.local_addr().map_err(ClusterError::Ports)).collect()
}

/// The client's three files, made when they are not there.
fn client_paths(certs: &Path) -> Result<CredentialPaths, ClusterError> {
    let name = ClientName::parse("dev").expect("it is a name");
    let certificate = certs.join("client-dev.pem");
    if certificate.exists() {
        let (ca, key) = (certs.join("ca.pem"), certs.join("client-dev.key"));
        return Ok(CredentialPaths { ca, certificate, key });
    }
    Ok(cert::client(certs, &name)?)
}

fn cluster_name() -> ClusterName {
    ClusterName::parse("dev").expect("it is a name")
}

fn make_dir(dir: &Path) -> Result<(), ClusterError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| ClusterError::File { path: dir.to_owned(), error })
}

#[cfg(test)]
mod tests;
