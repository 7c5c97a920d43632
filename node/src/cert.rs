//! Making certificates: two authorities, and what they sign.
//!
//! A cluster has two authorities. The node CA signs nodes, the client CA signs clients, and
//! neither can make what the other makes: a stolen client CA lets nobody in as a node. The
//! commands behind this file are for people without a certificate authority of their own; one
//! that exists can sign the same names (`client/wire/src/identity.rs` draws them).
//!
//! ```text
//!   node-ca.pem   node-ca.key      made by init; the keys belong off the nodes
//!   client-ca.pem client-ca.key
//!   node-7.pem    node-7.key       made by node
//!   client-a.pem  client-a.key     made by client, with the node CA again as ca.pem
//! ```
//!
//! Invariants: nothing that exists is ever overwritten; a key is never on disk with a mode
//! other than 0600, not even for a moment. Everything is ECDSA P-256 and signed by its authority
//! directly, because a server may send three times what it received before it knows that a
//! client's address is real, and a chain of long certificates does not fit into that.
//!
//! What this file does not do: it revokes nothing, and it serves nothing; `net/tls.rs` does.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gaggle_client::tls::{self, CredentialPaths, TlsError};
use gaggle_wire::{ClientName, ClusterName, Identity, NodeId, Role};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use thiserror::Error;

/// Why no certificate was made. What was there before is unchanged; of several files the first
/// ones may have been written.
#[derive(Debug, Error)]
pub enum CertError {
    /// A file that would be written exists.
    #[error("{0} exists and is not overwritten; move it away, or use another directory")]
    Exists(PathBuf),
    /// The authority that must sign is not there, or cannot be used.
    #[error("cannot use the authority that must sign ({0}); `gaggle cert init` makes one")]
    NoAuthority(TlsError),
    /// The files of the two authorities were mixed up.
    #[error("{path} is the certificate of {found}, and not of the authority that must sign")]
    OtherAuthority {
        /// Which file.
        path: PathBuf,
        /// Whose certificate it is.
        found: Identity,
    },
    /// The key beside the authority's certificate is another one.
    #[error("{0} does not belong to the certificate beside it; restore the key that does")]
    OtherKey(PathBuf),
    /// The files of this client would have the names of an authority's.
    #[error("a client cannot be called `{0}`: its files would be those of the client CA")]
    NameTaken(ClientName),
    /// Making or signing failed.
    #[error("cannot make the certificate: {0}")]
    Generation(#[from] rcgen::Error),
    /// The directory or a file in it cannot be written.
    #[error("cannot write {path}: {error}")]
    Unwritable {
        /// Which file or directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The files of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePaths {
    /// Who signs nodes.
    pub node_ca: PathBuf,
    /// Who signs clients.
    pub client_ca: PathBuf,
    /// The certificate of the node.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl NodePaths {
    /// Where [`init`] and [`node`] put them.
    #[must_use]
    pub fn in_dir(dir: &Path, id: NodeId) -> Self {
        Self {
            node_ca: dir.join("node-ca.pem"),
            client_ca: dir.join("client-ca.pem"),
            certificate: dir.join(format!("node-{id}.pem")),
            key: dir.join(format!("node-{id}.key")),
        }
    }
}

/// Makes both authorities of a cluster, for ten years.
///
/// # Errors
/// See [`CertError`]; if any of the four files exists nothing is written.
pub fn init(dir: &Path, cluster: &ClusterName) -> Result<(), CertError> {
    init_at(dir, cluster, SystemTime::now())
}

/// Signs a node, for two years; both authorities must be in the directory.
///
/// # Errors
/// See [`CertError`].
pub fn node(dir: &Path, id: NodeId) -> Result<NodePaths, CertError> {
    node_at(dir, id, SystemTime::now())
}

/// Signs a client, for two years, and puts the node CA beside it as `ca.pem`: these three files
/// are all that a client needs.
///
/// # Errors
/// See [`CertError`].
pub fn client(dir: &Path, name: &ClientName) -> Result<CredentialPaths, CertError> {
    client_at(dir, name, SystemTime::now())
}

pub(crate) fn init_at(dir: &Path, cluster: &ClusterName, now: SystemTime) -> Result<(), CertError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| CertError::Unwritable { path: dir.to_owned(), error })?;
    let authorities = [Authority::NODES, Authority::CLIENTS];
    refuse_existing(authorities.iter().flat_map(|authority| authority.paths(dir)))?;
    for authority in authorities {
        let [certificate, key] = authority.paths(dir);
        let pair = KeyPair::generate()?;
        let made = authority.params(cluster, now)?.self_signed(&pair)?;
        write_new(&key, &pair.serialize_pem(), MODE_SECRET)?;
        write_new(&certificate, &made.pem(), MODE_PUBLIC)?;
    }
    Ok(())
}

