//! The network of a node: one QUIC endpoint, and two protocols on it.
//!
//! Everything that touches quinn is in this folder. A connection is accepted within limits, shows
//! its certificate, and goes by its protocol to the door (clients) or the corridor (nodes).
//!
//! ```text
//!   endpoint --accept--> handshake --certificate--> door.rs      -> request.rs -> driver
//!      ^                                      \---> corridor.rs  -> gossip.rs  -> driver
//!      '--dial-- corridor/dial.rs
//! ```
//!
//! What it does not do: it decides nothing about messages; what it reads is parsed and handed to
//! the driver.

mod callers;
pub mod close;
pub(crate) mod corridor;
pub(crate) mod door;
pub(crate) mod gossip;
mod inbox;
pub(crate) mod intake;
pub(crate) mod outbox;
mod request;
mod socket;
pub mod tls;
pub(crate) mod transport;

pub use transport::NetError;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gaggle_core::envelope::PeerHello;
use gaggle_wire::NodeId;
use quinn::{ConnectionError, Endpoint, Incoming, TokioRuntime, VarInt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use crate::driver::input::{Input, Urgent};
use callers::Callers;
use close::{Close, Closes};
use gossip::Gossip;
use intake::Intake;
use outbox::Writers;
use socket::Socket;
use tls::{NodeCredentials, Peer};
use transport::Bound;

/// What this node tells others first, and since which opening of it.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    /// The hello.
    pub(crate) hello: PeerHello,
    /// Which opening.
    pub(crate) life: u64,
}

/// The endpoint, and what all connections share.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) node: NodeId,
    pub(crate) endpoint: Endpoint,
    pub(crate) credentials: NodeCredentials,
    pub(crate) server_name: String,
    pub(crate) dial: quinn::ClientConfig,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) urgent: mpsc::Sender<Urgent>,
    pub(crate) own: watch::Receiver<Option<Own>>,
    pub(crate) gossip: Gossip,
    pub(crate) closes: Arc<Closes>,
    pub(crate) clients: Arc<AtomicUsize>,
    pub(crate) clients_max: usize,
    pub(crate) writers: Writers,
    pub(crate) intake: Intake,
    handshakes: Arc<AtomicUsize>,
    callers: Callers,
    closing: AtomicBool,
    ids: AtomicU64,
}

/// What the network needs from outside.
#[derive(Debug)]
pub(crate) struct NetworkParts {
    pub(crate) credentials: NodeCredentials,
    pub(crate) endpoint_config: quinn::EndpointConfig,
    pub(crate) bound: Bound,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) urgent: mpsc::Sender<Urgent>,
    pub(crate) own: watch::Receiver<Option<Own>>,
    pub(crate) clients_max: usize,
    pub(crate) arrivals_max: NonZeroU32,
}

impl Network {
    /// Opens the endpoint. Nobody is let in before [`Network::accept`] runs.
    pub(crate) fn open(parts: NetworkParts) -> Result<Arc<Self>, NetError> {
        let server = transport::server_config(&parts.credentials)?;
        let dial = transport::dial_config(&parts.credentials)?;
        let Bound { socket, address, .. } = parts.bound;
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Socket::new(socket, address).and_then(|socket| {
            let (config, socket) = (parts.endpoint_config, Arc::new(socket));
            Endpoint::new_with_abstract_socket(config, Some(server), socket, runtime)
        });
        let endpoint = endpoint.map_err(|error| NetError::Endpoint { error })?;
        tracing::info!(%address, "listening");
        Ok(Arc::new(Self {
            node: parts.credentials.id(),
            server_name: parts.credentials.server_name(),
            endpoint,
            credentials: parts.credentials,
            dial,
            inputs: parts.inputs,
            urgent: parts.urgent,
            own: parts.own,
            gossip: Gossip::default(),
            closes: Arc::default(),
            clients: Arc::default(),
            clients_max: parts.clients_max,
            writers: Writers::default(),
            intake: Intake::new(),
            handshakes: Arc::default(),
            callers: Callers::new(parts.arrivals_max),
            closing: AtomicBool::new(false),
            ids: AtomicU64::new(1),
        }))
    }

