//! A node, started and stopped as a whole.
//!
//! What this file does not do: it listens to no signals and reads no files of settings; the
//! command line does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gaggle_core::config::Config;
use gaggle_wire::NodeId;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::clocks::Clocks;
use crate::config::ServeConfig;
use crate::driver::input::Urgent;
use crate::driver::life::Sources;
use crate::driver::{DriveError, Driver};
use crate::net::close::Closes;
use crate::net::tls::{CredentialsError, NodeCredentials};
use crate::net::transport::{self, NetError};
use crate::net::{Network, NetworkParts};
use crate::store::{StoreOptions, StoreSource};

/// Why a node does not run. What it had confirmed is on its disk.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Its certificate or key cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The network cannot be set up.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Its store or its core failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// It listens on all addresses, and none of them was said to be the one to dial.
    #[error("{0} cannot be dialled by others; say by `advertise` which address can")]
    NotAdvertised(SocketAddr),
    /// A seed's name is unknown.
    #[error("the seed {seed} cannot be found: {error}")]
    UnknownSeed {
        /// As it was given.
        seed: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// It panicked.
    #[error("the node failed: {0}")]
    Panicked(String),
}

/// Where a node can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The bound address.
    pub listen: SocketAddr,
    /// What other nodes are told to dial.
    pub peers: SocketAddr,
    /// What clients are told to dial.
    pub clients: SocketAddr,
}

/// A node that runs. Dropping it lets it run on; [`Server::stop`] ends it.
#[derive(Debug)]
pub struct Server {
    node: NodeId,
    addresses: Addresses,
    network: Arc<Network>,
    urgent: mpsc::Sender<Urgent>,
    driver: JoinHandle<Result<(), DriveError>>,
}

impl Server {
    /// Starts a node on the store in its directory; returns when it may be dialled.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn start(config: ServeConfig) -> Result<Self, ServeError> {
        let options =
            StoreOptions { cache_bytes: config.limits.store_cache, phases: config.phases };
        let store = StoreSource::in_dir(&config.data, options);
        Self::start_on(config, store).await
    }

    /// Starts a node on this store: for tests, with disks that fail.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn start_on(config: ServeConfig, store: StoreSource) -> Result<Self, ServeError> {
        let credentials = NodeCredentials::load(&config.certificates)?;
        let node = credentials.id();
        let bound = transport::bind(config.listen)?;
        let socket_buffer_bytes = bound.buffer_bytes;
        let addresses = addresses(&config, bound.address)?;
        let core = core_config(&config, node, addresses).await?;
        transport::make_dir(&config.data)?;
        let (inputs_in, inputs) = mpsc::channel(INPUTS_MAX);
        let (urgent_in, urgent) = mpsc::channel(URGENT_MAX);
        let (own, own_told) = watch::channel(None);
        let network = Network::open(NetworkParts {
            credentials,
            endpoint_config: transport::endpoint_config(&config.data)?,
            bound,
            inputs: inputs_in,
            urgent: urgent_in.clone(),
            own: own_told,
            clients_max: config.limits.clients_max,
            arrivals_max: config.limits.arrivals_max,
        })?;
        let driver = Driver {
            config: core,
            store,
            network: Arc::clone(&network),
            own,
            clocks: Clocks::start(),
            body_cache: config.limits.body_cache,
            sends_max: config.limits.sends_max,
            socket_buffer_bytes,
        };
        let opened = driver.open().await?;
        let sources = Sources { inputs, urgent };
        let driver = tokio::spawn(driver.run(opened, sources));
        tokio::spawn(Arc::clone(&network).accept());
        Ok(Self { node, addresses, network, urgent: urgent_in, driver })
    }

    /// Who it is.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Where it can be reached.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Why connections were closed, and how often.
    #[must_use]
    pub fn closes(&self) -> &Closes {
        &self.network.closes
    }

    /// Waits until it ends by itself, which it does only when its disk keeps failing, its socket
    /// cannot be bound again, or an earlier process runs under its name.
    ///
    /// # Errors
    /// Why it ended.
    pub async fn ended(&mut self) -> Result<(), ServeError> {
        outcome((&mut self.driver).await)
    }

    /// Stops it: what it has in hand is handed over, answers are delivered, the store is closed.
    /// Takes no more than about 15 s.
    ///
    /// # Errors
    /// Why it had ended before, or could not be closed well.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.network.shut();
        let (done, stopped) = oneshot::channel();
        // It may have ended by itself, and then says why.
        if self.urgent.send(Urgent::Stop(done)).await.is_ok() {
            let _ = stopped.await;
        }
        outcome(self.driver.await)
    }
}

fn outcome(
    ended: Result<Result<(), DriveError>, tokio::task::JoinError>,
) -> Result<(), ServeError> {
    match ended {
        Ok(ended) => Ok(ended?),
        Err(panic) => Err(ServeError::Panicked(panic.to_string())),
    }
}

fn addresses(config: &ServeConfig, listen: SocketAddr) -> Result<Addresses, ServeError> {
    let peers = config.advertise_peers.unwrap_or(listen);
    if peers.ip().is_unspecified() {
        return Err(ServeError::NotAdvertised(listen));
    }
    Ok(Addresses { listen, peers, clients: config.advertise_clients.unwrap_or(peers) })
}

async fn core_config(
    config: &ServeConfig,
    node: NodeId,
    addresses: Addresses,
) -> Result<Config, ServeError> {
    let mut core = Config::new(node, addresses.peers, addresses.clients);
    core.zone.clone_from(&config.zone);
    core.queue_defaults = config.queue_defaults;
    for seed in &config.seeds {
        let found = find(seed).await?;
        core.seeds.extend(found.into_iter().filter(|address| *address != addresses.peers));
    }
    let times = config.times;
    core.suspicion = times.suspicion.unwrap_or(core.suspicion);
    core.serve_alone_after = times.serve_alone_after.unwrap_or(core.serve_alone_after);
    core.drift_max = times.drift_max.unwrap_or(core.drift_max);
    Ok(core)
}

/// The addresses of a seed. Where nodes are started together with the service that knows their
/// names, that may take a moment.
async fn find(seed: &str) -> Result<Vec<SocketAddr>, ServeError> {
    let mut tries = 0;
    loop {
        let found = tokio::net::lookup_host(seed).await;
        tries += 1;
        match found {
            Ok(found) => return Ok(found.collect()),
            Err(error) if tries == FIND_TRIES => {
                return Err(ServeError::UnknownSeed { seed: seed.to_owned(), error });
            }
            Err(error) => tracing::warn!(seed, %error, "cannot find a seed yet"),
        }
        tokio::time::sleep(FIND_PAUSE).await;
    }
}

/// Batches from readers that wait for the driver: some for each of the busiest streams.
const INPUTS_MAX: usize = 256;
/// Packets of gossip that wait for the driver: a second's worth in a large cluster.
const URGENT_MAX: usize = 1024;

const FIND_TRIES: u32 = 20;
const FIND_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
