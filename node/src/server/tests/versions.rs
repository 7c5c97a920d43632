//! What another version says or has written: refused as a whole, told from damage, nothing lost.

use std::time::Duration;

use bytes::Bytes;
use gaggle_client::Client;
use gaggle_core::OpenError;
use gaggle_core::envelope::{PEER_VERSION, PeerHello};
use gaggle_core::ledger::{Key, Row, Write, key::meta};
use gaggle_wire::{Refusal, Response, SettingsChange, VERSION, frame};
use quinn::{ApplicationClose, ConnectionError};

use super::links::RawNode;
use super::raw::{Raw, code};
use super::served::sessions;
use super::*;
use crate::driver::DriveError;
use crate::net::close::Close;
use crate::store::{Change, Store};

/// Two nodes in session, with a queue that both hold.
async fn cluster(house: &House) -> ([Server; 2], Client) {
    let first = house.start(5, &[]).await;
    let second = house.start(6, &[&first]).await;
    let client = Client::connect_with(house.options(&first, "a")).await.unwrap();
    let change = SettingsChange { replicas: Some(2), confirms: Some(2), ..Default::default() };
    sessions(&client, 1).await;
    client.create_queue("orders", change).await.unwrap();
    ([first, second], client)
}

async fn last_words(raw: &RawNode) -> (u64, String) {
    match raw.connection.closed().await {
        ConnectionError::ApplicationClosed(ApplicationClose { error_code, reason }) => {
            (error_code.into_inner(), String::from_utf8(reason.to_vec()).unwrap())
        }
        other => panic!("closed without a reason: {other}"),
    }
}

/// Bytes of a hello whose version is this, and which says more than this one knows of.
fn longer_hello(version: u16) -> Bytes {
    frame::encode(&(0_u8, version, "what a later version says", [7_u64; 9]), [])
}

#[tokio::test]
async fn a_node_of_another_version_has_no_session_and_is_told_both_versions() {
    let house = House::new();
    let ([first, second], client) = cluster(&house).await;
    let queue = client.queue("orders").unwrap();
    for number in 0..10 {
        queue.send(format!("order {number}")).await.unwrap();
    }
    for (at, server) in [&first, &second, &first].into_iter().enumerate() {
        let raw = RawNode::dial(&house, server, 1 + at as u64).await;
        let version = if at == 0 { PEER_VERSION - 1 } else { PEER_VERSION + 1 };
        let _streams = match at {
            2 => raw.say_first(longer_hello(version)).await,
            _ => raw.meet(PeerHello { version, ..raw.hello() }).await,
        };
        let (closed, words) = last_words(&raw).await;
        assert_eq!(closed, code(Close::BadVersion));
        assert!(words.contains(&format!("{PEER_VERSION} here, {version} there")), "{words}");
    }
    assert_eq!(first.closes().of(Close::BadVersion), 2);
    assert_eq!(second.closes().of(Close::BadVersion), 1);
    // The others go on as if nobody had been there.
    let confirmed = queue.send("order 10").await.unwrap();
    assert_eq!(confirmed.copies, 2);
    let mut got = 0;
    while got < 11 {
        for delivery in queue.receive(20, Duration::from_secs(5)).await.unwrap() {
            delivery.delete().await.unwrap();
            got += 1;
        }
    }
    for member in client.status().await.unwrap().members {
        let report = member.report.expect("both are there");
        let ended = report.counters.iter().find(|(name, _)| name == "sessions_ended");
        assert_eq!(ended.map_or(0, |(_, count)| *count), 0);
    }
    client.close().await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_of_another_version_is_told_the_version_whatever_else_it_says() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let mut raw = Raw::dial(&house, &server).await;
    let hello = frame::encode(&(5_u64, 0_u8, VERSION + 1, "what a later version says"), []);
    raw.send.write_all(&hello).await.unwrap();
    let refused = raw.answer().await;
    let refusal = Refusal::UnsupportedVersion { version: VERSION };
    assert_eq!((refused.request, refused.body), (5, Response::Refused(refusal)));
    assert_eq!(raw.closed().await, code(Close::BadVersion));
    assert_eq!(server.closes().of(Close::BadVersion), 1);
    server.stop().await.unwrap();
}

/// All rows of a store: the file itself has notes of its own on who opened it.
fn rows(dir: &Path) -> Vec<Row> {
    let store = Store::open(dir, &StoreOptions::cached(1024 * 1024)).unwrap();
    let rows = store.read_all(|rows| rows.collect()).unwrap();
    store.close().unwrap();
    rows
}

/// Has the row of the boot counter in another version, or in this one again.
fn rewrite(dir: &Path, version: u8) {
    let store = Store::open(dir, &StoreOptions::cached(1024 * 1024)).unwrap();
    let key = Key::Meta(meta::BOOT).encode();
    let row = store.read_all(|mut rows| Iterator::find(&mut rows, |row| row.key == key)).unwrap();
    let mut value = row.expect("a node writes it as it starts").value;
    value[0] = version;
    let body = value.len() - 4;
    let crc = crc32c::crc32c(&value[..body]).to_be_bytes();
    value[body..].copy_from_slice(&crc);
    store.commit(&[Change { write: Write::Put { key, value }, content: None }]).unwrap();
    store.close().unwrap();
}

#[tokio::test]
async fn a_store_of_another_version_is_refused_and_no_row_of_it_is_changed() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "a")).await.unwrap();
    client.create_queue("orders", SettingsChange::default()).await.unwrap();
    for number in 0..3 {
        client.queue("orders").unwrap().send(format!("order {number}")).await.unwrap();
    }
    client.close().await;
    server.stop().await.unwrap();
    let dir = house.path().join("data-1");
    rewrite(&dir, 3);
    let before = rows(&dir);
    let refused = Server::start(house.config(1, &[])).await.expect_err("it is refused");
    let ServeError::Drive(DriveError::Rows(OpenError::OtherVersion(_, 3))) = refused else {
        panic!("{refused}")
    };
    assert!(refused.to_string().contains("another version of Gaggle"), "{refused}");
    assert_eq!(rows(&dir), before, "no row is changed");
    rewrite(&dir, 2);
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "b")).await.unwrap();
    let queue = client.queue("orders").unwrap();
    let mut got = 0;
    while got < 3 {
        got += queue.receive(9, Duration::from_secs(5)).await.unwrap().len();
    }
    client.close().await;
    server.stop().await.unwrap();
}
