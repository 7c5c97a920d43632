//! Zones: copies are spread over them, so that all nodes of one may end at once.
//!
//! What these tests do not do: which hosts are chosen is shown in the core (`rendezvous`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gaggle_client::{Outgoing, SettingsChange};
use gaggle_support::TestCluster;

use crate::EXECUTABLE;

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_of_a_zone_end_at_once_and_what_was_confirmed_is_in_the_others() {
    let mut cluster = TestCluster::prepare(EXECUTABLE, 4);
    for (index, zone) in ["east", "east", "west", "west"].into_iter().enumerate() {
        cluster.nodes.settings_mut(index).zone = Some(zone.to_owned());
    }
    cluster.start_all().await;
    let client = cluster.client().await;
    let two_copies =
        SettingsChange { replicas: Some(2), partitions: Some(16), ..SettingsChange::default() };
    client.create_queue("orders", two_copies).await.unwrap();
    let bodies: BTreeSet<String> = (0..2000).map(|number| format!("order {number}")).collect();
    // By their keys they lie in every partition, with every pair of hosts that there is.
    let messages = bodies.iter().map(|body| Outgoing::new(body.clone()).key(body.clone()));
    let results = client.queue("orders").unwrap().producer().send_all(messages).await;
    assert!(results.iter().all(Result::is_ok));

    cluster.kill(0).await;
    cluster.kill(1).await;
    let west = cluster.client_of(2).await;
    let orders = west.queue("orders").unwrap();
    let mut came = BTreeSet::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    while came != bodies {
        let missing = bodies.difference(&came).count();
        assert!(Instant::now() < deadline, "P1: {missing} are missing\n{}", cluster.logs());
        for delivery in orders.receive(1000, Duration::from_secs(1)).await.unwrap() {
            came.insert(String::from_utf8(delivery.body().to_vec()).unwrap());
            // It stays in flight: this test is about what comes.
            drop(delivery.into_parts());
        }
    }
}
