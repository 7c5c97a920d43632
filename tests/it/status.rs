//! `gaggle status` of real clusters, and the ways by which a command finds its cluster.
//!
//! What this file does not do: it does not judge what the nodes count; `cluster.rs` and the
//! simulator do.

use std::fs;
use std::time::Instant;

use gaggle_client::SettingsChange;
use gaggle_support::{TestCluster, wait_until};
use gaggle_wire::{Standing, Status};
use serde_json::{Value, json};

use crate::EXECUTABLE;
use crate::shell::{Shell, parse, texts};

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_well_cluster_shows_every_node_and_counts_each_message_once() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    let nothing = shell.succeed(&["status"], b"");
    assert!(nothing.ends_with("\n\nno queues\n"), "{nothing}");
    shell.succeed(&["queue", "create", "orders", "--confirms", "3"], b"");
    shell.succeed(&["send", "orders"], b"one\ntwo\nthree\n");
    let receive = ["receive", "orders", "--json", "--wait", "20s", "--visibility", "10m"];
    shell.succeed(&receive, b"");

    let status = parse(&shell.succeed(&["status", "--json", "--wait", "--members", "3"], b""));
    assert_eq!(status["healthy"], true);
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|node| &node["node"]).collect::<Vec<_>>(), [1, 2, 3]);
    assert!((1..=3).contains(&status["node"].as_u64().unwrap()));
    for (index, node) in nodes.iter().enumerate() {
        let address = cluster.nodes.address(index).to_string();
        assert_eq!((&node["zone"], &node["state"]), (&"".into(), &"ready".into()));
        assert_eq!(node["client_address"], address);
        assert_eq!(node["peer_address"], address);
        let report = &node["report"];
        assert_eq!(report["ready"], true);
        assert!(report["boot"].as_u64().unwrap() > 0, "the first one is drawn");
        let others: Vec<u64> = (1..=3).filter(|id| *id != index as u64 + 1).collect();
        assert_eq!(report["sessions"], json!(others));
        for figure in ["age_ms", "disk_bytes", "disk_free_bytes", "socket_buffer_bytes"] {
            assert!(report[figure].is_u64(), "{figure}: {report}");
        }
        assert!(report["counters"].is_object());
        assert!(report.get("clock_offset_ns").is_some());
    }
    let queue = &status["queues"][0];
    assert_eq!(queue["name"], "orders");
    assert_eq!((&queue["total"]["messages"], &queue["total"]["in_flight"]), (&3.into(), &1.into()));
    let copies = queue["nodes"].as_array().unwrap().iter();
    let copies: Vec<_> = copies.map(|node| (&node["node"], &node["messages"])).collect();
    let three = Value::from(3);
    assert_eq!(copies, [(&1.into(), &three), (&2.into(), &three), (&3.into(), &three)]);

    let text = shell.succeed(&["status"], b"");
    let mut lines = text.lines();
    let titles: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let wanted = ["NODE", "ZONE", "STATE", "SESSIONS", "CLOCK", "DISK", "FREE", "ADDRESS", "AGE"];
    assert_eq!(titles, wanted);
    for (index, others) in ["2 3", "1 3", "1 2"].iter().enumerate() {
        let line = lines.next().unwrap();
        let address = cluster.nodes.address(index).to_string();
        for part in ["ready", others, &address] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
    assert!(text.contains("orders") && text.contains("copies on node 3"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_message_has_its_age_although_nobody_has_received_and_after_a_restart() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let client = cluster.client().await;
    client.create_queue("cold", SettingsChange::default()).await.unwrap();
    client.queue("cold").unwrap().send("waits").await.unwrap();
    let sent = Instant::now();
    let age = |status: &Status| status.queues[0].total.oldest_age_ms;
    wait_until(&client, "it grows old", |status| age(status) >= 1000).await;
    cluster.nodes.stop_all().await.unwrap();
    cluster.start_all().await;
    let client = cluster.client().await;
    let status = wait_until(&client, "it is counted again", |status| {
        status.queues.first().is_some_and(|queue| queue.total.messages == 1)
    })
    .await;
    let (told, real) = (age(&status), u64::try_from(sent.elapsed().as_millis()).unwrap());
    assert!(told > 1000 && told <= real + 1000, "{told} ms, and it is {real} ms old");
    let shell = Shell::of(&cluster);
    let text = shell.succeed(&["status"], b"");
    let row = text.lines().find(|line| line.contains("cold")).expect("the queue has a row");
    assert!(!row.split_whitespace().any(|cell| cell == "0s"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_down_makes_the_cluster_unhealthy_and_its_last_figures_age() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.succeed(&["queue", "create", "orders", "--confirms", "3"], b"");
    shell.succeed(&["send", "orders", "one"], b"");
    let first = cluster.nodes.address(0).to_string();
    let at_first = ["status", "--json", "--node", &first];
    shell.succeed(&at_first, b"");
    cluster.kill(2).await;
    let client = cluster.client_of(0).await;
    wait_until(&client, "the node is down", |status| {
        status.members.iter().any(|member| member.standing == Standing::Down)
    })
    .await;

    let output = shell.run(&at_first, b"");
    assert_eq!(output.status.code(), Some(10));
    let (out, err) = texts(&output);
    assert_eq!(err, "", "an unhealthy cluster is no failure of the command");
    let status = parse(&out);
    assert_eq!((&status["node"], &status["healthy"]), (&1.into(), &false.into()));
    let dead = &status["nodes"][2];
    assert_eq!(dead["state"], "down");
    // A node is down after a suspicion of 900 ms, and was well when it was last heard.
    let age = |figures: &Value| figures["age_ms"].as_u64().unwrap();
    assert!(age(&dead["report"]) >= 900, "{dead}");
    assert!(age(&status["nodes"][1]["report"]) < 900, "{status}");
    let queue = &status["queues"][0];
    assert_eq!(queue["total"]["messages"], 1, "each message counts once: {queue}");
    assert!(age(&queue["total"]) < 900 && age(&queue["nodes"][2]) >= 900, "{queue}");
    let text = texts(&shell.run(&["status", "--node", &first], b"")).0;
    assert!(text.lines().any(|line| line.contains("down")), "{text}");

    let told = shell.fail(4, &["status", "--wait", "--timeout", "200ms"], b"");
    assert!(told.contains("why: node 3 is down"), "{told}");
    let too_few = ["status", "--wait", "--members", "4", "--timeout", "200ms", "--node", &first];
    cluster.restart(2);
    cluster.wait_until_ready().await;
    let told = shell.fail(4, &too_few, b"");
    assert!(told.contains("why: 3 of 4 nodes are there"), "{told}");
    shell.succeed(&["status", "--wait", "--members", "3"], b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_word_about_where_the_cluster_is_counts() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    let files = cluster.nodes.credential_paths();
    let profile = format!(
        "addresses = [{:?}]\nca = {:?}\ncertificate = {:?}\nkey = {:?}\n",
        cluster.nodes.address(0).to_string(),
        files.ca,
        files.certificate,
        files.key
    );
    let config = shell.home.path().join(".config/gaggle");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("mine.toml"), &profile).unwrap();
    let path = shell.home.path().join("elsewhere.toml");
    fs::write(&path, &profile).unwrap();
    let path = path.to_str().unwrap();
    let code = |variables: &[(&str, &str)], arguments: &[&str]| {
        let arguments = [&["queue", "list"], arguments].concat();
        let output = shell.run_with(variables, &arguments, b"");
        (output.status.code().unwrap(), texts(&output).1)
    };
    let done = (0, String::new());
    assert_eq!(code(&[], &["--connect", &shell.url]), done);
    assert_eq!(code(&[], &["--cluster", "mine"]), done);
    assert_eq!(code(&[], &["--cluster", path]), done);
    assert_eq!(code(&[("GAGGLE_CLUSTER", "mine")], &[]), done);
    assert_eq!(code(&[("GAGGLE_CLUSTER", path)], &[]), done);
    // Of two words the nearer one is taken, and the other is not even read.
    let nonsense = ("GAGGLE_CONNECT", "http://nobody");
    assert_eq!(code(&[nonsense], &["--cluster", "mine"]), done);
    assert_eq!(code(&[nonsense], &["--connect", &shell.url]), done);
    let unknown = ("GAGGLE_CLUSTER", "nobody");
    assert_eq!(code(&[unknown], &["--cluster", "mine"]), done);
    assert_eq!(code(&[unknown, ("GAGGLE_CONNECT", &shell.url)], &[]), done);
    for (variables, arguments) in [
        (&[unknown][..], &[][..]),
        (&[nonsense, ("GAGGLE_CLUSTER", "mine")], &[]),
        (&[("GAGGLE_CLUSTER", "mine")], &["--connect", "http://nobody"]),
        (&[("GAGGLE_CLUSTER", "mine")], &["--cluster", "nobody"]),
        (&[], &[]),
    ] {
        assert_eq!(code(variables, arguments).0, 2, "{variables:?} {arguments:?}");
    }
    // What `gaggle dev` would write is found without a word.
    fs::write(config.join("dev.toml"), &profile).unwrap();
    assert_eq!(code(&[], &[]), done);

    for index in 0..3 {
        let address = cluster.nodes.address(index).to_string();
        let status = parse(&shell.succeed(&["status", "--json", "--node", &address], b""));
        assert_eq!(status["node"], index as u64 + 1, "--node asks the node at that address");
    }
    let gone = cluster.nodes.address(1).to_string();
    cluster.kill(1).await;
    shell.fail(4, &["queue", "list", "--node", &gone], b"");
    assert_eq!(code(&[], &["--cluster", "mine"]), done, "without --node the others answer");
}
