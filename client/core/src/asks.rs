//! Questions: every request that is neither a send nor a settlement nor a consumer.
//!
//! They go to any node, and to another one when that is lost, not ready, or silent. All but one
//! are safe to repeat: a purge that is repeated would drop what was accepted in between, so after
//! a lost answer its outcome is reported as unknown. What this file does not do: it does not
//! batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{
    NodeId, Outcome, QueueDescription, QueueName, Refusal, Request, Response, Retry,
};

use crate::desk::{Desk, Outbound, Purpose};
use crate::event::{Effect, Stream};
use crate::parcel::{Answer, Ask, Failure};
use crate::timers::Timer;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    pending: BTreeMap<u64, Pending>,
    /// Those that wait for a node to be connected.
    parked: BTreeSet<u64>,
    last: u64,
    resolved: Vec<Resolved>,
}

/// The end of a question for a name.
pub(crate) type Resolved = (Arc<QueueName>, Result<QueueDescription, Failure>);

#[derive(Debug)]
struct Pending {
    asker: Asker,
    request: Request,
    deadline: Duration,
    /// Until when a `Receive` waits for messages.
    wait_until: Duration,
    doubt: bool,
    last: Option<Refusal>,
    attempts: u32,
    /// What is under way, and where.
    flight: Option<(u64, NodeId)>,
    next_attempt: Duration,
    avoid: Vec<NodeId>,
}

#[derive(Clone, Debug)]
enum Asker {
    Caller(u64),
    Resolver(Arc<QueueName>),
}

impl Asks {
    /// Asks for the application.
    pub(crate) fn ask(&mut self, desk: &mut Desk, ask: Ask) {
        self.begin(desk, Asker::Caller(ask.ticket), ask.request, ask.within);
    }

    /// Asks which queue a name stands for.
    pub(crate) fn resolve(&mut self, desk: &mut Desk, name: Arc<QueueName>) {
        let request = Request::DescribeQueue { name: QueueName::clone(&name) };
        self.begin(desk, Asker::Resolver(name), request, RESOLVE_WITHIN);
    }

    pub(crate) fn take_resolved(&mut self) -> Vec<Resolved> {
        std::mem::take(&mut self.resolved)
    }

    fn begin(&mut self, desk: &mut Desk, asker: Asker, request: Request, within: Duration) {
        let now = desk.now.mono;
        let wait = match &request {
            Request::Receive { wait_ms, .. } => Duration::from_millis(*wait_ms).min(WAIT_MAX),
            _ => Duration::ZERO,
        };
        self.last += 1;
        let pending = Pending {
            asker,
            request,
            deadline: now + within + wait,
            wait_until: now + wait,
            doubt: false,
            last: None,
            attempts: 0,
            flight: None,
            next_attempt: now,
            avoid: Vec::new(),
        };
        self.pending.insert(self.last, pending);
        self.attempt(desk, self.last);
    }

