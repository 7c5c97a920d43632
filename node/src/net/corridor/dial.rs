//! Dialling: keeps a connection to every node that the core wants and that is ours to dial.
//!
//! One task per such node dials, waits for the link to end, and dials again: at once the first
//! time, then after pauses that double from 50 ms to 1 s, each shortened at random by up to half
//! so that nodes that lost each other together do not meet in step. A link that lasted resets
//! the pause.
//!
//! What this file does not do: it does not choose whom to dial; the core says so.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gaggle_wire::NodeId;
use quinn::Connection;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::entropy;
use crate::net::close::Close;
use crate::net::tls::Peer;
use crate::net::{Network, corridor};

/// The nodes that are dialled.
#[derive(Debug)]
pub(crate) struct Dials {
    network: Arc<Network>,
    /// Where each is, until the sender is dropped.
    nodes: BTreeMap<NodeId, watch::Sender<SocketAddr>>,
}

impl Dials {
    /// Nobody is dialled.
    pub(crate) fn new(network: Arc<Network>) -> Self {
        Self { network, nodes: BTreeMap::new() }
    }

    /// Dials exactly those of these nodes that are ours to dial.
    pub(crate) fn set(&mut self, wanted: Vec<(NodeId, SocketAddr)>) {
        let ours = wanted.into_iter().filter(|(node, _)| *node > self.network.node);
        let ours: BTreeMap<NodeId, SocketAddr> = ours.collect();
        self.nodes.retain(|node, _| ours.contains_key(node));
        for (node, address) in ours {
            match self.nodes.get(&node) {
                Some(present) => {
                    present.send_if_modified(|there| std::mem::replace(there, address) != address);
                }
                None => {
                    let (sender, target) = watch::channel(address);
                    self.nodes.insert(node, sender);
                    tokio::spawn(keep(Arc::clone(&self.network), node, target));
                }
            }
        }
    }
}

async fn keep(network: Arc<Network>, node: NodeId, mut target: watch::Receiver<SocketAddr>) {
    let mut pause = PAUSE_MIN;
    loop {
        let start = Instant::now();
        link(&network, node, &mut target).await;
        if start.elapsed() > LASTED {
            pause = PAUSE_MIN;
        }
        tokio::select! {
            () = sleep(jitter(pause)) => {}
            changed = target.changed() => if changed.is_err() { return },
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Dials once, and returns when the link has ended.
async fn link(network: &Arc<Network>, node: NodeId, target: &mut watch::Receiver<SocketAddr>) {
    let address = *target.borrow_and_update();
    let connection = match connect(network, Some(node), address).await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(%node, %address, error, "cannot connect");
            return;
        }
    };
    let carrying = corridor::dialled(network, &connection, node);
    tokio::pin!(carrying);
    tokio::select! {
        () = &mut carrying => {}
        () = dropped(target) => {
            network.closes.close(&connection, Close::NotWanted);
            // The driver must hear of the end.
            carrying.await;
        }
    }
    network.closes.close(&connection, Close::NotWanted);
}

/// Connects and checks who is there; the connection carries gossip from then on.
pub(crate) async fn connect(
    network: &Arc<Network>,
    expected: Option<NodeId>,
    address: SocketAddr,
) -> Result<Connection, String> {
    let config = network.dial.clone();
    let connecting = network
        .endpoint
        .connect_with(config, address, &network.server_name)
        .map_err(|error| error.to_string())?;
    let connection = connecting.await.map_err(|error| error.to_string())?;
    match network.credentials.peer_of(&connection) {
        Ok(Peer::Node(node)) if expected.is_none_or(|expected| expected == node) => {
            network.gossip.listen(network, node, &connection);
            Ok(connection)
        }
        Ok(Peer::Node(other)) => {
            network.closes.close(&connection, Close::NotWanted);
            Err(format!("node {other} is there"))
        }
        Ok(Peer::Client(_)) => {
            network.closes.close(&connection, Close::NotAllowed);
            Err("no node is there".to_owned())
        }
        Err(error) => {
            network.closes.close(&connection, Close::NotAllowed);
            Err(error.to_string())
        }
    }
}

/// Returns when the node is not to be dialled any more.
async fn dropped(target: &mut watch::Receiver<SocketAddr>) {
    while target.changed().await.is_ok() {}
}

/// Between half of the pause and all of it.
fn jitter(pause: Duration) -> Duration {
    let random = entropy::number().unwrap_or(0);
    let half = pause / 2;
    half + half.mul_f64((random % 1024) as f64 / 1024.0)
}

/// Soon enough that a restarted node is met within one round of gossip.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Rare enough that an absent node costs nothing.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A link that held for so long was a good one.
const LASTED: Duration = Duration::from_secs(5);
