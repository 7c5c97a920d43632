//! The command line as scripts see it: exit codes, three lines of error, JSON, and `demo`.

use std::path::Path;

use gaggle_support::TestCluster;
use serde_json::Value;

use crate::EXECUTABLE;
use crate::shell::{Shell, parse, texts};

#[test]
fn what_cannot_be_understood_ends_with_2_and_a_line_that_says_why() {
    let shell = Shell::new(String::new());
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("node.toml");
    let bad = config.to_str().unwrap().to_owned();
    for (text, why) in [
        ("listen = 7400", "listen"),
        ("zoom = \"a\"", "zoom"),
        ("listen = \"127.0.0.1:0\"", "must be given"),
        ("data = \"x\"\nlisten = \"127.0.0.1:7400\"\nseeds = [\"nowhere\"]", "seeds"),
    ] {
        std::fs::write(&config, text).unwrap();
        let told = shell.fail(2, &["serve", "--config", &bad], b"");
        assert!(told.contains(why), "{told}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was changed");
    shell.fail(2, &["serve", "--config", "/nowhere/node.toml"], b"");
    shell.fail(2, &["status", "--connect", "http://n1"], b"");
    shell.fail(2, &["status", "--cluster", "nobody"], b"");
    shell.fail(2, &["status"], b"");
    let output = shell.run(&["queue", "create", "bad/name"], b"");
    assert_eq!(output.status.code(), Some(2));
    let output = shell.run(&["fly"], b"");
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_with_a_queue() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.succeed(&["queue", "create", "orders"], b"");
    shell.succeed(&["queue", "create", "orders"], b"");
    let told = shell.fail(1, &["queue", "create", "orders", "--visibility", "1m"], b"");
    assert!(told.contains("visibility"), "{told}");
    shell.fail(2, &["queue", "create", "other", "--confirms", "4"], b"");
    shell.fail(3, &["queue", "info", "nobody"], b"");
    shell.fail(3, &["send", "nobody", "x"], b"");
    shell.fail(3, &["receive", "nobody"], b"");
    let preview = shell.succeed(&["queue", "set", "orders", "--delay", "1s", "--dry-run"], b"");
    assert_eq!(preview, "delay: 0s -> 1s\n");
    let info = parse(&shell.succeed(&["queue", "info", "orders", "--json"], b""));
    assert_eq!(info["settings"]["delay_ms"], 0);
    assert_eq!(info["settings"]["partitions"], 8);

    shell.succeed(&["send", "orders", "hello", "--attribute", "a=b", "--key", "k"], b"");
    let received = parse(&shell.succeed(&["receive", "orders", "--json", "--wait", "20s"], b""));
    assert_eq!((&received["body"], &received["key"]), (&"hello".into(), &"k".into()));
    assert_eq!(received["attributes"]["a"], "b");
    let receipt = received["receipt"].as_str().unwrap();
    shell.succeed(&["extend", receipt, "--visibility", "1m"], b"");
    shell.succeed(&["release", receipt], b"");
    let again = parse(&shell.succeed(&["receive", "orders", "--json", "--wait", "20s"], b""));
    assert_eq!(again["delivery_count"], 2);
    let told = shell.fail(1, &["extend", receipt], b"");
    assert!(told.contains("stale"), "{told}");
    shell.succeed(&["delete", again["receipt"].as_str().unwrap()], b"");
    shell.fail(2, &["queue", "delete", "orders"], b"");
    shell.succeed(&["queue", "purge", "orders", "--yes"], b"");
    shell.succeed(&["status", "--wait", "--members", "3"], b"");
    shell.succeed(&["queue", "delete", "orders", "--yes"], b"");
    assert_eq!(shell.succeed(&["queue", "list", "--json"], b""), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_go_in_and_come_out_as_they_were() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.succeed(&["queue", "create", "lines", "--message-size-max", "16B"], b"");
    let text: &[u8] = b"first\n\ncarriage\r\n\xff\x00binary\nlonger than sixteen bytes";
    let told = shell.fail(2, &["send", "lines"], text);
    assert!(told.contains("line 5"), "{told}");
    let nothing = shell.succeed(&["receive", "lines", "--wait", "500ms"], b"");
    assert_eq!(nothing, "", "nothing was sent");

    let text: &[u8] = b"first\n\ncarriage\r\n\xff\x00binary\nlast";
    let output = shell.run(&["send", "lines", "--json"], text);
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "nobody asked for more");
    let sent = parse(&out);
    assert_eq!((&sent["sent"], &sent["failed"]), (&5.into(), &0.into()));
    let arguments = ["receive", "lines", "--json", "--max", "5", "--wait", "20s", "--delete"];
    let mut came = Vec::new();
    while came.len() < 5 {
        let out = shell.succeed(&arguments, b"");
        came.extend(out.lines().map(parse));
    }
    came.sort_by_key(|message| message["attributes"]["line"].to_string());
    let bodies: Vec<&Value> = came.iter().map(|message| &message["body"]).collect();
    assert_eq!(bodies[..3], ["first", "", "carriage\r"]);
    assert_eq!(came[3]["body_base64"], "/wBiaW5hcnk=");
    assert_eq!(*bodies[4], "last");
    let output = shell.run(&["send", "lines"], b"plain\nlines\n");
    assert_eq!((output.status.code(), texts(&output).1), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_there_is_4_and_one_that_lacks_a_node_is_10() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.succeed(&["status", "--json"], b"");
    cluster.kill(2).await;
    let client = cluster.client_of(0).await;
    gaggle_support::wait_until(&client, "the node is missed", |status| {
        status.members.iter().any(|member| member.standing != gaggle_wire::Standing::Ready)
    })
    .await;
    assert_eq!(shell.run(&["status"], b"").status.code(), Some(10));
    shell.fail(4, &["status", "--wait", "--timeout", "200ms"], b"");
    cluster.kill_all().await;
    shell.fail(4, &["queue", "list"], b"");
}

#[test]
fn the_demo_loses_nothing_and_says_so_in_its_last_line() {
    let shell = Shell::new(String::new());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    let lines: Vec<String> = (0..3000).map(|line| format!("line {}", line % 1000)).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let told = shell.succeed(&["demo", "--file", path.to_str().unwrap()], b"");
    let last = told.lines().last().unwrap();
    let wanted = "sent 3000 confirmed 3000 received 3000 lost 0 duplicates ";
    assert!(last.starts_with(wanted), "{told}");
    for happened in ["half-way: killing node ", "starting node "] {
        let tells = told.lines().filter(|line| line.starts_with(happened) && line.len() < 60);
        let again = tells.filter(|line| line.contains("SIGKILL") || line.ends_with("again"));
        assert_eq!(again.count(), 1, "{happened}: {told}");
    }
    let object = parse(&shell.succeed(&["demo", "--nodes", "4", "--json"], b""));
    assert_eq!((&object["lost"], &object["invented"]), (&0.into(), &0.into()));
    assert_eq!(object["confirmed"], object["sent"]);
    shell.fail(2, &["demo", "--file", "/nowhere/text"], b"");
}

#[test]
fn certificates_are_made_once_and_never_overwritten() {
    let shell = Shell::new(String::new());
    let dir = tempfile::tempdir().unwrap();
    let certs = dir.path().join("certs");
    let certs = certs.to_str().unwrap();
    shell.fail(2, &["cert", "node", "1", "--dir", certs], b"");
    shell.succeed(&["cert", "init", "--name", "prod", "--dir", certs], b"");
    shell.fail(2, &["cert", "init", "--name", "prod", "--dir", certs], b"");
    let made = parse(&shell.succeed(&["cert", "node", "1", "--dir", certs, "--json"], b""));
    assert!(Path::new(made["key"].as_str().unwrap()).exists());
    shell.succeed(&["cert", "client", "billing", "--dir", certs], b"");
    shell.fail(2, &["cert", "client", "billing", "--dir", certs], b"");
}
