//! Handshakes over loopback: who is let in, as whom, and who is not.
//!
//! Every test makes its own authorities. A refusal is asserted where it happens, on the side
//! that refuses: with TLS 1.3 the dialling side may believe for a moment that it is in.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rustls::ConfigBuilder;
use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
    WantsClientCert,
};

use super::*;
use crate::cert;

const CLUSTER: &str = "prod";

fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

fn name(text: &str) -> ClientName {
    ClientName::parse(text).unwrap()
}

/// Authorities of a cluster of this name in a directory of their own.
fn authorities(of: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    cert::init(dir.path(), &cluster(of)).unwrap();
    dir
}

fn node(dir: &Path, id: u64) -> NodeCredentials {
    NodeCredentials::load(&cert::node(dir, NodeId(id)).unwrap()).unwrap()
}

fn client(dir: &Path, text: &str) -> Credentials {
    Credentials::load(&cert::client(dir, &name(text)).unwrap()).unwrap()
}

/// Trusts the authority of `node`, and shows a certificate next.
fn bare_client(node: &NodeCredentials) -> ConfigBuilder<rustls::ClientConfig, WantsClientCert> {
    rustls::ClientConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(Arc::clone(node.ours.authorities()))
}

fn quic(tls: rustls::ClientConfig) -> quinn::ClientConfig {
    quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// Trusts the authority of `node`, but is somebody else's.
fn posing(node: &NodeCredentials, as_: &Credentials, alpn: &[u8]) -> quinn::ClientConfig {
    let mut tls = bare_client(node)
        .with_client_auth_cert(as_.chain().to_vec(), as_.key().clone_key())
        .unwrap();
    tls.alpn_protocols = vec![alpn.to_vec()];
    quic(tls)
}

/// Signs whatever it is told to with the key of an authority, as its thief would.
fn forge(dir: &Path, authority: &str, identity: &str) -> Credentials {
    let key = std::fs::read_to_string(dir.join(format!("{authority}-ca.key"))).unwrap();
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name = rcgen::DistinguishedName::new();
    issuer.distinguished_name.push(DnType::OrganizationName, CLUSTER);
    issuer.distinguished_name.push(DnType::CommonName, format!("Gaggle {authority} CA"));
    let issuer = Issuer::new(issuer, KeyPair::from_pem(&key).unwrap());
    let mut leaf = CertificateParams::default();
    leaf.subject_alt_names = vec![SanType::URI(identity.to_owned().try_into().unwrap())];
    leaf.insert_extended_key_usage(ExtendedKeyUsagePurpose::ClientAuth);
    let pair = KeyPair::generate().unwrap();
    let pem = leaf.signed_by(&pair, &issuer).unwrap().pem();
    let key = pair.serialize_pem();
    let ca = std::fs::read(dir.join("node-ca.pem")).unwrap();
    Credentials::from_pem(&ca, pem.as_bytes(), key.as_bytes()).unwrap()
}

/// Both ends of one connection.
struct Meeting {
    dialled: Result<Connection, ConnectionError>,
    accepted: Result<Connection, ConnectionError>,
    _endpoints: [Endpoint; 2],
}

async fn meet(
    server: quinn::ServerConfig,
    dial: quinn::ClientConfig,
    server_name: &str,
) -> Meeting {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(server, local).unwrap();
    let dialler = Endpoint::client(local).unwrap();
    let dialling = dialler.connect_with(dial, server.local_addr().unwrap(), server_name).unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (dialled, accepted) = tokio::join!(dialling, accepting);
    Meeting { dialled, accepted, _endpoints: [server, dialler] }
}

/// Dials a node and returns who the node sees.
async fn seen_by(node: &NodeCredentials, dial: quinn::ClientConfig) -> Result<Peer, String> {
    let met = meet(node.server_config().unwrap(), dial, &node.server_name()).await;
    let connection = met.accepted.map_err(|error| error.to_string())?;
    node.peer_of(&connection).map_err(|error| error.to_string())
}

/// Counts the tickets that it is given and hands them out again.
#[derive(Debug)]
struct CountedTickets {
    given: AtomicUsize,
    inner: ClientSessionMemoryCache,
}

impl ClientSessionStore for CountedTickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.inner.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.inner.kx_hint(server_name)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {
        unreachable!("TLS 1.3 only");
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.given.fetch_add(1, Ordering::Relaxed);
        self.inner.insert_tls13_ticket(name, ticket);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.inner.take_tls13_ticket(name)
    }
}

/// Counts how often a certificate was verified.
#[derive(Debug)]
struct CountedVerifier {
    calls: AtomicUsize,
    inner: Arc<EitherAuthority>,
}

