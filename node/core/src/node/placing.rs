//! Placing: which hosts a message of a partition should have, and which of them take it now.
//!
//! The *ranking* of a partition depends on who is a member and on zones alone, so that all nodes
//! have the same; its first are the *homes*. New copies go by the *placement*: who is short of
//! space comes last, and whose disk is full not at all. That is what each node heard last, and two
//! may differ in it for a while: lists are told by rankings, never by placements.
//!
//! What this file does not do: it sends nothing; what is sent again goes to nobody new while
//! enough of those who were asked have it (`sending.rs`).

use gaggle_wire::NodeId;

use super::Node;
use crate::session::PartitionId;
use crate::space::Space;
use crate::table::Stage;
use crate::table::rendezvous::{self, Slot};

impl Node {
    /// The hosts that should hold a partition's messages, here or away.
    pub(super) fn homes(&self, id: PartitionId) -> Vec<NodeId> {
        let mut ranking = self.ranking(id);
        ranking.truncate(self.replicas(id));
        ranking
    }

    fn replicas(&self, id: PartitionId) -> usize {
        self.table.live(id.0).map_or(0, |entry| usize::from(entry.settings().replicas))
    }

    /// All members but those that are to leave, in the order of the partition's slot.
    ///
    /// The pinned hosts of a strict partition come first.
    pub(super) fn ranking(&self, id: PartitionId) -> Vec<NodeId> {
        let nodes = self.members().filter(|node| self.stage(*node) == Stage::Stays);
        let nodes = nodes.map(|node| (node, self.membership.zone(node)));
        let mut ranking = rendezvous::homes(Slot::of(id.0, id.1), nodes);
        if let Some(pinned) = self.table.live(id.0).and_then(|entry| entry.pinned(id.1)) {
            ranking.sort_by_key(|node| !pinned.has_node(*node));
        }
        ranking
    }

    /// The ranking, as far as new copies can be taken.
    pub(super) fn placement(&self, id: PartitionId) -> Vec<NodeId> {
        let (mut placement, mut scarce) = (Vec::new(), Vec::new());
        for node in self.ranking(id) {
            match self.space(node) {
                Space::Plenty => placement.push(node),
                Space::Scarce => scarce.push(node),
                Space::Full => {}
            }
        }
        placement.append(&mut scarce);
        placement
    }

    /// The hosts that take a message now, and a stand-in for each that is away.
    pub(super) fn holders(&self, id: PartitionId, replicas: usize) -> Vec<NodeId> {
        let placement = self.placement(id);
        let (homes, others) = placement.split_at(replicas.min(placement.len()));
        let away = homes.iter().filter(|node| !self.sessions.reaches(**node)).count();
        let stand_ins = others.iter().filter(|node| self.sessions.reaches(**node)).take(away);
        let mut holders: Vec<NodeId> = homes.iter().chain(stand_ins).copied().collect();
        rendezvous::order(Slot::of(id.0, id.1), &mut holders);
        holders
    }

    /// Who may have a message that is sent again: the home hosts, who takes its like now, and who
    /// was one of these a moment ago.
    pub(super) fn may_have(&self, id: PartitionId) -> Vec<NodeId> {
        let most = self.replicas(id) + NEW_HOMES;
        let mut nodes = self.ranking(id);
        nodes.truncate(most);
        let further = self.placement(id).into_iter().take(most).chain(self.leaving());
        for node in further {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// Whether the disk of a node is full, as far as is known here.
    pub(super) fn is_full(&self, node: NodeId) -> bool {
        self.space(node) == Space::Full
    }

    fn space(&self, node: NodeId) -> Space {
        if node == self.config.node {
            return self.run.space;
        }
        self.membership.view().member(node).map_or(Space::Plenty, |member| member.readiness.space)
    }
}

/// So many nodes behind the home hosts are asked as well: each node that joins a cluster takes the
/// place of a home host, and only that one may know that a message is deleted (P11).
const NEW_HOMES: usize = 2;
