//! The dialer: sockets, and the terms on which a connection is made.
//!
//! Sockets are opened when an address of their family is first dialled, and live as long as the
//! client. What this file does not do: it speaks no protocol; see `link.rs`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gaggle_client_core::Target;
use quinn::{
    Connection, ConnectionError, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::task::JoinSet;

use crate::options::ConnectOptions;
use crate::tls::{ALPN, TlsError};

/// See the top of this file.
pub(crate) struct Dialer {
    addresses: Vec<String>,
    terms: quinn::ClientConfig,
    server_name: String,
    /// For IPv4 and IPv6.
    endpoints: Mutex<[Option<Endpoint>; 2]>,
    /// What was connected, to say farewell to.
    connections: Mutex<Vec<Connection>>,
}

/// Why there is no connection to a place.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error("{address}: {error}")]
    Resolve { address: String, error: io::Error },
    #[error("{0}: the name has no address")]
    NoAddress(String),
    #[error("cannot open a UDP socket: {0}")]
    Socket(#[from] io::Error),
    #[error("{address}: {error}")]
    Connect { address: SocketAddr, error: quinn::ConnectError },
    #[error("{address}: {error}")]
    Handshake { address: SocketAddr, error: ConnectionError },
}

impl Dialer {
    pub(crate) fn new(options: &ConnectOptions) -> Result<Self, TlsError> {
        let mut terms = options.credentials.client_config(ALPN)?;
        terms.transport_config(Arc::new(transport()));
        Ok(Self {
            addresses: options.addresses.clone(),
            terms,
            server_name: options.credentials.server_name(),
            endpoints: Mutex::new([None, None]),
            connections: Mutex::default(),
        })
    }

    /// Connects to a place, by the first of its addresses that answers. They are tried one after
    /// the other, but not for long: over UDP nothing says that there is nobody (`localhost` may be
    /// `::1` first, where no node listens).
    pub(crate) async fn dial(self: &Arc<Self>, target: Target) -> Result<Connection, DialError> {
        let addresses = match target {
            Target::Address(address) => vec![address],
            Target::Seed(position) => resolve(&self.addresses[position]).await?,
        };
        let mut attempts = JoinSet::new();
        for (address, position) in addresses.into_iter().take(ADDRESSES_MAX).zip(0..) {
            let dialer = Arc::clone(self);
            attempts.spawn(async move {
                tokio::time::sleep(HEAD_START * position).await;
                dialer.connect(address).await
            });
        }
        let mut last = None;
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => last = Some(error),
                // A panic is no connection either.
                Err(_) => {}
            }
        }
        Err(last.unwrap_or_else(|| DialError::NoAddress(format!("{target:?}"))))
    }

    async fn connect(&self, address: SocketAddr) -> Result<Connection, DialError> {
        let endpoint = self.endpoint(address)?;
        match endpoint.connect_with(self.terms.clone(), address, &self.server_name) {
            Ok(connecting) => {
                let connected = connecting.await;
                let connection =
                    connected.map_err(|error| DialError::Handshake { address, error })?;
                self.remember(&connection);
                Ok(connection)
            }
            Err(error) => {
                if error == quinn::ConnectError::EndpointStopping {
                    self.forget(address);
                }
                Err(DialError::Connect { address, error })
            }
        }
    }

    /// The socket has failed: the next connection gets another one.
    fn forget(&self, address: SocketAddr) {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints[usize::from(address.is_ipv6())] = None;
    }

    fn endpoint(&self, address: SocketAddr) -> io::Result<Endpoint> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut endpoints[usize::from(address.is_ipv6())];
        if let Some(endpoint) = place {
            return Ok(endpoint.clone());
        }
        Ok(place.insert(open(address)?).clone())
    }

    fn remember(&self, connection: &Connection) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| connection.close_reason().is_none());
        connections.push(connection.clone());
    }

    /// Closes every connection, and waits until each farewell is on its way. Nothing is waited
    /// for beyond that: all answers are here, and a node that does not hear of it finds out by
    /// the silence.
    pub(crate) async fn close(&self) {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = |connection: &Connection| connection.stats().udp_tx.datagrams;
        let open = connections.into_iter().filter(|connection| connection.close_reason().is_none());
        let told: Vec<(Connection, u64)> = open
            .map(|connection| {
                let before = sent(&connection);
                connection.close(VarInt::from_u32(0), FAREWELL);
                (connection, before)
            })
            .collect();
        // Between the two something else may leave and be taken for the farewell: then the node
        // finds out by the silence as well.
        let all_told = async {
            while told.iter().any(|(connection, before)| sent(connection) == *before) {
                tokio::time::sleep(FAREWELL_LOOK).await;
            }
        };
        // A socket that takes nothing must not hold the application up.
        let _ = tokio::time::timeout(FAREWELL_MAX, all_told).await;
    }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>, DialError> {
    let resolved = tokio::net::lookup_host(address).await;
    let resolved = resolved
        .map_err(|error| DialError::Resolve { address: address.to_owned(), error })?
        .collect::<Vec<_>>();
    if resolved.is_empty() {
        return Err(DialError::NoAddress(address.to_owned()));
    }
    Ok(resolved)
}

/// A socket for addresses of this family, with buffers as large as the system grants.
fn open(address: SocketAddr) -> io::Result<Endpoint> {
    let (domain, any) = if address.is_ipv4() {
        (Domain::IPV4, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
    } else {
        (Domain::IPV6, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    // Smaller buffers work as well, only with more loss under load.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&any.into())?;
    Endpoint::new(EndpointConfig::default(), None, socket.into(), Arc::new(TokioRuntime))
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(VarInt::from_u32(IDLE_MAX_MS).into()))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .initial_rtt(INITIAL_RTT)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(STREAM_WINDOW * STREAMS + STREAM_WINDOW))
        .send_window(u64::from(STREAM_WINDOW) * 4)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    transport
}

/// After so long without a sign of life a connection is over, and what the client had not taken
/// goes back.
const IDLE_MAX_MS: u32 = 10_000;
/// Often enough that a node which is well is heard all the time; see `SILENCES_MAX` in `link.rs`.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// quinn's 333 ms makes a lost first packet cost a second; clusters are nearer than that.
const INITIAL_RTT: Duration = Duration::from_millis(50);
/// Of each stream, so that a consumer that does not read holds up neither sends nor deletes: the
/// connection's window has room for all three and one more.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const STREAMS: u32 = 3;
/// As measured against loss at full load; stock systems grant less.
const SOCKET_BUFFER: usize = 4 * 1024 * 1024;
/// How long an address of a name is tried alone before the next one is too.
const HEAD_START: Duration = Duration::from_millis(200);
/// No name of a node has more that make sense.
const ADDRESSES_MAX: usize = 8;
/// Why this end closes.
pub(crate) const FAREWELL: &[u8] = b"closed by the client";
/// quinn does not say when it has sent something, but counts it.
const FAREWELL_LOOK: Duration = Duration::from_micros(200);
const FAREWELL_MAX: Duration = Duration::from_secs(1);
