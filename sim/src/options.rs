//! What a simulated cluster is like: how many nodes, how fast its network and disks are, how long
//! its nodes wait for things.
//!
//! Limits and times that are large in a real cluster are small here where that makes runs short
//! and rare things happen: such legal rarities are inputs, never switches in the core. What this
//! file does not do: it draws nothing; see [`crate::plan`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use gaggle_core::Config;
use gaggle_wire::NodeId;
use serde::{Deserialize, Serialize};

/// A number between two others, both included.
pub type Span = (u64, u64);

/// What a simulated cluster is like. Times are in nanoseconds where nothing else is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// From which everything is drawn.
    pub seed: u64,
    /// How many nodes there are room for; each is started by hand.
    pub nodes: usize,
    /// One way between two nodes, or a node and a client.
    pub delay: Span,
    /// Of a thousand things that are said so many take longer by `tail_delay`.
    #[serde(default)]
    pub tail: u32,
    /// By how much at most; below what watchers allow for what is on its way.
    #[serde(default)]
    pub tail_delay: u64,
    /// Of a thousand packets of gossip so many come once more.
    #[serde(default)]
    pub replays: u32,
    /// How much later at most.
    #[serde(default)]
    pub replay_after: u64,
    /// How long a commit takes.
    pub commit: Span,
    /// How long a read takes.
    pub read: Span,
    /// Of a thousand packets of gossip so many are lost.
    pub gossip_loss: u32,
    /// How far wall clocks are apart, at most.
    pub skew: u64,
    /// How much faster or slower than the world wall clocks run, at most, in millionths.
    #[serde(default)]
    pub drift: i32,
    /// After how long a silent connection is given up (quinn's idle timeout).
    pub idle: u64,
    /// See [`Config::suspicion`].
    #[serde(with = "millis")]
    pub suspicion: Duration,
    /// See [`Config::serve_alone_after`].
    #[serde(with = "millis")]
    pub serve_alone_after: Duration,
    /// See [`Config::slow_after`].
    #[serde(with = "millis", default = "ten_seconds")]
    pub slow_after: Duration,
    /// See [`Config::resend_window`].
    #[serde(with = "millis")]
    pub resend_window: Duration,
    /// See [`Config::replace_after`].
    #[serde(with = "millis")]
    pub replace_after: Duration,
    /// See [`Config::replace_rate`].
    pub replace_rate: u64,
    /// See [`Config::scrub_rate`].
    pub scrub_rate: u64,
    /// See [`Config::scrub_every`].
    #[serde(with = "millis")]
    pub scrub_every: Duration,
    /// See [`Config::window_max`].
    pub window_max: usize,
    /// See [`Config::page_rows`].
    pub page_rows: usize,
    /// See [`Config::inventory_part`].
    #[serde(default = "part")]
    pub inventory_part: usize,
    /// See [`Config::waiting_max`].
    #[serde(default = "many")]
    pub waiting_max: usize,
}

impl Options {
    /// A small cluster on a good network: the rest is as a real node has it.
    #[must_use]
    pub fn calm(nodes: usize, seed: u64) -> Self {
        Self {
            seed,
            nodes,
            delay: (100_000, 2_000_000),
            tail: 0,
            tail_delay: 0,
            replays: 0,
            replay_after: 0,
            commit: (200_000, 3_000_000),
            read: (20_000, 500_000),
            gossip_loss: 0,
            skew: 0,
            drift: 0,
            idle: 3_000_000_000,
            suspicion: Duration::from_millis(900),
            serve_alone_after: Duration::from_secs(10),
            slow_after: ten_seconds(),
            resend_window: Duration::from_mins(2),
            replace_after: Duration::from_mins(15),
            replace_rate: 8 * 1024 * 1024,
            scrub_rate: 4 * 1024 * 1024,
            scrub_every: Duration::from_hours(24),
            window_max: 4096,
            page_rows: 1000,
            inventory_part: part(),
            waiting_max: many(),
        }
    }

    /// After how long a silent connection of a client is given up: 10 s where that of a node is
    /// after 3 s, as with real ones; and, as there (2 min), so far within the resend window that
    /// what was said into a cut comes before its end or not at all.
    pub(crate) fn client_idle(&self) -> u64 {
        let window = u64::try_from(self.resend_window.as_nanos()).unwrap_or(u64::MAX);
        (self.idle.saturating_mul(10) / 3).min(window / 5 * 3)
    }

    /// The configuration of one of the nodes.
    pub(crate) fn config(&self, at: usize, seed: u64) -> Config {
        let mut config = Config::new(node_id(at), peer_address(at), client_address(at));
        config.seeds = (0..self.nodes).map(peer_address).collect();
        config.seed = seed;
        config.first_boot = 1 + seed % Config::FIRST_BOOT_MAX;
        config.suspicion = self.suspicion;
        config.serve_alone_after = self.serve_alone_after;
        config.slow_after = self.slow_after;
        config.resend_window = self.resend_window;
        config.replace_after = self.replace_after;
        config.replace_rate = self.replace_rate;
        config.scrub_rate = self.scrub_rate;
        config.scrub_every = self.scrub_every;
        config.window_max = self.window_max;
        config.page_rows = self.page_rows;
        config.inventory_part = self.inventory_part;
        config.waiting_max = self.waiting_max;
        config.strict_queues = true;
        config
    }
}

/// More than there ever are.
fn many() -> usize {
    100_000
}

fn part() -> usize {
    50_000
}

fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

/// Durations as milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// The name of the node at this place.
#[must_use]
pub fn node_id(at: usize) -> NodeId {
    NodeId(at as u64 + 1)
}

/// The place of a node.
pub(crate) fn place(node: NodeId) -> usize {
    usize::try_from(node.0 - 1).expect("names are small in here")
}

/// Where peers reach it.
pub(crate) fn peer_address(at: usize) -> SocketAddr {
    address(PEER_PORT, at)
}

fn client_address(at: usize) -> SocketAddr {
    address(CLIENT_PORT, at)
}

/// The place of the node whose peers' address this is.
pub(crate) fn place_at(address: SocketAddr) -> usize {
    usize::from(address.port() - PEER_PORT)
}

/// The place of the node whose clients' address this is.
pub(crate) fn place_of_client(address: SocketAddr) -> usize {
    usize::from(address.port() - CLIENT_PORT)
}

fn address(first: u16, at: usize) -> SocketAddr {
    let port = first + u16::try_from(at).expect("a cluster is small");
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

const PEER_PORT: u16 = 7400;
const CLIENT_PORT: u16 = 8400;
