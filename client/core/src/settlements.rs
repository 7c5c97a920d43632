//! Settlements: deletes, extensions and releases of many callers, in few requests.
//!
//! They are all safe to repeat, so whatever is lost or unknown is sent again until its deadline.
//! They go to the node that handed the message out if that answers, which saves it a detour. What
//! comes while a request is under way is gathered for the next one, as for sends.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{
    DeleteResult, NodeId, Outcome, RECEIVE_MAX, Receipt, Refusal, Request, Response, Retry,
};

use crate::desk::{Desk, Outbound, Purpose};
use crate::event::{Effect, Stream};
use crate::parcel::{Failure, Settle, Settled, Verb};
use crate::timers::Timer;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Settlements {
    waiting: BTreeMap<Verb, Vec<Item>>,
    batches: BTreeMap<u64, Batch>,
    last_batch: u64,
    /// Requests under way.
    under_way: BTreeMap<(Verb, NodeId), usize>,
    /// What is to be tried again, and when.
    put_off: Vec<(Duration, Item)>,
    leases: Vec<(u64, Result<Settled, Failure>)>,
}

/// Who wants a settlement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settler {
    Caller(u64),
    /// A lease that is kept.
    Lease(u64),
    /// Nobody: it came when nobody waited for it any more.
    Nobody,
}

/// A settlement that is not done yet.
#[derive(Debug)]
pub(crate) struct Item {
    settler: Settler,
    verb: Verb,
    receipt: Receipt,
    deadline: Duration,
    doubt: bool,
    last: Option<Refusal>,
    attempts: u32,
    avoid: Vec<NodeId>,
}

#[derive(Debug)]
struct Batch {
    verb: Verb,
    node: NodeId,
    request: u64,
    items: Vec<Item>,
}

impl Item {
    pub(crate) fn of_lease(lease: u64, verb: Verb, receipt: Receipt, deadline: Duration) -> Self {
        Self::new(Settler::Lease(lease), verb, receipt, deadline)
    }

    fn new(settler: Settler, verb: Verb, receipt: Receipt, deadline: Duration) -> Self {
        let (doubt, last, attempts, avoid) = (false, None, 0, Vec::new());
        Self { settler, verb, receipt, deadline, doubt, last, attempts, avoid }
    }
}

impl Settlements {
    /// Takes a settlement. It leaves at the flush.
    pub(crate) fn accept(&mut self, desk: &Desk, settle: Settle) {
        let Settle { ticket, verb, receipt, within } = settle;
        let deadline = desk.now.mono + within;
        self.enqueue(Item::new(Settler::Caller(ticket), verb, receipt, deadline));
    }

    /// Gives back a delivery that nobody waits for. It leaves at the flush.
    pub(crate) fn give_back(&mut self, desk: &Desk, receipt: Receipt) {
        let deadline = desk.now.mono + GIVE_BACK_WITHIN;
        self.enqueue(Item::new(Settler::Nobody, Verb::Release(0), receipt, deadline));
    }

    pub(crate) fn enqueue(&mut self, item: Item) {
        self.waiting.entry(item.verb).or_default().push(item);
    }

    /// What became of extensions of leases.
    pub(crate) fn take_leases(&mut self) -> Vec<(u64, Result<Settled, Failure>)> {
        std::mem::take(&mut self.leases)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.batches.is_empty() && self.put_off.is_empty()
    }

    /// Sends what may leave.
    pub(crate) fn flush(&mut self, desk: &mut Desk) {
        for (verb, items) in std::mem::take(&mut self.waiting) {
            let mut by_node: BTreeMap<Option<NodeId>, Vec<Item>> = BTreeMap::new();
            for item in items {
                by_node.entry(choose(desk, &item)).or_default().push(item);
            }
            for (node, items) in by_node {
                self.flush_node(desk, (verb, node), items);
            }
        }
        self.watch(desk);
    }

    /// What waits is looked at again: soon if nothing under way will do it, and at its deadline.
    fn watch(&self, desk: &mut Desk) {
        let waiting = self.waiting.values().flatten();
        let Some(first) = waiting.map(|item| item.deadline).min() else { return };
        let soon = desk.now.mono + LOOK_AGAIN;
        let at = if self.batches.is_empty() { first.min(soon) } else { first };
        desk.timers.set_early(Timer::PutOff, at);
    }

