//! What is done with queues and messages from a shell: looked at, changed, kept and given back.
//!
//! What this file does not do: the way of a message through its whole life is in
//! `command_line.rs`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gaggle_support::TestCluster;
use serde_json::{Value, json};

use crate::EXECUTABLE;
use crate::shell::{Shell, ended, parse, texts};

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(parse).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_listed_described_and_changed() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    assert_eq!(shell.succeed(&["queue", "list"], b""), "");
    for name in ["orders", "order-lines", "mails"] {
        let out = shell.succeed(&["queue", "create", name, "--partitions", "2"], b"");
        assert_eq!(out, format!("created {name}\n"));
    }
    let listed = objects(&shell.succeed(&["queue", "list", "order", "--json"], b""));
    let names: Vec<_> = listed.iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["order-lines", "orders"]);
    let text = shell.succeed(&["queue", "list"], b"");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..2], ["NAME", "PARTITIONS"]);
    assert_eq!(rows[1], ["mails", "2", "3", "2", "2", "30s", "4days"]);
    assert_eq!(rows.len(), 4);

    let set = ["queue", "set", "orders", "--visibility", "1m", "--confirms", "3", "--json"];
    let preview = parse(&shell.succeed(&[&set[..], &["--dry-run"]].concat(), b""));
    assert_eq!((&preview["name"], &preview["applied"]), (&"orders".into(), &false.into()));
    assert_eq!(preview["before"], listed[1]["settings"]);
    assert_eq!(preview["after"]["visibility_timeout_ms"], 60_000);
    let info = || parse(&shell.succeed(&["queue", "info", "orders", "--json"], b""));
    assert_eq!(info()["settings"], preview["before"], "a dry run changes nothing");
    let changed = parse(&shell.succeed(&set, b""));
    assert_eq!((&changed["applied"], &changed["after"]), (&true.into(), &preview["after"]));
    assert_eq!(info()["settings"], changed["after"]);
    let set = shell.succeed(&["queue", "set", "orders", "--retention", "1h"], b"");
    assert_eq!(set, "retention: 4days -> 1h\n");
    let again = shell.succeed(&["queue", "set", "orders", "--retention", "1h"], b"");
    assert!(again.starts_with("nothing changes"), "{again}");

    shell.succeed(&["send", "orders"], b"a\nb\n");
    let figures = &info()["figures"];
    assert_eq!((&figures["name"], &figures["total"]["messages"]), (&"orders".into(), &2.into()));
    let text = shell.succeed(&["queue", "info", "orders"], b"");
    let cells = text.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let rows: Vec<(&str, &str)> = cells.map(|(what, value)| (what, value.trim())).collect();
    for row in [("messages", "2"), ("visibility", "1m"), ("confirms", "3")] {
        assert!(rows.contains(&row), "{text}");
    }

    shell.fail(2, &["queue", "set", "orders"], b"");
    shell.fail(2, &["queue", "set", "orders", "--partitions", "4"], b"");
    shell.fail(2, &["queue", "create", "more", "--partitions", "0"], b"");
    shell.fail(2, &["queue", "create", "mails.dead"], b"");
    for verb in ["set", "delete", "purge"] {
        let rest: &[&str] = if verb == "set" { &["--delay", "1s"] } else { &["--yes"] };
        shell.fail(3, &[&["queue", verb, "nobody"], rest].concat(), b"");
    }
    assert_eq!(objects(&shell.succeed(&["queue", "list", "--json"], b"")).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peek_shows_messages_and_hides_them_from_nobody() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.fail(3, &["peek", "nobody"], b"");
    shell.succeed(&["queue", "create", "shelf", "--partitions", "1", "--confirms", "3"], b"");
    assert_eq!(shell.succeed(&["peek", "shelf"], b""), "");
    shell.succeed(&["send", "shelf", "--key", "k"], b"one\ntwo\nthree\n");
    for _ in 0..2 {
        assert_eq!(shell.succeed(&["peek", "shelf", "--max", "2"], b""), "one\ntwo\n");
    }
    let seen = objects(&shell.succeed(&["peek", "shelf", "--json"], b""));
    let bodies: Vec<_> = seen.iter().map(|message| &message["body"]).collect();
    assert_eq!(bodies, ["one", "two", "three"]);
    assert_eq!((&seen[2]["key"], &seen[2]["attributes"]), (&"k".into(), &json!({ "line": "3" })));
    assert_eq!(seen[0]["delivery_count"], 0, "it was not handed out");
    assert!(seen[0].get("receipt").is_none() && seen[0].get("lease_ms").is_none());
    let taken = ["receive", "shelf", "--max", "3", "--wait", "20s", "--delete"];
    assert_eq!(shell.succeed(&taken, b""), "one\ntwo\nthree\n");
    assert_eq!(shell.succeed(&["peek", "shelf"], b""), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_keeps_a_message_longer_and_gives_it_back_later() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.succeed(&["queue", "create", "jobs"], b"");
    shell.succeed(&["send", "jobs", "job"], b"");
    let receive = ["receive", "jobs", "--json", "--wait", "20s"];
    let first = parse(&shell.succeed(&receive, b""));
    let first = first["receipt"].as_str().unwrap();
    let extended = parse(&shell.succeed(&["extend", first, "--visibility", "10m", "--json"], b""));
    assert_eq!(extended, json!({ "receipt": first, "result": "extended", "lease_ms": 600_000 }));

    let begun = Instant::now();
    assert_eq!(shell.succeed(&["release", first, "--delay", "3s"], b""), "released\n");
    let second = parse(&shell.succeed(&receive, b""));
    assert!(begun.elapsed() >= Duration::from_secs(3), "it came after {:?}", begun.elapsed());
    assert_eq!(second["delivery_count"], 2);

    // One receipt of two is old: a part of the batch failed, and the other part is done.
    let second = second["receipt"].as_str().unwrap();
    let output = shell.run(&["extend", second, first, "--visibility", "10m", "--json"], b"");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(5), "{err}");
    assert!(err.starts_with("error: could not extend 1 of 2 messages\nwhy: "), "{err}");
    let told = objects(&out);
    assert_eq!(told[0], json!({ "receipt": second, "result": "extended", "lease_ms": 600_000 }));
    assert_eq!((&told[1]["receipt"], &told[1]["result"]), (&first.into(), &"failed".into()));
    assert!(told[1]["why"].is_string());
    shell.fail(1, &["release", first, first], b"");
    // An old receipt still deletes, and says so; what is deleted stays so.
    let deleted = parse(&shell.succeed(&["delete", first, "--json"], b""));
    assert_eq!(deleted["result"], "deleted_by_older_receipt");
    assert_eq!(shell.succeed(&["peek", "jobs"], b""), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_come_when_too_few_nodes_are_left_are_told_apart_from_those_before() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.succeed(&["queue", "create", "lines"], b"");
    let mut sender = Command::new(EXECUTABLE)
        .args(["send", "lines", "--follow", "--json", "--within", "1s"])
        .env_clear()
        .env("GAGGLE_CONNECT", &shell.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = sender.stdin.take().unwrap();
    lines.write_all(b"first\n").unwrap();
    let taken = ["receive", "lines", "--wait", "20s", "--delete"];
    assert_eq!(shell.succeed(&taken, b""), "first\n");
    cluster.kill(1).await;
    cluster.kill(2).await;
    lines.write_all(b"second\n").unwrap();
    drop(lines);
    let output = ended(sender).expect("it ends");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(5), "{out}{err}");
    let told = parse(&out);
    let rest = told["failed"].as_u64().unwrap() + told["unknown"].as_u64().unwrap();
    assert_eq!((&told["queue"], &told["sent"], rest), (&"lines".into(), &1.into(), 1));
    assert!(err.contains("error: sent only a part: line 2 was the first to fail\n"), "{err}");
    shell.fail(4, &["send", "lines", "third", "--within", "1s"], b"");
}

#[test]
fn completions_are_understood_by_the_shell_that_they_are_for() {
    let shell = Shell::new(String::new());
    for name in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = shell.succeed(&["completions", name], b"");
        for word in ["gaggle", "receive", "status", "completions"] {
            assert!(script.contains(word), "{name}: {word}");
        }
    }
    assert_eq!(shell.run(&["completions", "parrot"], b"").status.code(), Some(2));
    let script = shell.succeed(&["completions", "bash"], b"");
    let ask = "COMP_WORDS=(gaggle qu); COMP_CWORD=1; _gaggle gaggle qu gaggle
        echo \"${COMPREPLY[@]}\"";
    let words = ["--norc", "-c", &format!("{script}\n{ask}")];
    let output = Command::new("bash").args(words).output().unwrap();
    assert_eq!(texts(&output), ("queue\n".to_owned(), String::new()));
}
