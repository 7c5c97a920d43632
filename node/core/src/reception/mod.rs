//! The reception: who waits for messages here, and what is offered elsewhere.
//!
//! Clients wait at any node, once or with a stream. A node with waiters tells every other that it
//! *wants* the queue. A host with ready messages *offers*; the node *takes* as many as its waiters
//! still lack; the host *grants* them, leased. So nothing is granted that nobody asked for, a
//! waiting consumer learns at once of a message anywhere (P10), and without faults no grant comes
//! back.
//!
//! Invariant: what is taken and not yet granted for a waiter, together with what it was given,
//! never exceeds its credit. What this room does not do: it does not know messages; it counts.

mod waiter;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use gaggle_wire::{NodeId, QueueId};

pub(crate) use waiter::{Kind, Stream, Waiter, WaiterId};

use crate::event::ClientId;
use crate::ledger::MessageKey;
use crate::now::Mono;

/// Who waits, who offers, who wants.
#[derive(Debug, Default)]
pub(crate) struct Reception {
    waiters: BTreeMap<WaiterId, Waiter>,
    by_queue: BTreeMap<QueueId, VecDeque<WaiterId>>,
    /// Queues that the other nodes were told to be wanted here; since when nobody waits.
    wanted: BTreeMap<QueueId, Option<Mono>>,
    /// What other nodes want, and whether the present messages were offered to them.
    wants: BTreeMap<QueueId, BTreeMap<NodeId, Offered>>,
    /// What other nodes offer: the time of their oldest stamp.
    offers: BTreeMap<QueueId, BTreeMap<NodeId, u64>>,
    takes: BTreeMap<u64, Taking>,
    next_take: u64,
    /// Queues at which something changed since they were last served.
    touched: BTreeSet<QueueId>,
}

/// Whether a node knows that there are messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It has to be told.
    No,
    /// It was told and has not taken.
    Yes,
}

/// A take that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taking {
    pub(crate) peer: NodeId,
    pub(crate) queue: QueueId,
    pub(crate) waiter: WaiterId,
    pub(crate) max: u32,
}

impl Reception {
    /// Somebody waits.
    pub(crate) fn enter(&mut self, id: WaiterId, waiter: Waiter) {
        for queue in &waiter.queues {
            self.by_queue.entry(*queue).or_default().push_back(id);
            self.touched.insert(*queue);
        }
        self.waiters.insert(id, waiter);
    }

    /// Another queue of the same name has come to light: whoever waits for the one waits for both.
    pub(crate) fn join(&mut self, known: QueueId, other: QueueId) {
        for id in self.waiting(known).collect::<Vec<_>>() {
            if let Some(waiter) = self.waiters.get_mut(&id)
                && !waiter.queues.contains(&other)
            {
                waiter.queues.push(other);
                self.by_queue.entry(other).or_default().push_back(id);
                self.touched.insert(other);
            }
        }
    }