    fn attempt(&mut self, desk: &mut Desk, id: u64) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let now = desk.now.mono;
        let Some(node) = desk.nodes.pick(id, &pending.avoid) else {
            self.parked.insert(id);
            return desk.timers.set(Timer::Ask(id), pending.deadline);
        };
        let mut body = pending.request.clone();
        if let Request::Receive { wait_ms, .. } = &mut body {
            let left = pending.wait_until.saturating_sub(now);
            *wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        }
        let stream = match body {
            Request::Receive { .. } | Request::Peek { .. } => Stream::Deliveries,
            _ => Stream::Control,
        };
        let (contents, purpose) = (Vec::new(), Purpose::Ask(id));
        let request = desk.ask_node(node, Outbound { stream, body, contents, purpose });
        pending.flight = Some((request, node));
        pending.attempts += 1;
        pending.next_attempt = pending.wait_until.max(now) + desk.config.ask_patience;
        desk.timers.set(Timer::Ask(id), pending.next_attempt.min(pending.deadline));
    }

    /// Asks what could not be asked while no node was connected.
    pub(crate) fn flush(&mut self, desk: &mut Desk) {
        if !self.parked.is_empty() && desk.nodes.pick(0, &[]).is_some() {
            for id in std::mem::take(&mut self.parked) {
                self.attempt(desk, id);
            }
        }
    }

    /// A question is at its deadline, or an attempt has taken too long.
    pub(crate) fn due(&mut self, desk: &mut Desk, id: u64) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let now = desk.now.mono;
        if pending.deadline <= now {
            return self.give_up(desk, id);
        }
        let Some((request, node)) = pending.flight else { return self.attempt(desk, id) };
        desk.nodes.doubt(node);
        let may_repeat = !matches!(pending.request, Request::PurgeQueue { .. });
        if may_repeat && desk.nodes.pick_other(id, &[node]).is_some() {
            desk.forget(request);
            pending.doubt = true;
            pending.avoid = vec![node];
            self.attempt(desk, id);
        } else {
            pending.next_attempt = now + desk.config.ask_patience;
            desk.timers.set(Timer::Ask(id), pending.next_attempt.min(pending.deadline));
        }
    }

    /// The answer to a question.
    pub(crate) fn answered(
        &mut self,
        desk: &mut Desk,
        id: u64,
        response: Response,
        contents: Vec<Bytes>,
    ) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let Some((_, node)) = pending.flight.take() else { return };
        let refusal = match response {
            Response::Refused(refusal) => refusal,
            response if fits(&pending.request, &response) => {
                return self.finish(desk, id, Ok(Answer { response, contents }));
            }
            _ => Refusal::OutcomeUnknown,
        };
        // The one before may have done it, so that this one found nothing to do.
        let gone = matches!(refusal, Refusal::QueueNotFound { .. });
        if pending.doubt && gone && matches!(pending.request, Request::DeleteQueue { .. }) {
            let (response, contents) = (Response::Done, Vec::new());
            return self.finish(desk, id, Ok(Answer { response, contents }));
        }
        pending.doubt |= refusal.outcome() == Outcome::Unknown;
        let retry = refusal.retry();
        pending.last = Some(refusal);
        if retry == Retry::Never || pending.is_spoiled() {
            return self.give_up(desk, id);
        }
        pending.avoid = vec![node];
        let other = desk.nodes.pick_other(id, &pending.avoid).is_some();
        if retry == Retry::Elsewhere && other && pending.attempts <= AT_ONCE_MAX {
            return self.attempt(desk, id);
        }
        let pause = desk.random.backoff(&desk.config, pending.attempts.saturating_sub(1));
        pending.next_attempt = desk.now.mono + pause.max(retry.after());
        desk.timers.set(Timer::Ask(id), pending.next_attempt.min(pending.deadline));
    }

    /// The connection that a question went over is lost.
    pub(crate) fn lost(&mut self, desk: &mut Desk, id: u64) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.flight = None;
        pending.doubt = true;
        if pending.is_spoiled() { self.give_up(desk, id) } else { self.attempt(desk, id) }
    }

    fn give_up(&mut self, desk: &mut Desk, id: u64) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let sent = pending.flight.take();
        if let Some((request, _)) = sent {
            desk.forget(request);
        }
        let changes = pending.changes();
        let failure = match pending.last.take() {
            last if changes && (pending.doubt || sent.is_some()) => Failure::Unknown { last },
            Some(refusal) => Failure::Refused(refusal),
            None => Failure::TimedOut,
        };
        self.finish(desk, id, Err(failure));
    }

    fn finish(&mut self, desk: &mut Desk, id: u64, result: Result<Answer, Failure>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        self.parked.remove(&id);
        desk.timers.clear(&Timer::Ask(id));
        match pending.asker {
            Asker::Caller(ticket) => desk.effects.push(Effect::Answered { ticket, result }),
            Asker::Resolver(name) => {
                let description = result.and_then(|answer| match answer.response {
                    Response::Queue(description) => Ok(*description),
                    _ => Err(Failure::TimedOut),
                });
                self.resolved.push((name, description));
            }
        }
    }
}

impl Pending {
    /// Whether it must not be repeated.
    fn is_spoiled(&self) -> bool {
        self.doubt && matches!(self.request, Request::PurgeQueue { .. })
    }

    /// Whether it leaves something behind.
    fn changes(&self) -> bool {
        matches!(
            self.request,
            Request::CreateQueue { .. }
                | Request::SetQueue { .. }
                | Request::DeleteQueue { .. }
                | Request::PurgeQueue { .. }
                | Request::RemoveNode { .. }
                | Request::KeepNode { .. }
        )
    }
}

fn fits(request: &Request, response: &Response) -> bool {
    match request {
        Request::CreateQueue { .. } | Request::DescribeQueue { .. } => {
            matches!(response, Response::Queue(_))
        }
        Request::SetQueue { .. } => matches!(response, Response::QueueSet { .. }),
        Request::ListQueues { .. } => matches!(response, Response::Queues { .. }),
        Request::DeleteQueue { .. } | Request::PurgeQueue { .. } | Request::KeepNode { .. } => {
            matches!(response, Response::Done)
        }
        Request::RemoveNode { .. } => {
            matches!(response, Response::Done | Response::Leaving { .. })
        }
        Request::Receive { .. } | Request::Peek { .. } => {
            matches!(response, Response::Deliveries { .. })
        }
        Request::Status { .. } => matches!(response, Response::Status(_)),
        _ => false,
    }
}

/// Questions for names are repeated for as long as messages wait.
const RESOLVE_WITHIN: Duration = Duration::from_secs(10);

/// The longest wait for messages: a day, so that a time with it added is still one.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// A question that many nodes in a row are not ready for waits like any other.
const AT_ONCE_MAX: u32 = 3;
