//! A process: a node as it runs on its disk, with its own clocks.
//!
//! What this file does not do: it does not decide when a process crashes or pauses.

use std::collections::{BTreeSet, VecDeque};

use gaggle_core::Node;
use gaggle_core::event::Event;
use gaggle_core::now::{Mono, Now, Wall};

use crate::disk::Disk;

/// One of the nodes, be it down.
pub(crate) struct Process {
    pub(crate) node: Option<Node>,
    /// Rises whenever the process starts or dies: what was meant for an earlier life is void.
    pub(crate) life: u64,
    pub(crate) disk: Disk,
    /// Whom it wants to be connected to.
    pub(crate) wishes: BTreeSet<usize>,
    /// Whom it is dialling.
    pub(crate) dialling: BTreeSet<usize>,
    /// When it is to be woken next.
    pub(crate) wake_at: Option<u64>,
    /// What waits for a paused process.
    pub(crate) backlog: Option<VecDeque<Event>>,
    /// By how much its wall clock is off, in nanoseconds.
    pub(crate) skew: i64,
    /// The latest time that its wall clock has said since the node was started, or the one in the
    /// middle of all.
    pub(crate) latest: u64,
    /// Whether it has handed all over.
    pub(crate) drained: bool,
}

impl Process {
    pub(crate) fn new(skew: i64) -> Self {
        Self {
            node: None,
            life: 0,
            disk: Disk::default(),
            wishes: BTreeSet::new(),
            dialling: BTreeSet::new(),
            wake_at: None,
            backlog: None,
            skew,
            latest: 0,
            drained: false,
        }
    }

    /// What its clocks say.
    pub(crate) fn clocks(&self, now: u64) -> Now {
        let wall = EPOCH.saturating_add(now).saturating_add_signed(self.skew);
        Now { mono: Mono(now), wall: Wall(wall) }
    }

    /// Whether it runs and is not paused.
    pub(crate) fn is_awake(&self) -> bool {
        self.node.is_some() && self.backlog.is_none()
    }
}

/// When the world begins: nanoseconds since 1970.
pub(crate) const EPOCH: u64 = 1_800_000_000_000_000_000;
