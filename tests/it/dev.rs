//! `gaggle dev` as a person uses it: started, killed, started again on the same directory.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gaggle_node::cluster::free_addresses;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::EXECUTABLE;

/// A home directory with a cluster in it.
struct Home {
    dir: TempDir,
    port: u16,
}

impl Home {
    fn new() -> Self {
        // Three ports in a row: the system gives out one, and its neighbours are mostly free.
        let port = loop {
            let first = free_addresses(1).unwrap()[0].port();
            let bound = (0..3).map(|next| std::net::UdpSocket::bind(("127.0.0.1", first + next)));
            if first < u16::MAX - 3 && bound.collect::<Result<Vec<_>, _>>().is_ok() {
                break first;
            }
        };
        Self { dir: tempfile::tempdir().unwrap(), port }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(EXECUTABLE);
        command.args(arguments).env_clear().env("HOME", self.dir.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the cluster and waits until it says that it is ready.
    fn start(&self) -> Dev {
        self.start_with(&[], &self.data())
    }

    /// The same with more flags, and its nodes in this directory.
    fn start_with(&self, flags: &[&str], data: &Path) -> Dev {
        let port = self.port.to_string();
        let mut command = self.command(&[&["dev", "--port", &port], flags].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut told: Vec<String> = Vec::new();
        let ready = lines.lines().map_while(Result::ok).any(|line| {
            let last = line.contains("Ctrl-C");
            told.push(line);
            last
        });
        assert!(ready, "it says that it is ready: {told:?}");
        Dev { child, nodes: node_processes(data), told }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join(".local/share/gaggle/dev")
    }
}

struct Dev {
    child: Child,
    nodes: Vec<Pid>,
    /// What it printed until it was ready.
    told: Vec<String>,
}

impl Dev {
    /// What it says to type next: its indented lines.
    fn next(&self) -> Vec<&str> {
        self.told.iter().filter_map(|line| line.strip_prefix("  ")).collect()
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        while self.nodes.iter().any(|node| test_kill_process(*node).is_ok()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        code
    }
}

/// The processes that run with a config file of this directory.
fn node_processes(data: &Path) -> Vec<Pid> {
    let wanted = data.join("node-").display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|id| {
            let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word.starts_with(wanted.as_bytes()))
        })
        .filter_map(Pid::from_raw)
        .collect()
}

#[test]
fn a_dev_cluster_is_found_without_flags_keeps_its_messages_and_leaves_no_process_behind() {
    let home = Home::new();
    let mut dev = home.start();
    assert_eq!(dev.nodes.len(), 3, "one process per node");
    let next = dev.next();
    let typed = [
        "gaggle queue create orders",
        "gaggle send orders 'hello'",
        "gaggle receive orders --delete",
        "gaggle status",
    ];
    assert_eq!(next[..4], typed);
    let killed = next[4].strip_prefix("kill -9 ").and_then(|rest| rest.split(' ').next());
    let killed = Pid::from_raw(killed.unwrap().parse().unwrap()).unwrap();
    assert!(dev.nodes.contains(&killed) && next.len() == 5, "{next:?}");
    home.run(&["queue", "create", "orders"]);
    home.run(&["send", "orders", "kept"]);
    // Not even a SIGKILL of the one that watches leaves nodes behind.
    assert_eq!(dev.end(Signal::KILL), None);

    let mut dev = home.start();
    // One node may die: the others have it too.
    kill_process(dev.nodes.pop().unwrap(), Signal::KILL).unwrap();
    assert_eq!(home.run(&["receive", "orders", "--delete", "--wait", "20s"]), "kept\n");
    home.run(&["send", "orders", "again"]);
    assert_eq!(dev.end(Signal::INT), Some(0), "Ctrl-C is a clean end");

    let mut dev = home.start();
    assert_eq!(home.run(&["receive", "orders", "--delete", "--wait", "20s"]), "again\n");
    assert_eq!(dev.end(Signal::TERM), Some(0));
}

#[test]
fn a_dev_cluster_has_the_size_the_place_and_the_profile_that_it_is_told() {
    let home = Home::new();
    let (data, profile) = (home.dir.path().join("data"), home.dir.path().join("my/profile.toml"));
    std::fs::create_dir(profile.parent().unwrap()).unwrap();
    let profile = profile.to_str().unwrap();
    let flags = ["--nodes", "2", "--dir", data.to_str().unwrap(), "--cluster", profile];
    let mut dev = home.start_with(&flags, &data);
    assert_eq!(dev.nodes.len(), 2);
    let typed = ["queue create orders", "send orders 'hello'", "receive orders --delete", "status"];
    let typed = typed.map(|verb| format!("gaggle {verb} --cluster {profile}"));
    assert_eq!(dev.next()[..4], typed);
    assert!(data.join("node-2").exists() && !home.data().exists());
    home.run(&["queue", "create", "orders", "--cluster", profile]);
    let output = home.command(&["send", "orders", "x"]).env("GAGGLE_CLUSTER", profile).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    assert_eq!(home.command(&["queue", "list"]).output().unwrap().status.code(), Some(2));
    let taken = ["receive", "orders", "--wait", "20s", "--delete", "--cluster", profile];
    assert_eq!(home.run(&taken), "x\n");
    assert_eq!(dev.end(Signal::INT), Some(0));
}
