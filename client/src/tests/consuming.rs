//! Deliveries: received, streamed, settled, given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use gaggle_wire::{Refusal, Request};

use super::fake::{Cluster, connect};
use crate::ReceiveError;

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_dropped_is_released() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.put(&["a", "b"]);
    let queue = client.queue("orders").unwrap();
    let deliveries = queue.receive(2, Duration::from_secs(1)).await.unwrap();
    assert_eq!(deliveries.len(), 2);
    drop(deliveries);
    cluster.until(|state| state.released.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_apart_is_not_released() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.put(&["a"]);
    let queue = client.queue("orders").unwrap();
    let delivery = queue.receive(1, Duration::from_secs(1)).await.unwrap().pop().unwrap();
    let (received, receipt) = delivery.into_parts();
    assert_eq!(received.message.body, "a");
    let results = client.delete_all([receipt]).await;
    assert!(results[0].is_ok());
    client.close().await;
    assert!(cluster.state().released.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_deletes_share_few_requests() {
    let cluster = Cluster::start(3);
    let client = connect(&cluster).await;
    cluster.put(&["x"; 500]);
    let queue = client.queue("orders").unwrap();
    let deliveries = queue.receive(500, Duration::from_secs(1)).await.unwrap();
    let deletes: Vec<_> =
        deliveries.into_iter().map(|delivery| tokio::spawn(delivery.delete())).collect();
    for delete in deletes {
        delete.await.unwrap().unwrap();
    }
    let state = cluster.state();
    assert_eq!(state.deleted.len(), 500);
    let requests = state.log.iter().filter(|(_, r)| matches!(r, Request::Delete { .. })).count();
    assert!(requests < 250, "{requests} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn credit_bounds_what_waits_to_be_taken() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.put(&["x"; 20]);
    let mut consumer = client.queue("orders").unwrap().consumer().credit(4).open();
    cluster.until(|state| state.consumers.iter().any(|consumer| consumer.sent.len() == 4)).await;
    for taken in 1..=20_u64 {
        consumer.next().await.unwrap().unwrap().delete().await.unwrap();
        let state = cluster.state();
        let sent = state.consumers[0].sent.len() as u64;
        assert!(sent <= taken + 4, "{sent} were sent when {taken} were taken");
    }
    cluster.until(|state| state.consumers[0].taken == 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_consumer_gives_back_what_was_not_taken() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.put(&["x"; 10]);
    let mut consumer = client.queue("orders").unwrap().consumer().credit(8).open();
    let first = consumer.next().await.unwrap().unwrap();
    cluster.until(|state| state.consumers[0].sent.len() >= 8).await;
    consumer.close().await;
    {
        let state = cluster.state();
        assert_eq!((state.consumers[0].taken, state.ready.len()), (1, 9));
        assert!(state.released.is_empty());
    }
    first.delete().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_client_gives_back_what_was_not_taken() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.put(&["x"; 10]);
    let mut consumer = client.queue("orders").unwrap().consumer().credit(8).open();
    cluster.until(|state| state.consumers.iter().any(|consumer| consumer.sent.len() == 8)).await;
    client.close().await;
    assert_eq!(cluster.state().ready.len(), 10);
    assert!(consumer.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_goes_on_at_another_node() {
    let cluster = Cluster::start(2);
    let client = connect(&cluster).await;
    cluster.put(&["a", "b", "c", "d"]);
    let mut consumer = client.queue("orders").unwrap().consumer().credit(2).open();
    let first = consumer.next().await.unwrap().unwrap();
    let node = cluster.state().consumers[0].node;
    cluster.until(|state| state.consumers[0].taken == 1).await;
    cluster.cut(node);
    first.delete().await.unwrap();
    for _ in 0..3 {
        consumer.next().await.unwrap().unwrap().delete().await.unwrap();
    }
    let state = cluster.state();
    let mut deleted = state.deleted.clone();
    deleted.sort_unstable();
    deleted.dedup();
    assert_eq!((deleted.len(), state.deleted.len()), (4, 4));
    assert_eq!(state.consumers.last().unwrap().node, 3 - node);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_of_no_queue_says_so_and_ends() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    let mut consumer = client.queue("missing").unwrap().consumer().open();
    let error = StreamExt::next(&mut consumer).await.unwrap().unwrap_err();
    assert!(matches!(error, ReceiveError::Refused(Refusal::QueueNotFound { .. })));
    assert!(StreamExt::next(&mut consumer).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn run_deletes_what_succeeds_and_releases_what_fails() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.put(&["good", "bad", "panic", "good"]);
    let consumer = client.queue("orders").unwrap().consumer().open();
    let seen = Arc::new(AtomicUsize::new(0));
    let work = {
        let seen = Arc::clone(&seen);
        move |received: crate::Received| {
            seen.fetch_add(1, Ordering::Relaxed);
            async move {
                match &received.message.body[..] {
                    b"good" => Ok(()),
                    b"panic" => panic!("on purpose"),
                    _ => Err("bad"),
                }
            }
        }
    };
    let running = tokio::spawn(consumer.run(2, work));
    cluster.until(|state| state.deleted.len() == 2 && state.released.len() == 2).await;
    client.close().await;
    running.await.unwrap().unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_extended_while_the_work_lasts() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.state().lease_ms = 200;
    cluster.put(&["slow"]);
    let consumer = client.queue("orders").unwrap().consumer().open();
    let (finish, finished) = tokio::sync::watch::channel(false);
    let work = move |_| {
        let mut finished = finished.clone();
        async move { finished.wait_for(|finished| *finished).await.map(|_| ()) }
    };
    let running = tokio::spawn(consumer.run(1, work));
    let extends = |state: &super::fake::State| {
        state.log.iter().filter(|(_, r)| matches!(r, Request::Extend { .. })).count()
    };
    cluster.until(|state| extends(state) >= 3).await;
    finish.send(true).unwrap();
    cluster.until(|state| state.deleted.len() == 1).await;
    client.close().await;
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_told_when_its_lease_is_lost() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    (cluster.state().lease_ms, cluster.state().refuses_extends) = (200, true);
    cluster.put(&["slow"]);
    let consumer = client.queue("orders").unwrap().consumer().open();
    let work = move |received: crate::Received| async move {
        assert!(!received.lease.is_lost());
        received.lease.lost().await;
        assert!(received.lease.is_lost());
        Err("another consumer has it")
    };
    let running = tokio::spawn(consumer.run(1, work));
    cluster.until(|state| state.released.len() == 1).await;
    client.close().await;
    running.await.unwrap().unwrap();
}

// On one thread nothing else runs while the receive is begun.
#[tokio::test]
async fn a_receive_that_is_given_up_releases_what_comes() {
    let cluster = Cluster::start(1);
    let client = connect(&cluster).await;
    cluster.put(&["a"]);
    let queue = client.queue("orders").unwrap();
    let mut receive = Box::pin(queue.receive(1, Duration::from_secs(5)));
    // Begun, and dropped before its answer can have come.
    assert!(futures_util::FutureExt::now_or_never(&mut receive).is_none());
    drop(receive);
    cluster.until(|state| state.released.len() == 1).await;
}
