//! Sends under way at their coordinator: counting hosts until a batch may be confirmed.
//!
//! The unit is the batch as the client sent it: one process, one partition, one holder list. A
//! host counts when it says that it has the batch on disk *under a list that names every node the
//! batch was sent to*; so when a host fails in mid-send, a stand-in is added, the longer list goes
//! to everybody, and the count starts again for those who have not answered to it (F4: each host
//! counts once, however often it answers).
//!
//! Invariant: a batch is confirmed once, by at least `confirms` distinct nodes, or by fewer only as
//! the queue's `at_least` allows and no further host is in session. What this file does not do: it
//! does not choose hosts and does not send.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{Attempt, Label, NodeId, ProcessId, Refusal, SendException, SentBatch, Stamp};

use crate::envelope::CopyException;
use crate::event::Reply;
use crate::now::Mono;
use crate::ranges::Ranges;
use crate::session::PartitionId;

/// A batch on its way to its holders.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) reply: Reply,
    pub(crate) partition: PartitionId,
    pub(crate) labels: Vec<Label>,
    pub(crate) accepted: Stamp,
    pub(crate) holders: Vec<NodeId>,
    /// Which change of the list this is.
    pub(crate) version: u32,
    /// With which version of the list each host was asked to store it.
    asked: BTreeMap<NodeId, u32>,
    /// Hosts that have it on disk, with the version of the list they answered to.
    held: BTreeMap<NodeId, u32>,
    /// Hosts in session that were asked and have not answered to the present list.
    pub(crate) waiting: BTreeSet<NodeId>,
    /// By position in the batch as the client sent it.
    exceptions: BTreeMap<u32, SendException>,
    /// Where each of the labels stands in the batch as the client sent it.
    positions: Vec<u32>,
    pub(crate) confirms: u8,
    pub(crate) at_least: u8,
    pub(crate) deadline: Mono,
    /// Whether the client has its answer.
    pub(crate) answered: bool,
    /// Whether it went only to hosts that had it already: their rows may name others that lack it.
    pub(crate) placed_before: bool,
    /// Whether it may have been sent before.
    pub(crate) attempt: Attempt,
}

/// Whether a batch may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not yet.
    Wait,
    /// Enough hosts have it.
    Confirm(SentBatch),
}

impl Sending {
    pub(crate) fn new(
        reply: Reply,
        partition: PartitionId,
        labels: Vec<Label>,
        accepted: Stamp,
        deadline: Mono,
    ) -> Self {
        let positions = (0..).take(labels.len()).collect();
        Self {
            reply,
            partition,
            labels,
            positions,
            accepted,
            holders: Vec::new(),
            version: 0,
            asked: BTreeMap::new(),
            held: BTreeMap::new(),
            waiting: BTreeSet::new(),
            exceptions: BTreeMap::new(),
            confirms: 1,
            at_least: 1,
            deadline,
            answered: false,
            placed_before: false,
            attempt: Attempt::First,
        }
    }

    /// These are known to be gone: they are not sent to anybody.
    pub(crate) fn leave_out(&mut self, gone: &Ranges) {
        let labels = std::mem::take(&mut self.labels);
        let positions = std::mem::take(&mut self.positions);
        for (at, label) in positions.into_iter().zip(labels) {
            if gone.contains(label.number) {
                self.exceptions.insert(at, SendException::Gone);
            } else {
                self.positions.push(at);
                self.labels.push(label);
            }
        }
    }

    /// A host in session is asked to store it, under the present list.
    pub(crate) fn ask(&mut self, node: NodeId) {
        self.asked.insert(node, self.version);
        self.waiting.insert(node);
    }

    /// This node has it on disk (by the time that anything said of it leaves).
    pub(crate) fn held_here(&mut self, me: NodeId) {
        self.held.insert(me, self.version);
    }

    /// A host says that it has the batch on disk, but for these.
    pub(crate) fn held_by(&mut self, node: NodeId, exceptions: &[(u32, CopyException)]) {
        for (at, exception) in exceptions {
            self.except(*at, exception);
        }
        let asked = self.asked.get(&node).copied().unwrap_or(0);
        let version = self.held.entry(node).or_insert(asked);
        *version = asked.max(*version);
        if *version == self.version {
            self.waiting.remove(&node);
        }
    }

    /// A host that was asked says that it has the longer list on disk.
    pub(crate) fn relisted_by(&mut self, node: NodeId, version: u32) {
        if version == self.version && self.asked.contains_key(&node) {
            self.held.insert(node, version);
            self.waiting.remove(&node);
        }
    }

    /// A message fared otherwise than the batch.
    pub(crate) fn except(&mut self, at: u32, exception: &CopyException) {
        let known = match exception {
            CopyException::Gone => SendException::Gone,
            CopyException::Clash => SendException::Refused(Refusal::IdClash),
            // The batch is accepted again above the purge by its coordinator.
            CopyException::Purged(_) => return,
        };
        if let Some(at) = self.positions.get(at as usize) {
            self.exceptions.insert(*at, known);
        }
    }

    /// A session ended: nobody waits for that host any more.
    pub(crate) fn lost(&mut self, node: NodeId) {
        self.waiting.remove(&node);
    }

