//! A client that does not read what it is delivered (F24): its deletes and extensions, and other
//! clients, are served as if it did, and what it does not take goes to others.

use std::time::Duration;

use gaggle_client::{Client, SettingsChange};
use gaggle_wire::frame;
use gaggle_wire::{DeleteResult, QueueName, Receipt, Request, RequestFrame, Response};

use super::raw::Raw;
use super::*;

const LARGE: usize = 900_000;

/// Opens a stream of deliveries and never reads it.
async fn stall(raw: &Raw, queue: &str, request: u64) -> (quinn::SendStream, quinn::RecvStream) {
    let queue = QueueName::parse(queue).unwrap();
    let body = Request::Consume { queue, visibility_ms: Some(2000), credit: 10 };
    let (mut send, receive) = raw.connection.open_bi().await.unwrap();
    send.write_all(&frame::encode(&RequestFrame { request, body }, [])).await.unwrap();
    (send, receive)
}

/// Receives one message on the stream that is read; at once, or the test fails.
async fn receive_one(raw: &mut Raw, request: u64) -> Receipt {
    let queue = QueueName::parse("small").unwrap();
    let body = Request::Receive { queue, max: 1, wait_ms: 0, visibility_ms: None };
    match soon(raw, request, body).await {
        Response::Deliveries { mut deliveries } => deliveries.remove(0).receipt,
        other => panic!("{other:?}"),
    }
}

async fn soon(raw: &mut Raw, request: u64, body: Request) -> Response {
    raw.ask(request, body, &[]).await;
    let answer = tokio::time::timeout(Duration::from_secs(1), raw.answer()).await;
    answer.expect("what does not wait for the deliveries is answered at once").body
}

#[tokio::test]
async fn a_client_that_reads_no_deliveries_still_deletes_and_extends_and_loses_them_to_others() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "writer")).await.unwrap();
    let one = SettingsChange { partitions: Some(1), ..SettingsChange::default() };
    client.create_queue("large", one).await.unwrap();
    client.create_queue("small", one).await.unwrap();
    let (large, small) = (client.queue("large").unwrap(), client.queue("small").unwrap());
    for _ in 0..20 {
        large.send(vec![7_u8; LARGE]).await.unwrap();
        small.send("x").await.unwrap();
    }
    let mut raw = Raw::greeted(&house, &server).await;
    let _stalled = [stall(&raw, "large", 2).await, stall(&raw, "large", 3).await];
    // The deliveries are under way: nothing is left for others.
    while !large.receive(1, Duration::ZERO).await.unwrap().is_empty() {}
    for request in 10..30 {
        let receipt = receive_one(&mut raw, request * 10).await;
        let receipts = vec![receipt];
        let extend = Request::Extend { receipts: receipts.clone(), visibility_ms: 9000 };
        let extended = soon(&mut raw, request * 10 + 1, extend).await;
        assert_eq!(extended, Response::Extended(vec![Ok(9000)]));
        let deleted = soon(&mut raw, request * 10 + 2, Request::Delete { receipts }).await;
        assert_eq!(deleted, Response::Deleted(vec![DeleteResult::Deleted]));
    }
    small.send("another client").await.unwrap();
    // Their leases run out although their connection lives.
    let mut seen = 0;
    while seen < 20 {
        let got = large.receive(10, Duration::from_secs(10)).await.unwrap();
        assert!(!got.is_empty(), "F8: {seen} of 20 came back");
        seen += got.len();
        for delivery in got {
            delivery.delete().await.unwrap();
        }
    }
    client.close().await;
    server.stop().await.unwrap();
}
