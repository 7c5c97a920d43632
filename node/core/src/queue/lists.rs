//! Holder lists: which hosts should have a copy of which messages, as this host knows it.
//!
//! Lists are few, messages are many: each list is kept once, with the messages under it as
//! ranges. A list only grows: whenever two nodes speak of an id, their lists merge. That is what
//! makes a delete reach every copy, also one that a second send of the same id left at a host
//! which the first one did not know of (P4).
//!
//! Invariants: a message is under one list; the nodes of a list stand in the slot's order, each
//! once, and no more of them than a row can name. What this file does not do: rows have their list
//! on disk; who changes it here has it written there.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{NodeId, ProcessId};

use crate::custody::burial::{Numbers, merge_numbers};
use crate::ledger::MessageRecord;
use crate::ranges::Ranges;
use crate::table::rendezvous::{self, Slot};

/// All lists of a partition.
#[derive(Debug)]
pub(crate) struct Lists {
    slot: Slot,
    lists: Vec<List>,
    epoch: u64,
}

/// Names an interned holder list of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListId(u16);

#[derive(Debug)]
struct List {
    nodes: Vec<NodeId>,
    /// Whether this node hands out what is under it, as of the last refresh.
    serves: bool,
    held: BTreeMap<ProcessId, Ranges>,
}

impl Lists {
    pub(crate) fn new(slot: Slot) -> Self {
        Self { slot, lists: Vec::new(), epoch: 0 }
    }

    /// Interns a list. Of more nodes than a row can name, which no cluster has, those stay that
    /// come first in the slot's order: the home hosts are among them.
    pub(crate) fn intern(&mut self, nodes: &[NodeId]) -> ListId {
        let mut nodes = nodes.to_vec();
        rendezvous::order(self.slot, &mut nodes);
        nodes.dedup();
        nodes.truncate(MessageRecord::HOLDERS_MAX);
        let at = self.lists.iter().position(|list| list.nodes == nodes).unwrap_or_else(|| {
            self.lists.push(List { nodes, serves: false, held: BTreeMap::new() });
            self.epoch = 0;
            self.lists.len() - 1
        });
        ListId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    /// Whether there is more than one list.
    pub(crate) fn are_many(&self) -> bool {
        self.lists.len() > 1
    }

    /// The nodes of a list, in the slot's order.
    pub(crate) fn nodes(&self, list: ListId) -> &[NodeId] {
        &self.lists[usize::from(list.0)].nodes
    }

    /// A message is stored under this list.
    pub(crate) fn hold(&mut self, list: ListId, process: ProcessId, number: u64) {
        self.lists[usize::from(list.0)].held.entry(process).or_default().insert(number);
    }

    /// These messages are here no more.
    pub(crate) fn drop_held(&mut self, process: ProcessId, numbers: &Ranges) {
        for list in &mut self.lists {
            if let Some(held) = list.held.get_mut(&process) {
                held.subtract(numbers);
                if held.is_empty() {
                    list.held.remove(&process);
                }
            }
        }
    }

    /// The list of a message that is here.
    pub(crate) fn of(&self, process: ProcessId, number: u64) -> Option<ListId> {
        let under = |list: &List| list.held.get(&process).is_some_and(|of| of.contains(number));
        let at = self.lists.iter().position(under)?;
        u16::try_from(at).ok().map(ListId)
    }

    /// All nodes that should have any of these messages.
    pub(crate) fn nodes_of(&self, messages: &[(ProcessId, Ranges)]) -> BTreeSet<NodeId> {
        let under = |list: &&List| {
            messages.iter().any(|(process, numbers)| {
                list.held.get(process).is_some_and(|of| !of.intersection(numbers).is_empty())
            })
        };
        self.lists.iter().filter(under).flat_map(|list| list.nodes.iter().copied()).collect()
    }

    /// All nodes that should have anything that is here.
    pub(crate) fn listed(&self) -> BTreeSet<NodeId> {
        self.used().flat_map(|(nodes, _)| nodes.iter().copied()).collect()
    }

    /// Lists under which anything is, with the messages under them.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&[NodeId], &BTreeMap<ProcessId, Ranges>)> {
        let used = self.lists.iter().filter(|list| !list.held.is_empty());
        used.map(|list| (&list.nodes[..], &list.held))
    }

    /// What is here that this node should have as well.
    pub(crate) fn held_for(&self, node: NodeId) -> BTreeMap<ProcessId, Ranges> {
        let mut numbers: BTreeMap<ProcessId, Ranges> = BTreeMap::new();
        for list in self.lists.iter().filter(|list| list.nodes.contains(&node)) {
            for (process, held) in &list.held {
                numbers.entry(*process).or_default().merge(held);
            }
        }
        numbers
    }

    /// What is here that only this node should have.
    pub(crate) fn held_alone(&self, node: NodeId) -> BTreeMap<ProcessId, Ranges> {
        let alone = self.lists.iter().find(|list| list.nodes == [node]);
        alone.map_or_else(BTreeMap::new, |list| list.held.clone())
    }

    /// Lists under which anything is that this node hands out, with the messages under them.
    pub(crate) fn served(&self) -> impl Iterator<Item = (&[NodeId], &BTreeMap<ProcessId, Ranges>)> {
        let served = self.lists.iter().filter(|list| list.serves && !list.held.is_empty());
        served.map(|list| (&list.nodes[..], &list.held))
    }

