//! Nodes that cannot talk: both sides go on, and afterwards it is one cluster again.

use std::time::Duration;

use gaggle_client::{Client, SettingsChange};
use gaggle_support::netns::Namespaces;
use gaggle_support::tally::{Tally, spawn_consumer};
use gaggle_support::{TestCluster, wait_until};
use gaggle_wire::Standing;

use crate::EXECUTABLE;

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_of_a_cut_go_on_and_afterwards_all_comes_and_deletes_hold() {
    let mut cluster = TestCluster::start_behind_relays(EXECUTABLE, 3).await;
    let relays = cluster.take_relays();
    cut_and_heal(&mut cluster, || relays.cut(&[0]), || relays.heal()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_where_the_kernel_makes_the_cut() {
    let namespaces = match Namespaces::make(3) {
        Ok(namespaces) => namespaces,
        Err(why) => {
            let required = std::env::var_os("GAGGLE_REQUIRE_NETNS").is_some();
            assert!(!required, "GAGGLE_REQUIRE_NETNS is set, and this machine cannot: {why}");
            println!("skipped: no network namespaces here: {why}");
            return;
        }
    };
    let mut cluster = TestCluster::prepare_in(EXECUTABLE, 3, &namespaces);
    cluster.start_all().await;
    cut_and_heal(&mut cluster, || namespaces.cut(&[0]), || namespaces.heal()).await;
    drop(cluster);
}

/// Cuts the first node off, has both sides send, deliver and delete, and heals.
async fn cut_and_heal(cluster: &mut TestCluster, cut: impl Fn(), heal: impl Fn()) {
    let (alone, other) = (cluster.client_of(0).await, cluster.client_of(1).await);
    let change = SettingsChange { at_least: Some(1), ..SettingsChange::default() };
    alone.create_queue("cut", change).await.unwrap();
    wait_until(&other, "both know the queue", |status| !status.queues.is_empty()).await;
    let tally = Tally::default();
    send(&alone, "before", 50, &tally).await;

    cut();
    for (client, gone) in [(&alone, 2), (&other, 1)] {
        wait_until(client, "the other side is seen to be gone", |status| {
            let down = status.members.iter().filter(|member| member.standing == Standing::Down);
            down.count() == gone
        })
        .await;
    }
    send(&alone, "alone", 50, &tally).await;
    send(&other, "other", 50, &tally).await;
    // Each side delivers what it has, and deletes some of it.
    for client in [&alone, &other] {
        let queue = client.queue("cut").unwrap();
        for _ in 0..20 {
            let mut received = queue.receive(1, Duration::from_secs(20)).await.unwrap();
            let delivery = received.pop().expect("both sides deliver");
            tally.received(delivery.received());
            let stamp = delivery.received().stamp;
            // Fewer than W hosts can confirm it on the small side; it travels all the same.
            if delivery.delete().await.is_ok() {
                tally.deleted(stamp);
            }
        }
    }
    heal();
    cluster.wait_until_ready().await;
    tally.forgive();
    assert!(tally.deleted_count() > 0, "no delete was confirmed during the cut");
    tally.begin_epoch();
    let consumer = spawn_consumer(cluster.client().await, "cut", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    wait_until(&alone, "the queue is empty", |status| {
        status.queues.iter().all(|queue| queue.total.messages == 0)
    })
    .await;
    assert_eq!(tally.resurrected(), [], "P4: deletes made on either side hold");
    consumer.abort();
}

async fn send(client: &Client, title: &str, count: usize, tally: &Tally) {
    let queue = client.queue("cut").unwrap();
    for index in 0..count {
        let body = format!("{title} {index}");
        let result = queue.send(body.clone()).await;
        assert!(result.is_ok(), "{body}: {result:?}");
        tally.sent(body.as_bytes(), result);
    }
}
