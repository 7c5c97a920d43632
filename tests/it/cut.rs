//! Nodes that cannot talk: both sides go on, and afterwards it is one cluster again.

use std::collections::BTreeSet;
use std::time::Duration;

use gaggle_client::{Client, SettingsChange, Stamp};
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
    let deleted_alone = delivers_and_deletes((&alone, "alone", 0), &tally).await;
    let deleted_other = delivers_and_deletes((&other, "other", 1), &tally).await;
    heal();
    cluster.wait_until_ready().await;
    tally.forgive();
    tally.begin_epoch();
    let consumer = spawn_consumer(cluster.client().await, "cut", &tally);
    tally.wait_complete(Duration::from_secs(60)).await;
    tally.assert_complete();
    wait_until(&alone, "the queue is empty", |status| {
        status.queues.iter().all(|queue| queue.total.messages == 0)
    })
    .await;
    for (side, deleted) in [("alone", deleted_alone), ("other", deleted_other)] {
        assert!(!deleted.is_empty(), "{side}: no delete was confirmed in the cut");
        let again: Vec<_> =
            tally.resurrected().into_iter().filter(|stamp| deleted.contains(stamp)).collect();
        assert_eq!(again, [], "P4: deletes made on the side of {side} hold");
    }
    assert_eq!(tally.resurrected(), [], "P4: deletes made after the cut hold");
    consumer.abort();
}

/// A side of the cut delivers until something that it accepted in the cut has come, and deletes
/// every other message, so that what it deletes is left with the other side. The deletes that
/// were confirmed: with `at_least` 1 one node confirms them alone, as it does sends.
async fn delivers_and_deletes(
    (client, side, deletes): (&Client, &str, usize),
    tally: &Tally,
) -> BTreeSet<Stamp> {
    let queue = client.queue("cut").unwrap();
    let (mut deleted, mut kept, mut own) = (BTreeSet::new(), Vec::new(), 0);
    while own == 0 {
        let mut received = queue.receive(1, Duration::from_secs(20)).await.unwrap();
        let delivery = received.pop().expect("both sides deliver, also what they took in the cut");
        tally.received(delivery.received());
        let body = String::from_utf8(delivery.body().to_vec()).unwrap();
        own += usize::from(body.starts_with(side));
        let number: usize = body.rsplit(' ').next().unwrap().parse().unwrap();
        if number % 2 != deletes {
            // It goes back when this side is done.
            kept.push(delivery);
            continue;
        }
        let stamp = delivery.received().stamp;
        if delivery.delete().await.is_ok() {
            tally.deleted(stamp);
            deleted.insert(stamp);
        }
    }
    deleted
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
