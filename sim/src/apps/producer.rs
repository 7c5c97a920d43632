//! A producer: it sends batches with pauses between them, as many at once as it may, and counts
//! what came back.
//!
//! What this file does not do: it sends nothing a second time. That is the client's.

use std::collections::BTreeSet;
use std::sync::Arc;

use gaggle_wire::QueueName;

use super::{Handle, Shipment};
use crate::options::Span;

/// What a producer does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queue: QueueName,
    /// Messages in all.
    pub(crate) messages: u64,
    /// Messages of one go.
    pub(crate) batch: Span,
    /// Pause between two goes.
    pub(crate) every: Span,
    /// How many may be without a result.
    pub(crate) open_max: usize,
    /// Of a thousand messages so many have an ordering key.
    pub(crate) keyed: u32,
    /// How long a send may take.
    pub(crate) within: Span,
}

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Producer {
    plan: Plan,
    queue: Arc<QueueName>,
    left: u64,
    open: BTreeSet<u64>,
    next_send: u64,
}

impl Producer {
    pub(crate) fn new(plan: Plan, now: u64) -> Self {
        let (queue, left) = (Arc::new(plan.queue.clone()), plan.messages);
        Self { plan, queue, left, open: BTreeSet::new(), next_send: now }
    }

    /// A producer that sends what is left; what was under way is forgotten.
    pub(super) fn successor(&self, now: u64) -> Self {
        Self::new(Plan { messages: self.left, ..self.plan.clone() }, now)
    }

    /// Whether everything was sent and has its result.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.open.is_empty()
    }

    /// Sends nothing new any more.
    pub(crate) fn stop(&mut self) {
        self.left = 0;
    }

    pub(super) fn wake(&mut self, handle: &mut Handle<'_>) {
        if handle.now < self.next_send {
            return;
        }
        let room = self.plan.open_max.saturating_sub(self.open.len()) as u64;
        if self.left == 0 || room == 0 {
            return;
        }
        let count = handle.within(self.plan.batch).min(self.left).min(room);
        for _ in 0..count {
            let key = handle.chance(self.plan.keyed).then(|| handle.within((0, KEYS)));
            let within = handle.within(self.plan.within);
            let ticket = handle.send(&self.queue, Shipment { key, within, delay_ms: 0 });
            self.open.insert(ticket);
        }
        self.left -= count;
        self.next_send = handle.now + handle.within(self.plan.every);
    }

    /// Nothing is due while no more may be open: the next result wakes it.
    pub(super) fn next_wakeup(&self) -> Option<u64> {
        let may_send = self.left > 0 && self.open.len() < self.plan.open_max;
        may_send.then_some(self.next_send)
    }

    pub(super) fn sent(&mut self, ticket: u64, handle: &mut Handle<'_>) {
        assert!(self.open.remove(&ticket), "a result for what has none coming");
        self.wake(handle);
    }
}

/// Few, so that some partitions have more than one and some none.
const KEYS: u64 = 5;
