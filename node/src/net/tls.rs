//! Who may talk to a node: TLS for both of its protocols, and who is at the other end.
//!
//! One UDP port serves clients (`gaggle/1`) and nodes (`gaggle-peer/1`). TLS settles the
//! protocol inside the handshake and cannot choose by it whose certificates to accept. So a
//! handshake is accepted from either authority, and [`NodeCredentials::peer_of`] then judges by
//! protocol: a node must show a node's certificate, a client a client's or a node's.
//!
//! Which authority may vouch is settled earlier, by the identity that the certificate claims: a
//! claim to be a node is verified against the node CA alone, a claim to be a client against the
//! client CA alone. So whoever holds the client CA cannot make a node, not even for clients.
//!
//! Invariants: mutual TLS 1.3 always; no session is resumed and no early data taken, for a
//! resumed session shows no certificate; a certificate of another cluster is refused whoever
//! signed it; nothing is loaded that the other nodes would refuse, so a wrong file shows at the
//! start and not as a node that nobody hears.
//!
//! What this file does not do: it does not say what a client may do (rights are elsewhere), and
//! it sets no limits on connections (`net/mod.rs` does).

use std::fmt;
use std::sync::Arc;

use gaggle_client::tls::{self, CredentialPaths, Credentials, TlsError};
use gaggle_wire::{ClientName, ClusterName, Identity, NodeId, Role};
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerifier};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use thiserror::Error;

use crate::cert::NodePaths;

/// The protocol that nodes speak with each other.
pub const PEER_ALPN: &[u8] = b"gaggle-peer/1";

/// Why a node cannot use its files. Nothing was started.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// A file is missing, broken, or not what it should be.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The certificate is not that of a node.
    #[error("the certificate is of {0}, which is no node; make one with `gaggle cert node`")]
    NotNode(Box<Identity>),
    /// Every other node would refuse the certificate.
    #[error(
        "other nodes would refuse the certificate of {identity} ({error}); check the clock, \
             or make a new one with `gaggle cert node`"
    )]
    Unfit {
        /// Whose certificate.
        identity: Box<Identity>,
        /// Why.
        error: rustls::Error,
    },
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A node, on the protocol of nodes.
    Node(NodeId),
    /// A client, on the protocol of clients. A node that acts as one is called `node-<id>`.
    Client(ClientName),
}

/// Why a connection is not let in after its handshake. Close it; the other end cannot mend this
/// without another certificate or another protocol.
#[derive(Debug, Error)]
pub enum PeerError {
    /// The handshake has not ended, or was not made by this file's configurations.
    #[error("the connection shows neither a certificate nor a protocol")]
    Unfinished,
    /// The protocol is neither of the two.
    #[error("the connection is for an unknown protocol")]
    UnknownProtocol,
    /// The certificate cannot be read.
    #[error(transparent)]
    Certificate(#[from] TlsError),
    /// The certificate is of another cluster.
    #[error("{0} is of another cluster")]
    OtherCluster(Box<Identity>),
    /// It may not speak this protocol: a client tried to join as a node.
    #[error("{0} may not speak the protocol of nodes")]
    NotNode(Box<Identity>),
    /// The certificate is that of an authority, which is nobody's peer.
    #[error("{0} is an authority")]
    Authority(Box<Identity>),
}

/// Who this node is and whom it lets in.
#[derive(Clone, Debug)]
pub struct NodeCredentials {
    ours: Credentials,
    id: NodeId,
    clients: Arc<RootCertStore>,
}

impl NodeCredentials {
    /// Reads the four files of a node and checks that others would accept what is in them.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn load(paths: &NodePaths) -> Result<Self, CredentialsError> {
        let ours = Credentials::load(&CredentialPaths {
            ca: paths.node_ca.clone(),
            certificate: paths.certificate.clone(),
            key: paths.key.clone(),
        })?;
        let cluster = ours.identity().cluster.clone();
        let Role::Node(id) = ours.identity().role else {
            return Err(CredentialsError::NotNode(Box::new(ours.identity().clone())));
        };
        let authority = Identity { cluster, role: Role::ClientAuthority };
        let clients = Arc::new(tls::load_authorities(&paths.client_ca, &authority)?);
        let loaded = Self { ours, id, clients };
        loaded.check_at(UnixTime::now())?;
        Ok(loaded)
    }

    /// The id that the certificate names.
    #[must_use]
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// The cluster that the certificate names.
    #[must_use]
    pub const fn cluster(&self) -> &ClusterName {
        &self.ours.identity().cluster
    }

    /// The name to verify a node by, whatever address is dialled.
    #[must_use]
    pub fn server_name(&self) -> String {
        self.ours.server_name()
    }

    /// Whether other nodes accept our certificate at this time. Asked with a time to come it
    /// says whether a new one is due.
    ///
    /// # Errors
    /// [`CredentialsError::Unfit`] with the reason.
    pub fn check_at(&self, time: UnixTime) -> Result<(), CredentialsError> {
        let unfit = |error| CredentialsError::Unfit {
            identity: Box::new(self.ours.identity().clone()),
            error,
        };
        let (leaf, between) = self.ours.chain().split_first().expect("a chain has a certificate");
        let authorities = Arc::clone(self.ours.authorities());
        let as_server = WebPkiServerVerifier::builder_with_provider(authorities, tls::provider())
            .build()
            .map_err(TlsError::from)?;
        let name = ServerName::try_from(self.server_name()).expect("a cluster is a DNS label");
        as_server.verify_server_cert(leaf, between, &name, &[], time).map_err(unfit)?;
        let as_client = self.verifier()?;
        as_client.verify_client_cert(leaf, between, time).map_err(unfit)?;
        Ok(())
    }

