//! A consumer: it streams or polls, works for a while, and deletes; or forgets, gives back,
//! dies with leases, deletes at another node than where it received.
//!
//! What this file does not do: it extends no leases.

use std::collections::{BTreeMap, VecDeque};

use gaggle_wire::{DeleteResult, QueueName, Receipt, Refusal, Request, Response};

use crate::actor::{Act, Desk};
use crate::options::Span;

/// What a consumer does.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) queue: QueueName,
    /// Where it begins; it goes elsewhere when it has to.
    pub(crate) node: usize,
    pub(crate) mode: Mode,
    /// How long it works on a message.
    pub(crate) think: Span,
    /// Of a thousand messages it forgets so many.
    pub(crate) forgets: u32,
    /// Of a thousand messages it gives back so many.
    pub(crate) releases: u32,
    /// Of a thousand deletes so many go to another node.
    pub(crate) strays: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// A stream with this much credit.
    Stream { credit: u64 },
    /// One receive after the other.
    Poll { max: u32, wait_ms: u64 },
}

/// A consumer.
#[derive(Debug)]
pub(crate) struct Consumer {
    habits: Habits,
    node: usize,
    requests: u64,
    /// The receive or stream that is under way.
    open: Option<u64>,
    received: u64,
    work: VecDeque<(u64, Receipt)>,
    deletes: BTreeMap<u64, (u64, Vec<Receipt>)>,
    woken_at: u64,
}

impl Consumer {
    pub(crate) fn new(habits: Habits) -> Self {
        let node = habits.node;
        Self {
            habits,
            node,
            requests: 0,
            open: None,
            received: 0,
            work: VecDeque::new(),
            deletes: BTreeMap::new(),
            woken_at: 0,
        }
    }

    /// From now on it deletes all that it gets.
    pub(crate) fn behave(&mut self) {
        (self.habits.forgets, self.habits.releases) = (0, 0);
    }

    /// Its node does not serve: a stream is stopped, with what was taken, and begun elsewhere.
    pub(crate) fn unready(&mut self, node: usize, desk: &mut Desk<'_>) {
        let (Some(consumer), Mode::Stream { .. }) = (self.open, self.habits.mode) else { return };
        if node != self.node {
            return;
        }
        let number = self.next_request();
        let taken = self.received;
        desk.ask(node, number, Request::StopConsume { consumer, taken });
        self.open = None;
        self.received = 0;
        let others: Vec<usize> = desk.up.iter().copied().filter(|at| *at != node).collect();
        if !others.is_empty() {
            let at = desk.within((0, others.len() as u64 - 1));
            self.node = others[usize::try_from(at).expect("nodes are few")];
        }
        self.plan_wake(desk);
    }

    /// It dies with all it has.
    pub(crate) fn die(&mut self, desk: &mut Desk<'_>) {
        self.work.clear();
        self.deletes.clear();
        self.leave(desk);
        self.woken_at = desk.now + PAUSE;
        desk.wake_in(PAUSE);
    }

    fn leave(&mut self, desk: &mut Desk<'_>) {
        desk.acts.push(Act::Leave { node: self.node });
        self.open = None;
        self.received = 0;
    }

    fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    pub(crate) fn wake(&mut self, desk: &mut Desk<'_>) {
        if desk.now < self.woken_at {
            return;
        }
        self.woken_at = desk.now;
        self.receive(desk);
        self.settle_due(desk);
        let late: Vec<u64> = self
            .deletes
            .iter()
            .filter(|(_, (at, _))| at + PATIENCE <= desk.now)
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            if let Some((_, receipts)) = self.deletes.remove(&number) {
                self.delete(receipts, desk);
            }
        }
        self.plan_wake(desk);
    }

    fn plan_wake(&mut self, desk: &mut Desk<'_>) {
        let due = self.work.iter().map(|(due, _)| *due).min();
        let late = self.deletes.values().map(|(at, _)| at + PATIENCE).min();
        let retry = self.open.is_none().then_some(desk.now + PAUSE);
        if let Some(at) = [due, late, retry].into_iter().flatten().min() {
            desk.acts.push(Act::Wake { at: at.max(desk.now + 1) });
        }
    }

    fn receive(&mut self, desk: &mut Desk<'_>) {
        if self.open.is_some() {
            return;
        }
        if !desk.up.contains(&self.node) {
            let Some(node) = desk.any_node() else { return };
            self.node = node;
        }
        let number = self.next_request();
        self.open = Some(number);
        self.received = 0;
        let (queue, visibility_ms) = (self.habits.queue.clone(), None);
        let request = match self.habits.mode {
            Mode::Stream { credit } => Request::Consume { queue, visibility_ms, credit },
            Mode::Poll { max, wait_ms } => Request::Receive { queue, max, wait_ms, visibility_ms },
        };
        desk.ask(self.node, number, request);
    }

    /// Does what is due with messages that were worked on.
    fn settle_due(&mut self, desk: &mut Desk<'_>) {
        let (mut done, mut back) = (Vec::new(), Vec::new());
        let mut later = VecDeque::new();
        while let Some((due, receipt)) = self.work.pop_front() {
            if due > desk.now {
                later.push_back((due, receipt));
            } else if desk.chance(self.habits.forgets) {
            } else if desk.chance(self.habits.releases) {
                back.push(receipt);
            } else {
                done.push(receipt);
            }
        }
        self.work = later;
        if !done.is_empty() {
            self.delete(done, desk);
        }
        if !back.is_empty() {
            let number = self.next_request();
            desk.ask(self.node, number, Request::Release { receipts: back, delay_ms: 0 });
        }
    }

    fn delete(&mut self, receipts: Vec<Receipt>, desk: &mut Desk<'_>) {
        let stray = desk.chance(self.habits.strays) || !desk.up.contains(&self.node);
        let node = if stray { desk.any_node().unwrap_or(self.node) } else { self.node };
        let number = self.next_request();
        desk.ask(node, number, Request::Delete { receipts: receipts.clone() });
        self.deletes.insert(number, (desk.now, receipts));
    }

    pub(crate) fn answered(
        &mut self,
        node: usize,
        (number, response): (u64, Response),
        desk: &mut Desk<'_>,
    ) {
        match response {
            Response::Deliveries { deliveries } if self.open == Some(number) => {
                self.received += deliveries.len() as u64;
                for delivery in deliveries {
                    let due = desk.now + desk.within(self.habits.think);
                    self.work.push_back((due, delivery.receipt));
                }
                match self.habits.mode {
                    Mode::Poll { .. } => {
                        self.open = None;
                        self.receive(desk);
                    }
                    Mode::Stream { credit } => {
                        let (limit, taken) = (self.received + credit, self.received);
                        let credit = Request::Credit { consumer: number, limit, taken };
                        let next = self.next_request();
                        desk.ask(node, next, credit);
                    }
                }
            }
            Response::Deleted(results) => self.deleted(number, &results, desk.now),
            Response::Refused(refusal) if self.open == Some(number) => {
                self.open = None;
                if refusal == Refusal::Draining {
                    self.node = desk.any_node().unwrap_or(self.node);
                }
            }
            Response::Refused(_) => {
                // The delete was not done: it is tried again soon.
                if let Some((at, _)) = self.deletes.get_mut(&number) {
                    *at = (desk.now + PAUSE).saturating_sub(PATIENCE);
                }
            }
            // Other deliveries crossed the end of their stream: the node has given them back.
            _ => {}
        }
        self.plan_wake(desk);
    }

    fn deleted(&mut self, number: u64, results: &[DeleteResult], now: u64) {
        let Some((_, receipts)) = self.deletes.remove(&number) else { return };
        let unsure: Vec<Receipt> = receipts
            .into_iter()
            .zip(results)
            .filter(|(_, result)| matches!(result, DeleteResult::Refused(_)))
            .map(|(receipt, _)| receipt)
            .collect();
        if !unsure.is_empty() {
            self.deletes.insert(number, ((now + PAUSE).saturating_sub(PATIENCE), unsure));
        }
    }

    pub(crate) fn lost(&mut self, node: usize, desk: &mut Desk<'_>) {
        if node == self.node && self.open.is_some() {
            self.open = None;
            self.received = 0;
        }
        desk.wake_in(PAUSE);
    }
}

/// How long it waits for the answer to a delete.
const PATIENCE: u64 = 4_000_000_000;
/// How long it waits before it tries again.
const PAUSE: u64 = 200_000_000;
