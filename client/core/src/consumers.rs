//! Consumers: streams of deliveries that outlive the nodes they come from.
//!
//! One opening of a consumer at a node is a *run*, named by the number of its request. Within it
//! deliveries are counted; the node may send as many as the credit says beyond what the
//! application has taken, and is told what that is, for this is the application's own when the
//! connection is lost while the rest goes back at once. When a run ends unasked, what lies
//! untaken here is void and the consumer is opened again at another node.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gaggle_wire::{NodeId, QueueName, Refusal, Request, Response, Retry};

use crate::desk::{Desk, Outbound, Purpose};
use crate::event::{Effect, Stream};
use crate::parcel::{Failure, Subscription};
use crate::timers::Timer;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    open: BTreeMap<u64, Consumer>,
    /// Those that wait for a node to be connected.
    parked: BTreeSet<u64>,
}

#[derive(Debug)]
struct Consumer {
    subscription: Subscription,
    run: Option<Run>,
    failures: u32,
    avoid: Vec<NodeId>,
    /// Whether the application wants no more, and waits for the node to take back the rest.
    stopping: bool,
}

#[derive(Debug)]
struct Run {
    request: u64,
    link: u64,
    node: NodeId,
    /// As the node was told.
    limit: u64,
    told: u64,
    taken: u64,
}

impl Consumers {
    pub(crate) fn subscribe(&mut self, desk: &mut Desk, subscription: Subscription) {
        let id = subscription.consumer;
        let (run, failures, avoid, stopping) = (None, 0, Vec::new(), false);
        self.open.insert(id, Consumer { subscription, run, failures, avoid, stopping });
        self.start(desk, id);
    }

    /// Whether none is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    fn start(&mut self, desk: &mut Desk, id: u64) {
        let Some(consumer) = self.open.get_mut(&id) else { return };
        let Some(node) = desk.nodes.pick(id, &consumer.avoid) else {
            self.parked.insert(id);
            return;
        };
        let Subscription { queue, credit, visibility_ms, .. } = &consumer.subscription;
        let body = Request::Consume {
            queue: QueueName::clone(queue),
            visibility_ms: *visibility_ms,
            credit: *credit,
        };
        let link = desk.nodes.link_of(node).expect("only nodes with a connection are picked");
        let (stream, purpose) = (Stream::Deliveries, Purpose::Consumer(id));
        let outbound = Outbound { stream, body, contents: Vec::new(), purpose };
        let request = desk.ask_link(link, outbound);
        consumer.run = Some(Run { request, link, node, limit: *credit, told: 0, taken: 0 });
    }

    /// Opens those that could not be while no node was connected.
    pub(crate) fn flush(&mut self, desk: &mut Desk) {
        if !self.parked.is_empty() && desk.nodes.pick(0, &[]).is_some() {
            for id in std::mem::take(&mut self.parked) {
                self.start(desk, id);
            }
        }
    }

    /// An answer to a run; whether it was the last one.
    pub(crate) fn answered(
        &mut self,
        desk: &mut Desk,
        (id, request): (u64, u64),
        response: Response,
        contents: Vec<Bytes>,
    ) {
        let Some(consumer) = self.open.get_mut(&id) else { return };
        match response {
            Response::Deliveries { deliveries } => {
                consumer.failures = 0;
                if !consumer.stopping {
                    let deliveries = deliveries.into_iter().zip(contents).collect();
                    let effect = Effect::Deliver { consumer: id, run: request, deliveries };
                    desk.effects.push(effect);
                }
            }
            Response::Refused(refusal) => self.refused(desk, id, refusal),
            _ => self.refused(desk, id, Refusal::OutcomeUnknown),
        }
    }

    fn refused(&mut self, desk: &mut Desk, id: u64, refusal: Refusal) {
        let Some(consumer) = self.open.get_mut(&id) else { return };
        let Some(run) = consumer.run.take() else { return };
        desk.settle(run.request);
        if consumer.stopping {
            return;
        }
        let retry = refusal.retry();
        if retry == Retry::Never {
            return self.end(desk, id, Some(Failure::Refused(refusal)));
        }
        consumer.avoid = vec![run.node];
        let pause = desk.random.backoff(&desk.config, consumer.failures);
        consumer.failures = consumer.failures.saturating_add(1);
        desk.effects.push(Effect::Sweep { consumer: id });
        desk.timers.set(Timer::Consumer(id), desk.now.mono + pause.max(retry.after()));
    }

    /// The connection of a run is lost.
    pub(crate) fn lost(&mut self, desk: &mut Desk, id: u64) {
        let Some(consumer) = self.open.get_mut(&id) else { return };
        consumer.run = None;
        if consumer.stopping {
            return self.end(desk, id, None);
        }
        desk.effects.push(Effect::Sweep { consumer: id });
        self.start(desk, id);
    }

    /// The application has taken so many.
    pub(crate) fn taken(&mut self, desk: &mut Desk, id: u64, (request, taken): (u64, u64)) {
        let Some(consumer) = self.open.get_mut(&id) else { return };
        let credit = consumer.subscription.credit;
        let Some(run) = consumer.run.as_mut().filter(|run| run.request == request) else { return };
        run.taken = run.taken.max(taken);
        let used = (run.taken + credit).saturating_sub(run.limit);
        if used >= credit.div_ceil(2) {
            tell_taken(desk, id, run, credit);
        } else if run.taken > run.told {
            desk.timers.set_early(Timer::Consumer(id), desk.now.mono + desk.config.taken_delay);
        }
    }

    /// To open a consumer again, or to tell what was taken.
    pub(crate) fn due(&mut self, desk: &mut Desk, id: u64) {
        let Some(consumer) = self.open.get_mut(&id) else { return };
        let credit = consumer.subscription.credit;
        match &mut consumer.run {
            Some(run) if run.taken > run.told => tell_taken(desk, id, run, credit),
            Some(_) => {}
            None => self.start(desk, id),
        }
    }

    /// The application wants no more.
    pub(crate) fn unsubscribe(&mut self, desk: &mut Desk, id: u64) {
        let Some(consumer) = self.open.get_mut(&id) else { return };
        if std::mem::replace(&mut consumer.stopping, true) {
            return;
        }
        let Some(run) = &consumer.run else { return self.end(desk, id, None) };
        let body = Request::StopConsume { consumer: run.request, taken: run.taken };
        let (stream, purpose) = (Stream::Control, Purpose::Stop(id));
        desk.ask_link(run.link, Outbound { stream, body, contents: Vec::new(), purpose });
        desk.timers.clear(&Timer::Consumer(id));
    }

    /// The node has taken back the rest, or there is nothing to wait for.
    pub(crate) fn stopped(&mut self, desk: &mut Desk, id: u64) {
        self.end(desk, id, None);
    }

    fn end(&mut self, desk: &mut Desk, id: u64, reason: Option<Failure>) {
        let Some(consumer) = self.open.remove(&id) else { return };
        if let Some(run) = consumer.run {
            desk.settle(run.request);
        }
        self.parked.remove(&id);
        desk.timers.clear(&Timer::Consumer(id));
        desk.effects.push(Effect::Ended { consumer: id, reason });
    }
}

fn tell_taken(desk: &mut Desk, id: u64, run: &mut Run, credit: u64) {
    run.limit = run.taken + credit;
    run.told = run.taken;
    let body = Request::Credit { consumer: run.request, limit: run.limit, taken: run.taken };
    desk.tell_link(run.link, body);
    desk.timers.clear(&Timer::Consumer(id));
}
