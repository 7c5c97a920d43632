//! Removals: which nodes are to leave the cluster, and which have been removed for good.
//!
//! A node is removed with its disk: under the same name another disk may join, as a new host. A
//! removal has two stages. A node that *leaves* gets no new copies, and what it holds is made up
//! for elsewhere; this can be called off. A node that is *removed* is never let in again, and
//! whoever is named with it in a holder list goes on without it: lists are read as if it were not
//! in them, so that no row has to be written anew.
//!
//! Invariants: merging is commutative, associative and idempotent; what was removed stays removed.
//! What this file does not do: what follows from it is in `node/removing.rs`.

use std::collections::BTreeMap;

use gaggle_wire::{NodeId, Stamp};
use serde::{Deserialize, Serialize};

/// What is known of the removal of a node with its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The node.
    pub node: NodeId,
    /// The name of its disk.
    pub store: u128,
    /// How far it is.
    pub stage: Stage,
    /// When somebody said so last, before it was removed.
    pub changed: Stamp,
}

/// How far the removal of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// It was to leave, and that was called off.
    Stays,
    /// It leaves.
    Leaves,
    /// It is no member any more.
    Removed,
}

/// All removals, finished ones among them.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    removals: BTreeMap<(NodeId, u128), Removal>,
}

impl Removals {
    /// How far the removal of a node with this disk is.
    pub(crate) fn stage(&self, node: NodeId, store: u128) -> Stage {
        self.of(node, store).map_or(Stage::Stays, |removal| removal.stage)
    }

    /// What is known of the removal of a node with this disk.
    pub(crate) fn of(&self, node: NodeId, store: u128) -> Option<&Removal> {
        self.removals.get(&(node, store))
    }

    /// The disks with which a node was removed.
    pub(crate) fn removed_with(&self, node: NodeId) -> impl Iterator<Item = u128> {
        let of_node = self.removals.range((node, 0)..=(node, u128::MAX));
        let removed = of_node.filter(|(_, removal)| removal.stage == Stage::Removed);
        removed.map(|((_, store), _)| *store)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Removal> {
        self.removals.values()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.removals.len()
    }

    /// Takes a removal in; the merged one if it brought anything new.
    pub(crate) fn merge(&mut self, removal: &Removal) -> Option<Removal> {
        let key = (removal.node, removal.store);
        let newer = self.removals.get(&key).is_none_or(|present| rank(removal) > rank(present));
        if newer {
            self.removals.insert(key, *removal);
        }
        newer.then_some(*removal)
    }
}

/// Of two removals the greater one holds: what was removed is, and else who spoke last is right.
fn rank(removal: &Removal) -> (bool, Stamp, Stage) {
    (removal.stage == Stage::Removed, removal.changed, removal.stage)
}

#[cfg(test)]
mod tests {
    use gaggle_wire::ProcessId;

    use super::*;

    fn removal(time: u64, stage: Stage) -> Removal {
        let changed = Stamp { time, count: 0, process: ProcessId(1) };
        Removal { node: NodeId(3), store: 7, stage, changed }
    }

    #[test]
    fn removals_merge_alike_in_any_order() {
        let all = [
            removal(1, Stage::Leaves),
            removal(2, Stage::Stays),
            removal(2, Stage::Leaves),
            removal(1, Stage::Removed),
            removal(3, Stage::Removed),
            removal(9, Stage::Stays),
        ];
        for a in all {
            for b in all {
                let (mut ab, mut ba) = (Removals::default(), Removals::default());
                assert!(ab.merge(&a).is_some() && ba.merge(&b).is_some());
                ab.merge(&b);
                ba.merge(&a);
                assert_eq!(ab.of(a.node, a.store), ba.of(a.node, a.store), "{a:?} {b:?}");
                assert_eq!(ab.merge(&a), None, "merging again changes nothing");
            }
        }
    }

    #[test]
    fn leaving_can_be_called_off_and_a_removal_cannot() {
        let mut removals = Removals::default();
        removals.merge(&removal(1, Stage::Leaves));
        assert_eq!(removals.stage(NodeId(3), 7), Stage::Leaves);
        removals.merge(&removal(2, Stage::Stays));
        assert_eq!(removals.stage(NodeId(3), 7), Stage::Stays);
        removals.merge(&removal(1, Stage::Removed));
        assert_eq!(removals.merge(&removal(9, Stage::Stays)), None);
        assert_eq!(removals.stage(NodeId(3), 7), Stage::Removed);
        assert_eq!(removals.stage(NodeId(3), 8), Stage::Stays, "another disk is another host");
        assert_eq!(removals.removed_with(NodeId(3)).collect::<Vec<_>>(), [7]);
    }
}