    /// Lists with the messages under them: of these messages, or of all that are not under this
    /// one list.
    pub(crate) fn told(&self, which: Told<'_>) -> Vec<(Vec<NodeId>, Numbers)> {
        let mut told = Vec::new();
        for list in &self.lists {
            let numbers: Numbers = match which {
                Told::Except(nodes) if list.nodes.iter().eq(nodes.iter()) => Vec::new(),
                Told::Except(_) => list.held.iter().map(|(of, n)| (*of, n.clone())).collect(),
                Told::These(messages) => intersection(&list.held, messages),
            };
            if !numbers.is_empty() {
                told.push((list.nodes.clone(), numbers));
            }
        }
        told
    }

    /// Somebody names these nodes for these messages: those that are here under a list which lacks
    /// some of them come under a longer one. Which they are.
    pub(crate) fn merge(&mut self, nodes: &[NodeId], messages: &[(ProcessId, Ranges)]) -> Numbers {
        let mut moved: Numbers = Vec::new();
        for at in 0..self.lists.len() {
            let present = &self.lists[at].nodes;
            let more = nodes.iter().filter(|node| !present.contains(node));
            let longer: Vec<NodeId> = present.iter().chain(more).copied().collect();
            if longer.len() == present.len() || present.len() == MessageRecord::HOLDERS_MAX {
                continue;
            }
            let numbers = intersection(&self.lists[at].held, messages);
            if numbers.is_empty() {
                continue;
            }
            let ListId(to) = self.intern(&longer);
            for (process, numbers) in &numbers {
                if let Some(held) = self.lists[at].held.get_mut(process) {
                    held.subtract(numbers);
                }
                self.lists[at].held.retain(|_, held| !held.is_empty());
                self.lists[usize::from(to)].held.entry(*process).or_default().merge(numbers);
            }
            merge_numbers(&mut moved, &numbers);
        }
        moved
    }

    /// Whether this node hands out what is under this list, as of the last refresh.
    pub(crate) fn serves(&self, list: ListId) -> bool {
        self.lists[usize::from(list.0)].serves
    }

    /// Whether this node hands out what is under any list.
    pub(crate) fn serves_any(&self) -> bool {
        self.lists.iter().any(|list| list.serves)
    }

    /// Whether it was looked at since sessions changed last.
    pub(crate) fn is_fresh(&self, epoch: u64) -> bool {
        self.epoch == epoch
    }

    /// Looks again at what may be handed out; whether that changed.
    pub(crate) fn refresh(&mut self, epoch: u64, may_serve: impl Fn(&[NodeId]) -> bool) -> bool {
        self.epoch = epoch;
        let mut changed = false;
        for list in &mut self.lists {
            let serves = may_serve(&list.nodes);
            changed |= serves != list.serves;
            list.serves = serves;
        }
        changed
    }
}

/// Which messages a node is told the lists of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told<'a> {
    /// These.
    These(&'a [(ProcessId, Ranges)]),
    /// All but those under this list, in the slot's order.
    Except(&'a [NodeId]),
}

fn intersection(held: &BTreeMap<ProcessId, Ranges>, messages: &[(ProcessId, Ranges)]) -> Numbers {
    let each = messages.iter().filter_map(|(process, numbers)| {
        let both = held.get(process)?.intersection(numbers);
        (!both.is_empty()).then_some((*process, both))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use gaggle_wire::{QueueId, Stamp};

    use super::*;

    const P: ProcessId = ProcessId(1);

    fn lists() -> Lists {
        Lists::new(Slot::of(QueueId(Stamp::ZERO), 0))
    }

    fn nodes(ids: &[u64]) -> Vec<NodeId> {
        ids.iter().map(|id| NodeId(*id)).collect()
    }

    #[test]
    fn a_list_grows_for_the_messages_that_were_named() {
        let mut lists = lists();
        let short = lists.intern(&nodes(&[1, 2]));
        for number in 1..=9 {
            lists.hold(short, P, number);
        }
        let named = [(P, Ranges::of(3, 20))];
        assert_eq!(lists.merge(&nodes(&[2, 3]), &named), [(P, Ranges::of(3, 9))]);
        assert!(lists.merge(&nodes(&[2, 3]), &named).is_empty(), "merging again changes nothing");
        assert_eq!(lists.of(P, 2), Some(short));
        assert_eq!(
            lists.nodes_of(&[(P, Ranges::of(9, 9))]),
            nodes(&[1, 2, 3]).into_iter().collect()
        );
        let told = lists.told(Told::Except(lists.nodes(short)));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].1, [(P, Ranges::of(3, 9))]);
    }

    #[test]
    fn what_is_gone_is_under_no_list() {
        let mut lists = lists();
        let list = lists.intern(&nodes(&[1, 2]));
        lists.hold(list, P, 4);
        assert!(!lists.listed().is_empty());
        lists.drop_held(P, &Ranges::of(1, 9));
        assert_eq!(lists.of(P, 4), None);
        assert!(lists.listed().is_empty() && lists.told(Told::Except(&[])).is_empty());
    }

    #[test]
    fn a_new_list_that_is_not_served_changes_nothing() {
        let mut lists = lists();
        lists.intern(&nodes(&[1, 2]));
        assert!(lists.refresh(5, |_| true));
        lists.intern(&nodes(&[3]));
        assert!(!lists.is_fresh(5));
        assert!(!lists.refresh(5, |nodes| nodes.len() == 2));
        assert!(lists.refresh(6, |_| false));
    }
}
