//! Receives and streams, as clients ask for them.

use gaggle_wire::{NodeId, QueueId, RECEIVE_MAX, Receipt, Refusal, Response, SettingsChange};

use super::Node;
use crate::effect::Effects;
use crate::envelope::{Envelope, Heard};
use crate::event::{ClientId, Reply};
use crate::now::Now;
use crate::reception::{Kind, Waiter, WaiterId};
use crate::timer::Timer;

impl Node {
    pub(super) fn receive_requested(
        &mut self,
        now: Now,
        reply: Reply,
        (queues, visibility_ms, kind): (Vec<QueueId>, Option<u64>, Kind),
        effects: &mut Effects,
    ) {
        if let Err(refusal) = self.check_receive(visibility_ms, &kind) {
            effects.answer(reply, Response::Refused(refusal));
            return;
        }
        if let Kind::Once { until, .. } = kind {
            self.timers.at_latest(Timer::Deadlines, until);
        }
        let id = WaiterId { client: reply.client, request: reply.request };
        self.reception.enter(id, Waiter { reply, queues, visibility_ms, taking: 0, kind });
        self.serve_touched(now, effects);
    }

    fn check_receive(&self, visibility_ms: Option<u64>, kind: &Kind) -> Result<(), Refusal> {
        if self.run.drain != super::Drain::No {
            return Err(Refusal::Draining);
        }
        let change = SettingsChange { visibility_timeout_ms: visibility_ms, ..Default::default() };
        change.create(self.config.queue_defaults)?;
        let within = |max: u32| (1..=RECEIVE_MAX).contains(&(max as usize));
        if matches!(kind, Kind::Once { max, .. } if !within(*max)) {
            let why = "a receive is of 1 to 1,000 messages".to_owned();
            return Err(Refusal::BadRequest { why });
        }
        if self.reception.count() >= self.config.waiting_max {
            let limit = self.config.waiting_max as u64;
            return Err(Refusal::LimitReached { what: "waiting receives".to_owned(), limit });
        }
        Ok(())
    }

    pub(super) fn credit_came(
        &mut self,
        client: ClientId,
        request: u64,
        (limit, taken): (u64, u64),
    ) {
        let id = WaiterId { client, request };
        let Some(waiter) = self.reception.waiter_mut(id) else { return };
        let Kind::Stream(stream) = &mut waiter.kind else { return };
        stream.limit = stream.limit.max(limit);
        stream.taken(taken);
        for queue in waiter.queues.clone() {
            self.reception.touch(queue);
        }
    }

    /// A client stops a stream: what it has not taken goes back.
    pub(super) fn stop_requested(
        &mut self,
        now: Now,
        reply: Reply,
        (consumer, taken): (u64, u64),
        effects: &mut Effects,
    ) {
        let id = WaiterId { client: reply.client, request: consumer };
        if let Some(waiter) = self.reception.waiter_mut(id)
            && let Kind::Stream(stream) = &mut waiter.kind
        {
            stream.taken(taken);
        }
        self.waiter_leaves(now, (id, Heard::No), effects);
        effects.answer(reply, Response::Done);
    }

    pub(super) fn client_closed(&mut self, now: Now, client: ClientId, effects: &mut Effects) {
        for id in self.reception.of_client(client) {
            self.waiter_leaves(now, (id, Heard::Perhaps), effects);
        }
    }

    /// Somebody is gone; what it was given and has not taken goes back to its custodians.
    fn waiter_leaves(&mut self, now: Now, (id, heard): (WaiterId, Heard), effects: &mut Effects) {
        let Some(waiter) = self.reception.leave(id) else { return };
        let Kind::Stream(stream) = waiter.kind else { return };
        self.give_back(now, (stream.untaken.into(), heard), effects);
        self.drained(now, effects);
    }

    fn give_back(
        &mut self,
        now: Now,
        (receipts, heard): (Vec<Receipt>, Heard),
        effects: &mut Effects,
    ) {
        let me = self.config.node;
        let (own, others): (Vec<Receipt>, Vec<Receipt>) =
            receipts.into_iter().partition(|receipt| receipt.custodian == me);
        self.given_back(now, (&own, heard), effects);
        let mut by_node: std::collections::BTreeMap<NodeId, Vec<Receipt>> =
            std::collections::BTreeMap::new();
        for receipt in others {
            by_node.entry(receipt.custodian).or_default().push(receipt);
        }
        for (node, receipts) in by_node {
            self.say(node, Envelope::GrantBack { receipts, heard }, effects);
        }
    }

    /// Those who have waited long enough get nothing.
    pub(super) fn waits_overdue(&mut self, now: Now, effects: &mut Effects) {
        for id in self.reception.overdue(now.mono) {
            if let Some(waiter) = self.reception.leave(id) {
                effects.answer(waiter.reply, Response::Deliveries { deliveries: Vec::new() });
            }
        }
    }

    /// A queue is deleted: nobody waits for it any longer.
    pub(super) fn refuse_waiters(&mut self, queue: QueueId, effects: &mut Effects) {
        for id in self.reception.drop_queue(queue) {
            if let Some(waiter) = self.reception.leave(id) {
                let refusal = Refusal::QueueNotFound { queue: queue.to_string() };
                effects.answer(waiter.reply, Response::Refused(refusal));
            }
        }
    }
}
