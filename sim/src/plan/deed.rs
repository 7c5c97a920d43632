//! Deeds: what is done to a simulated cluster, each at its time.
//!
//! Nodes are named as they name themselves, from 1. A deed that has nothing to be done to (a
//! crash of a node that is down) does nothing, so that any selection of deeds is a plan: that is
//! what makes a plan shrink. What this file does not do: deeds are done in `storm.rs`.

use serde::{Deserialize, Serialize};

/// A deed and when it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// After the beginning of the storm, in milliseconds.
    pub at_ms: u64,
    /// What is done.
    pub deed: Deed,
}

/// Something that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Deed {
    /// A process is killed: what was not durable is lost.
    Crash {
        /// Which.
        node: u64,
    },
    /// A node that is down is started on its disk.
    Start {
        /// Which.
        node: u64,
    },
    /// A process stops for a while, as under a debugger or on a loaded machine.
    Pause {
        /// Which.
        node: u64,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// Nothing comes through any more in this direction.
    CutOneWay {
        /// From this node.
        from: u64,
        /// To this node.
        to: u64,
    },
    /// Nothing comes through between two nodes.
    Cut {
        /// One.
        a: u64,
        /// The other.
        b: u64,
    },
    /// A node is cut off from all others.
    Isolate {
        /// Which.
        node: u64,
    },
    /// Two nodes reach each other again.
    Heal {
        /// One.
        a: u64,
        /// The other.
        b: u64,
    },
    /// Every node reaches every other again.
    HealAll,
    /// A client dies with all it has in hand, and another one takes its place.
    ClientDies {
        /// Which.
        client: ClientName,
    },
    /// A client stops for a while.
    ClientPauses {
        /// Which.
        client: ClientName,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// Nothing comes through any more between a client and a node.
    CutClient {
        /// The client.
        client: ClientName,
        /// The node.
        node: u64,
    },
    /// A client and a node reach each other again.
    HealClient {
        /// The client.
        client: ClientName,
        /// The node.
        node: u64,
    },
}

/// A client, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientName {
    /// One of the producers.
    Producer(usize),
    /// One of the consumers.
    Consumer(usize),
}

impl Deed {
    /// Whether it is a fault: neither an operation, nor an end of a fault, nor a client's.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Crash { .. }
            | Self::Pause { .. }
            | Self::CutOneWay { .. }
            | Self::Cut { .. }
            | Self::Isolate { .. }
            | Self::ClientDies { .. }
            | Self::ClientPauses { .. }
            | Self::CutClient { .. } => true,
            Self::Start { .. } | Self::Heal { .. } | Self::HealAll | Self::HealClient { .. } => {
                false
            }
        }
    }

    /// The nodes that it names.
    pub(crate) fn nodes(&mut self) -> Vec<&mut u64> {
        match self {
            Self::Crash { node }
            | Self::Start { node }
            | Self::Pause { node, .. }
            | Self::Isolate { node }
            | Self::CutClient { node, .. }
            | Self::HealClient { node, .. } => vec![node],
            Self::CutOneWay { from, to } => vec![from, to],
            Self::Cut { a, b } | Self::Heal { a, b } => vec![a, b],
            Self::HealAll | Self::ClientDies { .. } | Self::ClientPauses { .. } => Vec::new(),
        }
    }

    /// The client that it names.
    pub(crate) fn client(&mut self) -> Option<&mut ClientName> {
        match self {
            Self::ClientDies { client }
            | Self::ClientPauses { client, .. }
            | Self::CutClient { client, .. }
            | Self::HealClient { client, .. } => Some(client),
            Self::Crash { .. }
            | Self::Start { .. }
            | Self::Pause { .. }
            | Self::CutOneWay { .. }
            | Self::Cut { .. }
            | Self::Isolate { .. }
            | Self::Heal { .. }
            | Self::HealAll => None,
        }
    }
}
