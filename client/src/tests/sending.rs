//! Sends, and what may happen to them.

use std::collections::BTreeSet;
use std::time::Duration;

use gaggle_wire::{Attempt, Outcome, Refusal};

use super::fake::{Cluster, connect};
use crate::{Client, ConnectError, SendError, Spread};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_sent_received_and_deleted() {
    let cluster = Cluster::start(3);
    let client = connect(&cluster).await;
    let orders = client.queue("orders").unwrap();
    let confirmed = orders.send("hello").key("k").attribute("color", "red").await.unwrap();
    assert_eq!((confirmed.copies, confirmed.id.number), (2, 1));

    let mut received = orders.receive(10, Duration::from_secs(5)).await.unwrap();
    let delivery = received.pop().unwrap();
    assert_eq!(delivery.body(), b"hello");
    assert_eq!(delivery.message().key.as_deref(), Some(&b"k"[..]));
    assert_eq!(delivery.attributes().value("color"), Some(&"red".into()));
    delivery.delete().await.unwrap();
    assert_eq!(cluster.state().deleted, [confirmed.id]);
    client.close().await;
    assert_eq!(cluster.state().released, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sends_are_numbered_densely_in_few_frames() {
    let cluster = Cluster::start(3);
    let client = connect(&cluster).await;
    let producer = client.queue("orders").unwrap().producer();
    let bodies = (0..1000).map(|number| format!("body {number}"));
    let results = producer.send_all(bodies).await;
    assert!(results.iter().all(Result::is_ok));
    let state = cluster.state();
    assert_eq!(state.stored.len(), 1000);
    assert!(state.sends().len() < 200, "{} frames", state.sends().len());
    assert!(state.sends().iter().all(|(_, attempt, _)| *attempt == Attempt::First));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_spreads_as_one_stays_in_one_partition_and_in_order() {
    let cluster = Cluster::start(3);
    let client = connect(&cluster).await;
    let queue = client.queue("orders").unwrap();
    let mut partitions = BTreeSet::new();
    for _ in 0..20 {
        let producer = queue.producer().spread(Spread::Producer);
        let before = cluster.state().stored.clone();
        for _ in 0..5 {
            let results = producer.send_all(["opened", "paid", "shipped"]).await;
            let numbers: Vec<u64> = results.iter().map(|r| r.as_ref().unwrap().id.number).collect();
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
        let state = cluster.state();
        let used: BTreeSet<u16> = state.stored.difference(&before).map(|(at, _)| *at).collect();
        assert_eq!(used.len(), 1, "{used:?}");
        partitions.extend(used);
    }
    assert!(partitions.len() > 2, "producers share {partitions:?} out of eight");
    let before = cluster.state().stored.clone();
    queue.producer().send_all(["a"; 3000]).await;
    let state = cluster.state();
    let batches: BTreeSet<u16> = state.stored.difference(&before).map(|(at, _)| *at).collect();
    // How many of the eight is up to when each becomes free.
    assert!(batches.len() > 1, "batches go round: {batches:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_swallowed_sends_the_same_id_to_a_second_node() {
    let cluster = Cluster::start(3);
    let client = connect(&cluster).await;
    let queue = client.queue("orders").unwrap();
    queue.send("first").key("one").await.unwrap();
    // From now on what is sent there is stored but never answered.
    let asked = cluster.state().sends()[0].0;
    cluster.state().swallow.insert(asked);
    for at in 0..20 {
        queue.send(format!("more {at}")).key("one").await.unwrap();
    }
    let state = cluster.state();
    assert_eq!(state.stored.len(), 21);
    let again = |(_, attempt, _): &&(u64, Attempt, Vec<u64>)| *attempt == Attempt::Again;
    assert_eq!(state.sends().iter().filter(again).count(), 1, "the silent node is left alone");
    for (node, attempt, numbers) in state.sends() {
        if attempt == Attempt::Again {
            assert_ne!(node, asked);
            let first = (asked, Attempt::First, numbers);
            assert!(state.sends().contains(&first), "{first:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_resends_what_was_under_way_elsewhere() {
    let cluster = Cluster::start(2);
    let client = connect(&cluster).await;
    let queue = client.queue("orders").unwrap();
    queue.send("first").key("a").await.unwrap();
    let asked = cluster.state().sends()[0].0;
    cluster.state().swallow.insert(asked);
    let sending = tokio::spawn(queue.send("second").key("a").into_future());
    cluster.until(|state| state.sends().len() == 2).await;
    cluster.cut(asked);
    let confirmed = sending.await.unwrap().unwrap();
    assert_eq!(confirmed.id.number, 2);
    let sends = cluster.state().sends();
    assert_eq!(sends.last().unwrap(), &(3 - asked, Attempt::Again, vec![2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn not_enough_hosts_is_tried_again_until_the_deadline() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    let queue = client.queue("orders").unwrap();
    let few = Refusal::NotEnoughHosts { wanted: 2, reachable: 1 };
    cluster.state().refuse_sends.extend(vec![few.clone(); 3]);
    queue.send("first").await.unwrap();
    assert_eq!(cluster.state().sends().len(), 4);

    cluster.state().refuse_sends.extend(vec![few.clone(); 1000]);
    let error = queue.send("second").within(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error, SendError::Refused(few));
    assert_eq!(error.outcome(), Outcome::NotDone);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_not_there_is_an_error_at_once() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    let error = client.queue("missing").unwrap().send("x").await.unwrap_err();
    assert!(matches!(error.refusal(), Some(Refusal::QueueNotFound { .. })), "{error}");
    assert_eq!(error.outcome(), Outcome::NotDone);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_at_all_is_reported_as_unknown() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    let queue = client.queue("orders").unwrap();
    cluster.state().swallow.insert(1);
    let error = queue.send("x").within(Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(error, SendError::Unknown { last: None });
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_one_node_asks_no_other() {
    let cluster = Cluster::start(3);
    let options = cluster.options().node_only(cluster.address(2));
    let client = Client::connect_with(options).await.unwrap();
    let results = client.queue("orders").unwrap().producer().send_all(vec!["x"; 300]).await;
    assert!(results.iter().all(Result::is_ok));
    assert!(cluster.state().log.iter().all(|(node, _)| *node == 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn close_waits_for_what_is_under_way_and_refuses_the_rest() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    let queue = client.queue("orders").unwrap();
    let producer = queue.producer();
    let mut sendings = Vec::new();
    for _ in 0..100 {
        sendings.push(producer.send("x").await.unwrap());
    }
    client.close().await;
    assert_eq!(cluster.state().stored.len(), 100);
    for sending in sendings {
        sending.await.unwrap();
    }
    assert_eq!(queue.send("y").await, Err(SendError::Closed));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_messages_pass_through_little_room() {
    let cluster = Cluster::start(1);
    let options = cluster.options().under_way_bytes_max(4096);
    let client = Client::connect_with(options).await.unwrap();
    let bodies = vec![vec![7_u8; 1500]; 50];
    let producer = client.queue("orders").unwrap().producer().under_way_max(30);
    let results = producer.send_all(bodies).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(cluster.state().stored.len(), 50);
}

#[test]
fn a_runtime_that_ends_leaves_the_outcome_unknown() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster_runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = cluster_runtime.block_on(async { Cluster::start(1) });
    let (sending, client) = runtime.block_on(async {
        let client = connect(&cluster).await;
        cluster.state().swallow.insert(1);
        let producer = client.queue("orders").unwrap().producer();
        let sending = producer.send("x").await.unwrap();
        cluster.until(|state| !state.sends().is_empty()).await;
        (sending, client)
    });
    drop(runtime);
    let result = cluster_runtime.block_on(sending);
    assert_eq!(result, Err(SendError::Unknown { last: None }));
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_trusted_is_told_at_once() {
    let (ours, theirs) = (Cluster::start(1), Cluster::start(2));
    let addresses = [theirs.address(1), theirs.address(2)];
    let options = ours.options_for(addresses);
    let error = Client::connect_with(options).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotAccepted { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_an_error_that_says_so() {
    let cluster = Cluster::start(1);
    let timeout = Duration::from_millis(200);
    let options = cluster.options().node_only("127.0.0.1:9").connect_timeout(timeout);
    let error = Client::connect_with(options).await.unwrap_err();
    assert!(error.to_string().starts_with("no node of the cluster answered"), "{error}");
}