    /// A host has lost its disk: what it said of it is void.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.held.remove(&node);
        self.asked.remove(&node);
    }

    /// A stand-in is added: it is to be asked, and the longer list to be told to everybody else.
    pub(crate) fn extend_list(&mut self, holders: Vec<NodeId>) {
        self.holders = holders;
        self.version += 1;
        self.waiting.extend(self.held.keys().copied());
    }

    /// Nodes that have the batch under a list that names everybody it was sent to.
    pub(crate) fn counted(&self) -> Vec<NodeId> {
        let present = |(_, version): &(&NodeId, &u32)| **version == self.version;
        self.held.iter().filter(present).map(|(node, _)| *node).collect()
    }

    /// Whether some host of the list is not known to have the batch.
    pub(crate) fn is_lacking(&self) -> bool {
        self.placed_before || self.holders.iter().any(|node| !self.held.contains_key(node))
    }

    /// Numbers of the messages that were stored.
    pub(crate) fn stored(&self) -> Ranges {
        let labels = self.positions.iter().zip(&self.labels);
        let stored = labels.filter(|(at, _)| !self.exceptions.contains_key(at));
        stored.map(|(_, label)| label.number).collect()
    }

    /// Those of a host's exceptions that are gone there: their process, numbers and stamps.
    pub(crate) fn gone_at(
        &self,
        exceptions: &[(u32, CopyException)],
    ) -> Option<(ProcessId, (Ranges, Vec<Stamp>))> {
        let gone = exceptions.iter().filter(|(_, e)| *e == CopyException::Gone);
        let labels: Vec<&Label> =
            gone.filter_map(|(at, _)| self.labels.get(*at as usize)).collect();
        let process = labels.first()?.stamp.process;
        let numbers = labels.iter().map(|label| label.number).collect();
        Some((process, (numbers, labels.iter().map(|label| label.stamp).collect())))
    }

    /// Whether others than the receiver of a copy may have handed the messages out before.
    pub(crate) fn copy_attempt(&self) -> Attempt {
        if self.version == 0 { self.attempt } else { Attempt::Again }
    }

    /// Nodes that have the batch, under whatever list.
    pub(crate) fn holding(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.held.keys().copied()
    }

    /// Whether it may be answered now.
    pub(crate) fn verdict(&self) -> Verdict {
        let counted = self.counted().len();
        let all_excepted = self.positions.iter().all(|at| self.exceptions.contains_key(at));
        let enough = counted >= usize::from(self.confirms)
            || (self.waiting.is_empty() && counted >= usize::from(self.at_least));
        if !(enough || all_excepted) {
            return Verdict::Wait;
        }
        Verdict::Confirm(SentBatch {
            accepted: self.accepted,
            copies: u8::try_from(counted).expect("holders are limited"),
            exceptions: self.exceptions.iter().map(|(at, e)| (*at, e.clone())).collect(),
        })
    }

    /// Whether nobody is expected to answer any more.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use gaggle_wire::{Message, ProcessId, QueueId};

    use super::*;
    use crate::event::ClientId;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);
    const D: NodeId = NodeId(4);
    const STAMP: Stamp = Stamp { time: 1, count: 0, process: ProcessId(1) };

    fn sending(confirms: u8, at_least: u8, waiting: &[NodeId]) -> Sending {
        let reply = Reply { client: ClientId(1), stream: 0, request: 1 };
        let (label, _) = Message::new("x").pack(1, STAMP, 0).unwrap();
        let mut sending = Sending::new(reply, (QueueId(STAMP), 0), vec![label], STAMP, Mono(9));
        sending.confirms = confirms;
        sending.at_least = at_least;
        sending.holders = vec![A, B, C];
        for node in waiting {
            sending.ask(*node);
        }
        sending
    }

    fn copies(sending: &Sending) -> Option<u8> {
        match sending.verdict() {
            Verdict::Wait => None,
            Verdict::Confirm(batch) => Some(batch.copies),
        }
    }

    #[test]
    fn a_host_counts_once_however_often_it_answers() {
        let mut sending = sending(2, 2, &[B, C]);
        sending.held_by(B, &[]);
        sending.held_by(B, &[]);
        assert_eq!(copies(&sending), None);
        sending.held_by(C, &[]);
        assert_eq!(copies(&sending), Some(2));
    }

    #[test]
    fn fewer_copies_count_only_when_no_further_host_is_in_session() {
        let mut sending = sending(2, 1, &[B]);
        sending.held_here(A);
        assert_eq!(copies(&sending), None);
        sending.lost(B);
        assert_eq!(copies(&sending), Some(1));
    }

    #[test]
    fn a_host_that_lost_its_disk_has_nothing_though_it_takes_a_longer_list() {
        let mut sending = sending(2, 1, &[B, C]);
        sending.ask(B);
        sending.held_here(A);
        sending.held_by(B, &[]);
        assert_eq!(sending.counted(), [A, B]);
        sending.forget(B);
        sending.relisted_by(B, 0);
        assert_eq!(sending.counted(), [A], "P1: what is gone counts for no confirm");
    }

    #[test]
    fn after_a_stand_in_only_those_who_know_it_count() {
        let mut sending = sending(2, 2, &[B, C]);
        sending.held_here(A);
        sending.lost(C);
        sending.extend_list(vec![A, B, C, D]);
        sending.ask(D);
        sending.held_by(B, &[]);
        assert_eq!(copies(&sending), None, "neither has the list that names the stand-in");
        sending.held_here(A);
        assert_eq!(copies(&sending), None);
        sending.relisted_by(B, 1);
        assert_eq!(copies(&sending), Some(2));
        sending.held_by(D, &[]);
        assert_eq!(copies(&sending), Some(3));
    }

    #[test]
    fn a_batch_of_which_all_is_gone_is_done() {
        let mut sending = sending(2, 2, &[B, C]);
        sending.held_by(B, &[(0, CopyException::Gone)]);
        let Verdict::Confirm(batch) = sending.verdict() else { panic!() };
        assert_eq!(batch.exceptions, [(0, SendException::Gone)]);
    }
}
