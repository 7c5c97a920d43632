//! A node that is to leave the cluster, as it does it itself.
//!
//! It takes no new copies, hands custody over like a slow node, and asks the other holders about
//! all that it has: what they lack it gives them. What only it should have gets another holder as
//! if it were away. Once every message here is known to be at all its other hosts, and these are
//! enough, nothing depends on this node any more. As it takes nothing new, that stays so.
//!
//! When it hears that it was removed it ends: its rows say so, and it is not opened on them again.
//! What this file does not do: who decides that it leaves, and what the others do, is in
//! `removing.rs`.

use gaggle_wire::NodeId;

use super::Node;
use crate::effect::{Effect, Effects};
use crate::now::Now;
use crate::ranges::Ranges;
use crate::table::Stage;

impl Node {
    /// Whether this node is to leave the cluster.
    pub(super) fn leaves(&self) -> bool {
        self.stage(self.config.node) == Stage::Leaves
    }

    /// This node is to leave, is to stay after all, or is no member any more.
    pub(super) fn own_removal(&mut self, now: Now, stage: Stage, effects: &mut Effects) {
        match stage {
            Stage::Removed => {
                self.run.renewed = true;
                effects.push(Effect::Renewed);
            }
            Stage::Leaves | Stage::Stays => {
                self.begin_leaving();
                self.tell_readiness(now, effects);
                self.tell_fit(now, effects);
            }
        }
    }

    /// Has all holders asked about all that is here, if this node is to leave.
    pub(super) fn begin_leaving(&mut self) {
        if self.leaves() {
            for partition in self.partitions.values_mut() {
                partition.known.lack_all();
            }
        }
    }

    /// How many messages and tombstones others may still lack that are here; of a member that
    /// cannot be asked it is not known, which counts as one.
    pub(super) fn left(&self) -> u64 {
        // A batch on its way to one more holder is on no other disk yet, though the list names it.
        let mut left = u64::from(self.replacing.is_moving());
        for (id, partition) in &self.partitions {
            left += partition.known.open_count();
            let enough = self.hosts_wanted(*id);
            for (nodes, held) in partition.lists.used() {
                if nodes.iter().filter(|node| self.outlasts(**node)).count() < enough {
                    left += held.values().map(Ranges::size).sum::<u64>();
                }
            }
        }
        for node in self.members().filter(|node| *node != self.config.node) {
            left += match self.sessions.with(node) {
                Some(session) if session.is_marked() => {
                    session.make_up.len() as u64 + u64::from(session.make_up_pending)
                }
                _ => 1,
            };
        }
        let outlasts = |node| self.outlasts(node);
        left + self.burials.open_count(outlasts)
    }

    /// How many hosts a message of this partition is to have, of those that stay.
    fn hosts_wanted(&self, id: crate::session::PartitionId) -> usize {
        let replicas =
            self.table.live(id.0).map_or(1, |entry| usize::from(entry.settings().replicas));
        replicas.min(self.ranking(id).len()).max(1)
    }

    /// Whether a node will still be a member when this one has left.
    fn outlasts(&self, node: NodeId) -> bool {
        self.is_member(node) && self.stage(node) == Stage::Stays
    }
}
