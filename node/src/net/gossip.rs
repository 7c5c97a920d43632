//! Gossip: small packets between nodes, as datagrams on whatever connection there is.
//!
//! A packet claims nothing, may be lost, and waits for nobody. It takes a link's connection if
//! there is one to that node, in either direction; else a connection that is dialled for gossip
//! alone, by any node (a newcomer knows only an address), and closed after 10 s of silence. On a
//! connection for gossip no stream is ever opened, by which the other end knows it.
//!
//! Invariants: who sent a packet is taken from the certificate, never from the packet; what is
//! queued while a connection comes up is a few packets per address. What this file does not do:
//! it does not look into packets.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::NodeId;
use quinn::Connection;
use tokio::time::sleep;

use super::Network;
use super::close::Close;
use super::corridor::dial;
use crate::driver::input::Urgent;

/// The connections that carry gossip.
#[derive(Debug, Default)]
pub(crate) struct Gossip(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_node: HashMap<NodeId, Vec<Connection>>,
    dialled: HashMap<SocketAddr, Dialled>,
}

#[derive(Debug)]
enum Dialled {
    /// Coming up; these packets wait.
    Waiting(Vec<Bytes>),
    /// Up, and whether it carried anything since it was looked at.
    Up(Connection, Arc<AtomicBool>),
}

impl Gossip {
    /// Sends a packet, dialling if need be.
    pub(crate) fn send(
        &self,
        network: &Arc<Network>,
        to: SocketAddr,
        node: Option<NodeId>,
        packet: Bytes,
    ) {
        let mut known = self.lock();
        if let Some(connection) = known.connection(to, node) {
            send(connection, packet);
            return;
        }
        match known.dialled.get_mut(&to) {
            Some(Dialled::Waiting(packets)) if packets.len() < WAITING_MAX => packets.push(packet),
            // Gossip repeats itself; what does not fit is not missed.
            Some(Dialled::Waiting(_)) => {}
            Some(Dialled::Up(connection, used)) if connection.close_reason().is_none() => {
                used.store(true, Ordering::Relaxed);
                send(connection, packet);
            }
            Some(Dialled::Up(..)) | None => {
                if known.dialled.len() < DIALLED_MAX {
                    known.dialled.insert(to, Dialled::Waiting(vec![packet]));
                    tokio::spawn(serve(Arc::clone(network), to));
                }
            }
        }
    }

    /// Takes packets from a connection as long as it lives, and sends on it.
    pub(crate) fn listen(&self, network: &Arc<Network>, node: NodeId, connection: &Connection) {
        self.lock().by_node.entry(node).or_default().push(connection.clone());
        let (network, connection) = (Arc::clone(network), connection.clone());
        tokio::spawn(async move {
            while let Ok(packet) = connection.read_datagram().await {
                // Nobody waits for gossip, so gossip does not wait: a busy node loses some.
                let _ = network.urgent.try_send(Urgent::Gossip { from: node, packet });
            }
            network.gossip.forget(node, &connection);
        });
    }

    fn forget(&self, node: NodeId, connection: &Connection) {
        let mut known = self.lock();
        if let Some(connections) = known.by_node.get_mut(&node) {
            connections.retain(|other| other.stable_id() != connection.stable_id());
            if connections.is_empty() {
                known.by_node.remove(&node);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Nothing in here panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn connection(&self, to: SocketAddr, node: Option<NodeId>) -> Option<&Connection> {
        let alive = |connection: &&Connection| connection.close_reason().is_none();
        match node {
            // The newest one: older ones may be to a run of that node that has ended.
            Some(node) => self.by_node.get(&node)?.iter().rev().find(alive),
            None => {
                let mut all = self.by_node.values().flatten();
                all.find(|connection| connection.remote_address() == to && alive(connection))
            }
        }
    }
}

/// Brings up a connection for gossip and closes it when it is silent.
async fn serve(network: Arc<Network>, to: SocketAddr) {
    let connection = match dial::connect(&network, None, to).await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(%to, error, "cannot connect for gossip");
            network.gossip.lock().dialled.remove(&to);
            return;
        }
    };
    let used = Arc::new(AtomicBool::new(true));
    let up = Dialled::Up(connection.clone(), Arc::clone(&used));
    let waiting = network.gossip.lock().dialled.insert(to, up);
    if let Some(Dialled::Waiting(packets)) = waiting {
        for packet in packets {
            send(&connection, packet);
        }
    }
    let mut heard = 0;
    loop {
        tokio::select! {
            () = sleep(SILENCE_MAX) => {}
            _ = connection.closed() => break,
        }
        let now_heard = connection.stats().frame_rx.datagram;
        if !used.swap(false, Ordering::Relaxed) && now_heard == heard {
            break;
        }
        heard = now_heard;
    }
    network.gossip.lock().dialled.remove(&to);
    network.closes.close(&connection, Close::Stopping);
}

fn send(connection: &Connection, packet: Bytes) {
    if let Err(error) = connection.send_datagram(packet) {
        tracing::debug!(%error, "gossip is not sent");
    }
}

/// Packets that wait for one connection to come up.
const WAITING_MAX: usize = 8;
/// Addresses that are dialled for gossip at once; clusters are smaller.
const DIALLED_MAX: usize = 256;
/// How long a connection for gossip may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(10);
