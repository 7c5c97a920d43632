//! Credentials: who we are, whom we trust, and the TLS configuration that follows from both.
//!
//! There is no mode without TLS. A client holds three files: `ca.pem` (the node CA: whom it
//! trusts), its certificate and its key (who it is). The name that is verified is that of the
//! cluster, `<cluster>.gaggle`, whatever address was dialled, and the cluster is read from our
//! own certificate, so that nobody needs to type it.
//!
//! A node that dials another one is a client in this sense too: the same files, the other
//! protocol name. So the node builds on this file and does not repeat it.
//!
//! Invariants: TLS 1.3 only, ring as the one provider, passed by hand (without one, rustls looks
//! for a global one and panics if two could be meant). No session is ever resumed and no early
//! data sent: a resumed session would not show its certificate again, and early data can be
//! replayed. A key file that others can read is refused.
//!
//! What this file does not do: it dials nothing, and it cannot tell whether the cluster accepts
//! our certificate. With TLS 1.3 a client's handshake ends before the server has judged it, so a
//! refusal shows at the first answer that is awaited.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gaggle_wire::{ClusterName, Identity, IdentityError, Role};
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig};
use rustls::client::{Resumption, VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{InconsistentKeys, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

/// The protocol that clients and nodes speak with each other.
pub const ALPN: &[u8] = b"gaggle/1";

/// Where the credentials are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialPaths {
    /// The certificate of the node CA, or several while it is being replaced.
    pub ca: PathBuf,
    /// Our certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why credentials cannot be used. Nothing was sent: whoever gets this can mend the files and
/// try again.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No certificate or key is that long; it is some other file.
    #[error("{path} is larger than 64 KiB; this is not a certificate or a key")]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// Others than its user may read the key.
    #[error("{path} is a key that others can read (mode {mode:03o}); run: chmod 600 {path}")]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The text is not PEM, or there is no such thing in it.
    #[error("{place} holds no {wanted}: {error}")]
    Pem {
        /// Which file, or which argument.
        place: String,
        /// What was looked for.
        wanted: &'static str,
        /// What the parser said.
        error: rustls_pki_types::pem::Error,
    },
    /// There is PEM in it, but no certificate.
    #[error("{place} holds no certificate")]
    NoCertificate {
        /// Which file, or which argument.
        place: String,
    },
    /// A certificate cannot be parsed.
    #[error("{place} holds a certificate that cannot be parsed: {error}")]
    BadCertificate {
        /// Which file, or which argument.
        place: String,
        /// What the parser said.
        error: webpki::Error,
    },
    /// A certificate was not made for Gaggle.
    #[error("{place}: {error}; make one with `gaggle cert`")]
    NoIdentity {
        /// Which file, or which argument.
        place: String,
        /// What is wrong with its identity.
        error: IdentityError,
    },
    /// A certificate is someone else's: of an authority, say, where a peer's is needed.
    #[error("{place} is the certificate of {found}, and not of {wanted}")]
    WrongRole {
        /// Which file, or which argument.
        place: String,
        /// Whose it is.
        found: Box<Identity>,
        /// Whose it should be.
        wanted: String,
    },
    /// The certificate is of another cluster than the one that is meant.
    #[error("the certificate is of cluster {found}, and not of {wanted}")]
    OtherCluster {
        /// Of which cluster it is.
        found: ClusterName,
        /// Of which it should be.
        wanted: ClusterName,
    },
    /// The key is not the one of the certificate.
    #[error("the key does not belong to the certificate of {0}")]
    OtherKey(Box<Identity>),
    /// The TLS library refuses the certificate or the key, in its own words.
    #[error("TLS refuses the credentials: {0}")]
    Refused(#[from] rustls::Error),
    /// The TLS library refuses the authorities.
    #[error("TLS refuses the authorities: {0}")]
    Authorities(#[from] VerifierBuilderError),
    /// The provider lacks the cipher that QUIC begins with; no provider we pass does.
    #[error("TLS has no cipher for the first packets of QUIC")]
    NoInitialCipher(#[from] NoInitialCipherSuite),
}

/// Who we are and whom we trust. The key never shows in `Debug`.
#[derive(Clone)]
pub struct Credentials {
    identity: Identity,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    authorities: Arc<RootCertStore>,
}

impl Credentials {
    /// Reads the three files.
    ///
    /// # Errors
    /// See [`TlsError`]; a key file that group or others can read is refused.
    pub fn load(paths: &CredentialPaths) -> Result<Self, TlsError> {
        let ca = read_bounded(&paths.ca, Secrecy::Public)?;
        let certificate = read_bounded(&paths.certificate, Secrecy::Public)?;
        let key = read_bounded(&paths.key, Secrecy::Secret)?;
        Self::build([
            (&paths.ca.display().to_string(), &ca),
            (&paths.certificate.display().to_string(), &certificate),
            (&paths.key.display().to_string(), &key),
        ])
    }

    /// Takes the same three from memory, for programs that get secrets otherwise than by file.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_pem(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::build([("the CA", ca), ("the certificate", certificate), ("the key", key)])
    }

    fn build([ca, certificate, key]: [(&str, &[u8]); 3]) -> Result<Self, TlsError> {
        let chain = parse_certificates(certificate.0, certificate.1)?;
        let identity = identity_of(&chain[0], certificate.0)?;
        if !matches!(identity.role, Role::Node(_) | Role::Client(_)) {
            return Err(TlsError::WrongRole {
                place: certificate.0.to_owned(),
                found: Box::new(identity),
                wanted: "a client or a node".to_owned(),
            });
        }
        let parsed = parse_key(key.0, key.1)?;
        let authority = Identity { role: Role::NodeAuthority, cluster: identity.cluster.clone() };
        let authorities = Arc::new(parse_authorities(ca.0, ca.1, &authority)?);
        let ours = Self { identity, chain, key: Arc::new(parsed), authorities };
        // Here and not at the first connection: whoever gives wrong files should learn it at once.
        ours.client_config(ALPN)?;
        Ok(ours)
    }

    /// The same credentials, if they are of this cluster.
    ///
    /// # Errors
    /// [`TlsError::OtherCluster`].
    pub fn of_cluster(self, wanted: &ClusterName) -> Result<Self, TlsError> {
        if self.identity.cluster == *wanted {
            return Ok(self);
        }
        Err(TlsError::OtherCluster { found: self.identity.cluster, wanted: wanted.clone() })
    }

    /// Whose credentials these are.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The name to verify a node by, whatever address is dialled: `<cluster>.gaggle`.
    #[must_use]
    pub fn server_name(&self) -> String {
        self.identity.cluster.server_name()
    }

    /// Our certificate, and what lies between it and its authority.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The key of our certificate.
    #[must_use]
    pub fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// Who may sign the nodes that we talk to.
    #[must_use]
    pub const fn authorities(&self) -> &Arc<RootCertStore> {
        &self.authorities
    }

    /// The configuration of a connection that we open, for the protocol of this name.
    ///
    /// # Errors
    /// [`TlsError::OtherKey`] and [`TlsError::Refused`].
    pub fn client_config(&self, alpn: &[u8]) -> Result<quinn::ClientConfig, TlsError> {
        let provider = provider();
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::clone(&self.authorities),
            Arc::clone(&provider),
        )
        .build()?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| self.explain(error))?;
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls.resumption = Resumption::disabled();
        tls.enable_early_data = false;
        Ok(quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)))
    }

    /// What rustls says when it takes a certificate and a key, in our words where we have them.
    #[must_use]
    pub fn explain(&self, error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::OtherKey(Box::new(self.identity.clone()))
            }
            error => TlsError::Refused(error),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.identity)
    }
}