    fn flush_node(&mut self, desk: &mut Desk, to: (Verb, Option<NodeId>), mut items: Vec<Item>) {
        let (verb, node) = to;
        if let Some(node) = node {
            while !items.is_empty() {
                let under_way = self.under_way.get(&(verb, node)).copied().unwrap_or_default();
                let worth = items.len() >= desk.config.batch_worth;
                if under_way > 0 && (!worth || under_way >= desk.config.batches_max) {
                    break;
                }
                let rest = items.split_off(items.len().min(RECEIVE_MAX));
                self.send(desk, (verb, node), std::mem::replace(&mut items, rest));
            }
        }
        if !items.is_empty() {
            self.waiting.entry(verb).or_default().extend(items);
        }
    }

    fn send(&mut self, desk: &mut Desk, to: (Verb, NodeId), items: Vec<Item>) {
        let (verb, node) = to;
        self.last_batch += 1;
        let id = self.last_batch;
        let receipts = items.iter().map(|item| item.receipt.clone()).collect();
        let body = match verb {
            Verb::Delete => Request::Delete { receipts },
            Verb::Extend(visibility_ms) => Request::Extend { receipts, visibility_ms },
            Verb::Release(delay_ms) => Request::Release { receipts, delay_ms },
        };
        let (stream, purpose) = (Stream::Control, Purpose::Settlement(id));
        let outbound = Outbound { stream, body, contents: Vec::new(), purpose };
        let request = desk.ask_node(node, outbound);
        *self.under_way.entry(to).or_default() += 1;
        let first = items.iter().map(|item| item.deadline).min().unwrap_or_default();
        let due = desk.now.mono + desk.config.ask_patience;
        desk.timers.set(Timer::Settlement(id), due.min(first));
        self.batches.insert(id, Batch { verb, node, request, items });
    }

    fn take_batch(&mut self, desk: &mut Desk, id: u64) -> Option<Batch> {
        let batch = self.batches.remove(&id)?;
        desk.timers.clear(&Timer::Settlement(id));
        let under_way = self.under_way.get_mut(&(batch.verb, batch.node));
        let under_way = under_way.expect("the batch is counted");
        *under_way -= 1;
        if *under_way == 0 {
            self.under_way.remove(&(batch.verb, batch.node));
        }
        Some(batch)
    }

    /// A request has taken too long: its items go to another node, or are given up.
    pub(crate) fn batch_due(&mut self, desk: &mut Desk, id: u64) {
        let now = desk.now.mono;
        let Some(batch) = self.batches.get_mut(&id) else { return };
        desk.nodes.doubt(batch.node);
        let other = desk.nodes.pick_other(id, &[batch.node]).is_some();
        let first = batch.items.iter().map(|item| item.deadline).min().unwrap_or_default();
        if !other && first > now {
            return desk.timers.set(Timer::Settlement(id), first.min(now + LOOK_AGAIN));
        }
        let Some(batch) = self.take_batch(desk, id) else { return };
        desk.forget(batch.request);
        for item in batch.items {
            self.try_again(desk, item, (batch.node, None));
        }
    }

    /// What was put off is due, or something cannot wait any longer.
    pub(crate) fn put_off_due(&mut self, desk: &mut Desk) {
        let now = desk.now.mono;
        let all = std::mem::take(&mut self.put_off);
        let (due, later) = all.into_iter().partition(|(at, _)| *at <= now);
        self.put_off = later;
        let due: Vec<(Duration, Item)> = due;
        let waiting = std::mem::take(&mut self.waiting).into_values().flatten();
        for item in waiting.chain(due.into_iter().map(|(_, item)| item)) {
            if item.deadline <= now {
                self.give_up(desk, item);
            } else {
                self.enqueue(item);
            }
        }
        if let Some(at) = self.put_off.iter().map(|(at, _)| *at).min() {
            desk.timers.set_early(Timer::PutOff, at);
        }
    }

    /// The answer to a request.
    pub(crate) fn answered(&mut self, desk: &mut Desk, id: u64, response: Response) {
        let Some(batch) = self.take_batch(desk, id) else { return };
        let results = results_of(response, batch.verb, batch.items.len());
        for (item, result) in batch.items.into_iter().zip(results) {
            match result {
                Ok(settled) => self.finish(desk, item.settler, Ok(settled)),
                Err(refusal) => self.refused(desk, item, (batch.node, refusal)),
            }
        }
    }

