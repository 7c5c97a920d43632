//! Deeds: what is done to a simulated cluster, each at its time.
//!
//! Nodes are named as they name themselves, from 1. A deed that has nothing to be done to (a
//! crash of a node that is down) does nothing, so that any selection of deeds is a plan: that is
//! what makes a plan shrink. What this file does not do: deeds are done in `storm.rs`.

use serde::{Deserialize, Serialize};

use super::Errand;
use crate::suspension::Standstill;

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
    /// A process is killed at the so-manieth change that it writes from then on, be it its next
    /// run that does: the changes before are not committed yet.
    KillAtWrite {
        /// Which.
        node: u64,
        /// Changes, the last one included.
        writes: u32,
    },
    /// A node is stopped as an operator does: it hands over and ends. Who starts it meanwhile
    /// starts it then.
    Stop {
        /// Which.
        node: u64,
    },
    /// A process is killed, and all on its disk is lost.
    Wipe {
        /// Which.
        node: u64,
    },
    /// A copy is taken of what is durable on a disk.
    KeepDisk {
        /// Whose.
        node: u64,
    },
    /// A process is killed, and its disk is put back to when a copy was taken last.
    PutBack {
        /// Whose.
        node: u64,
    },
    /// Some messages on a disk are damaged.
    Rot {
        /// Whose.
        node: u64,
        /// About so many of a thousand.
        of_thousand: u32,
    },
    /// Rows of some messages on a disk are lost.
    LoseRows {
        /// Whose.
        node: u64,
        /// About so many of a thousand.
        of_thousand: u32,
        /// How.
        loss: RowLoss,
    },
    /// The next commit of a node fails, and its store is opened anew.
    FailCommit {
        /// Whose.
        node: u64,
    },
    /// There is no room on a disk any more.
    FillDisk {
        /// Whose.
        node: u64,
    },
    /// There is room again.
    FreeDisk {
        /// Whose.
        node: u64,
    },
    /// Commits of a node take long.
    SlowDisk {
        /// Whose.
        node: u64,
        /// How long at most, in milliseconds.
        ms: u64,
    },
    /// Commits of a node take what they took.
    QuickDisk {
        /// Whose.
        node: u64,
    },
    /// A process gets next to no time: it stops again and again.
    SlowDown {
        /// Which.
        node: u64,
        /// How long each time at most, in milliseconds.
        each_ms: u64,
        /// How long in all, in milliseconds.
        ms: u64,
    },
    /// The wall clock of a node is set, or jumps.
    StepClock {
        /// Whose.
        node: u64,
        /// By how much, in milliseconds.
        ms: i64,
    },
    /// The wall clock of a node gets stuck.
    StopClock {
        /// Whose.
        node: u64,
    },
    /// The wall clock of a node goes again, and is as it was.
    RightClock {
        /// Whose.
        node: u64,
    },
    /// A process stops for a while, as under a debugger or on a loaded machine.
    Pause {
        /// Which.
        node: u64,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// The machine of a node is suspended for a while.
    Suspend {
        /// Whose.
        node: u64,
        /// How long, in milliseconds.
        ms: u64,
        /// Which clocks stand still meanwhile.
        stands: Standstill,
    },
    /// Nothing comes through any more in this direction.
    CutOneWay {
        /// From this node.
        from: u64,
        /// To this node.
        to: u64,
    },
    /// What is said in this direction gathers until it is healed.
    Clog {
        /// From this node.
        from: u64,
        /// To this node.
        to: u64,
    },
    /// The connection between two nodes breaks, and what is under way on it is lost.
    BreakLink {
        /// One.
        a: u64,
        /// The other.
        b: u64,
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
    /// The connection between a client and a node breaks, and what was said last is lost.
    BreakClient {
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
    /// Somebody else asks a node for something.
    Guest {
        /// The node.
        node: u64,
        /// For what.
        errand: Errand,
    },
}

/// How rows of messages are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowLoss {
    /// As if they had never been written.
    Vanish,
    /// They are there, and say nothing.
    Header,
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
            | Self::KillAtWrite { .. }
            | Self::Wipe { .. }
            | Self::PutBack { .. }
            | Self::Rot { .. }
            | Self::LoseRows { .. }
            | Self::FailCommit { .. }
            | Self::FillDisk { .. }
            | Self::SlowDisk { .. }
            | Self::Pause { .. }
            | Self::Suspend { .. }
            | Self::SlowDown { .. }
            | Self::StepClock { .. }
            | Self::StopClock { .. }
            | Self::CutOneWay { .. }
            | Self::Clog { .. }
            | Self::BreakLink { .. }
            | Self::Cut { .. }
            | Self::Isolate { .. }
            | Self::ClientDies { .. }
            | Self::ClientPauses { .. }
            | Self::CutClient { .. }
            | Self::BreakClient { .. } => true,
            Self::Start { .. }
            | Self::Stop { .. }
            | Self::KeepDisk { .. }
            | Self::FreeDisk { .. }
            | Self::QuickDisk { .. }
            | Self::RightClock { .. }
            | Self::Heal { .. }
            | Self::HealAll
            | Self::HealClient { .. }
            | Self::Guest { .. } => false,
        }
    }

    /// The nodes that it names.
    pub(crate) fn nodes(&mut self) -> Vec<&mut u64> {
        match self {
            Self::Crash { node }
            | Self::Start { node }
            | Self::KillAtWrite { node, .. }
            | Self::Stop { node }
            | Self::Wipe { node }
            | Self::KeepDisk { node }
            | Self::PutBack { node }
            | Self::Rot { node, .. }
            | Self::LoseRows { node, .. }
            | Self::FailCommit { node }
            | Self::FillDisk { node }
            | Self::FreeDisk { node }
            | Self::SlowDisk { node, .. }
            | Self::QuickDisk { node }
            | Self::Pause { node, .. }
            | Self::Suspend { node, .. }
            | Self::SlowDown { node, .. }
            | Self::StepClock { node, .. }
            | Self::StopClock { node }
            | Self::RightClock { node }
            | Self::Isolate { node }
            | Self::CutClient { node, .. }
            | Self::BreakClient { node, .. }
            | Self::HealClient { node, .. }
            | Self::Guest { node, .. } => vec![node],
            Self::CutOneWay { from, to } | Self::Clog { from, to } => vec![from, to],
            Self::Cut { a, b } | Self::BreakLink { a, b } | Self::Heal { a, b } => vec![a, b],
            Self::HealAll | Self::ClientDies { .. } | Self::ClientPauses { .. } => Vec::new(),
        }
    }

    /// The client that it names.
    pub(crate) fn client(&mut self) -> Option<&mut ClientName> {
        match self {
            Self::ClientDies { client }
            | Self::ClientPauses { client, .. }
            | Self::CutClient { client, .. }
            | Self::BreakClient { client, .. }
            | Self::HealClient { client, .. } => Some(client),
            Self::Crash { .. }
            | Self::Start { .. }
            | Self::KillAtWrite { .. }
            | Self::Stop { .. }
            | Self::Wipe { .. }
            | Self::KeepDisk { .. }
            | Self::PutBack { .. }
            | Self::Rot { .. }
            | Self::LoseRows { .. }
            | Self::FailCommit { .. }
            | Self::FillDisk { .. }
            | Self::FreeDisk { .. }
            | Self::SlowDisk { .. }
            | Self::QuickDisk { .. }
            | Self::Pause { .. }
            | Self::Suspend { .. }
            | Self::SlowDown { .. }
            | Self::StepClock { .. }
            | Self::StopClock { .. }
            | Self::RightClock { .. }
            | Self::CutOneWay { .. }
            | Self::Clog { .. }
            | Self::BreakLink { .. }
            | Self::Cut { .. }
            | Self::Isolate { .. }
            | Self::Heal { .. }
            | Self::HealAll
            | Self::Guest { .. } => None,
        }
    }
}
