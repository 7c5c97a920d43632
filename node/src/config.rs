//! What `gaggle serve` runs with: a file, with flags over it, checked before anything starts.
//!
//! The same options stand in the file (TOML, `serve.toml`) and on the command line; a flag wins
//! over the file, the file over the default. An option that nobody knows is an error, because a
//! misspelt limit is a limit that is not there.
//!
//! What this file does not do: it reads no environment and no flags (the command line does), and
//! settings of queues are not settings of a node.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gaggle_wire::Settings;
use serde::{Deserialize, Deserializer, de};
use thiserror::Error;

use crate::cert::NodePaths;
use crate::store::Phases;

/// Why a node cannot be configured so. Nothing was started.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not TOML, has an unknown option or a value that is none.
    #[error("{path}: {error}")]
    Malformed {
        /// Which one.
        path: PathBuf,
        /// What and where.
        error: Box<toml::de::Error>,
    },
    /// An option that has no default.
    #[error("`{0}` must be given")]
    Missing(&'static str),
    /// A value out of its limits.
    #[error("`{option}` {why}")]
    Bad {
        /// Which one.
        option: &'static str,
        /// Its limits.
        why: &'static str,
    },
}

/// Options as they stand in the file or on the command line: what is `None` is not said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServeOptions {
    /// Directory of the store.
    pub data: Option<PathBuf>,
    /// UDP address to bind; port 0 takes any.
    pub listen: Option<SocketAddr>,
    /// Where other nodes reach this one; the bound address by default.
    #[serde(rename = "advertise")]
    pub advertise_peers: Option<SocketAddr>,
    /// Where clients reach it; as for nodes by default.
    #[serde(rename = "advertise_client")]
    pub advertise_clients: Option<SocketAddr>,
    /// Where to look for other nodes, as `host:port`.
    pub seeds: Option<Vec<String>>,
    /// Its zone: copies are spread over zones.
    pub zone: Option<String>,
    /// Whether it runs alone: queues have one copy by default.
    pub standalone: Option<bool>,
    /// Certificate of the authority of nodes.
    pub node_ca: Option<PathBuf>,
    /// Certificate of the authority of clients.
    pub client_ca: Option<PathBuf>,
    /// Certificate of this node.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Bytes of pages that the store keeps in memory.
    pub store_cache: Option<Size>,
    /// Whether each commit is made in two phases: twice the fsyncs, and no checksum that whoever
    /// chooses the bodies could forge decides whether a commit was whole.
    pub two_phase_commit: Option<bool>,
    /// Bytes of message contents that are kept in memory.
    pub body_cache: Option<Size>,
    /// Bytes of sends that may be under way at once.
    pub sends_max: Option<Size>,
    /// Connections of clients, at most.
    pub clients_max: Option<usize>,
    /// Connections per second from one address; five times as many at once.
    pub arrivals_max: Option<NonZeroU32>,
    /// Silence after which a member is down.
    pub suspicion: Option<Span>,
    /// How long to wait for remembered members at the start.
    pub serve_alone_after: Option<Span>,
    /// How far a stamp may lie ahead of this clock.
    pub drift_max: Option<Span>,
}

/// A configuration that can be run.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// See [`ServeOptions::data`].
    pub data: PathBuf,
    /// See [`ServeOptions::listen`].
    pub listen: SocketAddr,
    /// See [`ServeOptions::advertise_peers`].
    pub advertise_peers: Option<SocketAddr>,
    /// See [`ServeOptions::advertise_clients`].
    pub advertise_clients: Option<SocketAddr>,
    /// See [`ServeOptions::seeds`].
    pub seeds: Vec<String>,
    /// See [`ServeOptions::zone`].
    pub zone: String,
    /// The four files of the node.
    pub certificates: NodePaths,
    /// What a new queue has when nothing is said.
    pub queue_defaults: Settings,
    /// See [`ServeOptions::two_phase_commit`].
    pub phases: Phases,
    /// What may be used up.
    pub limits: ServeLimits,
    /// What the core is told to do otherwise than by default.
    pub times: ServeTimes,
}

/// What a node may use up.
#[derive(Clone, Copy, Debug)]
pub struct ServeLimits {
    /// See [`ServeOptions::store_cache`].
    pub store_cache: usize,
    /// See [`ServeOptions::body_cache`].
    pub body_cache: usize,
    /// See [`ServeOptions::sends_max`].
    pub sends_max: usize,
    /// See [`ServeOptions::clients_max`].
    pub clients_max: usize,
    /// See [`ServeOptions::arrivals_max`].
    pub arrivals_max: NonZeroU32,
}

