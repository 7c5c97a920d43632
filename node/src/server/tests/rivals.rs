//! Two processes with one certificate.

use std::time::Duration;

use tokio::time::timeout;

use super::*;

/// Starts a node with the certificate of another one that runs, and waits for its end.
async fn twin_ends(house: &House, id: u64, seeds: &[&Server]) -> String {
    let mut config = house.config(id, seeds);
    config.data = house.path().join("data-twin");
    let mut twin = Server::start(config).await.unwrap();
    let ended = timeout(Duration::from_secs(20), twin.ended()).await.expect("it ends");
    ended.unwrap_err().to_string()
}

#[tokio::test]
async fn a_node_ends_when_another_process_has_its_name_and_was_there_first() {
    let house = House::new();
    let first = house.start(1, &[]).await;
    let second = house.start(2, &[&first]).await;
    // Processes that start together are told apart by lot.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let expected =
        format!("node 1 runs already, at {}, and was there first", first.addresses().peers);
    for seed in [&first, &second] {
        assert_eq!(twin_ends(&house, 1, &[seed]).await, expected);
    }
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}
