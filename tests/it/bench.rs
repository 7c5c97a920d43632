//! `gaggle bench`, small and for real: what it prints is what happened.
//!
//! What this file does not do: it judges no speed; a test machine has none.

use gaggle_support::TestCluster;
use serde_json::{Value, json};

use crate::EXECUTABLE;
use crate::shell::{Shell, parse, texts};

/// Runs a bench without a word about where a cluster is.
fn bench(shell: &Shell, arguments: &[&str]) -> Value {
    let all = [&["bench", "--json", "--size", "100"], arguments].concat();
    let output = shell.run_with(&[], &all, b"");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    parse(&out)
}

/// All was confirmed, and all of it came.
fn assert_complete(told: &Value, messages: u64) {
    assert_eq!(told["messages"], messages);
    for (figure, value) in [("confirmed", messages), ("failed", 0), ("unknown", 0), ("lost", 0)] {
        assert_eq!(told[figure], value, "{figure}: {told}");
    }
    assert_eq!(told["received"], messages + told["backlog"].as_u64().unwrap(), "{told}");
    for rate in ["sends_per_second", "end_to_end_per_second", "send_gap_ms", "delivery_gap_ms"] {
        assert!(told[rate].as_f64().unwrap() > 0.0, "{rate}: {told}");
    }
    for latency in ["send_ms", "end_to_end_ms"] {
        let at = |quantile: &str| told[latency][quantile].as_f64().unwrap();
        let quantiles = [0.0, at("p50"), at("p99"), at("p999"), at("max")];
        assert!(quantiles.is_sorted() && quantiles[1] > 0.0, "{latency}: {told}");
    }
}

#[test]
fn a_bench_of_its_own_cluster_finds_every_message_and_measures_the_nodes() {
    let shell = Shell::new(String::new());
    let few = ["--producers", "4", "--consumers", "4", "--in-flight", "16"];
    let told = bench(&shell, &[&few[..], &["--messages", "3000", "--backlog", "500"]].concat());
    assert_complete(&told, 3000);
    for (asked, value) in [("producers", 4), ("consumers", 4), ("in_flight", 16), ("size", 100)] {
        assert_eq!(told[asked], value);
    }
    assert_eq!(
        (&told["rate"], &told["queues"], &told["backlog"]),
        (&Value::Null, &1.into(), &500.into())
    );
    let nodes = told["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|node| &node["node"]).collect::<Vec<_>>(), [1, 2, 3]);
    for figure in ["memory_peak_bytes", "disk_bytes"] {
        assert!(nodes.iter().all(|node| node[figure].as_u64().unwrap() > 0), "{told}");
    }
    assert!(told["disk_bytes_per_message_byte"].as_f64().unwrap() > 1.0, "{told}");
}

#[test]
fn a_bench_that_kills_a_node_loses_nothing() {
    let shell = Shell::new(String::new());
    // The kill comes after 2 s, in the middle of the sends; the node is back 5 s later.
    let told = bench(&shell, &["--messages", "8000", "--rate", "2000", "--kill"]);
    assert_complete(&told, 8000);
    assert_eq!(told["rate"], 2000.0);
    let alone = shell.run_with(&[], &["bench", "--kill", "--nodes", "1"], b"");
    assert_eq!(alone.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_of_a_cluster_that_is_there_leaves_it_as_it_was() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    shell.fail(2, &["bench", "--kill"], b"");
    let arguments = ["bench", "--json", "--messages", "2000", "--size", "64B", "--queues", "3"];
    let told = parse(&shell.succeed(&arguments, b""));
    assert_complete(&told, 2000);
    assert_eq!((&told["queues"], &told["nodes"]), (&3.into(), &json!([])));
    let only_sends = [&arguments[..], &["--consumers", "0"]].concat();
    let told = parse(&shell.succeed(&only_sends, b""));
    assert_eq!((&told["confirmed"], &told["received"]), (&2000.into(), &0.into()));
    assert_eq!(told["end_to_end_ms"], Value::Null);
    assert_eq!(shell.succeed(&["queue", "list"], b""), "");
}
