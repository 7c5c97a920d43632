//! Clients that do not behave: each is closed with a reason, and nobody else notices.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gaggle_client::Client;
use gaggle_client::tls::{self, CredentialPaths};
use gaggle_wire::frame;
use gaggle_wire::{
    Attempt, Message, ProcessId, QueueId, Refusal, Request, RequestFrame, Response, SettingsChange,
    Stamp, VERSION,
};

use quinn::ConnectionError;

use super::raw::{Raw, closed, code, dial, dial_from, hello, unique};
use super::*;
use crate::net::close::Close;
use crate::net::door::HELLO_WITHIN;
use crate::net::intake::{SMALL, WHOLE_WITHIN};
use crate::net::tls::PEER_ALPN;

/// Another address of the loopback than that of all others.
const HASTY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A client that behaves is served while `others` misbehave.
async fn still_serves(house: &House, server: &Server) {
    let name = format!("well-{}", unique());
    let client = Client::connect_with(house.options(server, &name)).await.unwrap();
    client.create_queue("still", SettingsChange::default()).await.unwrap();
    client.queue("still").unwrap().send("x").await.unwrap();
    client.close().await;
}

/// Asks how everything is.
fn status() -> Request {
    Request::Status { prefix: String::new(), after: None }
}

#[tokio::test]
async fn bytes_that_are_no_frame_close_the_connection() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let random: Vec<u8> =
        (0..2000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut damaged =
        frame::encode(&RequestFrame { request: 1, body: hello(VERSION) }, []).to_vec();
    damaged[14] ^= 1;
    let long = u32::MAX.to_be_bytes().to_vec();
    let large = vec![0, 0, 0x20, 0];
    for bytes in [random, damaged, long, large] {
        let mut raw = Raw::dial(&house, &server).await;
        raw.send.write_all(&bytes).await.unwrap();
        assert_eq!(raw.closed().await, code(Close::BadFrame), "{:?}", &bytes[..4]);
    }
    assert_eq!(server.closes().of(Close::BadFrame), 4);
    still_serves(&house, &server).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn the_first_frame_must_be_a_hello_of_this_version() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let mut other = Raw::dial(&house, &server).await;
    other.ask(1, status(), &[]).await;
    assert_eq!(other.closed().await, code(Close::BadHello));
    assert_eq!(server.closes().of(Close::BadHello), 1);
    let mut nameless = Raw::dial(&house, &server).await;
    nameless.ask(1, Request::Hello { version: VERSION, process: ProcessId(0) }, &[]).await;
    assert_eq!(nameless.closed().await, code(Close::BadHello));
    let mut later = Raw::dial(&house, &server).await;
    later.ask(5, hello(VERSION + 1), &[]).await;
    let refused = later.answer().await;
    let refusal = Refusal::UnsupportedVersion { version: VERSION };
    assert_eq!((refused.request, refused.body), (5, Response::Refused(refusal)));
    assert_eq!(later.closed().await, code(Close::BadVersion));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn who_says_no_hello_in_time_is_closed_and_nobody_waits_for_it() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let start = Instant::now();
    let silent = Raw::dial(&house, &server).await;
    let mut slow = Raw::dial(&house, &server).await;
    let bytes = frame::encode(&RequestFrame { request: 1, body: hello(VERSION) }, []);
    let dripping = async {
        for byte in &bytes[..bytes.len() - 1] {
            if slow.send.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        slow.closed().await
    };
    let (first, second, ()) =
        tokio::join!(silent.closed(), dripping, still_serves(&house, &server));
    assert_eq!((first, second), (code(Close::NoHello), code(Close::NoHello)));
    assert!(start.elapsed() >= Duration::from_secs(4));
    assert_eq!(server.closes().of(Close::NoHello), 2);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_hello_that_is_cut_off_is_none_and_is_counted_at_once() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let start = Instant::now();
    let mut cut = Raw::dial(&house, &server).await;
    let bytes = frame::encode(&RequestFrame { request: 1, body: hello(VERSION) }, []);
    cut.send.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
    cut.send.finish().unwrap();
    assert_eq!(cut.closed().await, code(Close::NoHello));
    assert!(start.elapsed() < HELLO_WITHIN, "nothing is waited for that cannot come");
    assert_eq!(server.closes().of(Close::NoHello), 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_large_frame_that_drips_is_closed_and_counted_and_a_small_one_may_wait() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let large = Raw::greeted(&house, &server).await;
    let mut small = Raw::greeted(&house, &server).await;
    let mut length = vec![0, 0x10, 0, 0];
    let start = Instant::now();
    let Raw { connection, mut send, .. } = large;
    length.resize(SMALL + 1, 0);
    send.write_all(&length).await.unwrap();
    let whole = frame::encode(&RequestFrame { request: 2, body: status() }, []);
    small.send.write_all(&whole[..whole.len() - 1]).await.unwrap();
    let dripping = async {
        while send.write_all(&[0]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let (code_seen, (), ()) =
        tokio::join!(closed(&connection), dripping, still_serves(&house, &server));
    assert_eq!(code_seen, code(Close::NotSending));
    assert!(start.elapsed() >= WHOLE_WITHIN - Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(server.closes().of(Close::NotSending), 1);
    small.send.write_all(&whole[whole.len() - 1..]).await.unwrap();
    assert!(matches!(small.answer().await.body, Response::Status(_)));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_does_not_open_the_corridor() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let (_endpoint, connection) = dial(&house, &server, PEER_ALPN).await;
    assert_eq!(closed(&connection).await, code(Close::NotAllowed));
    assert_eq!(server.closes().of(Close::NotAllowed), 1);
    still_serves(&house, &server).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_damaged_content_is_refused_and_the_connection_stays() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let mut raw = Raw::greeted(&house, &server).await;
    let stamp = Stamp { time: 1, count: 0, process: ProcessId(7) };
    let (label, _) = Message::new("body").pack(1, stamp, 0).unwrap();
    let send = Request::Send {
        queue: QueueId(stamp),
        partition: 0,
        attempt: Attempt::First,
        within_ms: 1000,
        labels: vec![label],
    };
    raw.ask(2, send, &[Bytes::from_static(b"BODY")]).await;
    let refused = raw.answer().await;
    assert_eq!(refused.body, Response::Refused(Refusal::ContentDamaged));
    raw.ask(3, status(), &[]).await;
    assert!(matches!(raw.answer().await.body, Response::Status(_)));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_frame_that_is_cut_off_is_as_if_never_sent() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let mut raw = Raw::greeted(&house, &server).await;
    let queue = gaggle_wire::QueueName::parse("cut").unwrap();
    let body = Request::CreateQueue { name: queue.clone(), change: SettingsChange::default() };
    let whole = frame::encode(&RequestFrame { request: 2, body }, []);
    let (mut second, _answers) = raw.connection.open_bi().await.unwrap();
    second.write_all(&whole[..whole.len() - 1]).await.unwrap();
    second.finish().unwrap();
    second.stopped().await.unwrap();
    // Streams of one connection have readers of their own.
    let counted = async {
        while server.closes().frames_cut() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), counted).await.expect("it is counted");
    assert_eq!(server.closes().frames_cut(), 1);
    raw.ask(3, Request::DescribeQueue { name: queue }, &[]).await;
    let answer = raw.answer().await;
    assert!(matches!(answer.body, Response::Refused(Refusal::QueueNotFound { .. })));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed_before_it_fills_the_memory() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let client = Client::connect_with(house.options(&server, "writer")).await.unwrap();
    client.create_queue("large", SettingsChange::default()).await.unwrap();
    let queue = client.queue("large").unwrap();
    // What is large waits on disk, and of the rest, which waits behind it, there are too many.
    for _ in 0..30 {
        queue.send(vec![7_u8; 900_000]).await.unwrap();
    }
    for result in queue.producer().send_all(vec!["small"; 20_000]).await {
        result.unwrap();
    }
    let mut raw = Raw::greeted(&house, &server).await;
    let name = gaggle_wire::QueueName::parse("large").unwrap();
    raw.ask(2, Request::Consume { queue: name, visibility_ms: None, credit: 30_000 }, &[]).await;
    // The word of the reason may be lost in the flood; that the connection is gone is not.
    raw.connection.closed().await;
    assert_eq!(server.closes().of(Close::NotReading), 1);
    // What it was given goes to others.
    let got = queue.receive(1, Duration::from_secs(5)).await.unwrap();
    assert_eq!(got.len(), 1);
    drop(got);
    client.close().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn there_are_no_more_clients_than_there_may_be() {
    let house = House::new();
    let mut config = house.config(1, &[]);
    config.limits.clients_max = 1;
    let server = Server::start(config).await.unwrap();
    let first = Raw::greeted(&house, &server).await;
    let second = Raw::dial(&house, &server).await;
    assert_eq!(second.closed().await, code(Close::TooMany));
    drop(first);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn who_comes_too_often_is_kept_out_and_other_addresses_are_not() {
    let house = House::new();
    let mut config = house.config(1, &[]);
    config.limits.arrivals_max = NonZeroU32::MIN;
    let server = Server::start(config).await.unwrap();
    let credentials = house.credentials("hasty");
    let mut tries = 0;
    let refused = loop {
        tries += 1;
        match dial_from(HASTY, &credentials, &server, tls::ALPN).await {
            Ok(_) => assert!(tries < 100, "one per second may come, and five at once"),
            Err(refused) => break refused,
        }
    };
    assert!(tries > 5);
    assert!(matches!(refused, ConnectionError::ConnectionClosed(_)), "{refused}");
    assert!(server.closes().of(Close::TooOften) > 0);
    still_serves(&house, &server).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn who_cannot_show_who_it_is_may_not_try_for_ever() {
    let (house, other) = (House::new(), House::new());
    let server = house.start(1, &[]).await;
    let well = house.credentials("well");
    let name = ClientName::parse("foreign").unwrap();
    let foreign = cert::client(other.path(), &name).unwrap();
    let trusted = house.path().join("ca.pem");
    let foreign = Credentials::load(&CredentialPaths { ca: trusted, ..foreign }).unwrap();
    let mut failed = 0;
    let refused = loop {
        // A certificate of another authority, and one that does not open the corridor.
        let (credentials, alpn) =
            if failed % 2 == 0 { (&foreign, tls::ALPN) } else { (&well, PEER_ALPN) };
        match dial_from(HASTY, credentials, &server, alpn).await {
            Ok((_endpoint, connection)) => {
                connection.closed().await;
                failed += 1;
                assert!(failed < 100, "one per second may fail, and twenty at once");
            }
            Err(refused) => break refused,
        }
    };
    assert!(failed > 20);
    assert!(matches!(refused, ConnectionError::ConnectionClosed(_)), "{refused}");
    assert!(server.closes().of(Close::TooOften) > 0);
    assert!(dial_from(HASTY, &well, &server, tls::ALPN).await.is_err(), "not even with a good one");
    still_serves(&house, &server).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_stop_finishes_streams_before_it_closes_connections() {
    let house = House::new();
    let server = house.start(1, &[]).await;
    let mut raw = Raw::greeted(&house, &server).await;
    let stopping = tokio::spawn(server.stop());
    loop {
        match raw.receive.read_chunk(1024, true).await {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => panic!("not finished: {error}"),
        }
    }
    assert_eq!(raw.closed().await, code(Close::Stopping));
    stopping.await.unwrap().unwrap();
}
