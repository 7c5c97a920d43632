//! Classes of faults: each is switched on or off as a whole by a seed, so that some runs have
//! much of one kind. (A run with a little of everything hides what needs much of one thing.)

use serde::{Deserialize, Serialize};

/// A class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Packets of gossip are lost.
    Loss,
    /// The network is slow.
    Delay,
    /// Commits are slow.
    SlowDisk,
    /// Two nodes are cut from each other.
    Cuts,
    /// One direction is cut.
    OneWayCuts,
    /// A node is cut from all others.
    Isolation,
    /// Processes are killed.
    Crashes,
    /// Processes stop for a while.
    Pauses,
    /// Wall clocks are apart.
    Skew,
    /// Consumers forget, give back, and delete when their leases are long over.
    Consumers,
    /// Clients die with messages in hand, pause, and are cut off from nodes.
    Clients,
    /// Wall clocks drift, jump, get stuck, and are set right.
    Clocks,
    /// Processes are killed while they write, and again while they recover.
    Recovery,
    /// Processes are killed and started again before anybody has noticed.
    FastRestarts,
    /// Processes get next to no time.
    SlowProcesses,
    /// A process sleeps for minutes.
    Sleep,
    /// Nodes are stopped and started again, one after the other.
    Stops,
    /// Some of what is said takes far longer than the rest.
    Tail,
    /// What is said in one direction gathers, and comes in a burst.
    Clogs,
    /// Connections break, and what was said last is lost.
    Breaks,
    /// Packets of gossip come once more, at once or much later.
    Replays,
    /// Disks are lost with all that is on them.
    Wipes,
    /// Messages on disks are damaged.
    Rot,
    /// Commits fail.
    FailedCommits,
    /// Disks are full for a while.
    FullDisks,
    /// Disks are slow for a while.
    SlowDisks,
    /// Others purge the queue, send again what was sent, and have clocks that are ahead.
    Guests,
    /// The queue is deleted and created anew.
    Renewals,
    /// All who receive do so at one node.
    Lone,
    /// Disks are put back to an earlier state.
    PutBacks,
    /// A node is removed from the cluster, for good or until it joins anew.
    Removals,
    /// Machines are suspended.
    Suspensions,
    /// Rows of messages vanish from disks, or cannot be read at all.
    LostRows,
}

impl Class {
    /// Whether a run is calm with it: nothing comes twice for it.
    pub(crate) fn is_calm(self) -> bool {
        matches!(
            self,
            Self::Delay
                | Self::SlowDisk
                | Self::Skew
                | Self::Stops
                | Self::Guests
                | Self::Renewals
                | Self::Lone
                | Self::Removals
        )
    }

    /// Whether disks, or messages on them, are lost for good with it. The pinned hosts of a strict
    /// queue do not change yet, so it would stand still with a majority of them.
    pub(crate) fn loses_disks(self) -> bool {
        matches!(self, Self::Wipes | Self::PutBacks | Self::Removals | Self::LostRows)
    }

    /// Those that are drawn from a generator of their own, with the same chance.
    pub(crate) const OWN: [(Self, u32); 22] = [
        (Self::Clocks, 12),
        (Self::Recovery, 12),
        (Self::FastRestarts, 12),
        (Self::SlowProcesses, 12),
        (Self::Sleep, 6),
        (Self::Stops, 12),
        (Self::Tail, 12),
        (Self::Clogs, 12),
        (Self::Breaks, 12),
        (Self::Replays, 12),
        (Self::Wipes, 10),
        (Self::Rot, 10),
        (Self::FailedCommits, 12),
        (Self::FullDisks, 10),
        (Self::SlowDisks, 10),
        (Self::Guests, 30),
        (Self::Renewals, 10),
        (Self::Lone, 12),
        (Self::PutBacks, 10),
        (Self::Removals, 10),
        (Self::Suspensions, 12),
        (Self::LostRows, 10),
    ];

    /// Those that are drawn one after the other, with the chance (of a hundred) that a run has it.
    pub(crate) const ALL: [(Self, u32); 11] = [
        (Self::Loss, 30),
        (Self::Delay, 30),
        (Self::SlowDisk, 30),
        (Self::Cuts, 50),
        (Self::OneWayCuts, 25),
        (Self::Isolation, 30),
        (Self::Crashes, 65),
        (Self::Pauses, 30),
        (Self::Skew, 60),
        (Self::Consumers, 60),
        (Self::Clients, 60),
    ];
}
