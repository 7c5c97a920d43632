//! Strangers at the door of a real process, before anybody knows who they are.
//!
//! What this file does not do: it speaks no wrong frames; `node/src/server/tests/hostile.rs`
//! does, where the reasons can be counted.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gaggle_client::SettingsChange;
use gaggle_client::tls::{self, Credentials};
use gaggle_support::TestCluster;
use quinn::Endpoint;
use tokio::net::UdpSocket;

use crate::EXECUTABLE;

/// How many handshakes are begun and never ended.
const HALF_OPEN: usize = 10_000;
/// As many as fit into the buffer of the socket that they are caught by.
const AT_ONCE: usize = 20;
/// Addresses that they come from.
const SOURCES: usize = 16;
const MIB: u64 = 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn half_open_handshakes_and_noise_cost_little_memory_and_keep_nobody_out() {
    let cluster = TestCluster::start(EXECUTABLE, 3).await;
    let before = cluster.nodes.memory_peak(0).expect("it runs");
    let resident = cluster.client_of(0).await;
    resident.create_queue("calm", SettingsChange::default()).await.unwrap();
    let queue = resident.queue("calm").unwrap();
    let mut strangers = Strangers::new(&cluster).await;
    for begun in (AT_ONCE..=HALF_OPEN).step_by(AT_ONCE) {
        strangers.begin().await;
        strangers.make_noise(begun).await;
        if begun % (HALF_OPEN / 10) == 0 {
            queue.send("among strangers").await.unwrap();
            cluster.client_of(0).await.close().await;
        }
    }
    assert_eq!(queue.receive(1, Duration::from_secs(20)).await.unwrap().len(), 1);
    let grown = cluster.nodes.memory_peak(0).expect("it runs") - before;
    println!("{HALF_OPEN} strangers took {} MiB", grown / MIB);
    assert!(grown < 24 * MIB, "P12: strangers took {} MiB", grown / MIB);
}

/// Somebody who begins handshakes and never hears the answers.
struct Strangers {
    own: Endpoint,
    name: String,
    /// Where the own end believes the node to be.
    trap: UdpSocket,
    sources: Vec<UdpSocket>,
    node: SocketAddr,
    seen: BTreeSet<Vec<u8>>,
}

impl Strangers {
    async fn new(cluster: &TestCluster) -> Self {
        let client = Credentials::load(cluster.nodes.credential_paths()).unwrap();
        let mut own = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        own.set_default_client_config(client.client_config(tls::ALPN).unwrap());
        let mut sources = Vec::new();
        for _ in 0..SOURCES {
            sources.push(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        }
        let trap = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (name, node) = (client.server_name(), cluster.nodes.address(0));
        Self { own, name, trap, sources, node, seen: BTreeSet::new() }
    }

    /// The first packet of each of some connections reaches the node, and no other ever.
    async fn begin(&mut self) {
        let trap = self.trap.local_addr().unwrap();
        let begin = || self.own.connect(trap, &self.name).unwrap();
        let under_way: Vec<_> = (0..AT_ONCE).map(|_| begin()).collect();
        let wanted = self.seen.len() + AT_ONCE;
        let mut packet = [0; 2048];
        while self.seen.len() < wanted {
            let (length, _) = self.trap.recv_from(&mut packet).await.unwrap();
            // The id that the node is to go by stands behind flags, version and its own length.
            let id = packet[6..6 + usize::from(packet[5])].to_vec();
            if packet[0] & 0x80 != 0 && self.seen.insert(id) {
                let source = &self.sources[self.seen.len() % SOURCES];
                source.send_to(&packet[..length], self.node).await.unwrap();
            }
        }
        drop(under_way);
    }

    /// Packets of any length that are none.
    async fn make_noise(&self, seed: usize) {
        let noise: Vec<u8> = (0..1400).map(|at| (seed * 31 + at * at * 7) as u8).collect();
        for length in [1, 20, 21, 100, 1200, 1400] {
            let source = &self.sources[length % SOURCES];
            source.send_to(&noise[..length], self.node).await.unwrap();
        }
    }
}