/// The one cryptography provider of this house.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Reads the certificates of an authority. One that says whose authority it is must be the
/// wanted one; an authority that was not made by `gaggle cert` says nothing and is taken.
///
/// # Errors
/// See [`TlsError`]; [`TlsError::WrongRole`] when node CA and client CA were mixed up, which
/// would let clients in as nodes.
pub fn load_authorities(path: &Path, wanted: &Identity) -> Result<RootCertStore, TlsError> {
    let pem = read_bounded(path, Secrecy::Public)?;
    parse_authorities(&path.display().to_string(), &pem, wanted)
}

/// Reads the certificates of a file, one at least.
///
/// # Errors
/// See [`TlsError`].
pub fn load_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read_bounded(path, Secrecy::Public)?;
    parse_certificates(&path.display().to_string(), &pem)
}

/// Reads a key, unless others than its user can.
///
/// # Errors
/// See [`TlsError`].
pub fn load_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read_bounded(path, Secrecy::Secret)?;
    parse_key(&path.display().to_string(), &pem)
}

/// The identity that a certificate carries.
///
/// The names are read by rustls-webpki, which also verifies the chain: with a second parser
/// (x509-parser, say) two could read one certificate in two ways. rustls itself shows no names.
///
/// # Errors
/// [`TlsError::BadCertificate`] and [`TlsError::NoIdentity`], which name `place`.
pub fn identity_of(certificate: &CertificateDer<'_>, place: &str) -> Result<Identity, TlsError> {
    let parsed = webpki::EndEntityCert::try_from(certificate)
        .map_err(|error| TlsError::BadCertificate { place: place.to_owned(), error })?;
    Identity::among(parsed.valid_uri_names())
        .map_err(|error| TlsError::NoIdentity { place: place.to_owned(), error })
}

fn parse_authorities(
    place: &str,
    pem: &[u8],
    wanted: &Identity,
) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(place, pem)? {
        match identity_of(&certificate, place) {
            Err(TlsError::NoIdentity { error: IdentityError::Missing, .. }) => {}
            Err(error) => return Err(error),
            Ok(found) if found == *wanted => {}
            Ok(found) => {
                let (place, found) = (place.to_owned(), Box::new(found));
                return Err(TlsError::WrongRole { place, found, wanted: wanted.to_string() });
            }
        }
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// At least one certificate.
fn parse_certificates(place: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Pem { place: place.to_owned(), wanted: "certificate", error })?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate { place: place.to_owned() });
    }
    Ok(certificates)
}

fn parse_key(place: &str, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| TlsError::Pem {
        place: place.to_owned(),
        wanted: "key",
        error,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Public,
    Secret,
}

/// The permissions are those of the opened file, so that nobody can change it in between.
fn read_bounded(path: &Path, secrecy: Secrecy) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    if secrecy == Secrecy::Secret {
        refuse_exposed(path, &file)?;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

#[cfg(unix)]
fn refuse_exposed(path: &Path, file: &File) -> Result<(), TlsError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata =
        file.metadata().map_err(|error| TlsError::Unreadable { path: path.to_owned(), error })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(TlsError::Exposed { path: path.to_owned(), mode })
}

/// Elsewhere the permissions of files are not those three digits; the directory must guard them.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
fn refuse_exposed(_path: &Path, _file: &File) -> Result<(), TlsError> {
    Ok(())
}

/// A P-256 certificate of ours is about 1 KiB of PEM; bundles of a few are still far below.
const FILE_BYTES_MAX: u64 = 64 * 1024;