/// Times that may differ from those of the core; see `core/src/config.rs`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeTimes {
    /// See [`ServeOptions::suspicion`].
    pub suspicion: Option<Duration>,
    /// See [`ServeOptions::serve_alone_after`].
    pub serve_alone_after: Option<Duration>,
    /// See [`ServeOptions::drift_max`].
    pub drift_max: Option<Duration>,
}

impl ServeConfig {
    /// Reads the file, if there is one, puts the flags over it and checks the result.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(file: Option<&Path>, flags: ServeOptions) -> Result<Self, ConfigError> {
        let options = match file {
            Some(path) => flags.over(ServeOptions::read(path)?),
            None => flags,
        };
        options.check()
    }
}

impl ServeOptions {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] and [`ConfigError::Malformed`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
        text.parse().map_err(|error| ConfigError::Malformed {
            path: path.to_owned(),
            error: Box::new(error),
        })
    }

    /// These options, and for what they do not say, those of `other`.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        Self {
            data: self.data.or(other.data),
            listen: self.listen.or(other.listen),
            advertise_peers: self.advertise_peers.or(other.advertise_peers),
            advertise_clients: self.advertise_clients.or(other.advertise_clients),
            seeds: self.seeds.or(other.seeds),
            zone: self.zone.or(other.zone),
            standalone: self.standalone.or(other.standalone),
            node_ca: self.node_ca.or(other.node_ca),
            client_ca: self.client_ca.or(other.client_ca),
            certificate: self.certificate.or(other.certificate),
            key: self.key.or(other.key),
            store_cache: self.store_cache.or(other.store_cache),
            two_phase_commit: self.two_phase_commit.or(other.two_phase_commit),
            body_cache: self.body_cache.or(other.body_cache),
            sends_max: self.sends_max.or(other.sends_max),
            clients_max: self.clients_max.or(other.clients_max),
            arrivals_max: self.arrivals_max.or(other.arrivals_max),
            suspicion: self.suspicion.or(other.suspicion),
            serve_alone_after: self.serve_alone_after.or(other.serve_alone_after),
            drift_max: self.drift_max.or(other.drift_max),
        }
    }

    fn check(self) -> Result<ServeConfig, ConfigError> {
        let zone = self.zone.unwrap_or_default();
        if zone.len() > ZONE_LENGTH_MAX {
            return Err(ConfigError::Bad { option: "zone", why: "has at most 64 bytes" });
        }
        let seeds = self.seeds.unwrap_or_default();
        if seeds.len() > SEEDS_MAX {
            return Err(ConfigError::Bad { option: "seeds", why: "are at most 64" });
        }
        if seeds.iter().any(|seed| !has_port(seed)) {
            return Err(ConfigError::Bad { option: "seeds", why: "are given as host:port" });
        }
        let standalone = self.standalone.unwrap_or(false);
        let limits = ServeLimits {
            store_cache: size(self.store_cache, "store_cache", STORE_CACHE)?,
            body_cache: size(self.body_cache, "body_cache", BODY_CACHE)?,
            sends_max: size(self.sends_max, "sends_max", 256 * MIB)?,
            clients_max: self.clients_max.unwrap_or(4096),
            arrivals_max: self.arrivals_max.unwrap_or(ARRIVALS_MAX),
        };
        Ok(ServeConfig {
            data: self.data.ok_or(ConfigError::Missing("data"))?,
            listen: self.listen.ok_or(ConfigError::Missing("listen"))?,
            advertise_peers: reachable(self.advertise_peers, "advertise")?,
            advertise_clients: reachable(self.advertise_clients, "advertise_client")?,
            seeds,
            zone,
            certificates: NodePaths {
                node_ca: self.node_ca.ok_or(ConfigError::Missing("node_ca"))?,
                client_ca: self.client_ca.ok_or(ConfigError::Missing("client_ca"))?,
                certificate: self.certificate.ok_or(ConfigError::Missing("certificate"))?,
                key: self.key.ok_or(ConfigError::Missing("key"))?,
            },
            queue_defaults: if standalone { Settings::standalone() } else { Settings::default() },
            phases: if self.two_phase_commit == Some(true) { Phases::Two } else { Phases::One },
            limits,
            times: ServeTimes {
                suspicion: time(self.suspicion, "suspicion")?,
                serve_alone_after: self.serve_alone_after.map(|span| span.0),
                drift_max: time(self.drift_max, "drift_max")?,
            },
        })
    }
}

impl FromStr for ServeOptions {
    type Err = toml::de::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        toml::from_str(text)
    }
}

