//! What fuzzers feed: each target is a function from any bytes to nothing, and panics when
//! something does not hold.
//!
//! The bodies stand here once. `tests/fuzz` gives them to libFuzzer, which searches for new paths
//! for as long as it is let; `tests/replay.rs` gives them the corpus that was committed and some
//! thousand mutations of it, the same ones every time, so that every run of the tests knows what
//! the fuzzer found.
//!
//! What comes from a socket or a disk may be any bytes: it is taken or refused, and nothing of it
//! may panic a node. Nodes that lie are not promised to be harmless, so no target asks for more
//! than that of what only a lying node would say.

pub mod drawn;
pub mod framed;
mod gossip;
pub mod hex;
pub mod mutation;
mod peer;
mod receipt;
mod rows;
mod splitter;
pub mod state;
mod words;

use std::path::PathBuf;

/// A target: a name, and what is done with the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As its files are called in `tests/fuzz`.
    pub name: &'static str,
    /// The body.
    pub run: fn(&[u8]),
    /// Inputs that are known to lead far, beside the corpus: golden bytes.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "splitter", run: splitter::run, seeds: splitter::seeds },
    Target { name: "request", run: words::request, seeds: words::requests },
    Target { name: "response", run: words::response, seeds: words::responses },
    Target { name: "receipt", run: receipt::run, seeds: receipt::seeds },
    Target { name: "content", run: words::content, seeds: words::contents },
    Target { name: "hello", run: peer::hello, seeds: peer::hellos },
    Target { name: "envelope", run: peer::envelope, seeds: peer::envelopes },
    Target { name: "gossip", run: gossip::run, seeds: gossip::seeds },
    Target { name: "key", run: rows::key, seeds: rows::keys },
    Target { name: "record", run: rows::record, seeds: rows::records },
    Target { name: "opening", run: rows::opening, seeds: rows::openings },
    Target { name: "node", run: state::node, seeds: state::noise },
    Target { name: "cluster", run: state::cluster, seeds: state::noise },
];

/// The target of this name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target of that name")
}

/// Where the committed inputs of a target lie.
#[must_use]
pub fn corpus(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name)
}
