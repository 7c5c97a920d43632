//! Clocks of clients, against real nodes: how well they are known, and what follows for stamps.
//!
//! All processes here share one clock, so whatever is measured as an offset is an error. What this
//! file does not do: clocks that drift are the simulator's.

use std::time::Duration;

use gaggle_client::{Client, Refusal, SettingsChange};
use gaggle_support::TestCluster;
use serde_json::Value;

use crate::EXECUTABLE;
use crate::shell::{Shell, parse};

/// Within the drift bound of 500 ms, and beyond it.
const AHEAD: i64 = 300_000_000;
const FAR_AHEAD: i64 = 900_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn clocks_are_shown_with_what_they_may_be_wrong_by() {
    let mut cluster = TestCluster::start(EXECUTABLE, 3).await;
    let shell = Shell::of(&cluster);
    let clock = parse(&shell.succeed(&["clock", "--json"], b""));
    let is_within = |clock: &Value| {
        let (offset, error) = (clock["offset_ns"].as_i64(), clock["error_ns"].as_i64());
        offset.unwrap().abs() <= error.unwrap()
    };
    assert!(is_within(&clock), "{clock}");
    let nodes = clock["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|node| &node["node"]).collect::<Vec<_>>(), [1, 2, 3]);
    assert!((1..=3).contains(&clock["like"].as_u64().unwrap()), "{clock}");
    for node in nodes {
        // Both this and the cluster's time may be wrong.
        let error = node["error_ns"].as_i64().unwrap() + clock["error_ns"].as_i64().unwrap();
        assert!(node["offset_ns"].as_i64().unwrap().abs() <= error, "{clock}");
        assert_eq!(node["clock_sick"], false);
    }

    cluster.kill(2).await;
    let text = shell.succeed(&["clock"], b"");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].starts_with("CLOCK"), "{text}");
    assert!(lines[1].starts_with("this machine  "), "{text}");
    assert!(lines[4].starts_with("node 3") && lines[4].ends_with("does not answer"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_after_a_delivery_is_stamped_after_it_wherever_both_are() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let ahead = skewed(&cluster, AHEAD).await;
    let nodes = [cluster.client_of(1).await, cluster.client_of(2).await];
    for name in ["causes", "effects"] {
        ahead.create_queue(name, SettingsChange::default()).await.unwrap();
    }
    for client in &nodes {
        let cause = ahead.queue("causes").unwrap().send("cause").await.unwrap();
        let causes = client.queue("causes").unwrap();
        let received = causes.receive(1, Duration::from_secs(10)).await.unwrap().remove(0);
        assert_eq!(received.received().stamp, cause.stamp);
        let effect = client.queue("effects").unwrap().send("effect").await.unwrap();
        assert!(effect.stamp > cause.stamp, "{effect:?} after {cause:?}");
        received.delete().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_beyond_the_bound_is_told_by_how_much() {
    let cluster = TestCluster::start(EXECUTABLE, 1).await;
    let ahead = skewed(&cluster, FAR_AHEAD).await;
    ahead.create_queue("orders", SettingsChange::default()).await.unwrap();
    let error = ahead.queue("orders").unwrap().send("early").await.unwrap_err();
    let Some(Refusal::ClockAhead { by_ms }) = error.refusal() else { panic!("{error:?}") };
    assert!((800..=901).contains(by_ms), "{by_ms} ms of 900, less what has passed");
}

async fn skewed(cluster: &TestCluster, nanoseconds: i64) -> Client {
    Client::connect_with(cluster.options().danger_clock_skew(nanoseconds)).await.unwrap()
}
