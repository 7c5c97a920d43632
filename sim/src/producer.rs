//! A producer that behaves: it numbers densely, stamps itself, and sends again what it does not
//! know to be done, with the same id and at another node, inside the resend window.
//!
//! What this file does not do: it does not hedge; that is the client's own state machine.

use std::collections::BTreeMap;

use gaggle_wire::{
    Attempt, Label, Message, Outcome, ProcessId, QueueId, Refusal, Request, Response, Stamp,
};

use crate::actor::Desk;
use crate::options::Span;
use crate::process::EPOCH;

/// What a producer does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queue: QueueId,
    pub(crate) partitions: u16,
    /// Messages in all.
    pub(crate) messages: u64,
    /// Messages of one send.
    pub(crate) batch: Span,
    /// Pause between sends.
    pub(crate) every: Span,
    /// How long it waits for an answer before it sends again.
    pub(crate) patience: u64,
    /// How long after the first attempt it gives up: the resend window, less some.
    pub(crate) window: u64,
    /// Of a thousand sends so many are made twice at once, at two nodes.
    pub(crate) twice: u32,
}

/// A producer.
#[derive(Debug)]
pub(crate) struct Producer {
    plan: Plan,
    process: ProcessId,
    next: Vec<u64>,
    last: u64,
    left: u64,
    requests: u64,
    under_way: BTreeMap<u64, Parcel>,
    next_send: u64,
}

#[derive(Clone, Debug)]
struct Parcel {
    partition: u16,
    labels: Vec<Label>,
    first_at: u64,
    sent_at: u64,
    node: usize,
    done: bool,
}

impl Producer {
    pub(crate) fn new(process: ProcessId, plan: Plan) -> Self {
        let next = vec![1; usize::from(plan.partitions)];
        let left = plan.messages;
        let under_way = BTreeMap::new();
        Self { plan, process, next, last: 0, left, requests: 0, under_way, next_send: 0 }
    }

    /// Whether everything was sent and its outcome is known, or will never be.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.under_way.is_empty()
    }

    /// Sends nothing new any more.
    pub(crate) fn stop(&mut self) {
        self.left = 0;
    }

    pub(crate) fn wake(&mut self, desk: &mut Desk<'_>) {
        let late: Vec<u64> = self
            .under_way
            .iter()
            .filter(|(_, parcel)| parcel.sent_at + self.plan.patience <= desk.now)
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            self.again(number, desk);
        }
        if self.left > 0 && desk.now >= self.next_send {
            self.send_new(desk);
            self.next_send = desk.now + desk.within(self.plan.every);
        }
        if !self.is_done() {
            let pause = self.next_send.saturating_sub(desk.now);
            let pause = if self.left > 0 { pause } else { LOOK };
            desk.wake_in(pause.clamp(1, LOOK));
        }
    }

    fn send_new(&mut self, desk: &mut Desk<'_>) {
        let Some(node) = desk.any_node() else { return };
        let partition = desk.within((0, u64::from(self.plan.partitions) - 1));
        let partition = u16::try_from(partition).expect("partitions are few");
        let count = desk.within(self.plan.batch).min(self.left);
        self.left -= count;
        let labels = (0..count).map(|_| self.label(desk.now, partition)).collect();
        let now = desk.now;
        let parcel = Parcel { partition, labels, first_at: now, sent_at: now, node, done: false };
        self.ask(parcel.clone(), Attempt::First, desk);
        if let (true, Some(node)) = (desk.chance(self.plan.twice), desk.any_node()) {
            self.ask(Parcel { node, ..parcel }, Attempt::Again, desk);
        }
    }

    fn label(&mut self, now: u64, partition: u16) -> Label {
        let next = &mut self.next[usize::from(partition)];
        let number = *next;
        *next += 1;
        self.last = (EPOCH + now).max(self.last + 1);
        let stamp = Stamp { time: self.last, count: 0, process: self.process };
        let body = format!("{partition}-{number}");
        let (label, _) = Message::new(body).pack(number, stamp, 0).expect("it is small");
        label
    }

    fn ask(&mut self, parcel: Parcel, attempt: Attempt, desk: &mut Desk<'_>) {
        self.requests += 1;
        let Parcel { partition, ref labels, node, .. } = parcel;
        let (queue, labels) = (self.plan.queue, labels.clone());
        let request = Request::Send { queue, partition, attempt, within_ms: 10_000, labels };
        desk.ask(node, self.requests, request);
        self.under_way.insert(self.requests, parcel);
    }

    /// Sends again what is not known to be done, unless it is too late for that.
    fn again(&mut self, number: u64, desk: &mut Desk<'_>) {
        let Some(parcel) = self.under_way.remove(&number) else { return };
        if parcel.done || desk.now >= parcel.first_at + self.plan.window {
            return;
        }
        let node = desk.any_node().unwrap_or(parcel.node);
        self.ask(Parcel { node, sent_at: desk.now, ..parcel }, Attempt::Again, desk);
    }

    pub(crate) fn answered(&mut self, number: u64, response: &Response, desk: &mut Desk<'_>) {
        match response {
            Response::Sent(_) => {
                self.under_way.remove(&number);
            }
            Response::Refused(refusal) => {
                if refusal.outcome() == Outcome::NotDone && is_final(refusal) {
                    self.under_way.remove(&number);
                } else if let Some(parcel) = self.under_way.get_mut(&number) {
                    // Looked at again soon, not at once: what refuses now refuses for a while.
                    parcel.sent_at = (desk.now + RETRY).saturating_sub(self.plan.patience);
                    desk.wake_in(RETRY);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn lost(&mut self, node: usize, desk: &mut Desk<'_>) {
        for parcel in self.under_way.values_mut().filter(|parcel| parcel.node == node) {
            parcel.sent_at = (desk.now + RETRY).saturating_sub(self.plan.patience);
        }
        desk.wake_in(RETRY);
    }
}

fn is_final(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::QueueNotFound { .. } | Refusal::BadRequest { .. })
}

/// How often a producer looks for what was not answered.
const LOOK: u64 = 200_000_000;
/// After how long it tries again what was refused.
const RETRY: u64 = 100_000_000;
