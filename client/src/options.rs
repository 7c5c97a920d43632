//! How to reach a cluster: addresses, credentials, patience.
//!
//! Everything has a default that is safe, with its reason beside it. The text form is what people
//! put into one variable: `gaggle://n1:7400,n2:7400?ca=ca.pem&cert=c.pem&key=c.key`. What this
//! file does not do: it resolves no names and opens nothing but the credential files.

use std::path::PathBuf;
use std::time::Duration;

use gaggle_client_core::{Reach, SEND_WITHIN_MAX};
use gaggle_wire::ClusterName;

use crate::error::ConnectError;
use crate::tls::{CredentialPaths, Credentials};

/// Where the cluster is, who we are there, and how long to wait for what.
///
/// ```no_run
/// # async fn tour() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use gaggle_client::{Client, ConnectOptions};
///
/// let options = ConnectOptions::parse("gaggle://n1:7400?ca=ca.pem&cert=a.pem&key=a.key")?
///     .send_within(Duration::from_secs(5))
///     .request_timeout(Duration::from_secs(2));
/// let client = Client::connect_with(options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub(crate) addresses: Vec<String>,
    pub(crate) credentials: Credentials,
    pub(crate) reach: Reach,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) send_within: Duration,
    pub(crate) under_way_bytes_max: usize,
    pub(crate) danger_clock_skew_ns: i64,
}

impl ConnectOptions {
    /// Options for a cluster of which these nodes (`host:port`, or `host` for port 7400) are
    /// tried first; the others are learned from them.
    pub fn new<A: Into<String>>(
        addresses: impl IntoIterator<Item = A>,
        credentials: Credentials,
    ) -> Self {
        Self {
            addresses: addresses.into_iter().map(|address| with_port(address.into())).collect(),
            credentials,
            reach: Reach::Cluster,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            send_within: SEND_WITHIN,
            under_way_bytes_max: UNDER_WAY_BYTES_MAX,
            danger_clock_skew_ns: 0,
        }
    }

    /// Reads `gaggle://n1:7400,n2:7400?ca=ca.pem&cert=c.pem&key=c.key[&cluster=name]` and the
    /// files that it names.
    ///
    /// # Errors
    /// [`ConnectError::BadUrl`], [`ConnectError::Tls`] and [`ConnectError::Cluster`].
    pub fn parse(url: &str) -> Result<Self, ConnectError> {
        let bad = |why: &str| ConnectError::BadUrl { url: url.to_owned(), why: why.to_owned() };
        let rest = url.strip_prefix("gaggle://").ok_or_else(|| bad("the scheme is missing"))?;
        let (hosts, query) = rest.split_once('?').unwrap_or((rest, ""));
        let hosts: Vec<&str> = hosts.split(',').map(|host| host.trim_end_matches('/')).collect();
        if hosts.iter().any(|host| host.is_empty()) {
            return Err(bad("an address is empty"));
        }
        if hosts.len() > ADDRESSES_MAX {
            return Err(bad("there are more than 128 addresses"));
        }
        let [mut ca, mut certificate, mut key, mut cluster] = [None, None, None, None];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| bad("a value is missing"))?;
            let place = match name {
                "ca" => &mut ca,
                "cert" => &mut certificate,
                "key" => &mut key,
                "cluster" => &mut cluster,
                _ => return Err(bad(&format!("{name:?} is not known"))),
            };
            if place.replace(decode(value).ok_or_else(|| bad("a %-code is broken"))?).is_some() {
                return Err(bad(&format!("{name} is there twice")));
            }
        }
        let path = |value: Option<String>, name: &str| {
            value.map(PathBuf::from).ok_or_else(|| bad(&format!("{name}=FILE is missing")))
        };
        let credentials = Credentials::load(&CredentialPaths {
            ca: path(ca, "ca")?,
            certificate: path(certificate, "cert")?,
            key: path(key, "key")?,
        })?;
        let credentials = match cluster {
            Some(cluster) => credentials.of_cluster(&ClusterName::parse(&cluster)?)?,
            None => credentials,
        };
        Ok(Self::new(hosts, credentials))
    }

    /// Uses the node at this address and no other: no spreading, no hedging, no failing over.
    /// For looking at one node, and for tests.
    #[must_use]
    pub fn node_only(mut self, address: impl Into<String>) -> Self {
        self.addresses = vec![with_port(address.into())];
        self.reach = Reach::OneNode;
        self
    }

    /// How long [`Client::connect`](crate::Client::connect) waits for the first node to answer;
    /// 10 s unless it is set. Once connected, a client reconnects for ever.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long every request but a send may take, waiting for messages not counted; 10 s unless
    /// it is set.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long a send may take that does not say itself; 30 s unless it is set, 105 s at
    /// most: nodes remember the ids they have seen for 2 min, and what is sent last has to arrive.
    #[must_use]
    pub fn send_within(mut self, within: Duration) -> Self {
        self.send_within = within.min(SEND_WITHIN_MAX);
        self
    }

    /// How many bytes of messages may wait for their confirms; 64 MiB unless it is set. Sends
    /// beyond it wait.
    #[must_use]
    pub fn under_way_bytes_max(mut self, bytes: usize) -> Self {
        self.under_way_bytes_max = bytes;
        self
    }

    /// Puts stamps off from what the client believes the cluster's time to be, by so many
    /// nanoseconds: for tests of what a bad clock does. It makes messages that were sent later
    /// look earlier, and beyond the drift bound (500 ms) sends are refused.
    #[must_use]
    pub fn danger_clock_skew(mut self, nanoseconds: i64) -> Self {
        self.danger_clock_skew_ns = nanoseconds;
        self
    }
}

