//! Goals: what a swarm has to bring about sometimes.
//!
//! A swarm in which no host ever comes back to what others handed out meanwhile says nothing about
//! coming back, however many seeds it has. So each goal names something rare that must happen in
//! some run, and is noted where it happens: by what nodes hear and count (`nodes.rs`), by what
//! clients are told (`clients.rs`), by what two sides of a cut do (`cuts.rs`). A swarm that is
//! large and never meets one of them has a hole in its faults or its load, and fails.
//!
//! Invariant: noting a goal changes nothing in a run. What this room does not do: it judges
//! nothing; see [`crate::promises`].

mod clients;
mod cuts;
mod nodes;

use std::collections::BTreeSet;

use cuts::Cuts;

/// Something that has to happen in some run of a swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// A message comes from another custodian than before, who is down.
    Takeover,
    /// A node that was started again is yielded to, and both have messages.
    YieldToReturned,
    /// A node that is slow, or waits, hands its custody over.
    HandedOver,
    /// A node that was started again is given a copy that it lacks.
    CopyMadeUp,
    /// A host that fails in mid-send is replaced by another one.
    StandIn,
    /// A copy comes to a host that has its tombstone already.
    DeleteOvertakes,
    /// A message that is sent again after its delete is answered as gone.
    GoneAnswered,
    /// An old receipt is refused, or deletes and that is said.
    StaleReceipt,
    /// A lease runs out.
    LeaseExpired,
    /// A process that was started again is killed before it is ready.
    CrashInRecovery,
    /// A cut heals, and both sides have stored and deleted while it lasted.
    BothSidesWent,
    /// A stamp from too far ahead is refused.
    ClockRefused,
    /// A node finds that its wall clock is wrong.
    ClockSick,
    /// A process dies in the middle of its changes.
    KilledWriting,
    /// A node that was asked to stop ends when all is handed over.
    Stopped,
    /// A node that was not there for long is back before anybody has noticed.
    BackUnnoticed,
    /// Something takes far longer than the rest.
    LongWay,
    /// What gathered in a clogged direction comes in a burst.
    Burst,
    /// The connection of two nodes breaks with what is under way.
    LinkBroken,
    /// A packet of gossip comes once more.
    Replayed,
    /// A node whose disk was lost is given copies again.
    WipedRefilled,
    /// A copy that is damaged is found.
    RotFound,
    /// A damaged copy is replaced by another holder's.
    RotRefilled,
    /// A commit fails.
    CommitFailed,
    /// A commit finds no room.
    DiskFull,
    /// Something is removed on a full disk.
    FullDeleted,
    /// Two hosts compare what they have by digest, and find that it differs.
    ComparedDifferent,
    /// A node comes back that knows a queue which was deleted and created anew meanwhile.
    QueueRenewed,
    /// A node is told that its disk was put back to an earlier state.
    PutBackNoticed,
    /// A node is removed from the cluster.
    Removed,
    /// A node that was removed joins again as a new host.
    JoinedAnew,
    /// A node finds by its wall clock that its machine was suspended.
    SuspensionNoticed,
    /// A node whose loop lags hands its custody over.
    LateHandedOver,
    /// A node forgets that a queue was deleted.
    QueueForgotten,
    /// Rows of messages are lost.
    RowsLost,
}

impl Goal {
    /// All, with what they are called.
    pub const ALL: [(Self, &'static str); 35] = [
        (Self::Takeover, "takeover"),
        (Self::YieldToReturned, "yield to a returned host"),
        (Self::HandedOver, "custody handed over"),
        (Self::CopyMadeUp, "copy made up to a returned host"),
        (Self::StandIn, "stand-in"),
        (Self::DeleteOvertakes, "delete overtakes its message"),
        (Self::GoneAnswered, "resend of a deleted message"),
        (Self::StaleReceipt, "stale receipt"),
        (Self::LeaseExpired, "lease expired"),
        (Self::CrashInRecovery, "crash in recovery"),
        (Self::BothSidesWent, "both sides of a cut stored and deleted"),
        (Self::ClockRefused, "stamp refused"),
        (Self::ClockSick, "wrong wall clock noticed"),
        (Self::KilledWriting, "killed while writing"),
        (Self::Stopped, "stopped after handing over"),
        (Self::BackUnnoticed, "back before anybody noticed"),
        (Self::LongWay, "a long way"),
        (Self::Burst, "a burst of gossip"),
        (Self::LinkBroken, "link broken"),
        (Self::Replayed, "gossip replayed"),
        (Self::WipedRefilled, "wiped node refilled"),
        (Self::RotFound, "damaged copy found"),
        (Self::RotRefilled, "damaged copy replaced"),
        (Self::CommitFailed, "commit failed"),
        (Self::DiskFull, "disk full"),
        (Self::FullDeleted, "deleted on a full disk"),
        (Self::ComparedDifferent, "difference found by digest"),
        (Self::QueueRenewed, "back to a queue created anew"),
        (Self::PutBackNoticed, "restored disk noticed"),
        (Self::Removed, "node removed"),
        (Self::JoinedAnew, "removed node joined anew"),
        (Self::SuspensionNoticed, "suspended machine noticed"),
        (Self::LateHandedOver, "slow node handed custody over"),
        (Self::QueueForgotten, "deleted queue forgotten"),
        (Self::RowsLost, "rows lost"),
    ];
}

/// The goals that a run has met.
#[derive(Clone, Debug, Default)]
pub struct Goals {
    met: BTreeSet<Goal>,
    cuts: Cuts,
}

impl Goals {
    /// It has happened.
    pub(crate) fn note(&mut self, goal: Goal) {
        self.met.insert(goal);
    }

    /// Those that were met.
    pub fn met(&self) -> impl Iterator<Item = Goal> + '_ {
        self.met.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_is_in_the_table_once() {
        let all: BTreeSet<Goal> = Goal::ALL.iter().map(|(goal, _)| *goal).collect();
        assert_eq!(all.len(), Goal::ALL.len());
        assert_eq!(all.last(), Some(&Goal::RowsLost), "the last one of the enum");
    }
}
