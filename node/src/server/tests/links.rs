//! Links between nodes: who may make one, and what ends it.

use bytes::Bytes;
use gaggle_client::Client;
use gaggle_core::envelope::{Envelope, PEER_VERSION, PeerHello};
use gaggle_wire::frame;
use gaggle_wire::{Message, ProcessId, QueueId, SettingsChange, Stamp};
use quinn::{Connection, Endpoint, RecvStream, SendStream};

use super::raw::{closed, code};
use super::*;
use crate::net::close::Close;
use crate::net::corridor::Opening;

/// A node that says what it likes.
pub(super) struct RawNode {
    node: NodeId,
    pub(super) connection: Connection,
    endpoint: Endpoint,
}

impl RawNode {
    pub(super) async fn dial(house: &House, server: &Server, id: u64) -> Self {
        let paths = cert::node(house.path(), NodeId(id)).unwrap();
        let credentials = NodeCredentials::load(&paths).unwrap();
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let config = transport::dial_config(&credentials).unwrap();
        let (address, name) = (server.addresses().listen, credentials.server_name());
        let connection = endpoint.connect_with(config, address, &name).unwrap().await.unwrap();
        Self { node: NodeId(id), connection, endpoint }
    }

    pub(super) fn hello(&self) -> PeerHello {
        let address = self.endpoint.local_addr().unwrap();
        PeerHello {
            version: PEER_VERSION,
            node: self.node,
            boot: 1,
            store: 1,
            process: ProcessId(1),
            commits: 0,
            peer_address: address,
            client_address: address,
            zone: String::new(),
            space: gaggle_core::Space::Plenty,
        }
    }

    async fn open(&self, opening: &Opening) -> (SendStream, RecvStream) {
        let (mut send, receive) = self.connection.open_bi().await.unwrap();
        send.write_all(&frame::encode(opening, [])).await.unwrap();
        (send, receive)
    }

    /// Opens both streams, the first of them with these bytes.
    pub(super) async fn say_first(&self, bytes: Bytes) -> [(SendStream, RecvStream); 2] {
        let (mut send, receive) = self.connection.open_bi().await.unwrap();
        send.write_all(&bytes).await.unwrap();
        [(send, receive), self.open(&Opening::Copies).await]
    }

    /// Opens both streams with this hello.
    pub(super) async fn meet(&self, hello: PeerHello) -> [(SendStream, RecvStream); 2] {
        let control = self.open(&Opening::Control(Box::new(hello))).await;
        [control, self.open(&Opening::Copies).await]
    }
}

#[tokio::test]
async fn only_a_node_with_a_smaller_id_may_make_a_link() {
    let house = House::new();
    let server = house.start(5, &[]).await;
    let larger = RawNode::dial(&house, &server, 9).await;
    let _streams = larger.meet(larger.hello()).await;
    assert_eq!(closed(&larger.connection).await, code(Close::NotWanted));
    let smaller = RawNode::dial(&house, &server, 2).await;
    let [(_, mut answer), _copies] = smaller.meet(smaller.hello()).await;
    assert!(answer.read_chunk(1024, true).await.unwrap().is_some(), "its hello comes back");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_hello_of_another_version_or_another_node_makes_no_link() {
    let house = House::new();
    let server = house.start(5, &[]).await;
    let raw = RawNode::dial(&house, &server, 1).await;
    let _streams = raw.meet(PeerHello { version: PEER_VERSION + 1, ..raw.hello() }).await;
    assert_eq!(closed(&raw.connection).await, code(Close::BadVersion));
    let raw = RawNode::dial(&house, &server, 2).await;
    let _streams = raw.meet(PeerHello { node: NodeId(3), ..raw.hello() }).await;
    assert_eq!(closed(&raw.connection).await, code(Close::BadHello));
    let raw = RawNode::dial(&house, &server, 3).await;
    let _streams = [raw.open(&Opening::Copies).await, raw.open(&Opening::Copies).await];
    assert_eq!(closed(&raw.connection).await, code(Close::BadHello));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_no_envelope_ends_the_link_and_clients_are_served_on() {
    let house = House::new();
    let server = house.start(5, &[]).await;
    let raw = RawNode::dial(&house, &server, 1).await;
    let [(mut control, _answer), _copies] = raw.meet(raw.hello()).await;
    control.write_all(&frame::encode(&(250_u8, 7_u64), [])).await.unwrap();
    assert_eq!(closed(&raw.connection).await, code(Close::BadFrame));
    let raw = RawNode::dial(&house, &server, 2).await;
    let [_control, (mut copies, _answer)] = raw.meet(raw.hello()).await;
    let stamp = Stamp { time: 1, count: 0, process: ProcessId(7) };
    let (label, _) = Message::new("body").pack(1, stamp, 0).unwrap();
    let copy = Envelope::Copy {
        batch: 1,
        queue: QueueId(stamp),
        partition: 0,
        accepted: stamp,
        holders: vec![NodeId(2), NodeId(5)],
        attempt: gaggle_wire::Attempt::First,
        labels: vec![label],
    };
    copies.write_all(&frame::encode(&copy, &[Bytes::from_static(b"BODY")])).await.unwrap();
    assert_eq!(closed(&raw.connection).await, code(Close::BadFrame));
    let client = Client::connect_with(house.options(&server, "well")).await.unwrap();
    client.create_queue("still", SettingsChange::default()).await.unwrap();
    client.queue("still").unwrap().send("x").await.unwrap();
    client.close().await;
    server.stop().await.unwrap();
}
