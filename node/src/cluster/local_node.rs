//! One node of a cluster on this machine: its settings and its process.
//!
//! What this file does not do: it knows nothing of the other nodes; see `cluster.rs`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use gaggle_wire::NodeId;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::process::{Child, Command};

use super::ClusterError;

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
    pub(super) data: PathBuf,
    pub(super) node_ca: PathBuf,
    pub(super) client_ca: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// A node that may run.
#[derive(Debug)]
pub(super) struct LocalNode {
    pub(super) id: NodeId,
    pub(super) settings: NodeSettings,
    /// The program that becomes the node, with its arguments, if it is not started directly.
    pub(super) launcher: Vec<String>,
    pub(super) child: Option<Child>,
}

impl LocalNode {
    /// Writes its settings and starts its process.
    pub(super) fn start(&mut self, executable: &Path, config: &Path) -> Result<(), ClusterError> {
        let file_error = |path: &Path| {
            let path = path.to_owned();
            move |error| ClusterError::File { path, error }
        };
        let text = toml::to_string(&self.settings).map_err(io::Error::other);
        fs::write(config, text.map_err(file_error(config))?).map_err(file_error(config))?;
        let log = config.with_extension("log");
        let log_file = File::options().create(true).append(true).open(&log);
        let log_file = log_file.map_err(file_error(&log))?;
        let second = log_file.try_clone().map_err(file_error(&log))?;
        let mut words = self.launcher.iter().map(OsStr::new).chain([executable.as_os_str()]);
        let program = words.next().expect("the program itself is there");
        let child = Command::new(program)
            .args(words)
            .args(["serve", "--until-stdin-closes", "--config"])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(log_file)
            .stderr(second)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        self.child = Some(child.map_err(|error| self.process_error(error))?);
        Ok(())
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// How it ended, once it did so without being told.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        Some(status)
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub(super) async fn kill(&mut self) -> Result<(), ClusterError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill().await.map_err(|error| self.process_error(error))
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ClusterError> {
        let pid = self.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let Some(pid) = pid else { return Ok(()) };
        kill_process(pid, signal).map_err(|error| self.process_error(error.into()))
    }

    /// Tells it to drain and stop, and waits for it; kills it when it takes too long.
    pub(super) async fn stop(&mut self) -> Result<(), ClusterError> {
        self.signal(Signal::TERM)?;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let ended = match tokio::time::timeout(STOP_WITHIN, child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => child.kill().await,
        };
        ended.map_err(|error| self.process_error(error))
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// The most memory that it has had so far, in bytes.
    pub(super) fn memory_peak(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    /// Bytes of its store.
    pub(super) fn disk_bytes(&self) -> u64 {
        size_of_tree(&self.settings.data)
    }

    fn process_error(&self, error: io::Error) -> ClusterError {
        ClusterError::Process { node: self.id, error }
    }
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
