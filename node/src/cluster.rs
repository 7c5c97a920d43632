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

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use gaggle_client::ConnectOptions;
use gaggle_client::tls::{CredentialPaths, Credentials, TlsError};
use gaggle_wire::{ClientName, ClusterName, NodeId};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use thiserror::Error;
use tokio::process::{Child, Command};

use crate::cert::{self, CertError, NodePaths};

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

/// What is written into the config file of a node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where peers reach it, if not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<SocketAddr>,
    /// Where clients reach it, if not there either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise_client: Option<SocketAddr>,
    /// Where it looks for the others.
    pub seeds: Vec<SocketAddr>,
    /// Its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether it runs alone.
    pub standalone: bool,
    /// How long a silent member is suspected, as in `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspicion: Option<String>,
    /// How long it waits for remembered members, as in `1s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serve_alone_after: Option<String>,
    data: PathBuf,
    node_ca: PathBuf,
    client_ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

/// Node processes on this machine.
#[derive(Debug)]
pub struct Cluster {
    plan: Plan,
    credentials: CredentialPaths,
    nodes: Vec<Local>,
}

#[derive(Debug)]
struct Local {
    id: NodeId,
    settings: NodeSettings,
    launcher: Vec<String>,
    child: Option<Child>,
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
            nodes.push(Local { id, settings, launcher: Vec::new(), child: None });
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
        let node = &mut self.nodes[index];
        let file_error = |path: &Path| {
            let path = path.to_owned();
            move |error| ClusterError::File { path, error }
        };
        let text = toml::to_string(&node.settings).map_err(io::Error::other);
        fs::write(&config, text.map_err(file_error(&config))?).map_err(file_error(&config))?;
        let log = config.with_extension("log");
        let log_file = File::options().create(true).append(true).open(&log);
        let log_file = log_file.map_err(file_error(&log))?;
        let second = log_file.try_clone().map_err(file_error(&log))?;
        let mut words = node.launcher.iter().map(OsStr::new).chain([self.plan.executable.as_ref()]);
        let program = words.next().expect("the program itself is there");
        let child = Command::new(program)
            .args(words)
            .args(["serve", "--until-stdin-closes", "--config"])
            .arg(&config)
            .stdin(Stdio::piped())
            .stdout(log_file)
            .stderr(second)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| ClusterError::Process { node: node.id, error })?;
        node.child = Some(child);
        Ok(())
    }

    /// Whether the process of a node is there.
    pub fn is_running(&mut self, index: usize) -> bool {
        self.nodes[index].child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// How the process of a node ended, once it did so without being told.
    pub fn ended(&mut self, index: usize) -> Option<ExitStatus> {
        let node = &mut self.nodes[index];
        let status = node.child.as_mut()?.try_wait().ok()??;
        node.child = None;
        Some(status)
    }

    /// Kills a node with SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn kill(&mut self, index: usize) -> Result<(), ClusterError> {
        let node = &mut self.nodes[index];
        let Some(mut child) = node.child.take() else { return Ok(()) };
        child.kill().await.map_err(|error| ClusterError::Process { node: node.id, error })
    }

    /// Sends a signal to a node.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub fn signal(&self, index: usize, signal: Signal) -> Result<(), ClusterError> {
        let node = &self.nodes[index];
        let pid = self.pid(index).and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let Some(pid) = pid else { return Ok(()) };
        kill_process(pid, signal)
            .map_err(|error| ClusterError::Process { node: node.id, error: error.into() })
    }

    /// Tells a node to drain and stop, and waits for it; kills it when it takes too long.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn stop(&mut self, index: usize) -> Result<(), ClusterError> {
        self.signal(index, Signal::TERM)?;
        let node = &mut self.nodes[index];
        let Some(mut child) = node.child.take() else { return Ok(()) };
        let ended = match tokio::time::timeout(STOP_WITHIN, child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => child.kill().await,
        };
        ended.map_err(|error| ClusterError::Process { node: node.id, error })
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
        self.nodes[index].child.as_ref().and_then(Child::id)
    }

    /// The most memory that a running node has had so far, in bytes.
    #[must_use]
    pub fn memory_peak(&self, index: usize) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid(index)?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    /// Bytes of a node's store on disk.
    #[must_use]
    pub fn disk_bytes(&self, index: usize) -> u64 {
        size_of_tree(&self.nodes[index].settings.data)
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

fn size_of_tree(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_tree(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// A drain hands over custody and closes the store; more than this is a node that hangs.
const STOP_WITHIN: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ServeConfig, ServeOptions};

    fn plan(dir: &Path, executable: &str) -> Plan {
        let addresses = free_addresses(2).unwrap();
        Plan { executable: executable.into(), dir: dir.join("sub"), addresses }
    }

    #[test]
    fn a_directory_is_prepared_once_and_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path(), "/bin/true");
        let first = Cluster::prepare(plan.clone()).unwrap();
        let certificate = fs::read(&first.credential_paths().certificate).unwrap();
        let second = Cluster::prepare(plan).unwrap();
        assert_eq!(fs::read(&second.credential_paths().certificate).unwrap(), certificate);
        assert_eq!((second.len(), second.id(1)), (2, NodeId(2)));
        assert!(second.connect_options().is_ok());
    }

    #[test]
    fn what_is_written_for_a_node_is_what_it_reads() {
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = Cluster::prepare(plan(dir.path(), "/bin/true")).unwrap();
        cluster.settings_mut(0).suspicion = Some("10s".to_owned());
        cluster.settings_mut(0).advertise = Some(cluster.address(1));
        let settings = &cluster.nodes[0].settings;
        let path = dir.path().join("x.toml");
        fs::write(&path, toml::to_string(settings).unwrap()).unwrap();
        let read = ServeConfig::load(Some(&path), ServeOptions::default()).unwrap();
        assert_eq!((read.listen, &read.data), (settings.listen, &settings.data));
        assert_eq!(read.seeds, [cluster.address(1).to_string()]);
        assert_eq!(read.times.suspicion, Some(Duration::from_secs(10)));
    }

    #[tokio::test]
    async fn a_killed_node_is_gone_and_can_be_started_again() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("sleeper");
        // Reads its stdin until that closes, as a node does.
        fs::write(&script, "#!/bin/sh\nexec cat >/dev/null\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).unwrap();
        let mut cluster = Cluster::prepare(plan(dir.path(), script.to_str().unwrap())).unwrap();
        cluster.start_all().unwrap();
        assert!(cluster.is_running(0) && cluster.is_running(1));
        assert!(cluster.memory_peak(0).is_some_and(|bytes| bytes > 0));
        cluster.kill(0).await.unwrap();
        assert!(!cluster.is_running(0) && cluster.is_running(1));
        cluster.start(0).unwrap();
        assert!(cluster.is_running(0));
        cluster.stop_all().await.unwrap();
        assert!(!cluster.is_running(0) && !cluster.is_running(1));
    }
}
