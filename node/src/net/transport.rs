//! How quinn is set up: the socket, the limits of connections, and the key of resets.
//!
//! The one endpoint serves clients and nodes, and its limits are fixed before a handshake shows
//! who dials. So what the endpoint grants is what a client may have, and a node that dials
//! another asks for what it needs on its own side: of both idle times the shorter one counts.
//!
//! Invariants: whatever comes before authentication is bounded in bytes and number; no window is
//! the default of quinn, with which one connection may hold a quarter of a gigabyte.
//! What this file does not do: it accepts and dials nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::HmacKey;
use quinn::{EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;
use rustls::crypto::tls13::{Hkdf, OkmBlock};
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use super::tls::NodeCredentials;
use crate::entropy;
use crate::store::{StoreError, write_durably};

/// Why the network cannot be set up. Nothing was started.
#[derive(Debug, Error)]
pub enum NetError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Unbound {
        /// Which one.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The runtime gives no endpoint.
    #[error("cannot open the endpoint: {error}")]
    Endpoint {
        /// What the system said.
        error: io::Error,
    },
    /// The TLS configuration cannot be made.
    #[error(transparent)]
    Tls(#[from] gaggle_client::tls::TlsError),
    /// The key of resets cannot be read or made.
    #[error("the reset key: {0}")]
    ResetKey(#[from] StoreError),
    /// The file of the reset key has another length.
    #[error("the reset key is damaged; remove the file, a new one will be made")]
    BadResetKey,
}

/// A bound socket and what the system granted it.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The socket.
    pub(crate) socket: UdpSocket,
    /// Where it is bound.
    pub(crate) address: SocketAddr,
    /// Bytes of its receive buffer.
    pub(crate) buffer_bytes: u64,
}

/// Binds a socket and asks for large buffers: at 100 MB/s a default one overflows within 2 ms.
pub(crate) fn bind(address: SocketAddr) -> Result<Bound, NetError> {
    let unbound = |error| NetError::Unbound { address, error };
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(unbound)?;
    // The system cuts what it does not allow; the status shows what it granted.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into()).map_err(unbound)?;
    // Linux tells twice of what it granted, counting its own bookkeeping.
    let granted = socket.recv_buffer_size().map_err(unbound)? / 2;
    let socket = UdpSocket::from(socket);
    let address = socket.local_addr().map_err(unbound)?;
    Ok(Bound { socket, address, buffer_bytes: granted as u64 })
}

/// Makes the directory of the node, which its secrets need before its store does.
pub(crate) fn make_dir(dir: &Path) -> Result<(), NetError> {
    Ok(crate::store::make_dir(dir)?)
}

/// The endpoint's own settings.
pub(crate) fn endpoint_config(dir: &Path) -> Result<EndpointConfig, NetError> {
    let key = ResetKey::load(dir)?;
    let ids = key.number(b"connection ids");
    let mut config = EndpointConfig::new(Arc::new(key));
    // Only ids that we may have given out are answered with a reset, also after a restart.
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
    Ok(config)
}

/// What whoever dials us may have.
pub(crate) fn server_config(
    credentials: &NodeCredentials,
) -> Result<quinn::ServerConfig, NetError> {
    let mut transport = transport();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(CLIENT_IDLE_MS))))
        .keep_alive_interval(Some(Duration::from_secs(3)));
    let mut config = credentials.server_config()?;
    config
        .transport_config(Arc::new(transport))
        .migration(false)
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(16 * 1024)
        .incoming_buffer_size_total(16 * 1024 * 1024);
    Ok(config)
}

/// How we dial another node.
pub(crate) fn dial_config(credentials: &NodeCredentials) -> Result<quinn::ClientConfig, NetError> {
    let mut transport = transport();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(PEER_IDLE_MS))))
        .keep_alive_interval(Some(Duration::from_millis(500)));
    let mut config = credentials.dial_config()?;
    config.transport_config(Arc::new(transport));
    Ok(config)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(WINDOW_FIRST))
        .send_window(u64::from(STREAM_WINDOW) * 4)
        .datagram_receive_buffer_size(Some(256 * 1024))
        .datagram_send_buffer_size(64 * 1024)
        .initial_rtt(Duration::from_millis(50));
    transport
}

