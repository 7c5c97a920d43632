//! Replacing: one more holder for what a host held that has been away for long.
//!
//! A host that is away is never struck from a list: it may come back with everything. It is made
//! up for: the list grows by the next host of the ranking, every holder in session has the longer
//! list on disk, and only then the copy leaves. So whoever deletes the message, and whoever of
//! the holders dies, the tombstone knows its way to the new copy (P4). What a holder that is in no
//! session with this node has buried meanwhile, or will, the new one asks it for.
//!
//! One batch is under way at a time, and the next one waits until the last has been paid for at
//! the rate that repair is allowed: foreground traffic goes first. What is done needs no memory:
//! a list that is long enough needs nothing, so a walk that begins anew passes it by.
//!
//! Invariants: no copy leaves before all holders in session have the longer list; a list only
//! grows. What this file does not do: it chooses no hosts, reads no rows and does not send.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{NodeId, Stamp};

use super::pace::Pace;
use crate::envelope::CopyItem;
use crate::now::Mono;
use crate::session::PartitionId;

/// Who is away, and what is being done about it.
#[derive(Debug, Default)]
pub(crate) struct Replacing {
    /// Since when there has been no session with each node that is known or listed.
    away: BTreeMap<NodeId, Mono>,
    /// Up to where the present walk over the rows has come.
    pub(crate) walk: Walk,
    under_way: Option<Move>,
    pub(crate) pace: Pace,
}

/// A walk over the rows of all partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Walk {
    /// Nothing is to be done, as far as is known.
    #[default]
    Over,
    /// It goes on behind this row, or with the first one of this partition or a later one.
    At(PartitionId, Option<Stamp>),
    /// A page is being read; until it is here nothing else is.
    Reading,
}

/// Copies on their way to one more holder.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) batch: u64,
    pub(crate) id: PartitionId,
    pub(crate) to: NodeId,
    pub(crate) items: Vec<CopyItem>,
    /// Holders in session that do not have the longer list on disk yet.
    listing: BTreeSet<NodeId>,
    sent: bool,
}

impl Replacing {
    /// Notes which of these nodes are away. One in session is not, however long it was.
    pub(crate) fn look(
        &mut self,
        now: Mono,
        nodes: &BTreeSet<NodeId>,
        is_here: impl Fn(NodeId) -> bool,
    ) {
        self.away.retain(|node, _| nodes.contains(node) && !is_here(*node));
        for node in nodes.iter().filter(|node| !is_here(**node)) {
            self.away.entry(*node).or_insert(now);
        }
    }

    /// Nodes that have been away for so long that they are made up for.
    pub(crate) fn long_away(&self, now: Mono, after: Duration) -> BTreeSet<NodeId> {
        let long = self.away.iter().filter(|(_, since)| now.since(**since) >= after);
        long.map(|(node, _)| *node).collect()
    }

    /// How long it takes until all who are away are made up for.
    pub(crate) fn patience(&self, now: Mono, after: Duration) -> Duration {
        let left = self.away.values().map(|since| after.saturating_sub(now.since(*since)));
        left.max().unwrap_or_default()
    }

    /// Whether a batch is under way.
    pub(crate) fn is_moving(&self) -> bool {
        self.under_way.is_some()
    }

    /// Starts a batch of copies; these holders in session have to have the longer list first.
    pub(crate) fn start(
        &mut self,
        (batch, id, to): (u64, PartitionId, NodeId),
        items: Vec<CopyItem>,
        listing: BTreeSet<NodeId>,
    ) {
        self.under_way = Some(Move { batch, id, to, items, listing, sent: false });
    }

    /// A holder has the longer list on disk.
    pub(crate) fn listed_by(&mut self, node: NodeId, batch: u64) {
        if let Some(begun) = self.under_way.as_mut().filter(|begun| begun.batch == batch) {
            begun.listing.remove(&node);
        }
    }

    /// The batch whose copies may leave now, once.
    pub(crate) fn take_ready(&mut self) -> Option<&mut Move> {
        let ready = |begun: &&mut Move| begun.listing.is_empty() && !begun.sent;
        let begun = self.under_way.as_mut().filter(ready)?;
        begun.sent = true;
        Some(begun)
    }

    /// The new holder has the copies on disk: what was moved.
    pub(crate) fn held_by(&mut self, node: NodeId, batch: u64) -> Option<Move> {
        let done = |begun: &Move| begun.sent && begun.batch == batch && begun.to == node;
        if self.under_way.as_ref().is_some_and(done) { self.under_way.take() } else { None }
    }

    /// A session ended. A batch on its way to that node is given up; its list stays longer.
    pub(crate) fn lost(&mut self, node: NodeId) {
        if self.under_way.as_ref().is_some_and(|begun| begun.to == node) {
            self.under_way = None;
        } else if let Some(begun) = &mut self.under_way {
            begun.listing.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use gaggle_wire::QueueId;

    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);
    const AFTER: Duration = Duration::from_nanos(10);
    const ID: PartitionId = (QueueId(Stamp::ZERO), 0);

    #[test]
    fn who_comes_back_in_between_has_not_been_away_for_long() {
        let mut replacing = Replacing::default();
        let all = [A, B].into();
        replacing.look(Mono(0), &all, |node| node == A);
        assert_eq!(replacing.long_away(Mono(9), AFTER), [].into());
        assert_eq!(replacing.patience(Mono(4), AFTER), Duration::from_nanos(6));
        assert_eq!(replacing.long_away(Mono(10), AFTER), [B].into());
        replacing.look(Mono(11), &all, |_| true);
        replacing.look(Mono(12), &all, |node| node == A);
        assert_eq!(replacing.long_away(Mono(21), AFTER), [].into());
        assert_eq!(replacing.long_away(Mono(22), AFTER), [B].into());
    }

    #[test]
    fn copies_leave_once_when_every_holder_in_session_has_the_longer_list() {
        let mut replacing = Replacing::default();
        replacing.start((7, ID, C), Vec::new(), [A, B].into());
        assert!(replacing.take_ready().is_none());
        replacing.listed_by(A, 7);
        replacing.listed_by(B, 6);
        assert!(replacing.take_ready().is_none(), "another batch's answer does not count");
        assert!(replacing.held_by(C, 7).is_none());
        replacing.lost(B);
        assert!(replacing.take_ready().is_some());
        assert!(replacing.take_ready().is_none());
        assert!(replacing.held_by(B, 7).is_none());
        assert!(replacing.held_by(C, 7).is_some());
        assert!(!replacing.is_moving());
    }

    #[test]
    fn a_batch_to_a_host_that_is_lost_is_given_up() {
        let mut replacing = Replacing::default();
        replacing.start((7, ID, C), Vec::new(), [].into());
        replacing.lost(C);
        assert!(!replacing.is_moving());
    }
}
