//! Throw-away certificates: an authority for nodes, one node, one client.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::tls::{self, ALPN, Credentials};

/// What a client and its nodes need to trust each other.
pub(super) struct Certs {
    pub(super) client: Credentials,
    pub(super) server: quinn::ServerConfig,
}

pub(super) fn make() -> Certs {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = params("gaggle://test/ca/node");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);

    let node_key = KeyPair::generate().unwrap();
    let mut node = params("gaggle://test/node/1");
    node.subject_alt_names.push(SanType::DnsName("test.gaggle".try_into().unwrap()));
    let node = node.signed_by(&node_key, &issuer).unwrap();

    let client_key = KeyPair::generate().unwrap();
    let client = params("gaggle://test/client/tester").signed_by(&client_key, &issuer).unwrap();
    let client = Credentials::from_pem(
        ca_pem.as_bytes(),
        client.pem().as_bytes(),
        client_key.serialize_pem().as_bytes(),
    );

    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(node_key.serialize_der()));
    let mut server = rustls::ServerConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![node.der().clone()], key)
        .unwrap();
    server.alpn_protocols = vec![ALPN.to_vec()];
    let server = quinn::crypto::rustls::QuicServerConfig::try_from(server).unwrap();
    let server = quinn::ServerConfig::with_crypto(std::sync::Arc::new(server));
    Certs { client: client.unwrap(), server }
}

fn params(identity: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, identity);
    params.subject_alt_names.push(SanType::URI(identity.try_into().unwrap()));
    params
}