/// With it a node that was killed tells the other ends of its old connections at once, and they
/// need not wait until these are idle for too long. A key that is drawn anew at each start, as
/// quinn does, cannot do that.
struct ResetKey {
    key: OkmBlock,
    hmac: &'static dyn Hkdf,
}

impl ResetKey {
    fn load(dir: &Path) -> Result<Self, NetError> {
        let path = dir.join(RESET_KEY);
        let failed = |error| StoreError::File { path: path.clone(), error };
        let key = match std::fs::read(&path) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key: [u8; RESET_KEY_BYTES] = entropy::bytes().map_err(failed)?;
                write_durably(dir, RESET_KEY, &key)?;
                key.to_vec()
            }
            Err(error) => return Err(failed(error).into()),
        };
        if key.len() != RESET_KEY_BYTES {
            return Err(NetError::BadResetKey);
        }
        let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let hmac = suite.tls13().expect("it is one of TLS 1.3").hkdf_provider;
        Ok(Self { key: OkmBlock::new(&key), hmac })
    }

    /// A secret number for this purpose.
    fn number(&self, purpose: &[u8]) -> u64 {
        let tag = self.hmac.hmac_sign(&self.key, purpose);
        u64::from_be_bytes(*tag.as_ref().first_chunk().expect("a tag has 32 bytes"))
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        signature.copy_from_slice(self.hmac.hmac_sign(&self.key, data).as_ref());
    }

    fn signature_len(&self) -> usize {
        32
    }

    /// Nobody calls this: resets are recognized by the token that was sent, not by the key.
    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), quinn::crypto::CryptoError> {
        let right = self.hmac.hmac_sign(&self.key, data);
        let differs = right.as_ref().len() != signature.len()
            || right.as_ref().iter().zip(signature).fold(0, |all, (a, b)| all | (a ^ b)) != 0;
        if differs { Err(quinn::crypto::CryptoError) } else { Ok(()) }
    }
}

/// What is asked of the system for the socket; stock Debian grants 208 KiB.
const SOCKET_BUFFER: usize = 4 * 1024 * 1024;

/// A client has one stream each for control, sends and deliveries, and one to spare.
pub(crate) const STREAMS_MAX: u32 = 4;

/// What a connection may have on its way to us before we know who is there; more once we do.
pub(crate) const WINDOW_FIRST: u32 = 128 * 1024;

/// 2 MiB per stream carry 200 MB/s at 10 ms. All our streams are read as long as the driver keeps
/// up, so no stream takes another's room in the connection's window.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;

/// A client that is gone gives back what it had not taken after so long.
const CLIENT_IDLE_MS: u32 = 10_000;

/// The longest silence of a session, see the design: views are faster, safety waits for this.
const PEER_IDLE_MS: u32 = 3_000;

/// Handshakes that nobody has looked at yet; each may hold 16 KiB.
const INCOMING_MAX: usize = 1024;

