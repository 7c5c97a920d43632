//! Every limit and every patience of the client, each with the reason for its default.
//!
//! They are fields and not constants so that a simulation can make them tiny.

use std::time::Duration;

/// See the fields; [`Config::default`] is what an application gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which nodes may be used.
    pub reach: Reach,
    /// How many addresses the driver was given; it knows them by position.
    pub seeds: usize,
    /// How many nodes to be connected to: with three, one may fail and one be slow.
    pub links_wanted: usize,
    /// How long a connection may take until its node has said welcome.
    pub greeting_timeout: Duration,
    /// A connection on which an answer is owed and nothing is heard for so long is given up. Above
    /// the time in which nodes give each other up (3 s), which an honest answer may wait for.
    pub silence_max: Duration,
    /// The same for a node that others report as down.
    pub silence_max_down: Duration,
    /// For how long a node is not asked first that could not do what it was asked.
    pub sour: Duration,
    /// The first wait before something is tried again, and the longest.
    pub backoff_min: Duration,
    /// See [`Config::backoff_min`].
    pub backoff_max: Duration,
    /// The longest any send may take, see [`SEND_WITHIN_MAX`].
    pub send_within_max: Duration,
    /// The longest a node may try one send, so that others get a chance before its deadline.
    pub attempt_max: Duration,
    /// The shortest wait before a send goes to a second node: below it, what looks slow is noise.
    pub hedge_min: Duration,
    /// The longest such wait, and the one before there is anything to estimate it from.
    pub hedge_max: Duration,
    /// How long any other request waits for an answer before it is asked of another node.
    pub ask_patience: Duration,
    /// Batches of one partition that may be under way: one on its way out, one in the node's
    /// commit, one on its way back, one spare.
    pub batches_max: usize,
    /// From how many messages on a batch is worth sending while another is under way.
    pub batch_worth: usize,
    /// The most bytes of one batch, unless one message is larger: a longer one would only block
    /// the stream.
    pub batch_bytes: usize,
    /// How long the node may wait to be told what an application has taken.
    pub taken_delay: Duration,
    /// By how much stamps are off from what the clock is believed to be, in nanoseconds: for tests
    /// of what a bad clock does.
    pub danger_clock_skew_ns: i64,
}

/// Which nodes may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All that the cluster names.
    Cluster,
    /// Only the one at the first address: no spreading, no hedging, no failing over.
    OneNode,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            reach: Reach::Cluster,
            seeds: 1,
            links_wanted: 3,
            greeting_timeout: Duration::from_secs(5),
            silence_max: Duration::from_secs(5),
            silence_max_down: Duration::from_millis(500),
            sour: Duration::from_secs(1),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            send_within_max: SEND_WITHIN_MAX,
            attempt_max: Duration::from_secs(10),
            hedge_min: Duration::from_millis(20),
            hedge_max: Duration::from_millis(500),
            ask_patience: Duration::from_secs(2),
            batches_max: 4,
            batch_worth: 64,
            batch_bytes: 1024 * 1024,
            taken_delay: Duration::from_millis(20),
            danger_clock_skew_ns: 0,
        }
    }
}

/// The longest any send may take. Nodes know the ids they have seen for 2 min: what is sent last
/// has to arrive within that, and a connection on which nothing comes through holds it for up to
/// 10 s, one between two nodes for 3 s more.
pub const SEND_WITHIN_MAX: Duration = Duration::from_secs(105);
