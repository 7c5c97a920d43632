//! Rendezvous hashing: a ranking of nodes for every slot, the same on every node, from their ids
//! alone (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998).
//!
//! Each node's weight for a slot is a hash of both; the highest ranks first. When a node comes
//! or goes, only its own place in each ranking changes, and nobody had to agree on anything.
//! The hash is a contract: another one would move every message; its golden test stands below.
//!
//! Invariant: [`order`] depends on slot and ids only, so two nodes always agree on who precedes
//! whom. [`homes`] also spreads over zones and so depends on the view; it only proposes.

use gaggle_wire::{NodeId, QueueId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// One of [`Slot::COUNT`] rankings of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

impl Slot {
    /// Enough that a hundred nodes share the load evenly, few enough to keep a ranking of each.
    pub const COUNT: u16 = 1024;

    /// The slot of a queue's partition.
    #[must_use]
    pub fn of(queue: QueueId, partition: u16) -> Self {
        let mut bytes = [0; 22];
        bytes[..20].copy_from_slice(&queue.0.to_bytes());
        bytes[20..].copy_from_slice(&partition.to_be_bytes());
        let slot = xxh3_64(&bytes) % u64::from(Self::COUNT);
        Self(u16::try_from(slot).expect("below the count of slots"))
    }
}

/// The weight of a node in a slot.
#[must_use]
pub fn weight(slot: Slot, node: NodeId) -> u64 {
    xxh3_64_with_seed(&node.0.to_be_bytes(), u64::from(slot.0))
}

/// Sorts nodes by the slot's ranking, first ranked first.
pub fn order(slot: Slot, nodes: &mut [NodeId]) {
    nodes.sort_by_cached_key(|node| (std::cmp::Reverse(weight(slot, *node)), *node));
}

/// Ranks nodes for placing: by weight, but one of each zone before a second of any. Nodes without
/// a zone (empty name) count as a zone of their own each.
#[must_use]
pub fn homes<'z>(slot: Slot, nodes: impl IntoIterator<Item = (NodeId, &'z str)>) -> Vec<NodeId> {
    let mut left: Vec<(NodeId, &str)> = nodes.into_iter().collect();
    left.sort_by_cached_key(|(node, _)| (std::cmp::Reverse(weight(slot, *node)), *node));
    let mut ranking = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let mut zones: Vec<&str> = Vec::new();
        left.retain(|(node, zone)| {
            if !zone.is_empty() && zones.contains(zone) {
                return true;
            }
            zones.push(zone);
            ranking.push(*node);
            false
        });
    }
    ranking
}

#[cfg(test)]
mod tests {
    use gaggle_wire::{ProcessId, Stamp};

    use super::*;

    fn nodes(count: u64) -> Vec<NodeId> {
        (1..=count).map(NodeId).collect()
    }

    #[test]
    fn the_ranking_is_a_contract() {
        let queue = QueueId(Stamp { time: 1, count: 2, process: ProcessId(3) });
        let slots: Vec<u16> = (0..4).map(|partition| Slot::of(queue, partition).0).collect();
        assert_eq!(slots, GOLDEN_SLOTS);
        let rankings: Vec<Vec<u64>> = (0..3)
            .map(|slot| {
                let mut ranking = nodes(5);
                order(Slot(slot), &mut ranking);
                ranking.into_iter().map(|node| node.0).collect()
            })
            .collect();
        assert_eq!(rankings, GOLDEN_RANKINGS);
    }

    const GOLDEN_SLOTS: [u16; 4] = [681, 56, 706, 135];
    const GOLDEN_RANKINGS: [[u64; 5]; 3] = [[1, 3, 5, 4, 2], [5, 4, 2, 1, 3], [1, 2, 5, 4, 3]];

    #[test]
    fn a_leaving_node_moves_only_its_own_slots() {
        for slot in (0..Slot::COUNT).map(Slot) {
            let (mut before, mut after) = (nodes(6), nodes(5));
            order(slot, &mut before);
            order(slot, &mut after);
            before.retain(|node| *node != NodeId(6));
            assert_eq!(before, after);
        }
    }

    #[test]
    fn load_is_even() {
        let mut first = [0_u32; 5];
        for slot in (0..Slot::COUNT).map(Slot) {
            let mut ranking = nodes(5);
            order(slot, &mut ranking);
            first[usize::try_from(ranking[0].0).unwrap() - 1] += 1;
        }
        assert!(first.iter().all(|count| (150..260).contains(count)), "{first:?}");
    }

    #[test]
    fn one_host_per_zone_comes_before_a_second_one() {
        let zones = ["a", "a", "b", "b", "c"];
        for slot in (0..Slot::COUNT).map(Slot) {
            let ranking = homes(slot, nodes(5).into_iter().zip(zones));
            let mut first: Vec<&str> =
                ranking[..3].iter().map(|node| zones[node.0 as usize - 1]).collect();
            first.sort_unstable();
            assert_eq!(first, ["a", "b", "c"]);
        }
        let plain = homes(Slot(7), nodes(5).into_iter().map(|node| (node, "")));
        let mut ordered = nodes(5);
        order(Slot(7), &mut ordered);
        assert_eq!(plain, ordered);
    }
}
