//! A shell's view of a cluster: commands are run as scripts run them, and judged by their exit
//! code, by what they print and by their three lines of error.
//!
//! What this file does not do: it shows nothing by itself; the tests of commands do.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gaggle_support::TestCluster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::EXECUTABLE;

/// A shell's view of one cluster.
pub(crate) struct Shell {
    pub(crate) home: TempDir,
    pub(crate) url: String,
}

impl Shell {
    pub(crate) fn new(url: String) -> Self {
        Self { home: tempfile::tempdir().unwrap(), url }
    }

    pub(crate) fn of(cluster: &TestCluster) -> Self {
        let files = cluster.nodes.credential_paths();
        let addresses: Vec<String> =
            (0..cluster.nodes.len()).map(|i| cluster.nodes.address(i).to_string()).collect();
        Self::new(format!(
            "gaggle://{}?ca={}&cert={}&key={}",
            addresses.join(","),
            files.ca.display(),
            files.certificate.display(),
            files.key.display()
        ))
    }

    pub(crate) fn run(&self, arguments: &[&str], stdin: &[u8]) -> Output {
        self.run_with(&[("GAGGLE_CONNECT", &self.url)], arguments, stdin)
    }

    /// Runs a command with no variables but these.
    pub(crate) fn run_with(
        &self,
        variables: &[(&str, &str)],
        arguments: &[&str],
        stdin: &[u8],
    ) -> Output {
        let mut command = Command::new(EXECUTABLE);
        command.args(arguments).env_clear().env("HOME", self.home.path());
        command.envs(variables.iter().copied());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // A command that does not read closes its end, which is no failure of this test.
        let _ = pipe.write_all(stdin);
        drop(pipe);
        ended(child).unwrap_or_else(|| panic!("{arguments:?} does not end"))
    }

    pub(crate) fn succeed(&self, arguments: &[&str], stdin: &[u8]) -> String {
        let output = self.run(arguments, stdin);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {out}{err}");
        out
    }

    /// Runs a command that must end with this code and say what, why and what to do.
    pub(crate) fn fail(&self, code: i32, arguments: &[&str], stdin: &[u8]) -> String {
        let output = self.run(arguments, stdin);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
        let lines: Vec<&str> = err.lines().rev().take(3).collect();
        assert_eq!(lines.len(), 3, "{arguments:?}: {err}");
        for (line, title) in lines.iter().zip(["try: ", "why: ", "error: "]) {
            assert!(line.starts_with(title), "{arguments:?}: {err}");
        }
        err
    }
}

/// What a command printed until it ended; one that takes too long is killed.
pub(crate) fn ended(child: Child) -> Option<Output> {
    let pid = Pid::from_child(&child);
    let (told, output) = mpsc::channel();
    thread::spawn(move || told.send(child.wait_with_output().unwrap()));
    output.recv_timeout(PATIENCE).ok().or_else(|| {
        kill_process(pid, Signal::KILL).unwrap();
        None
    })
}

/// Stdout and stderr.
pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The object that a command printed.
#[track_caller]
pub(crate) fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// No command and no line of one takes so long, on the slowest machine: what does hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