    /// The configuration of the endpoint, for both protocols. The transport's limits are those
    /// of quinn still.
    ///
    /// # Errors
    /// [`TlsError`], and never once [`Self::load`] went well.
    pub fn server_config(&self) -> Result<quinn::ServerConfig, TlsError> {
        let tls = self.server_tls()?;
        Ok(quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?)))
    }

    /// The configuration to dial another node with, under [`Self::server_name`].
    ///
    /// # Errors
    /// [`TlsError`], and never once [`Self::load`] went well.
    pub fn dial_config(&self) -> Result<quinn::ClientConfig, TlsError> {
        self.ours.client_config(PEER_ALPN)
    }

    /// Who is at the other end, by certificate and protocol. To be asked once the handshake has
    /// ended, on either side, and before anything that the other end sends is read.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub fn peer_of(&self, connection: &quinn::Connection) -> Result<Peer, PeerError> {
        let shown = connection.handshake_data().ok_or(PeerError::Unfinished)?;
        let shown = shown.downcast::<HandshakeData>().map_err(|_| PeerError::Unfinished)?;
        let chain = connection.peer_identity().ok_or(PeerError::Unfinished)?;
        let chain =
            chain.downcast::<Vec<CertificateDer<'static>>>().map_err(|_| PeerError::Unfinished)?;
        let leaf = chain.first().ok_or(PeerError::Unfinished)?;
        let identity = tls::identity_of(leaf, "the peer's certificate")?;
        judge(self.cluster(), shown.protocol.as_deref(), identity)
    }

    fn server_tls(&self) -> Result<rustls::ServerConfig, TlsError> {
        let mut tls = rustls::ServerConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(self.verifier()?)
            .with_single_cert(self.ours.chain().to_vec(), self.ours.key().clone_key())
            .map_err(|error| self.ours.explain(error))?;
        tls.alpn_protocols = vec![tls::ALPN.to_vec(), PEER_ALPN.to_vec()];
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        tls.max_early_data_size = 0;
        Ok(tls)
    }

    fn verifier(&self) -> Result<Arc<EitherAuthority>, TlsError> {
        let by = |roots: &Arc<RootCertStore>| {
            WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), tls::provider()).build()
        };
        Ok(Arc::new(EitherAuthority {
            cluster: self.cluster().clone(),
            nodes: by(self.ours.authorities())?,
            clients: by(&self.clients)?,
        }))
    }
}

/// What a verified identity is on a protocol.
fn judge(
    cluster: &ClusterName,
    protocol: Option<&[u8]>,
    identity: Identity,
) -> Result<Peer, PeerError> {
    if identity.cluster != *cluster {
        return Err(PeerError::OtherCluster(Box::new(identity)));
    }
    let for_nodes = match protocol {
        Some(PEER_ALPN) => true,
        Some(tls::ALPN) => false,
        Some(_) | None => return Err(PeerError::UnknownProtocol),
    };
    match (for_nodes, &identity.role) {
        (true, Role::Node(id)) => Ok(Peer::Node(*id)),
        (true, Role::Client(_)) => Err(PeerError::NotNode(Box::new(identity))),
        (false, Role::Node(id)) => Ok(Peer::Client(ClientName::of_node(*id))),
        (false, Role::Client(name)) => Ok(Peer::Client(name.clone())),
        (_, Role::NodeAuthority | Role::ClientAuthority) => {
            Err(PeerError::Authority(Box::new(identity)))
        }
    }
}

/// Verifies whoever dials us by the authority of what it claims to be.
#[derive(Debug)]
struct EitherAuthority {
    cluster: ClusterName,
    nodes: Arc<dyn ClientCertVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl EitherAuthority {
    /// The claim is read before anything is verified; it only chooses by whom it must be proven.
    fn claimed(&self, leaf: &CertificateDer<'_>) -> Result<&dyn ClientCertVerifier, PeerError> {
        let identity = tls::identity_of(leaf, "the peer's certificate")?;
        if identity.cluster != self.cluster {
            return Err(PeerError::OtherCluster(Box::new(identity)));
        }
        match identity.role {
            Role::Node(_) => Ok(self.nodes.as_ref()),
            Role::Client(_) => Ok(self.clients.as_ref()),
            Role::NodeAuthority | Role::ClientAuthority => {
                Err(PeerError::Authority(Box::new(identity)))
            }
        }
    }
}

impl ClientCertVerifier for EitherAuthority {
    /// None: whoever dials has one certificate for this cluster and needs no hint which to show.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.claimed(leaf)
            .map_err(|error| CertificateError::Other(OtherError(Arc::new(Refused(error)))))?
            .verify_client_cert(leaf, between, now)
    }

    /// Both verifiers are of one provider and check signatures alike; this one is not reached,
    /// because nothing older than TLS 1.3 is offered.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.nodes.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.nodes.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.nodes.supported_verify_schemes()
    }
}

/// rustls shows the reason of a refusal by `Debug`, and it is people who read it.
#[derive(Error)]
#[error("{0}")]
struct Refused(PeerError);

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