pub(crate) fn node_at(dir: &Path, id: NodeId, now: SystemTime) -> Result<NodePaths, CertError> {
    let paths = NodePaths::in_dir(dir, id);
    let (cluster, issuer) = Authority::NODES.open(dir)?;
    let mut params = leaf(&Identity::node(cluster.clone(), id), &format!("node {id}"), now)?;
    params.subject_alt_names.push(SanType::DnsName(cluster.server_name().try_into()?));
    // A node dials as well as it is dialled.
    params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
    sign(&params, &issuer, &paths.certificate, &paths.key)?;
    Ok(paths)
}

pub(crate) fn client_at(
    dir: &Path,
    name: &ClientName,
    now: SystemTime,
) -> Result<CredentialPaths, CertError> {
    let paths = CredentialPaths {
        ca: dir.join("ca.pem"),
        certificate: dir.join(format!("client-{name}.pem")),
        key: dir.join(format!("client-{name}.key")),
    };
    if Authority::CLIENTS.paths(dir).contains(&paths.certificate) {
        return Err(CertError::NameTaken(name.clone()));
    }
    let (cluster, issuer) = Authority::CLIENTS.open(dir)?;
    copy_authority(dir, &paths.ca)?;
    let params = leaf(&Identity::client(cluster, name.clone()), name.as_str(), now)?;
    sign(&params, &issuer, &paths.certificate, &paths.key)?;
    Ok(paths)
}

/// One of the two authorities.
#[derive(Clone)]
struct Authority {
    file: &'static str,
    title: &'static str,
    role: Role,
}

impl Authority {
    const NODES: Self = Self { file: "node-ca", title: "node CA", role: Role::NodeAuthority };
    const CLIENTS: Self =
        Self { file: "client-ca", title: "client CA", role: Role::ClientAuthority };

    /// Its certificate and its key.
    fn paths(&self, dir: &Path) -> [PathBuf; 2] {
        ["pem", "key"].map(|end| dir.join(format!("{}.{end}", self.file)))
    }

    fn params(
        &self,
        cluster: &ClusterName,
        now: SystemTime,
    ) -> Result<CertificateParams, CertError> {
        let identity = Identity { cluster: cluster.clone(), role: self.role.clone() };
        let mut params = valid(&identity, now, AUTHORITY_LIFETIME)?;
        params.distinguished_name = self.distinguished_name(cluster);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(params)
    }

    /// What a chain is built by: the issuer's name in a certificate is the subject here.
    fn distinguished_name(&self, cluster: &ClusterName) -> DistinguishedName {
        let mut name = DistinguishedName::new();
        name.push(DnType::OrganizationName, cluster.as_str());
        name.push(DnType::CommonName, format!("Gaggle {}", self.title));
        name
    }