/// A number of bytes, written as `64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Why a text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a size is a number with B, KiB, MiB or GiB behind it, as 64MiB")]
pub struct SizeError;

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| SizeError)?;
        let unit = match unit.trim_start() {
            "" | "B" => 1,
            "KiB" => 1024,
            "MiB" => 1024 * 1024,
            "GiB" => 1024 * 1024 * 1024,
            _ => return Err(SizeError),
        };
        number.checked_mul(unit).map(Self).ok_or(SizeError)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
            .into_iter()
            .find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit))
            .unwrap_or((1, "B"));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A length of time, written as `900ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_duration(text).map(Self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

fn size(said: Option<Size>, option: &'static str, default: usize) -> Result<usize, ConfigError> {
    let Some(Size(bytes)) = said else { return Ok(default) };
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes >= MIB);
    bytes.ok_or(ConfigError::Bad { option, why: "is at least 1MiB" })
}

fn time(said: Option<Span>, option: &'static str) -> Result<Option<Duration>, ConfigError> {
    match said {
        Some(Span(Duration::ZERO)) => Err(ConfigError::Bad { option, why: "is above zero" }),
        said => Ok(said.map(|span| span.0)),
    }
}

/// Nobody can dial "any address".
fn reachable(
    said: Option<SocketAddr>,
    option: &'static str,
) -> Result<Option<SocketAddr>, ConfigError> {
    match said {
        Some(address) if address.ip().is_unspecified() || address.port() == 0 => {
            Err(ConfigError::Bad { option, why: "is an address and port that others can dial" })
        }
        said => Ok(said),
    }
}

fn has_port(seed: &str) -> bool {
    seed.rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

const MIB: usize = 1024 * 1024;
/// Pages at both ends of busy partitions; the rest of a backlog is the system's page cache's. A
/// larger one only fills with a backlog that nobody reads yet.
const STORE_CACHE: usize = 16 * MIB;
/// What is under way between arrival and delivery: half a second of 1 KiB messages at 25,000 per
/// second. Larger ones made no difference in throughput that could be measured.
const BODY_CACHE: usize = 12 * MIB;
/// A handshake is about a millisecond of work, so one address takes a fifth of a core at most.
const ARRIVALS_MAX: NonZeroU32 = NonZeroU32::new(200).expect("it is not zero");
/// As in the core's configuration: it travels in gossip, which has little room.
const ZONE_LENGTH_MAX: usize = 64;
/// More than anybody lists; each is dialled while the node is alone.
const SEEDS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        data = "/var/lib/gaggle"
        listen = "0.0.0.0:7400"
        seeds = ["n1:7400", "10.0.0.2:7400"]
        node_ca = "a"
        client_ca = "b"
        certificate = "c"
        key = "d"
        store_cache = "128MiB"
        suspicion = "10s"
    "#;

    fn load(text: &str, flags: ServeOptions) -> Result<ServeConfig, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve.toml");
        fs::write(&path, text).unwrap();
        ServeConfig::load(Some(&path), flags)
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let flags = ServeOptions {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            standalone: Some(true),
            ..ServeOptions::default()
        };
        let config = load(FILE, flags).unwrap();
        assert_eq!(config.listen, "127.0.0.1:0".parse().unwrap());
        assert_eq!(config.limits.store_cache, 128 * MIB);
        assert_eq!(config.limits.body_cache, BODY_CACHE);
        assert_eq!(config.times.suspicion, Some(Duration::from_secs(10)));
        assert_eq!(config.queue_defaults, Settings::standalone());
        assert_eq!(config.seeds.len(), 2);
    }

    #[test]
    fn an_unknown_option_or_a_bad_value_is_refused() {
        for line in [
            "stor_cache = \"1MiB\"",
            "body_cache = \"1KiB\"",
            "body_cache = \"much\"",
            "suspicion = \"0s\"",
            "advertise = \"0.0.0.0:7400\"",
            "clients_max = -1",
            "arrivals_max = 0",
        ] {
            assert!(load(&format!("{FILE}\n{line}"), ServeOptions::default()).is_err(), "{line}");
        }
        let seeds = Some(vec!["no-port".to_owned()]);
        assert!(load(FILE, ServeOptions { seeds, ..ServeOptions::default() }).is_err());
    }

    #[test]
    fn what_has_no_default_must_be_given() {
        let missing = ServeConfig::load(None, ServeOptions::default());
        assert!(matches!(missing, Err(ConfigError::Missing("data"))));
    }

    #[test]
    fn a_size_is_written_as_it_is_read() {
        for text in ["1B", "1KiB", "3MiB", "2GiB", "1025B"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for text in ["", "MiB", "1MB", "1.5MiB", "99999999999GiB"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError), "{text}");
        }
    }
}
