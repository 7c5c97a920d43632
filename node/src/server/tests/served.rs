//! What clients that behave get.

use std::time::Duration;

use gaggle_client::Client;
use gaggle_wire::SettingsChange;

use super::*;

#[tokio::test]
async fn a_message_is_sent_received_and_deleted_and_the_store_stays() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "a")).await.unwrap();
    client.create_queue("orders", SettingsChange::default()).await.unwrap();
    let queue = client.queue("orders").unwrap();
    for number in 0..10 {
        queue.send(format!("order {number}")).await.unwrap();
    }
    let got = queue.receive(1, Duration::from_secs(5)).await.unwrap();
    assert_eq!(got.len(), 1);
    for delivery in got {
        delivery.delete().await.unwrap();
    }
    client.close().await;
    server.stop().await.unwrap();
    // The rest is there in the next run.
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "b")).await.unwrap();
    let queue = client.queue("orders").unwrap();
    let mut left = 0;
    while left < 9 {
        for delivery in queue.receive(10, Duration::from_secs(5)).await.unwrap() {
            assert!(delivery.body().starts_with(b"order "));
            delivery.delete().await.unwrap();
            left += 1;
        }
    }
    assert!(queue.receive(10, Duration::from_millis(50)).await.unwrap().is_empty());
    client.close().await;
    server.stop().await.unwrap();
}
