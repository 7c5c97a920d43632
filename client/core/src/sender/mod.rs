//! The sender: from messages to confirms, through whatever nodes and connections do meanwhile.
//!
//! A message has one id from the moment it enters its lane, and keeps it through every attempt,
//! so that trying again is safe: a node that is told [`Attempt::Again`] first asks whether the id
//! is known (P11). What may have been stored is *in doubt*; only what is not may be given another
//! id, another queue, or up as not done.
//!
//! Why a batch is tried again: its connection was lost, a node said that it cannot now, or it is
//! silent for longer than answers usually take. In the last case the earlier attempt stays under
//! way, and the first definite answer wins.
//!
//! Invariants: every ticket gets one result; a message is reported as not done only if no attempt
//! can have stored it. What this file does not do: it does not resolve names and picks no
//! partitions; see `queues.rs`.

mod answers;
mod batch;
mod lane;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{Attempt, NodeId, QueueId, Refusal, Request, Response};

use crate::desk::{Desk, Outbound, Purpose};
use crate::event::Stream;
use crate::latency::{Hedges, Latency};
use crate::parcel::Parcel;
use crate::random::mix;
use crate::timers::Timer;
use answers::Wait;
use batch::{Batch, Flight};
use lane::{Item, Lane};

type LaneKey = (QueueId, u16);

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    lanes: BTreeMap<LaneKey, Lane>,
    /// Lanes from which something may leave.
    ready: BTreeSet<LaneKey>,
    batches: BTreeMap<u64, Batch>,
    /// Batches that wait for a node to be connected.
    parked: BTreeSet<u64>,
    last_batch: u64,
    latency: Latency,
    hedges: Hedges,
    /// Messages whose queue is gone, for whoever resolves names.
    astray: Vec<Stray>,
}

/// How a lane is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneState {
    /// Whether a message would leave at once.
    pub(crate) free: bool,
    /// Whether a message would only wait.
    pub(crate) full: bool,
    /// How many batches have left from it.
    pub(crate) batches: u64,
}

/// A message whose queue is no more, and that was not stored in it.
#[derive(Debug)]
pub(crate) struct Stray {
    /// The queue that is no more.
    pub(crate) queue: QueueId,
    item: Item,
}

impl Stray {
    pub(crate) fn key(&self) -> Option<u64> {
        self.item.key
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.item.deadline
    }

    /// Gives it up, with what was said of its queue, or else with what was said of it.
    pub(crate) fn fail(mut self, desk: &mut Desk, refusal: Option<Refusal>) {
        self.item.last = refusal.or(self.item.last);
        answers::fail(desk, self.item, false);
    }
}

impl Sender {
    /// Takes a message for a partition. It is numbered and stamped now and leaves at the flush.
    pub(crate) fn accept(&mut self, desk: &mut Desk, key: LaneKey, parcel: Parcel) {
        let item = Item {
            ticket: parcel.ticket,
            key: parcel.key,
            label: parcel.label,
            content: parcel.content,
            deadline: desk.now.mono + parcel.within,
            doubt: false,
            renewed: false,
            last: None,
        };
        self.lanes.entry(key).or_default().push(desk, item);
        self.ready.insert(key);
    }

    /// Takes a message again, whose queue was made anew.
    pub(crate) fn accept_stray(&mut self, desk: &mut Desk, key: LaneKey, stray: Stray) {
        self.lanes.entry(key).or_default().push(desk, stray.item);
        self.ready.insert(key);
    }

    pub(crate) fn take_astray(&mut self) -> Vec<Stray> {
        std::mem::take(&mut self.astray)
    }

    /// How a lane is, for whoever chooses one.
    pub(crate) fn state(&self, desk: &Desk, key: LaneKey) -> LaneState {
        self.lanes.get(&key).map_or(LaneState { free: true, full: false, batches: 0 }, |lane| {
            LaneState {
                free: lane.under_way == 0 && lane.is_idle(),
                full: lane.is_full(&desk.config),
                batches: lane.batches,
            }
        })
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.batches.is_empty() && self.lanes.values().all(Lane::is_idle)
    }