    fn refused(&mut self, desk: &mut Desk, mut item: Item, (node, refusal): (NodeId, Refusal)) {
        if refusal.retry() != Retry::Never {
            return self.try_again(desk, item, (node, Some(refusal)));
        }
        // A release that was done before makes the receipt stale; either way it is back.
        let stale = refusal == Refusal::StaleReceipt;
        if item.doubt && stale && matches!(item.verb, Verb::Release(_)) {
            return self.finish(desk, item.settler, Ok(Settled::Released));
        }
        item.doubt &= item.verb == Verb::Delete;
        item.last = Some(refusal);
        self.give_up(desk, item);
    }

    /// The connection that a request went over is lost.
    pub(crate) fn lost(&mut self, desk: &mut Desk, id: u64) {
        let Some(batch) = self.take_batch(desk, id) else { return };
        for item in batch.items {
            self.try_again(desk, item, (batch.node, None));
        }
    }

    /// Without a refusal nothing is known, and another node is asked at once.
    fn try_again(
        &mut self,
        desk: &mut Desk,
        mut item: Item,
        (node, refusal): (NodeId, Option<Refusal>),
    ) {
        let outcome = refusal.as_ref().map_or(Outcome::Unknown, Refusal::outcome);
        item.doubt |= outcome == Outcome::Unknown;
        item.avoid = vec![node];
        item.attempts += 1;
        let now = desk.now.mono;
        if item.deadline <= now {
            item.last = refusal.or(item.last);
            return self.give_up(desk, item);
        }
        let Some(refusal) = refusal else { return self.enqueue(item) };
        let after = refusal.retry().after();
        item.last = Some(refusal);
        let pause = desk.random.backoff(&desk.config, item.attempts.saturating_sub(1));
        let at = (now + pause.max(after)).min(item.deadline);
        self.put_off.push((at, item));
        desk.timers.set_early(Timer::PutOff, at);
    }

    fn give_up(&mut self, desk: &mut Desk, item: Item) {
        let failure = match item.last {
            last if item.doubt => Failure::Unknown { last },
            Some(refusal) => Failure::Refused(refusal),
            None => Failure::TimedOut,
        };
        self.finish(desk, item.settler, Err(failure));
    }

    fn finish(&mut self, desk: &mut Desk, settler: Settler, result: Result<Settled, Failure>) {
        match settler {
            Settler::Caller(ticket) => desk.effects.push(Effect::Settled { ticket, result }),
            Settler::Lease(lease) => self.leases.push((lease, result)),
            Settler::Nobody => {}
        }
    }
}

/// The node that handed the message out, if it answers.
fn choose(desk: &Desk, item: &Item) -> Option<NodeId> {
    let custodian = item.receipt.custodian;
    if desk.nodes.is_fit(custodian) && !item.avoid.contains(&custodian) {
        return Some(custodian);
    }
    desk.nodes.pick(item.receipt.partition.into(), &item.avoid)
}

/// One result for each receipt; an answer that does not fit says nothing.
fn results_of(response: Response, verb: Verb, count: usize) -> Vec<Result<Settled, Refusal>> {
    let results: Vec<Result<Settled, Refusal>> = match (response, verb) {
        (Response::Refused(refusal), _) => return vec![Err(refusal); count],
        (Response::Deleted(results), Verb::Delete) => results
            .into_iter()
            .map(|result| match result {
                DeleteResult::Deleted => Ok(Settled::Deleted),
                DeleteResult::DeletedByOlderReceipt => Ok(Settled::DeletedByOlderReceipt),
                DeleteResult::Refused(refusal) => Err(refusal),
            })
            .collect(),
        (Response::Extended(results), Verb::Extend(_)) => {
            results.into_iter().map(|result| result.map(Settled::Extended)).collect()
        }
        (Response::Released(results), Verb::Release(_)) => {
            results.into_iter().map(|result| result.map(|()| Settled::Released)).collect()
        }
        _ => Vec::new(),
    };
    if results.len() == count { results } else { vec![Err(Refusal::OutcomeUnknown); count] }
}

/// How long it is tried to give a delivery back, which its lease ends anyway: as long as a
/// settlement is tried for an application that says nothing else.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(10);

/// How often what cannot leave is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