    /// Reads it back. What it signs must verify, so all that goes into a signature is compared
    /// with the certificate on disk: role, cluster and key.
    fn open(&self, dir: &Path) -> Result<(ClusterName, Issuer<'static, KeyPair>), CertError> {
        let [path, key_path] = self.paths(dir);
        let certificate =
            tls::load_certificates(&path).map_err(CertError::NoAuthority)?.swap_remove(0);
        let place = path.display().to_string();
        let found = tls::identity_of(&certificate, &place).map_err(CertError::NoAuthority)?;
        if found.role != self.role {
            return Err(CertError::OtherAuthority { path, found });
        }
        let key = tls::load_key(&key_path).map_err(CertError::NoAuthority)?;
        let pair = KeyPair::try_from(&key)?;
        let parsed = webpki::EndEntityCert::try_from(&certificate)
            .map_err(|error| CertError::NoAuthority(TlsError::BadCertificate { place, error }))?;
        if parsed.subject_public_key_info().as_ref() != pair.subject_public_key_info() {
            return Err(CertError::OtherKey(key_path));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = self.distinguished_name(&found.cluster);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok((found.cluster, Issuer::new(params, pair)))
    }
}

/// A certificate of this identity, to be signed by the authority of its kind.
fn leaf(identity: &Identity, title: &str, now: SystemTime) -> Result<CertificateParams, CertError> {
    let mut params = valid(identity, now, LEAF_LIFETIME)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, identity.cluster.as_str());
    name.push(DnType::CommonName, title);
    params.distinguished_name = name;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn valid(
    identity: &Identity,
    now: SystemTime,
    lifetime: Duration,
) -> Result<CertificateParams, CertError> {
    let mut params = CertificateParams::default();
    params.not_before = (now - CLOCK_SLACK).into();
    params.not_after = (now + lifetime).into();
    params.subject_alt_names = vec![SanType::URI(identity.to_string().try_into()?)];
    Ok(params)
}

fn sign(
    params: &CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
    certificate: &Path,
    key: &Path,
) -> Result<(), CertError> {
    refuse_existing([certificate.to_owned(), key.to_owned()])?;
    let pair = KeyPair::generate()?;
    let made = params.signed_by(&pair, issuer)?;
    write_new(key, &pair.serialize_pem(), MODE_SECRET)?;
    write_new(certificate, &made.pem(), MODE_PUBLIC)
}

/// `ca.pem`, the same for every client of the cluster; one of another cluster is not replaced.
fn copy_authority(dir: &Path, target: &Path) -> Result<(), CertError> {
    let [source, _] = Authority::NODES.paths(dir);
    let nodes = tls::load_certificates(&source).map_err(CertError::NoAuthority)?;
    if target.exists() {
        let present = tls::load_certificates(target).map_err(CertError::NoAuthority)?;
        let same = present == nodes;
        return if same { Ok(()) } else { Err(CertError::Exists(target.to_owned())) };
    }
    let text = fs::read_to_string(&source)
        .map_err(|error| CertError::Unwritable { path: source, error })?;
    write_new(target, &text, MODE_PUBLIC)
}

fn refuse_existing(paths: impl IntoIterator<Item = PathBuf>) -> Result<(), CertError> {
    match paths.into_iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(CertError::Exists(path)),
        None => Ok(()),
    }
}

/// Written under another name, synced, and only then given its own: nobody ever reads half a
/// certificate, and two commands at once do not overwrite each other.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CertError> {
    let unwritable = |error| CertError::Unwritable { path: path.to_owned(), error };
    let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or_else(|| Path::new("."));
    // A temporary file has mode 0600 from its first moment.
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(unwritable)?;
    file.write_all(text.as_bytes()).map_err(unwritable)?;
    file.as_file().set_permissions(Permissions::from_mode(mode)).map_err(unwritable)?;
    file.as_file().sync_all().map_err(unwritable)?;
    file.persist_noclobber(path).map_err(|refused| match refused.error.kind() {
        io::ErrorKind::AlreadyExists => CertError::Exists(path.to_owned()),
        _ => unwritable(refused.error),
    })?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(unwritable)
}

const MODE_SECRET: u32 = 0o600;
const MODE_PUBLIC: u32 = 0o644;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Replacing an authority touches every node and client, so it should be rare.
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);

/// Short enough that a lost key ends some day, long enough that nobody is surprised every month.
const LEAF_LIFETIME: Duration = DAY.saturating_mul(730);

/// A certificate must work at once on a machine whose clock is behind. A day covers a clock that
/// is off by a time zone, which is the usual mistake, and weakens nothing.
const CLOCK_SLACK: Duration = DAY;

#[cfg(test)]
mod tests;
