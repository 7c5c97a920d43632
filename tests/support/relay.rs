//! A UDP relay in front of a node: cuts without root.
//!
//! A node advertises the address of its relay, so whoever dials it comes through here. Each
//! source gets a socket of its own towards the node, as behind a router. A cut drops what comes
//! from, and goes to, given sources, which are the real addresses of the other nodes. A pair of
//! nodes is cut when both relays drop the other's packets, because either may have dialled.
//!
//! What this file does not do: it neither delays nor reorders; the simulator does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io;
use tokio::net::UdpSocket;
use tokio::task::{AbortHandle, JoinSet};

/// A relay that runs until it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    cut: Arc<Mutex<BTreeSet<SocketAddr>>>,
    task: AbortHandle,
}

impl Relay {
    /// Starts a relay towards this address.
    ///
    /// # Errors
    /// When there is no socket to be had.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let front = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        let address = front.local_addr()?;
        let cut = Arc::new(Mutex::new(BTreeSet::new()));
        let task = tokio::spawn(run(front, target, Arc::clone(&cut))).abort_handle();
        Ok(Self { address, cut, task })
    }

    /// Where it listens: what the node behind it advertises.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops everything from and to these sources from now on.
    pub fn cut(&self, sources: impl IntoIterator<Item = SocketAddr>) {
        lock(&self.cut).extend(sources);
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        lock(&self.cut).clear();
    }
}

/// The relays of a whole cluster.
#[derive(Debug)]
pub struct Relays {
    /// Where the nodes behind them listen, and from where they dial.
    pub listens: Vec<SocketAddr>,
    /// One for each node.
    pub relays: Vec<Relay>,
}

impl Relays {
    /// Cuts these nodes off from all others.
    pub fn cut(&self, isolated: &[usize]) {
        for (index, relay) in self.relays.iter().enumerate() {
            let inside = isolated.contains(&index);
            let across = (0..self.listens.len()).filter(|other| isolated.contains(other) != inside);
            relay.cut(across.map(|other| self.listens[other]));
        }
    }

    /// Ends all cuts.
    pub fn heal(&self) {
        self.relays.iter().for_each(Relay::heal);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(front: Arc<UdpSocket>, target: SocketAddr, cut: Arc<Mutex<BTreeSet<SocketAddr>>>) {
    let mut backs: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut returns = JoinSet::new();
    let mut packet = vec![0; PACKET_MAX];
    loop {
        // An error here is that of an earlier packet which nobody took; the socket is well.
        let Ok((length, source)) = front.recv_from(&mut packet).await else { continue };
        if lock(&cut).contains(&source) {
            continue;
        }
        let back = match backs.get(&source) {
            Some(back) => Arc::clone(back),
            None => {
                let Ok(back) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await else { continue };
                if back.connect(target).await.is_err() {
                    continue;
                }
                let back = Arc::new(back);
                backs.insert(source, Arc::clone(&back));
                let (front, cut) = (Arc::clone(&front), Arc::clone(&cut));
                returns.spawn(bring_back(Arc::clone(&back), front, source, cut));
                back
            }
        };
        // A node that is down loses packets as on any network.
        let _ = back.send(&packet[..length]).await;
    }
}

async fn bring_back(
    back: Arc<UdpSocket>,
    front: Arc<UdpSocket>,
    source: SocketAddr,
    cut: Arc<Mutex<BTreeSet<SocketAddr>>>,
) {
    let mut packet = vec![0; PACKET_MAX];
    loop {
        // Refused while the node is down: it may come back.
        let Ok(length) = back.recv(&mut packet).await else {
            tokio::task::yield_now().await;
            continue;
        };
        if !lock(&cut).contains(&source) {
            let _ = front.send_to(&packet[..length], source).await;
        }
    }
}

fn lock(cut: &Mutex<BTreeSet<SocketAddr>>) -> std::sync::MutexGuard<'_, BTreeSet<SocketAddr>> {
    cut.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The largest UDP packet.
const PACKET_MAX: usize = 65_536;