    /// Sends what may leave.
    pub(crate) fn flush(&mut self, desk: &mut Desk) {
        if desk.nodes.pick(0, &[]).is_some() {
            for batch in std::mem::take(&mut self.parked) {
                self.attempt(desk, batch, &[]);
            }
            for key in std::mem::take(&mut self.ready) {
                self.flush_lane(desk, key);
            }
        }
        for key in self.ready.clone() {
            self.watch_lane(desk, key);
        }
    }

    fn flush_lane(&mut self, desk: &mut Desk, key: LaneKey) {
        while let Some(lane) = self.lanes.get_mut(&key)
            && lane.may_send(&desk.config)
        {
            let items = lane.cut(&desk.config);
            lane.under_way += 1;
            lane.batches += 1;
            self.last_batch += 1;
            let batch = self.last_batch;
            self.batches.insert(batch, Batch::new(key.0, key.1, items));
            self.attempt(desk, batch, &[]);
        }
        self.watch_lane(desk, key);
    }

    fn watch_lane(&mut self, desk: &mut Desk, key: LaneKey) {
        let timer = Timer::Lane(key.0, key.1);
        match self.lanes.get(&key).and_then(Lane::first_deadline) {
            Some(deadline) => desk.timers.set(timer, deadline),
            None => desk.timers.clear(&timer),
        }
    }

