//! A waiter: a client that wants messages, once or as they come.
//!
//! What this file does not do: it does not know where messages come from.

use std::collections::VecDeque;

use gaggle_wire::{QueueId, Receipt};

use crate::event::{ClientId, Reply};
use crate::ledger::MessageKey;
use crate::now::Mono;

/// Names a waiter: the request with which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId {
    pub(crate) client: ClientId,
    pub(crate) request: u64,
}

/// A client that wants messages.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) reply: Reply,
    /// The queues of that name: one, or two after a cut.
    pub(crate) queues: Vec<QueueId>,
    pub(crate) visibility_ms: Option<u64>,
    /// What was asked for elsewhere and has not come.
    pub(crate) taking: u32,
    pub(crate) kind: Kind,
}

/// Once, or as they come.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Up to so many at once, the first of them before this time.
    Once {
        /// The most messages.
        max: u32,
        /// When to answer with none.
        until: Mono,
    },
    /// As many as the credit lets come.
    Stream(Stream),
}

/// A stream of deliveries.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// How many may have come in all.
    pub(crate) limit: u64,
    /// How many have come.
    pub(crate) sent: u64,
    /// Receipts of those that the application has not taken, the first of which is number
    /// `sent - untaken.len()`.
    pub(crate) untaken: VecDeque<Receipt>,
}

impl Waiter {
    /// How many more it can take now. Who waits once is not served here while it waits for an
    /// answer from elsewhere: what comes from there would find it gone.
    pub(crate) fn credit(&self) -> u32 {
        match &self.kind {
            Kind::Once { max, .. } if self.taking == 0 => *max,
            Kind::Once { .. } => 0,
            Kind::Stream(stream) => {
                let open = stream.limit.saturating_sub(stream.sent);
                u32::try_from(open).unwrap_or(u32::MAX).saturating_sub(self.taking)
            }
        }
    }

    /// When it has waited long enough.
    pub(crate) fn until(&self) -> Option<Mono> {
        match self.kind {
            // An answer from elsewhere is under way: it comes, or its session ends.
            Kind::Once { .. } if self.taking > 0 => None,
            Kind::Once { until, .. } => Some(until),
            Kind::Stream(_) => None,
        }
    }
}

impl Stream {
    /// The application has taken the deliveries up to this one, counted from 1.
    pub(crate) fn taken(&mut self, up_to: u64) {
        let first = self.sent - self.untaken.len() as u64;
        for _ in first..up_to.min(self.sent) {
            self.untaken.pop_front();
        }
    }

    /// The last delivery of this message did not come.
    pub(crate) fn missed(&mut self, key: MessageKey) {
        let MessageKey { queue, partition, stamp } = key;
        let is_of = |receipt: &Receipt| {
            (receipt.queue, receipt.partition, receipt.stamp) == (queue, partition, stamp)
        };
        if let Some(at) = self.untaken.iter().rposition(is_of) {
            self.untaken.remove(at);
            self.sent -= 1;
        }
    }
}