impl ClientCertVerifier for CountedVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inner.verify_client_cert(leaf, between, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[tokio::test]
async fn two_nodes_know_each_other_by_id() {
    let dir = authorities(CLUSTER);
    let (a, b) = (node(dir.path(), 1), node(dir.path(), 2));
    let met = meet(a.server_config().unwrap(), b.dial_config().unwrap(), &b.server_name()).await;
    assert_eq!(a.peer_of(&met.accepted.unwrap()).unwrap(), Peer::Node(NodeId(2)));
    assert_eq!(b.peer_of(&met.dialled.unwrap()).unwrap(), Peer::Node(NodeId(1)));
}

#[tokio::test]
async fn a_client_is_known_by_its_name() {
    let dir = authorities(CLUSTER);
    let (a, billing) = (node(dir.path(), 1), client(dir.path(), "billing"));
    assert_eq!(billing.server_name(), a.server_name());
    let seen = seen_by(&a, billing.client_config(tls::ALPN).unwrap()).await;
    assert_eq!(seen, Ok(Peer::Client(name("billing"))));
}

#[tokio::test]
async fn a_node_may_act_as_a_client() {
    let dir = authorities(CLUSTER);
    let (a, b) = (node(dir.path(), 1), node(dir.path(), 2));
    let seen = seen_by(&a, b.ours.client_config(tls::ALPN).unwrap()).await;
    assert_eq!(seen, Ok(Peer::Client(ClientName::of_node(NodeId(2)))));
}

#[tokio::test]
async fn a_client_cannot_speak_as_a_node() {
    let dir = authorities(CLUSTER);
    let (a, billing) = (node(dir.path(), 1), client(dir.path(), "billing"));
    let seen = seen_by(&a, billing.client_config(PEER_ALPN).unwrap()).await.unwrap_err();
    assert!(seen.contains("may not speak the protocol of nodes"), "{seen}");
}

#[tokio::test]
async fn a_node_that_the_client_authority_signed_is_refused() {
    let dir = authorities(CLUSTER);
    let a = node(dir.path(), 1);
    let forged = forge(dir.path(), "client", "gaggle://prod/node/2");
    for alpn in [tls::ALPN, PEER_ALPN] {
        let seen = seen_by(&a, forged.client_config(alpn).unwrap()).await.unwrap_err();
        assert!(seen.contains("UnknownIssuer"), "{seen}");
    }
    // The same claim by the right authority is fine: the test above fails for its reason alone.
    let right = forge(dir.path(), "node", "gaggle://prod/node/2");
    let seen = seen_by(&a, right.client_config(PEER_ALPN).unwrap()).await;
    assert_eq!(seen, Ok(Peer::Node(NodeId(2))));
}

#[tokio::test]
async fn a_client_that_the_node_authority_signed_is_refused() {
    let dir = authorities(CLUSTER);
    let a = node(dir.path(), 1);
    let forged = forge(dir.path(), "node", "gaggle://prod/client/billing");
    let seen = seen_by(&a, forged.client_config(tls::ALPN).unwrap()).await.unwrap_err();
    assert!(seen.contains("UnknownIssuer"), "{seen}");
}

#[tokio::test]
async fn another_cluster_is_refused_by_both_sides() {
    let (ours, theirs) = (authorities(CLUSTER), authorities("stage"));
    let (a, b) = (node(ours.path(), 1), node(theirs.path(), 2));
    let met = meet(a.server_config().unwrap(), b.dial_config().unwrap(), &b.server_name()).await;
    assert!(met.dialled.unwrap_err().to_string().contains("invalid peer certificate"));
    // What trusts us is not trusted by us for that.
    let seen = seen_by(&a, posing(&a, &b.ours, PEER_ALPN)).await.unwrap_err();
    assert!(seen.contains("gaggle://stage/node/2 is of another cluster"), "{seen}");
}

#[tokio::test]
async fn another_authority_under_the_same_cluster_name_is_refused() {
    let (ours, theirs) = (authorities(CLUSTER), authorities(CLUSTER));
    let (a, b) = (node(ours.path(), 1), node(theirs.path(), 2));
    let met = meet(a.server_config().unwrap(), b.dial_config().unwrap(), &b.server_name()).await;
    let refusal = met.dialled.unwrap_err().to_string();
    assert!(refusal.contains("BadSignature") || refusal.contains("UnknownIssuer"), "{refusal}");
    let seen = seen_by(&a, posing(&a, &b.ours, PEER_ALPN)).await.unwrap_err();
    assert!(seen.contains("invalid peer certificate"), "{seen}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let dir = authorities(CLUSTER);
    let a = node(dir.path(), 1);
    let then = SystemTime::now() - Duration::from_secs(3 * 365 * 24 * 60 * 60);
    let paths = cert::client_at(dir.path(), &name("old"), then).unwrap();
    let old = Credentials::load(&paths).unwrap();
    let seen = seen_by(&a, old.client_config(tls::ALPN).unwrap()).await.unwrap_err();
    assert!(seen.contains("expired"), "{seen}");
    // A node does not even start with one.
    let refused = NodeCredentials::load(&cert::node_at(dir.path(), NodeId(2), then).unwrap());
    assert!(matches!(refused, Err(CredentialsError::Unfit { .. })), "{refused:?}");
}

#[tokio::test]
async fn no_certificate_is_refused() {
    let dir = authorities(CLUSTER);
    let a = node(dir.path(), 1);
    let mut nobody = bare_client(&a).with_no_client_auth();
    nobody.alpn_protocols = vec![tls::ALPN.to_vec()];
    let seen = seen_by(&a, quic(nobody)).await.unwrap_err();
    assert!(seen.contains("no certificate"), "{seen}");
}

#[tokio::test]
async fn an_unknown_protocol_is_refused() {
    let dir = authorities(CLUSTER);
    let (a, billing) = (node(dir.path(), 1), client(dir.path(), "billing"));
    let seen = seen_by(&a, billing.client_config(b"gaggle/9").unwrap()).await.unwrap_err();
    assert!(seen.contains("known protocol"), "{seen}");
}

#[test]
fn an_authority_is_no_peer_and_a_protocol_must_be_known() {
    let ours = cluster(CLUSTER);
    let of = |role| Identity { cluster: ours.clone(), role };
    for protocol in [tls::ALPN, PEER_ALPN] {
        let judged = judge(&ours, Some(protocol), of(Role::NodeAuthority));
        assert!(matches!(judged, Err(PeerError::Authority(_))));
    }
    for protocol in [None, Some(b"h3".as_slice())] {
        let judged = judge(&ours, protocol, of(Role::Node(NodeId(1))));
        assert!(matches!(judged, Err(PeerError::UnknownProtocol)));
    }
}

#[test]
fn files_that_were_mixed_up_are_refused_at_load() {
    let dir = authorities(CLUSTER);
    let good = cert::node(dir.path(), NodeId(1)).unwrap();
    let other = cert::node(dir.path(), NodeId(2)).unwrap();
    let client = cert::client(dir.path(), &name("billing")).unwrap();
    let load = |paths: NodePaths| NodeCredentials::load(&paths).unwrap_err();

    let swapped = NodePaths {
        node_ca: good.client_ca.clone(),
        client_ca: good.node_ca.clone(),
        ..good.clone()
    };
    assert!(matches!(load(swapped), CredentialsError::Tls(TlsError::WrongRole { .. })));
    let other_key = NodePaths { key: other.key, ..good.clone() };
    assert!(matches!(load(other_key), CredentialsError::Tls(TlsError::OtherKey(_))));
    let of_client = NodePaths { certificate: client.certificate, key: client.key, ..good.clone() };
    assert!(matches!(load(of_client), CredentialsError::NotNode(_)));
    let of_ca = NodePaths { certificate: good.node_ca.clone(), ..good.clone() };
    assert!(matches!(load(of_ca), CredentialsError::Tls(TlsError::WrongRole { .. })));
    let key_for_certificate = NodePaths { certificate: good.key.clone(), ..good };
    let refused = load(key_for_certificate);
    assert!(matches!(refused, CredentialsError::Tls(TlsError::NoCertificate { .. })));
}

#[test]
fn a_client_learns_its_cluster_from_its_certificate_and_may_insist_on_one() {
    let dir = authorities(CLUSTER);
    let billing = client(dir.path(), "billing");
    assert_eq!(billing.server_name(), "prod.gaggle");
    assert!(billing.clone().of_cluster(&cluster(CLUSTER)).is_ok());
    let refused = billing.of_cluster(&cluster("stage"));
    assert!(matches!(refused, Err(TlsError::OtherCluster { .. })));
}

#[test]
fn a_file_that_is_no_certificate_is_refused_by_its_name() {
    let dir = authorities(CLUSTER);
    let paths = cert::client(dir.path(), &name("billing")).unwrap();
    let refused = |content: &[u8]| {
        std::fs::write(&paths.ca, content).unwrap();
        let refused = Credentials::load(&paths).unwrap_err();
        assert!(refused.to_string().contains("ca.pem"), "{refused}");
        refused
    };
    assert!(matches!(refused(b""), TlsError::NoCertificate { .. }));
    let broken = b"-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----\n";
    assert!(matches!(refused(broken), TlsError::Pem { .. }));
    let nonsense = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(refused(nonsense), TlsError::BadCertificate { .. }));
    assert!(matches!(refused(&vec![b'x'; 64 * 1024 + 1]), TlsError::TooLarge { .. }));
    std::fs::remove_file(&paths.ca).unwrap();
    assert!(matches!(Credentials::load(&paths).unwrap_err(), TlsError::Unreadable { .. }));
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = authorities(CLUSTER);
    let paths = cert::node(dir.path(), NodeId(1)).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o777] {
        std::fs::set_permissions(&paths.key, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = NodeCredentials::load(&paths).unwrap_err();
        assert!(matches!(refused, CredentialsError::Tls(TlsError::Exposed { .. })), "{refused}");
    }
    std::fs::set_permissions(&paths.key, std::fs::Permissions::from_mode(0o400)).unwrap();
    assert!(NodeCredentials::load(&paths).is_ok());
}

#[test]
fn a_certificate_says_beforehand_when_a_new_one_is_due() {
    let dir = authorities(CLUSTER);
    let a = node(dir.path(), 1);
    let in_days = |days: u64| {
        let now = UnixTime::now().as_secs();
        UnixTime::since_unix_epoch(Duration::from_secs(now + days * 24 * 60 * 60))
    };
    assert!(a.check_at(in_days(729)).is_ok());
    assert!(matches!(a.check_at(in_days(731)), Err(CredentialsError::Unfit { .. })));
}

#[test]
fn keys_do_not_show_in_debug() {
    let dir = authorities(CLUSTER);
    let shown = format!("{:?}", node(dir.path(), 1));
    assert!(shown.contains("gaggle://prod/node/1"), "{shown}");
    assert!(!shown.to_lowercase().contains("key"), "{shown}");
}

/// A client that would resume, if it were given a ticket, gets none.
#[tokio::test]
async fn a_node_hands_out_no_ticket() {
    let dir = authorities(CLUSTER);
    let (a, billing) = (node(dir.path(), 1), client(dir.path(), "billing"));
    let tickets =
        Arc::new(CountedTickets { given: 0.into(), inner: ClientSessionMemoryCache::new(16) });
    let dial = || {
        let mut eager = bare_client(&a)
            .with_client_auth_cert(billing.chain().to_vec(), billing.key().clone_key())
            .unwrap();
        eager.alpn_protocols = vec![tls::ALPN.to_vec()];
        eager.resumption = rustls::client::Resumption::store(Arc::clone(&tickets) as _);
        eager.enable_early_data = true;
        quic(eager)
    };
    let exchange = |mut config: rustls::ServerConfig| {
        let (dial, name) = (dial(), a.server_name());
        config.alpn_protocols = vec![tls::ALPN.to_vec()];
        async move {
            let config = QuicServerConfig::try_from(config).unwrap();
            let config = quinn::ServerConfig::with_crypto(Arc::new(config));
            let met = meet(config, dial, &name).await;
            // Tickets come with the first data after the handshake at the latest.
            let mut stream = met.accepted.as_ref().unwrap().open_uni().await.unwrap();
            stream.write_all(b"!").await.unwrap();
            stream.finish().unwrap();
            let mut stream = met.dialled.as_ref().unwrap().accept_uni().await.unwrap();
            assert_eq!(stream.read_to_end(1).await.unwrap(), b"!");
        }
    };
    exchange(a.server_tls().unwrap()).await;
    assert_eq!(tickets.given.load(Ordering::Relaxed), 0);
    // The same exchange does bring tickets from a node that hands them out.
    let mut generous = a.server_tls().unwrap();
    generous.send_tls13_tickets = 2;
    generous.session_storage = rustls::server::ServerSessionMemoryCache::new(16);
    exchange(generous).await;
    assert!(tickets.given.load(Ordering::Relaxed) > 0);
}

/// A node that dials never resumes, though the other one would let it: it is verified each time.
#[tokio::test]
async fn a_node_that_dials_shows_its_certificate_every_time() {
    let dir = authorities(CLUSTER);
    let (a, b) = (node(dir.path(), 1), node(dir.path(), 2));
    let counted = Arc::new(CountedVerifier { inner: a.verifier().unwrap(), calls: 0.into() });
    let mut generous = rustls::ServerConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::clone(&counted) as _)
        .with_single_cert(a.ours.chain().to_vec(), a.ours.key().clone_key())
        .unwrap();
    generous.alpn_protocols = vec![PEER_ALPN.to_vec()];
    let generous = QuicServerConfig::try_from(generous).unwrap();
    let generous = quinn::ServerConfig::with_crypto(Arc::new(generous));
    let dial = b.dial_config().unwrap();
    for _ in 0..3 {
        let met = meet(generous.clone(), dial.clone(), &b.server_name()).await;
        let mut stream = met.accepted.unwrap().open_uni().await.unwrap();
        stream.write_all(b"!").await.unwrap();
        let mut stream = met.dialled.unwrap().accept_uni().await.unwrap();
        assert!(stream.read_chunk(1, true).await.unwrap().is_some());
    }
    assert_eq!(counted.calls.load(Ordering::Relaxed), 3);
}
