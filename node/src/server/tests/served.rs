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

/// Waits until the node says that it has sessions with so many others.
pub(super) async fn sessions(client: &Client, count: usize) {
    loop {
        let status = client.status().await.unwrap();
        let own = status.members.iter().find(|member| member.node == status.node);
        let report = own.and_then(|member| member.report.as_ref());
        if report.is_some_and(|report| report.sessions.len() == count && report.ready) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn three_nodes_hold_copies_for_each_other() {
    let house = House::new();
    // The newcomers have both a smaller and a larger id than their seed.
    let seed = house.start(2, &[]).await;
    let others = [house.start(1, &[&seed]).await, house.start(3, &[&seed]).await];
    let mut clients = Vec::new();
    for (server, name) in [(&seed, "a"), (&others[0], "b"), (&others[1], "c")] {
        let options = house.options(server, name).node_only(server.addresses().listen.to_string());
        let client = Client::connect_with(options).await.unwrap();
        sessions(&client, 2).await;
        clients.push(client);
    }
    let change = SettingsChange { replicas: Some(3), confirms: Some(3), ..Default::default() };
    clients[0].create_queue("orders", change).await.unwrap();
    let queue = clients[0].queue("orders").unwrap();
    for number in 0..20 {
        let confirmed = queue.send(format!("order {number}")).await.unwrap();
        assert_eq!(confirmed.copies, 3);
    }
    let mut left = 20;
    while left > 0 {
        let queue = clients[2].queue("orders").unwrap();
        for delivery in queue.receive(10, Duration::from_secs(5)).await.unwrap() {
            delivery.delete().await.unwrap();
            left -= 1;
        }
    }
    for client in &clients {
        client.close().await;
    }
    for server in others.into_iter().chain([seed]) {
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_content_that_rots_on_disk_is_not_delivered_and_the_others_are() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "a")).await.unwrap();
    client.create_queue("orders", SettingsChange::default()).await.unwrap();
    let queue = client.queue("orders").unwrap();
    for body in ["a body that rots", "a body that stays"] {
        queue.send(body).await.unwrap();
    }
    client.close().await;
    server.stop().await.unwrap();
    let path = house.path().join("data-1").join("store.redb");
    let mut bytes = std::fs::read(&path).unwrap();
    let needle = b"a body that rots";
    let found = |window: &[u8]| window == needle;
    let places: Vec<usize> = bytes
        .windows(needle.len())
        .enumerate()
        .filter(|(_, w)| found(w))
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "b")).await.unwrap();
    let queue = client.queue("orders").unwrap();
    let mut got = Vec::new();
    while got.is_empty() {
        got = queue.receive(10, Duration::from_secs(5)).await.unwrap();
    }
    let bodies: Vec<&[u8]> = got.iter().map(gaggle_client::Delivery::body).collect();
    assert_eq!(bodies, [&b"a body that stays"[..]]);
    drop(got);
    client.close().await;
    server.stop().await.unwrap();
}
