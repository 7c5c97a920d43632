//! What scripts ask of the command line beside the life of one message: files, delays, following,
//! JSON of every verb; and the programs under `client/examples`, which are run as they are told.
//!
//! What these tests do not do: errors and exit codes are in `command_line.rs` and `verbs.rs`.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use gaggle_support::TestCluster;
use rustix::process::{Pid, Signal, kill_process};

use crate::EXECUTABLE;
use crate::shell::{PATIENCE, Shell, ended, parse, texts};

/// A child that goes on until it is told to stop, and the lines that it prints.
struct Follower {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Follower {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        let (told, lines) = mpsc::channel();
        thread::spawn(move || printed.map_while(Result::ok).try_for_each(|line| told.send(line)));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it goes on")
    }

    fn interrupt(self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.end()
    }

    /// The exit code; its output ends with it.
    fn end(mut self) -> Option<i32> {
        match self.lines.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => self.child.wait().unwrap().code(),
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill().unwrap();
                panic!("it does not end");
            }
            Ok(line) => panic!("another line: {line}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errands_of_scripts_do_what_they_say() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    every_verb_answers_in_json(&shell);
    a_file_is_sent_line_by_line(&shell);
    a_delay_hides_and_a_visibility_shows_again(&shell);
    who_follows_gets_what_comes(&shell);
    the_examples_work(&shell);
    a_worker_that_is_stopped_finishes_what_it_began(&shell);
    a_purge_empties_and_what_comes_after_stays(&shell);
}

fn every_verb_answers_in_json(shell: &Shell) {
    let created = ["queue", "create", "json", "--visibility", "45s", "--json"];
    let created = parse(&shell.succeed(&created, b""));
    assert_eq!(
        (&created["name"], &created["settings"]["visibility_timeout_ms"]),
        (&"json".into(), &45_000.into())
    );
    let sent = parse(&shell.succeed(&["send", "json", "one", "--json"], b""));
    assert_eq!(sent["queue"], "json");
    assert!(sent["copies"].as_u64().unwrap() >= 2, "{sent}");
    let received = ["receive", "json", "--json", "--wait", "20s"];
    let received = parse(&shell.succeed(&received, b""));
    assert_eq!((&received["id"], &received["stamp"]), (&sent["id"], &sent["stamp"]));
    let receipt = received["receipt"].as_str().unwrap();
    let released = parse(&shell.succeed(&["release", receipt, "--json"], b""));
    assert_eq!((&released["receipt"], &released["result"]), (&receipt.into(), &"released".into()));
    for (verb, result) in [("purge", "purged"), ("delete", "deleted")] {
        let done = parse(&shell.succeed(&["queue", verb, "json", "--yes", "--json"], b""));
        assert_eq!((&done["name"], &done["result"]), (&"json".into(), &result.into()));
    }
    let certs = shell.home.path().join("certs").display().to_string();
    let made = ["cert", "init", "--name", "shop", "--dir", &certs, "--json"];
    assert_eq!(parse(&shell.succeed(&made, b""))["cluster"], "shop");
    let made = parse(&shell.succeed(&["cert", "client", "ops", "--dir", &certs, "--json"], b""));
    for file in ["ca", "certificate", "key"] {
        assert!(std::path::Path::new(made[file].as_str().unwrap()).exists(), "{made}");
    }
}

fn a_file_is_sent_line_by_line(shell: &Shell) {
    let path = shell.home.path().join("lines.txt");
    std::fs::write(&path, "a\n\nb").unwrap();
    shell.succeed(&["queue", "create", "file", "--partitions", "1"], b"");
    let file = path.to_str().unwrap();
    let sent = parse(&shell.succeed(&["send", "file", "--file", file, "--json"], b""));
    assert_eq!((&sent["sent"], &sent["failed"]), (&3.into(), &0.into()));
    let taken = ["receive", "file", "--max", "3", "--wait", "20s", "--delete"];
    let mut came = String::new();
    while came.len() < 5 {
        came += &shell.succeed(&taken, b"");
    }
    assert_eq!(came, "a\n\nb\n");
    shell.fail(2, &["send", "file", "--file", "/nowhere/lines.txt"], b"");
}

fn a_delay_hides_and_a_visibility_shows_again(shell: &Shell) {
    shell.succeed(&["queue", "create", "late"], b"");
    let begun = Instant::now();
    shell.succeed(&["send", "late", "later", "--delay", "2s"], b"");
    let taken = ["receive", "late", "--wait", "20s", "--visibility", "1s"];
    assert_eq!(shell.succeed(&taken, b""), "later\n");
    assert!(begun.elapsed() >= Duration::from_secs(2), "it was hidden for {:?}", begun.elapsed());
    // The queue hides for 30 s; this one asked for less.
    let begun = Instant::now();
    assert_eq!(shell.succeed(&["receive", "late", "--wait", "20s", "--delete"], b""), "later\n");
    assert!(begun.elapsed() < Duration::from_secs(15), "it came after {:?}", begun.elapsed());
}

fn who_follows_gets_what_comes(shell: &Shell) {
    shell.succeed(&["queue", "create", "feed"], b"");
    let mut command = Command::new(EXECUTABLE);
    command.args(["receive", "feed", "--follow", "--delete"]);
    command.env_clear().env("GAGGLE_CONNECT", &shell.url);
    let mut follower = Follower::start(&mut command);
    for body in ["first", "second"] {
        shell.succeed(&["send", "feed", body], b"");
        assert_eq!(follower.line(), body);
    }
    assert_eq!(follower.interrupt(), Some(0), "Ctrl-C is a clean end");
    let mut command = Command::new(EXECUTABLE);
    command.args(["receive", "feed", "--follow", "--max", "1", "--delete"]);
    command.env_clear().env("GAGGLE_CONNECT", &shell.url);
    let mut follower = Follower::start(&mut command);
    shell.succeed(&["send", "feed", "last"], b"");
    assert_eq!(follower.line(), "last");
    assert_eq!(follower.end(), Some(0));
}

/// An example with these arguments, as its head says that it is run.
fn example(shell: &Shell, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("GAGGLE_URL", &shell.url);
    command
}

fn the_examples_work(shell: &Shell) {
    let run = |program: &str, arguments: &[&str]| example(shell, program, arguments);
    let work_queue = env!("CARGO_BIN_EXE_example-work-queue");
    let put = run(work_queue, &["put", "5"]).output().unwrap();
    assert_eq!(texts(&put), ("5 of 5 are safe\n".to_owned(), String::new()));
    let mut worker = Follower::start(&mut run(work_queue, &["work"]));
    let mut done: Vec<String> = (0..5).map(|_| worker.line()).collect();
    done.sort_unstable();
    let wanted: Vec<String> = (1..=5).map(|n| format!("piece {n}, delivery 1")).collect();
    assert_eq!(done, wanted);
    assert_eq!(worker.interrupt(), Some(0));

    let path = shell.home.path().join("events.jsonl");
    std::fs::write(&path, "{\"key\": \"k\", \"n\": 1}\nno JSON\n").unwrap();
    let ingest = env!("CARGO_BIN_EXE_example-ingest");
    let ingested = run(ingest, &[path.to_str().unwrap()]).output().unwrap();
    let (out, err) = texts(&ingested);
    assert!(out.starts_with("2 lines confirmed in "), "{out}{err}");
    let mut keys = Vec::new();
    while keys.len() < 2 {
        let taken = ["receive", "events", "--max", "2", "--wait", "20s", "--delete", "--json"];
        for message in shell.succeed(&taken, b"").lines().map(parse) {
            keys.push((message["attributes"]["line"].to_string(), message["key"].clone()));
        }
    }
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!((&keys[0].1, &keys[1].1), (&"k".into(), &serde_json::Value::Null));
    ingest_reads_stdin(shell, run(ingest, &[]));
}

/// `tail -f log | ingest`, with a log that ends.
fn ingest_reads_stdin(shell: &Shell, mut ingest: Command) {
    let command = ingest.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from a pipe\n\nthe end").unwrap();
    let (out, err) = texts(&ended(child).expect("it ends with its input"));
    assert!(out.starts_with("3 lines confirmed in "), "{out}{err}");
    let mut came = Vec::new();
    while came.len() < 3 {
        let taken = ["receive", "events", "--max", "3", "--wait", "20s", "--delete"];
        came.extend(shell.succeed(&taken, b"").lines().map(str::to_owned));
    }
    came.sort_unstable();
    assert_eq!(came, ["", "from a pipe", "the end"]);
}

/// What it had in hand is finished, and what it had not begun counts as never handed out.
fn a_worker_that_is_stopped_finishes_what_it_began(shell: &Shell) {
    let program = env!("CARGO_BIN_EXE_example-work-queue");
    let work_queue = |arguments: &[&str]| example(shell, program, arguments);
    assert!(work_queue(&["put", "40"]).status().unwrap().success());
    let worker = Follower::start(&mut work_queue(&["work"]));
    let in_flight = || {
        let info = parse(&shell.succeed(&["queue", "info", "work", "--json"], b""));
        info["figures"]["total"]["in_flight"].as_u64().unwrap()
    };
    let deadline = Instant::now() + PATIENCE;
    while in_flight() == 0 {
        assert!(Instant::now() < deadline, "it does not begin");
    }
    kill_process(Pid::from_child(&worker.child), Signal::INT).unwrap();
    let done: Vec<String> = worker.lines.iter().collect();
    assert_eq!(worker.end(), Some(0));
    let mut left = 0;
    while done.len() + left < 40 {
        let taken = ["receive", "work", "--max", "40", "--wait", "20s", "--delete", "--json"];
        for message in shell.succeed(&taken, b"").lines().map(parse) {
            assert_eq!(message["delivery_count"], 1, "it was begun and given up: {message}");
            left += 1;
        }
    }
    assert!(left > 0, "it stopped: {done:?}");
}

fn a_purge_empties_and_what_comes_after_stays(shell: &Shell) {
    shell.succeed(&["queue", "create", "full"], b"");
    let lines: String = (0..5000).map(|line| format!("{line}\n")).collect();
    shell.succeed(&["send", "full"], lines.as_bytes());
    // Some are in flight when they are purged.
    shell.succeed(&["receive", "full", "--max", "10", "--wait", "20s"], b"");
    shell.succeed(&["queue", "purge", "full", "--yes"], b"");
    shell.succeed(&["send", "full"], b"after\nthe purge\n");
    let mut came = Vec::new();
    while came.len() < 2 {
        let taken = ["receive", "full", "--max", "10", "--wait", "20s", "--delete"];
        came.extend(shell.succeed(&taken, b"").lines().map(str::to_owned));
    }
    came.sort_unstable();
    assert_eq!(came, ["after", "the purge"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let info = parse(&shell.succeed(&["queue", "info", "full", "--json"], b""));
        let total = &info["figures"]["total"];
        if (&total["messages"], &total["in_flight"]) == (&0.into(), &0.into()) {
            break;
        }
        assert!(Instant::now() < deadline, "{info}");
    }
}