    /// Somebody has what it wanted, or is gone.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        for queue in &waiter.queues {
            if let Some(ids) = self.by_queue.get_mut(queue) {
                ids.retain(|present| *present != id);
                if ids.is_empty() {
                    self.by_queue.remove(queue);
                }
            }
            self.touched.insert(*queue);
        }
        Some(waiter)
    }

    pub(crate) fn waiter_mut(&mut self, id: WaiterId) -> Option<&mut Waiter> {
        self.waiters.get_mut(&id)
    }

    pub(crate) fn waiter(&self, id: WaiterId) -> Option<&Waiter> {
        self.waiters.get(&id)
    }

    /// Those who wait for a queue, the one to be served next first.
    pub(crate) fn waiting(&self, queue: QueueId) -> impl Iterator<Item = WaiterId> + '_ {
        self.by_queue.get(&queue).into_iter().flatten().copied()
    }

    /// The first waiter of the queue that can take more now.
    pub(crate) fn next_with_credit(&self, queue: QueueId) -> Option<(WaiterId, &Waiter)> {
        self.waiting(queue)
            .map(|id| (id, &self.waiters[&id]))
            .find(|(_, waiter)| waiter.credit() > 0)
    }

    /// Who was served goes to the end of the line.
    pub(crate) fn rotate(&mut self, queue: QueueId, id: WaiterId) {
        if let Some(ids) = self.by_queue.get_mut(&queue)
            && let Some(at) = ids.iter().position(|present| *present == id)
        {
            ids.remove(at);
            ids.push_back(id);
        }
    }

    /// An answer went to a waiter without this message: a stream has room for another one.
    pub(crate) fn missed(&mut self, id: WaiterId, key: MessageKey) {
        if let Some(waiter) = self.waiters.get_mut(&id)
            && let Kind::Stream(stream) = &mut waiter.kind
        {
            stream.missed(key);
            self.touched.extend(waiter.queues.iter().copied());
        }
    }

    /// Waiters of a client.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<WaiterId> {
        let from = WaiterId { client, request: 0 };
        let to = WaiterId { client, request: u64::MAX };
        self.waiters.range(from..=to).map(|(id, _)| *id).collect()
    }

    /// Whether a stream was given what it has not taken yet, or another node is still to say what
    /// it grants: what it grants to a node that is gone stays hidden.
    pub(crate) fn is_owed(&self) -> bool {
        let untaken = self.waiters.values().any(|waiter| match &waiter.kind {
            Kind::Stream(stream) => !stream.untaken.is_empty(),
            Kind::Once { .. } => false,
        });
        untaken || !self.takes.is_empty()
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.waiters.len()
    }

    /// Those who have waited long enough.
    pub(crate) fn overdue(&self, now: Mono) -> Vec<WaiterId> {
        let due = |waiter: &Waiter| waiter.until().is_some_and(|until| until <= now);
        self.waiters.iter().filter(|(_, waiter)| due(waiter)).map(|(id, _)| *id).collect()
    }

    /// When the first one has waited long enough.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.waiters.values().filter_map(Waiter::until).min()
    }

    /// Something changed at a queue: it is to be served.
    pub(crate) fn touch(&mut self, queue: QueueId) {
        self.touched.insert(queue);
    }

    /// A queue that is to be served.
    pub(crate) fn pop_touched(&mut self) -> Option<QueueId> {
        self.touched.pop_first()
    }

    /// Whether anybody, here or elsewhere, wants this queue.
    pub(crate) fn is_wanted(&self, queue: QueueId) -> bool {
        self.by_queue.contains_key(&queue) || self.wants.contains_key(&queue)
    }

    /// Whether the other nodes are to be told that this queue is wanted now.
    pub(crate) fn want_now(&mut self, queue: QueueId) -> bool {
        if !self.by_queue.contains_key(&queue) {
            return false;
        }
        self.wanted.insert(queue, None).is_none()
    }

    /// Queues that nobody here has waited for since this long: the others are to be told.
    pub(crate) fn withdraw(&mut self, now: Mono, after: Duration) -> Vec<QueueId> {
        let mut withdrawn = Vec::new();
        let waited = &self.by_queue;
        self.wanted.retain(|queue, since| {
            if waited.contains_key(queue) {
                *since = None;
                return true;
            }
            let since = *since.get_or_insert(now);
            let over = now.since(since) >= after;
            if over {
                withdrawn.push(*queue);
            }
            !over
        });
        for queue in &withdrawn {
            self.offers.remove(queue);
        }
        withdrawn
    }

    /// All that the other nodes were told to be wanted here.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.wanted.keys().copied()
    }

    /// Another node wants a queue.
    pub(crate) fn wanted_by(&mut self, queue: QueueId, node: NodeId) {
        self.wants.entry(queue).or_default().insert(node, Offered::No);
        self.touched.insert(queue);
    }

    /// Another node wants a queue no more.
    pub(crate) fn unwanted_by(&mut self, queue: QueueId, node: NodeId) {
        if let Some(nodes) = self.wants.get_mut(&queue) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.wants.remove(&queue);
            }
        }
    }

    /// Nodes that want the queue and have not been told that there is something; now they are.
    pub(crate) fn take_unoffered(&mut self, queue: QueueId) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for (node, offered) in self.wants.get_mut(&queue).into_iter().flatten() {
            if *offered == Offered::No {
                *offered = Offered::Yes;
                nodes.push(*node);
            }
        }
        nodes
    }

    /// A node took: whether it now knows of more is up to the answer.
    pub(crate) fn note_offer(&mut self, queue: QueueId, node: NodeId, offered: Offered) {
        if let Some(known) = self.wants.get_mut(&queue).and_then(|nodes| nodes.get_mut(&node)) {
            *known = offered;
        }
    }

    /// Another node offers.
    pub(crate) fn offered_by(&mut self, queue: QueueId, node: NodeId, oldest: u64) {
        self.offers.entry(queue).or_default().insert(node, oldest);
        self.touched.insert(queue);
    }

    /// The node with the oldest offer of this queue.
    pub(crate) fn best_offer(&self, queue: QueueId) -> Option<(NodeId, u64)> {
        let offers = self.offers.get(&queue)?;
        offers.iter().map(|(node, oldest)| (*node, *oldest)).min_by_key(|(_, oldest)| *oldest)
    }

    /// Takes up an offer for a waiter: the number to ask with.
    pub(crate) fn start_take(&mut self, taking: Taking) -> u64 {
        if let Some(offers) = self.offers.get_mut(&taking.queue) {
            offers.remove(&taking.peer);
        }
        if let Some(waiter) = self.waiters.get_mut(&taking.waiter) {
            waiter.taking += taking.max;
        }
        self.next_take += 1;
        self.takes.insert(self.next_take, taking);
        self.next_take
    }

    /// Whether a node is still to answer a take.
    pub(crate) fn takes_from(&self, node: NodeId) -> bool {
        self.takes.values().any(|taking| taking.peer == node)
    }

    /// A take was answered.
    pub(crate) fn end_take(&mut self, take: u64) -> Option<Taking> {
        let taking = self.takes.remove(&take)?;
        if let Some(waiter) = self.waiters.get_mut(&taking.waiter) {
            waiter.taking = waiter.taking.saturating_sub(taking.max);
        }
        self.touched.insert(taking.queue);
        Some(taking)
    }

    /// The session with a node ended: its wants, offers and takes went with it.
    pub(crate) fn lost(&mut self, node: NodeId) {
        let takes: Vec<u64> = self
            .takes
            .iter()
            .filter(|(_, taking)| taking.peer == node)
            .map(|(take, _)| *take)
            .collect();
        for take in takes {
            self.end_take(take);
        }
        self.wants.retain(|_, nodes| {
            nodes.remove(&node);
            !nodes.is_empty()
        });
        for offers in self.offers.values_mut() {
            offers.remove(&node);
        }
    }

    /// A queue is deleted: nobody waits for it any more; who did.
    pub(crate) fn drop_queue(&mut self, queue: QueueId) -> Vec<WaiterId> {
        self.wanted.remove(&queue);
        self.wants.remove(&queue);
        self.offers.remove(&queue);
        self.by_queue.get(&queue).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests;
