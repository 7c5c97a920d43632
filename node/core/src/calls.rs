//! Calls: questions to other nodes, and requests that several of them answer together.
//!
//! A call waits for the nodes that were asked, or its time, whichever comes first; a node whose
//! session ended is not waited for. A *batch* is a client's request with many receipts of which
//! each may take its own way; it is answered when the last result is in.
//!
//! What this file does not do: it does not ask and does not answer; it only counts.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{NodeId, Refusal, Request, Response};

use crate::event::Reply;
use crate::now::Mono;

/// A question that is under way.
#[derive(Debug)]
pub(crate) struct Call<K> {
    pub(crate) waiting: BTreeSet<NodeId>,
    pub(crate) answered: BTreeSet<NodeId>,
    pub(crate) deadline: Mono,
    pub(crate) kind: K,
}

/// All questions that are under way, of every kind `K`.
#[derive(Debug)]
pub(crate) struct Calls<K> {
    calls: BTreeMap<u64, Call<K>>,
    next: u64,
}

impl<K> Default for Calls<K> {
    fn default() -> Self {
        Self { calls: BTreeMap::new(), next: 0 }
    }
}

impl<K> Calls<K> {
    /// Starts a call; the number to ask with.
    pub(crate) fn start(
        &mut self,
        waiting: impl IntoIterator<Item = NodeId>,
        deadline: Mono,
        kind: K,
    ) -> u64 {
        self.next += 1;
        let waiting = waiting.into_iter().collect();
        self.calls.insert(self.next, Call { waiting, answered: BTreeSet::new(), deadline, kind });
        self.next
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// What all those are about that are under way and have time left.
    pub(crate) fn kinds(&self, now: Mono) -> impl Iterator<Item = &K> {
        self.calls.values().filter(move |call| call.deadline > now).map(|call| &call.kind)
    }

    /// The calls that this node has not answered, be it that it was never asked.
    pub(crate) fn unanswered_by(&self, node: NodeId) -> impl Iterator<Item = (u64, &K)> {
        let unanswered = self.calls.iter().filter(move |(_, call)| !call.answered.contains(&node));
        unanswered.map(|(number, call)| (*number, &call.kind))
    }

    /// This node is asked as well.
    pub(crate) fn wait_for(&mut self, call: u64, node: NodeId) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.waiting.insert(node);
        }
    }

    /// The call, if this node has not answered it yet.
    pub(crate) fn waits_for(&mut self, call: u64, node: NodeId) -> Option<&mut Call<K>> {
        self.calls.get_mut(&call).filter(|call| call.waiting.contains(&node))
    }

    /// A node answered; the call, to note what it said.
    pub(crate) fn answer(&mut self, call: u64, node: NodeId) -> Option<&mut Call<K>> {
        let found = self.calls.get_mut(&call)?;
        found.waiting.remove(&node);
        found.answered.insert(node);
        Some(found)
    }

    /// What was answered is enough: nobody is waited for any more.
    pub(crate) fn suffices(&mut self, call: u64) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.waiting.clear();
        }
    }

    /// What a call is about.
    pub(crate) fn kind(&self, call: u64) -> Option<&K> {
        self.calls.get(&call).map(|call| &call.kind)
    }

    /// Takes the call out if nobody is waited for any more.
    pub(crate) fn finish(&mut self, call: u64) -> Option<Call<K>> {
        if self.calls.get(&call)?.waiting.is_empty() { self.calls.remove(&call) } else { None }
    }

    /// A session ended: calls that wait for nobody any more.
    pub(crate) fn lost(&mut self, node: NodeId) -> Vec<u64> {
        let mut over = Vec::new();
        for (number, call) in &mut self.calls {
            if call.waiting.remove(&node) && call.waiting.is_empty() {
                over.push(*number);
            }
        }
        over
    }

    /// Takes calls out whose time is up.
    pub(crate) fn overdue(&mut self, now: Mono) -> Vec<Call<K>> {
        self.take_out(|call| call.deadline <= now)
    }

    /// Takes calls out that are about this.
    pub(crate) fn take(&mut self, is_it: impl Fn(&K) -> bool) -> Vec<Call<K>> {
        self.take_out(|call| is_it(&call.kind))
    }

    fn take_out(&mut self, is_it: impl Fn(&Call<K>) -> bool) -> Vec<Call<K>> {
        self.calls.extract_if(.., |_, call| is_it(call)).map(|(_, call)| call).collect()
    }

    /// When the first call's time is up.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.calls.values().map(|call| call.deadline).min()
    }
}

/// A client's request of which each receipt has its own result.
#[derive(Debug)]
pub(crate) struct Batch<R> {
    pub(crate) reply: Reply,
    results: Vec<Option<R>>,
    left: usize,
}

impl<R> Batch<R> {
    pub(crate) fn new(reply: Reply, count: usize) -> Self {
        Self { reply, results: std::iter::repeat_with(|| None).take(count).collect(), left: count }
    }

    /// Notes one result; the first one stays.
    pub(crate) fn set(&mut self, at: usize, result: R) {
        if let Some(slot @ None) = self.results.get_mut(at) {
            *slot = Some(result);
            self.left -= 1;
        }
    }

    /// All results, once the last is in.
    pub(crate) fn take(&mut self) -> Option<Vec<R>> {
        if self.left == 0 { self.results.drain(..).collect() } else { None }
    }
}

/// A request that waits until the other nodes have said whether they know its queue.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    pub(crate) reply: Reply,
    pub(crate) request: Request,
}

/// What is said once enough nodes have a table entry on disk.
#[derive(Debug)]
pub(crate) struct TableChange {
    pub(crate) reply: Reply,
    pub(crate) response: Response,
    pub(crate) confirms: u8,
}

impl TableChange {
    /// The answer, when so many nodes have it.
    pub(crate) fn outcome(self, nodes: usize) -> (Reply, Response) {
        let enough = nodes >= usize::from(self.confirms);
        let refused = Response::Refused(Refusal::OutcomeUnknown);
        (self.reply, if enough { self.response } else { refused })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ClientId;

    #[test]
    fn a_call_ends_when_the_last_node_answered_or_is_lost() {
        let mut calls = Calls::default();
        let call = calls.start([NodeId(1), NodeId(2)], Mono(9), "kind");
        calls.answer(call, NodeId(1)).unwrap();
        assert!(calls.finish(call).is_none());
        assert_eq!(calls.lost(NodeId(2)), [call]);
        assert_eq!(calls.finish(call).unwrap().answered, [NodeId(1)].into());
        assert!(calls.finish(call).is_none());
    }

    #[test]
    fn a_batch_is_whole_when_every_result_is_in() {
        let reply = Reply { client: ClientId(1), stream: 0, request: 1 };
        let mut batch = Batch::new(reply, 2);
        batch.set(1, 'b');
        batch.set(1, 'x');
        assert_eq!(batch.take(), None);
        batch.set(0, 'a');
        assert_eq!(batch.take(), Some(vec!['a', 'b']));
    }
}
