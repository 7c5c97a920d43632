//! Who is at the other end: the identity that a certificate carries as a SAN URI.
//!
//! ```text
//!   gaggle://<cluster>/node/<id>        a node, signed by the node CA
//!   gaggle://<cluster>/client/<name>    a client, signed by the client CA
//!   gaggle://<cluster>/ca/node          the node CA itself
//!   gaggle://<cluster>/ca/client        the client CA itself
//! ```
//!
//! The cluster stands in every identity, so that two clusters of one operator do not join by
//! accident, and in the name that is verified whatever address was dialled (`<cluster>.gaggle`).
//!
//! Invariant: one identity has one text; whatever [`Identity::parse`] takes, `Display` writes
//! again byte for byte, so that a name can be compared and logged as it was signed. What this
//! file does not do: it verifies nothing. Whether a certificate may carry an identity is decided
//! where TLS is (`net/tls.rs` of the node, `tls.rs` of the client).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{NodeId, NodeIdError};

/// The name of a cluster: 1 to 63 characters of `[a-z0-9-]`, no hyphen at either end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

/// Why a text is not the name of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClusterNameError {
    /// A name has 1 to [`ClusterName::LENGTH_MAX`] characters.
    #[error("a cluster name has 1 to 63 characters, this one has {0}")]
    Length(usize),
    /// The character is not one of `[a-z0-9-]`.
    #[error("a cluster name is made of a-z 0-9 -, but has {0:?}")]
    BadCharacter(char),
    /// DNS does not allow a label to begin or end with a hyphen.
    #[error("a cluster name does not begin or end with a hyphen")]
    HyphenAtEnd,
}

impl ClusterName {
    /// The longest label of DNS (RFC 1035), for the cluster is the first label of the name that
    /// TLS verifies.
    pub const LENGTH_MAX: usize = 63;

