//! A process: a node as it runs on its disk, with its own clocks.
//!
//! What this file does not do: it does not decide when a process crashes or pauses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gaggle_core::Node;
use gaggle_core::event::Event;
use gaggle_core::now::{Mono, Now};

use crate::disk::Disk;
use crate::filling::Filling;
use crate::lateness::Lateness;
use crate::removing::Struck;
use crate::suspension::Suspension;
use crate::trouble::Illness;
use crate::wall::WallClock;

/// One of the nodes, be it down.
pub(crate) struct Process {
    pub(crate) node: Option<Node>,
    /// Rises whenever the process starts or dies: what was meant for an earlier life is void.
    pub(crate) life: u64,
    pub(crate) disk: Disk,
    pub(crate) illness: Illness,
    /// How much room its disk has.
    pub(crate) filling: Filling,
    /// When its last commit began.
    pub(crate) commit_began: u64,
    /// Whether its disk was lost before this run.
    pub(crate) wiped: bool,
    /// Whether its disk was put back to an earlier state, and nobody has told it yet.
    pub(crate) put_back: bool,
    /// Who knew that when it was started, in which life.
    pub(crate) known_by: BTreeSet<(usize, u64)>,
    /// How it is with its removal from the cluster.
    pub(crate) struck: Struck,
    /// Whom it wants to be connected to.
    pub(crate) wishes: BTreeSet<usize>,
    /// Whom it is dialling.
    pub(crate) dialling: BTreeSet<usize>,
    /// When it dialled whom last, and how long it waits before it does so again.
    pub(crate) dialled: BTreeMap<usize, (u64, u64)>,
    /// When it is to be woken next.
    pub(crate) wake_at: Option<u64>,
    /// What waits for a paused process.
    pub(crate) backlog: Option<VecDeque<Event>>,
    pub(crate) wall: WallClock,
    /// The latest time that its wall clock has said since the node was started, or the one in the
    /// middle of all.
    pub(crate) latest: u64,
    /// Whether its machine is suspended.
    pub(crate) suspended: Option<Suspension>,
    /// For how long its steady clock has stood still in all.
    pub(crate) stood: u64,
    /// How late its loop was of late.
    pub(crate) lateness: Lateness,
    /// How it is being stopped, if it is.
    pub(crate) stop: Stop,
    /// It is killed at the so-manieth change that it writes from now on, before its commit.
    pub(crate) dies_at_write: Option<u32>,
    /// Until when it stops again and again, and for how long at most each time.
    pub(crate) stalls: Option<(u64, u64)>,
}

/// How far a process is with being stopped as an operator stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Nobody has asked for it.
    No,
    /// It hands over.
    Asked,
    /// It hands over, and is to be started again then.
    ThenStart,
    /// It has handed all over.
    Done,
}

impl Process {
    pub(crate) fn new(wall: WallClock) -> Self {
        Self {
            node: None,
            life: 0,
            disk: Disk::default(),
            illness: Illness::default(),
            filling: Filling::default(),
            commit_began: 0,
            wiped: false,
            put_back: false,
            known_by: BTreeSet::new(),
            struck: Struck::default(),
            wishes: BTreeSet::new(),
            dialling: BTreeSet::new(),
            dialled: BTreeMap::new(),
            wake_at: None,
            backlog: None,
            wall,
            latest: 0,
            suspended: None,
            lateness: Lateness::default(),
            stood: 0,
            stop: Stop::No,
            dies_at_write: None,
            stalls: None,
        }
    }

    /// What its clocks say.
    pub(crate) fn clocks(&self, now: u64) -> Now {
        let standing = self.suspended.map_or(0, |suspension| suspension.stood(now));
        Now { mono: Mono(now - self.stood - standing), wall: self.wall.read(now) }
    }

    /// Whether it runs and is not paused.
    pub(crate) fn is_awake(&self) -> bool {
        self.node.is_some() && self.backlog.is_none()
    }
}

/// When the world begins: nanoseconds since 1970.
pub(crate) const EPOCH: u64 = 1_800_000_000_000_000_000;