fn with_port(address: String) -> String {
    let has_port = match address.rsplit_once(':') {
        Some((host, port)) => {
            !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']'))
        }
        None => false,
    };
    match (has_port, address.contains(':') && !address.starts_with('[')) {
        (true, _) => address,
        (false, true) => format!("[{address}]:{PORT}"),
        (false, false) => format!("{address}:{PORT}"),
    }
}

/// Percent-decoding, for paths with odd characters.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (code, tail) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

/// The port of a node when none is said.
const PORT: u16 = 7400;
/// More than the nodes of the largest cluster (100).
const ADDRESSES_MAX: usize = 128;
/// Long enough for a cluster that is just starting to answer, short enough for a person to wait.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// As for the first connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than it takes a cluster to see that a node is gone and to go on without it.
const SEND_WITHIN: Duration = Duration::from_secs(30);
/// Two seconds of 1 KiB messages at 30,000 per second.
const UNDER_WAY_BYTES_MAX: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_port_gets_the_usual_one() {
        let cases = [
            ("n1", "n1:7400"),
            ("n1:7500", "n1:7500"),
            ("10.0.0.1", "10.0.0.1:7400"),
            ("[::1]:9", "[::1]:9"),
            ("[::1]", "[::1]:7400"),
            ("::1", "[::1]:7400"),
        ];
        for (given, wanted) in cases {
            assert_eq!(with_port(given.to_owned()), wanted);
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        let cases = [
            ("http://n1", "the scheme is missing"),
            ("gaggle://?ca=x", "an address is empty"),
            ("gaggle://n1,,n2", "an address is empty"),
            ("gaggle://n1?ca", "a value is missing"),
            ("gaggle://n1?color=red", "\"color\" is not known"),
            ("gaggle://n1?ca=a&ca=b", "ca is there twice"),
            ("gaggle://n1?ca=%4", "a %-code is broken"),
            ("gaggle://n1?ca=a&cert=b", "key=FILE is missing"),
        ];
        for (url, wanted) in cases {
            match ConnectOptions::parse(url) {
                Err(ConnectError::BadUrl { why, .. }) => assert_eq!(why, wanted, "{url}"),
                other => panic!("{url}: {other:?}"),
            }
        }
    }

    #[test]
    fn percent_codes_are_decoded() {
        assert_eq!(decode("a%20b%2Fc").as_deref(), Some("a b/c"));
        assert_eq!(decode("%ff"), None);
    }
}