    /// Lets connections in until the endpoint is closed.
    pub(crate) async fn accept(self: Arc<Self>) {
        while let Some(incoming) = self.endpoint.accept().await {
            let under_way = self.handshakes.load(Ordering::Relaxed);
            let address = incoming.remote_address().ip();
            let is_proven = incoming.remote_address_validated();
            if under_way >= HANDSHAKES_MAX {
                self.closes.count(Close::TooMany);
                incoming.refuse();
            } else if !is_proven && (under_way >= RETRY_ABOVE || self.callers.is_barred(address)) {
                // Whoever does not receive at the address it claims costs us nothing.
                let _ = incoming.retry();
            } else if is_proven && !self.callers.may_come(address) {
                self.closes.count(Close::TooOften);
                incoming.refuse();
            } else if let Some(place) = door::Place::take(&self.handshakes, HANDSHAKES_MAX) {
                tokio::spawn(Arc::clone(&self).admit(incoming, place));
            }
        }
        if !self.closing.load(Ordering::Relaxed) {
            // quinn gave the socket up. Nobody listens any more when the node has ended.
            let _ = self.urgent.send(Urgent::Deaf).await;
        }
    }

    /// A number that no other connection of this run has.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// What to tell another node first; waits while the node is being opened.
    pub(crate) async fn own(&self) -> Option<Own> {
        let mut own = self.own.clone();
        let own = own.wait_for(Option::is_some).await.ok()?;
        own.clone()
    }

    /// Lets nobody in any more.
    pub(crate) fn shut(&self) {
        self.endpoint.set_server_config(None);
    }

    /// Waits until the other ends have all that was sent on finished streams.
    pub(crate) async fn written(&self) {
        self.writers.ended(outbox::FINISH_MAX).await;
    }

    /// Ends every connection and waits until the other ends may have heard of it.
    pub(crate) async fn close(&self) {
        let why = Close::Stopping;
        self.closing.store(true, Ordering::Relaxed);
        self.endpoint.close(VarInt::from_u32(why.code()), why.reason().as_bytes());
        let idle = self.endpoint.wait_idle();
        let _ = tokio::time::timeout(CLOSE_WITHIN, idle).await;
    }

    async fn admit(self: Arc<Self>, incoming: Incoming, place: door::Place) {
        let deadline = Instant::now() + door::HELLO_WITHIN;
        let address = incoming.remote_address().ip();
        let was_proven = incoming.remote_address_validated();
        let Ok(connecting) = incoming.accept() else { return };
        let connection = match timeout_at(deadline, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a handshake failed");
                if is_of_certificate(&error) {
                    self.callers.failed(address);
                }
                return;
            }
            Err(_) => {
                self.closes.count(Close::NoHello);
                return;
            }
        };
        drop(place);
        if !was_proven && !self.callers.may_come(address) {
            self.closes.close(&connection, Close::TooOften);
            return;
        }
        match self.credentials.peer_of(&connection) {
            Ok(Peer::Client(_)) => door::serve(self, connection, deadline).await,
            Ok(Peer::Node(node)) => {
                self.gossip.listen(&self, node, &connection);
                corridor::accepted(&self, &connection, node).await;
            }
            Err(error) => {
                tracing::info!(%error, peer = %connection.remote_address(), "not let in");
                self.callers.failed(address);
                self.closes.close(&connection, Close::NotAllowed);
            }
        }
    }
}

/// Whether a handshake failed by what the other end showed. It shows it only once it has proven
/// its address, so nobody can make others fail. The alerts are those of RFC 8446, 6.2.
fn is_of_certificate(error: &ConnectionError) -> bool {
    let ConnectionError::TransportError(error) = error else { return false };
    let alert = u64::from(error.code).checked_sub(CRYPTO_ERRORS);
    matches!(alert, Some(42..=46 | 48 | 49 | 51 | 116))
}

/// Where the codes of QUIC begin that carry an alert of TLS (RFC 9001, 4.8).
const CRYPTO_ERRORS: u64 = 0x100;
/// Handshakes under way, at most: each is some milliseconds of work and some KiB.
const HANDSHAKES_MAX: usize = 512;
/// Above so many handshakes under way the address must be proven first.
const RETRY_ABOVE: usize = 64;
/// How long to wait for the other ends when closing.
const CLOSE_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);