const RESET_KEY: &str = "reset.key";
const RESET_KEY_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use gaggle_core::PACKET_SIZE_LIMIT;

    use super::*;

    #[test]
    fn the_reset_key_stays_the_same_and_secret() {
        let dir = tempfile::tempdir().unwrap();
        let sign = |data: &[u8]| {
            let key = ResetKey::load(dir.path()).unwrap();
            let mut signature = [0; 32];
            key.sign(data, &mut signature);
            assert!(key.verify(data, &signature).is_ok());
            assert!(key.verify(b"other", &signature).is_err());
            signature
        };
        assert_eq!(sign(b"a"), sign(b"a"));
        assert_ne!(sign(b"a"), sign(b"b"));
        let path = dir.path().join(RESET_KEY);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(ResetKey::load(dir.path()), Err(NetError::BadResetKey)));
    }

    fn credentials(dir: &Path) -> NodeCredentials {
        let cluster = gaggle_wire::ClusterName::parse("prod").unwrap();
        crate::cert::init(dir, &cluster).unwrap();
        let paths = crate::cert::node(dir, gaggle_wire::NodeId(1)).unwrap();
        NodeCredentials::load(&paths).unwrap()
    }

    /// One end of a connection, which ends without a word as a killed process does.
    fn serve_and_die(config: EndpointConfig, server: quinn::ServerConfig, socket: UdpSocket) {
        // On one thread nothing runs after the end of the block, so no goodbye is sent.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let runtime = Arc::new(quinn::TokioRuntime);
            let endpoint = quinn::Endpoint::new(config, Some(server), socket, runtime).unwrap();
            let connection = endpoint.accept().await.unwrap().await.unwrap();
            // The other end has heard of us once it has our bytes.
            let mut stream = connection.accept_bi().await.unwrap();
            stream.0.write_all(b"here").await.unwrap();
            stream.0.finish().unwrap();
            stream.0.stopped().await.unwrap();
        });
    }

    #[tokio::test]
    async fn a_node_that_was_killed_resets_its_old_connections_when_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        let local = "127.0.0.1:0".parse().unwrap();
        let bound = bind(local).unwrap();
        let dialler = quinn::Endpoint::client(local).unwrap();
        let mut patient = dial_config(&credentials).unwrap();
        let mut transport = transport();
        transport.keep_alive_interval(Some(Duration::from_millis(50)));
        patient.transport_config(Arc::new(transport));
        let first = {
            let config = endpoint_config(dir.path()).unwrap();
            let server = server_config(&credentials).unwrap();
            std::thread::spawn(move || serve_and_die(config, server, bound.socket))
        };
        let name = credentials.server_name();
        let connecting = dialler.connect_with(patient, bound.address, &name).unwrap();
        let connection = connecting.await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(b"there").await.unwrap();
        assert_eq!(receive.read_to_end(100).await.unwrap(), b"here");
        tokio::task::spawn_blocking(|| first.join().unwrap()).await.unwrap();
        let again = bind(bound.address).unwrap();
        let config = endpoint_config(dir.path()).unwrap();
        let server = server_config(&credentials).unwrap();
        let runtime = Arc::new(quinn::TokioRuntime);
        let _back = quinn::Endpoint::new(config, Some(server), again.socket, runtime).unwrap();
        assert_eq!(connection.closed().await, quinn::ConnectionError::Reset);
    }

    #[tokio::test]
    async fn the_largest_packet_of_gossip_fits_a_datagram_on_the_narrowest_path_that_quic_takes() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        let local = "127.0.0.1:0".parse().unwrap();
        let server = server_config(&credentials).unwrap();
        let server = quinn::Endpoint::server(server, local).unwrap();
        let dialler = quinn::Endpoint::client(local).unwrap();
        // Nothing wider is looked for than what every path must carry.
        let mut narrow = transport();
        narrow.mtu_discovery_config(None);
        let mut dial = dial_config(&credentials).unwrap();
        dial.transport_config(Arc::new(narrow));
        let name = credentials.server_name();
        let dialling = dialler.connect_with(dial, server.local_addr().unwrap(), &name).unwrap();
        let accepting = async { server.accept().await.unwrap().await };
        let (dialled, accepted) = tokio::join!(dialling, accepting);
        let (dialled, accepted) = (dialled.unwrap(), accepted.unwrap());
        let fits = dialled.max_datagram_size().unwrap();
        assert!(fits >= PACKET_SIZE_LIMIT, "{fits} bytes");
        let packet = bytes::Bytes::from(vec![7; PACKET_SIZE_LIMIT]);
        dialled.send_datagram(packet.clone()).unwrap();
        assert_eq!(accepted.read_datagram().await.unwrap(), packet);
    }

    #[test]
    fn a_socket_says_what_it_was_granted() {
        let bound = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(bound.buffer_bytes > 0);
        let taken = bound.socket.local_addr().unwrap();
        assert!(matches!(bind(taken), Err(NetError::Unbound { .. })));
    }
}