    /// Parses a name.
    ///
    /// # Errors
    /// See [`ClusterNameError`]; nothing is changed by a refusal.
    pub fn parse(text: &str) -> Result<Self, ClusterNameError> {
        let bad = |c: &char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-');
        if let Some(bad) = text.chars().find(bad) {
            return Err(ClusterNameError::BadCharacter(bad));
        }
        if text.is_empty() || text.len() > Self::LENGTH_MAX {
            return Err(ClusterNameError::Length(text.len()));
        }
        if text.starts_with('-') || text.ends_with('-') {
            return Err(ClusterNameError::HyphenAtEnd);
        }
        Ok(Self(text.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The DNS name that every node certificate of the cluster carries, and that is verified
    /// whatever address was dialled: addresses may change, the cluster does not.
    #[must_use]
    pub fn server_name(&self) -> String {
        format!("{}.gaggle", self.0)
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterName {
    type Err = ClusterNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// The name of a client, as in its certificate: 1 to 63 characters of `[A-Za-z0-9._-]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientName(String);

/// Why a text is not the name of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientNameError {
    /// A name has 1 to [`ClientName::LENGTH_MAX`] characters.
    #[error("a client name has 1 to 63 characters, this one has {0}")]
    Length(usize),
    /// The character is not one of `[A-Za-z0-9._-]`.
    #[error("a client name is made of A-Z a-z 0-9 . _ -, but has {0:?}")]
    BadCharacter(char),
    /// `node-` is how a node is called when it acts as a client: nobody else may look like one.
    #[error("names that begin with `node-` are kept for nodes that act as clients")]
    Reserved,
}

impl ClientName {
    /// As for a cluster: nobody needs more, and it keeps certificates and logs short.
    pub const LENGTH_MAX: usize = 63;

    /// Parses a name.
    ///
    /// # Errors
    /// See [`ClientNameError`]; nothing is changed by a refusal.
    pub fn parse(text: &str) -> Result<Self, ClientNameError> {
        let bad = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if let Some(bad) = text.chars().find(bad) {
            return Err(ClientNameError::BadCharacter(bad));
        }
        if text.is_empty() || text.len() > Self::LENGTH_MAX {
            return Err(ClientNameError::Length(text.len()));
        }
        if text.starts_with(NODE_PREFIX) {
            return Err(ClientNameError::Reserved);
        }
        Ok(Self(text.to_owned()))
    }

    /// What a node is called when it speaks as a client: `node-<id>`.
    #[must_use]
    pub fn of_node(id: NodeId) -> Self {
        Self(format!("{NODE_PREFIX}{id}"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClientName {
    type Err = ClientNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Whose certificate it is: which cluster, and what in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster it belongs to.
    pub cluster: ClusterName,
    /// What it is there.
    pub role: Role,
}

/// What the holder of a certificate is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A node.
    Node(NodeId),
    /// A client.
    Client(ClientName),
    /// The authority that signs nodes; never a peer.
    NodeAuthority,
    /// The authority that signs clients; never a peer.
    ClientAuthority,
}

/// Why a text is not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// It is none of the four forms at the top of this file.
    #[error("the identity is not of the form gaggle://<cluster>/node/<id> or .../client/<name>")]
    Form,
    /// The cluster in it is not a name.
    #[error(transparent)]
    Cluster(#[from] ClusterNameError),
    /// The client in it is not a name.
    #[error(transparent)]
    Client(#[from] ClientNameError),
    /// It is of a node whose id no node may carry.
    #[error("it is the identity of a node, but {0}", NodeIdError::Reserved)]
    NodeReserved,
    /// There is no identity in the certificate.
    #[error("the certificate carries no gaggle:// identity")]
    Missing,
    /// There are several in the certificate, and it would be a guess which one is meant.
    #[error("the certificate carries more than one gaggle:// identity")]
    Several,
}

impl Identity {
    /// The identity of a node.
    #[must_use]
    pub const fn node(cluster: ClusterName, id: NodeId) -> Self {
        Self { cluster, role: Role::Node(id) }
    }

    /// The identity of a client.
    #[must_use]
    pub const fn client(cluster: ClusterName, name: ClientName) -> Self {
        Self { cluster, role: Role::Client(name) }
    }

    /// Parses the text of a SAN URI.
    ///
    /// # Errors
    /// See [`IdentityError`]; nothing is changed by a refusal.
    pub fn parse(uri: &str) -> Result<Self, IdentityError> {
        let rest = uri.strip_prefix(SCHEME).ok_or(IdentityError::Form)?;
        let (cluster, path) = rest.split_once('/').ok_or(IdentityError::Form)?;
        let cluster = ClusterName::parse(cluster)?;
        let role = match path.split_once('/').ok_or(IdentityError::Form)? {
            ("node", id) => Role::Node(parse_node(id)?),
            ("client", name) => Role::Client(ClientName::parse(name)?),
            ("ca", "node") => Role::NodeAuthority,
            ("ca", "client") => Role::ClientAuthority,
            _ => return Err(IdentityError::Form),
        };
        Ok(Self { cluster, role })
    }

    /// The one identity among the SAN URIs of a certificate; URIs of other schemes are left
    /// alone, for a certificate may serve other systems too.
    ///
    /// # Errors
    /// [`IdentityError::Missing`] and [`IdentityError::Several`], or the one identity is not one.
    pub fn among<'a>(uris: impl IntoIterator<Item = &'a str>) -> Result<Self, IdentityError> {
        let mut ours = uris.into_iter().filter(|uri| uri.starts_with(SCHEME));
        let uri = ours.next().ok_or(IdentityError::Missing)?;
        if ours.next().is_some() {
            return Err(IdentityError::Several);
        }
        Self::parse(uri)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/", self.cluster)?;
        match &self.role {
            Role::Node(id) => write!(f, "node/{id}"),
            Role::Client(name) => write!(f, "client/{name}"),
            Role::NodeAuthority => f.write_str("ca/node"),
            Role::ClientAuthority => f.write_str("ca/client"),
        }
    }
}

/// `parse` of u64 takes `+7` and `007`, which would give one node several texts.
fn parse_node(text: &str) -> Result<NodeId, IdentityError> {
    let id: NodeId = text.parse().map_err(|error| match error {
        NodeIdError::NotANumber(_) => IdentityError::Form,
        NodeIdError::Reserved => IdentityError::NodeReserved,
    })?;
    if id.to_string() == text { Ok(id) } else { Err(IdentityError::Form) }
}

const SCHEME: &str = "gaggle://";
const NODE_PREFIX: &str = "node-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_written_as_it_was_read() {
        for text in [
            "gaggle://prod/node/1",
            "gaggle://a-1/node/18446744073709551614",
            "gaggle://prod/client/billing.v2_x-1",
            "gaggle://prod/ca/node",
            "gaggle://prod/ca/client",
        ] {
            assert_eq!(Identity::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_of_another_form_is_refused() {
        for text in [
            "",
            "gaggle://",
            "gaggle://prod",
            "gaggle://prod/node",
            "gaggle://prod/node/",
            "gaggle://prod/node/+1",
            "gaggle://prod/node/01",
            "gaggle://prod/node/1/2",
            "gaggle://prod/node/18446744073709551616",
            "gaggle://prod/ca/other",
            "GAGGLE://prod/node/1",
            "spiffe://prod/node/1",
        ] {
            assert_eq!(Identity::parse(text), Err(IdentityError::Form), "{text}");
        }
        let bad = Identity::parse("gaggle://Prod/node/1");
        assert_eq!(bad, Err(IdentityError::Cluster(ClusterNameError::BadCharacter('P'))));
        let bad = Identity::parse("gaggle://prod/client/a/b");
        assert_eq!(bad, Err(IdentityError::Client(ClientNameError::BadCharacter('/'))));
    }

    #[test]
    fn no_node_carries_the_name_of_nobody() {
        let nobody = format!("gaggle://prod/node/{}", NodeId::NOBODY);
        let refused = Identity::parse(&nobody).unwrap_err();
        assert_eq!(refused, IdentityError::NodeReserved);
        let said = "it is the identity of a node, but the number 18446744073709551615 is kept for \
                    no node";
        assert_eq!(refused.to_string(), said);
    }

    #[test]
    fn a_client_cannot_be_called_like_a_node() {
        assert_eq!(ClientName::parse("node-7"), Err(ClientNameError::Reserved));
        assert_eq!(ClientName::of_node(NodeId(7)).as_str(), "node-7");
    }

    #[test]
    fn a_cluster_name_is_a_dns_label() {
        assert!(ClusterName::parse(&"a".repeat(63)).is_ok());
        assert_eq!(ClusterName::parse(""), Err(ClusterNameError::Length(0)));
        assert_eq!(ClusterName::parse(&"a".repeat(64)), Err(ClusterNameError::Length(64)));
        assert_eq!(ClusterName::parse("-a"), Err(ClusterNameError::HyphenAtEnd));
        assert_eq!(ClusterName::parse("a-"), Err(ClusterNameError::HyphenAtEnd));
        assert_eq!(ClusterName::parse("a.b"), Err(ClusterNameError::BadCharacter('.')));
        assert_eq!(ClusterName::parse("prod").unwrap().server_name(), "prod.gaggle");
    }

    #[test]
    fn exactly_one_identity_is_taken_from_a_certificate() {
        let node = "gaggle://prod/node/1";
        assert_eq!(Identity::among([]), Err(IdentityError::Missing));
        assert_eq!(Identity::among(["spiffe://x/y"]), Err(IdentityError::Missing));
        assert_eq!(Identity::among([node, node]), Err(IdentityError::Several));
        assert!(Identity::among(["spiffe://x/y", node]).is_ok());
    }
}