    /// Tries a batch at a node other than those to avoid, if there is one.
    fn attempt(&mut self, desk: &mut Desk, id: u64, avoid: &[NodeId]) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let salt = mix(batch.queue.0.time ^ u64::from(batch.partition));
        let Some(node) = desk.nodes.pick(salt, avoid) else {
            self.parked.insert(id);
            return self.watch_batch(desk, id);
        };
        let now = desk.now.mono;
        let within = batch.open().map(|(_, item)| item.deadline.saturating_sub(now)).max();
        let within = within.unwrap_or_default().min(desk.config.attempt_max);
        let attempt = if batch.is_in_doubt() { Attempt::Again } else { Attempt::First };
        let carries = batch.open().map(|(at, _)| at).collect();
        let labels = batch.open().map(|(_, item)| item.label).collect();
        let contents = batch.open().map(|(_, item)| item.content.clone()).collect();
        let body = Request::Send {
            queue: batch.queue,
            partition: batch.partition,
            attempt,
            within_ms: u32::try_from(within.as_millis()).unwrap_or(u32::MAX).max(1),
            labels,
        };
        let purpose = Purpose::Batch(id);
        let outbound = Outbound { stream: Stream::Sends, body, contents, purpose };
        let request = desk.ask_node(node, outbound);
        batch.flights.push(Flight { request, node, sent: now, carries });
        batch.attempts += 1;
        self.hedges.earn();
        let hedge_after = self.latency.hedge_after(&desk.config);
        batch.next_attempt = now + patience(hedge_after, batch.flights.len());
        self.watch_batch(desk, id);
    }

    fn watch_batch(&mut self, desk: &mut Desk, id: u64) {
        let Some(batch) = self.batches.get(&id) else { return };
        let deadline = batch.open().map(|(_, item)| item.deadline).min();
        let next = (!self.parked.contains(&id)).then_some(batch.next_attempt);
        if let Some(at) = deadline.into_iter().chain(next).min() {
            desk.timers.set(Timer::Batch(id), at);
        }
    }

    /// Something about a batch is due.
    pub(crate) fn batch_due(&mut self, desk: &mut Desk, id: u64) {
        self.expire(desk, id);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let now = desk.now.mono;
        if self.parked.contains(&id) || batch.next_attempt > now {
            return self.watch_batch(desk, id);
        }
        if batch.flights.is_empty() {
            let avoid = std::mem::take(&mut batch.avoid);
            return self.attempt(desk, id, &avoid);
        }
        let asked = batch.asked();
        let mut silent = false;
        for flight in &batch.flights {
            let long = now.saturating_sub(flight.sent) >= SLOW_MAX;
            if long || !desk.nodes.heard_after(flight.node, flight.sent) {
                desk.nodes.doubt(flight.node);
                silent = true;
            }
        }
        let other = desk.nodes.pick_other(batch.partition.into(), &asked).is_some();
        if other && (silent || self.hedges.spend()) {
            self.attempt(desk, id, &asked);
        } else {
            batch.next_attempt = now + self.latency.hedge_after(&desk.config);
            self.watch_batch(desk, id);
        }
    }

    /// Gives up what is at its deadline.
    fn expire(&mut self, desk: &mut Desk, id: u64) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let pending = !batch.flights.is_empty();
        for slot in &mut batch.items {
            if let Some(item) = slot.take_if(|item| item.deadline <= desk.now.mono) {
                answers::fail(desk, item, pending);
            }
        }
        self.conclude(desk, id);
    }

    /// Something in a lane can wait no longer.
    pub(crate) fn lane_due(&mut self, desk: &mut Desk, key: LaneKey) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        for item in lane.expire(desk.now.mono) {
            answers::fail(desk, item, false);
        }
        self.watch_lane(desk, key);
    }

    /// Whether the batch is settled; then its lane may send the next one.
    fn conclude(&mut self, desk: &mut Desk, id: u64) -> bool {
        if !self.batches.get(&id).is_some_and(Batch::is_settled) {
            return false;
        }
        let batch = self.batches.remove(&id).expect("it was there a moment ago");
        for flight in batch.flights {
            desk.forget(flight.request);
        }
        self.parked.remove(&id);
        desk.timers.clear(&Timer::Batch(id));
        let key = (batch.queue, batch.partition);
        let lane = self.lanes.get_mut(&key).expect("a batch comes from a lane");
        lane.under_way -= 1;
        self.ready.insert(key);
        true
    }

    /// The answer to an attempt, and when that began.
    pub(crate) fn answered(
        &mut self,
        desk: &mut Desk,
        id: u64,
        (request, began): (u64, Duration),
        response: Response,
    ) {
        self.latency.note(desk.now.mono.saturating_sub(began));
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let Some(flight) = batch.take_flight(request) else { return };
        let verdict = answers::judge(desk, batch, &flight, response);
        let key = (batch.queue, batch.partition);
        self.astray.extend(verdict.astray);
        self.put_back(desk, key, verdict.renewed);
        if !self.conclude(desk, id) {
            self.retry(desk, id, verdict.wait, flight.node);
        }
    }

    /// Lets messages that were refused for their stamps wait again under new ids.
    fn put_back(&mut self, desk: &mut Desk, key: LaneKey, items: Vec<Item>) {
        let Some(first) = items.first() else { return };
        let is_current = first.label.stamp.process == desk.clock.process();
        let lane = self.lanes.get_mut(&key).expect("a batch comes from a lane");
        if !is_current {
            for item in items {
                lane.push(desk, item);
            }
            return;
        }
        lane.put_front(items);
        desk.renew();
        for lane in self.lanes.values_mut() {
            lane.renew(desk);
        }
    }

    fn retry(&mut self, desk: &mut Desk, id: u64, wait: Wait, node: NodeId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        desk.nodes.sour(node, &desk.config);
        if batch.flights.is_empty() {
            let other = desk.nodes.pick_other(batch.partition.into(), &[node]).is_some();
            if wait == Wait::Elsewhere && other && batch.attempts < AT_ONCE_MAX {
                return self.attempt(desk, id, &[node]);
            }
            let after = match wait {
                Wait::BackOff(after) => after,
                Wait::Elsewhere => Duration::ZERO,
            };
            let pause = desk.random.backoff(&desk.config, batch.attempts.saturating_sub(1));
            batch.next_attempt = desk.now.mono + pause.max(after);
            batch.avoid = vec![node];
        }
        self.watch_batch(desk, id);
    }

    /// An attempt whose connection was lost: what it carried may have been stored.
    pub(crate) fn lost(&mut self, desk: &mut Desk, id: u64, request: u64) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let Some(flight) = batch.take_flight(request) else { return };
        for at in flight.carries {
            if let Some(item) = &mut batch.items[at] {
                item.doubt = true;
            }
        }
        if batch.flights.is_empty() {
            self.attempt(desk, id, &[flight.node]);
        }
    }
}

/// How long to wait for an answer before asking one more node.
fn patience(hedge_after: Duration, under_way: usize) -> Duration {
    if under_way <= 1 { hedge_after } else { (hedge_after * 4).max(THIRD_AFTER) }
}

/// A batch that many nodes in a row are not ready for waits like any other.
const AT_ONCE_MAX: u32 = 3;

/// A node that says other things for so long, but not this, may be stuck.
const SLOW_MAX: Duration = Duration::from_secs(1);

/// Two nodes that do not answer are most likely waiting for the same third one.
const THIRD_AFTER: Duration = Duration::from_secs(1);
