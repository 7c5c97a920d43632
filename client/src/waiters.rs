//! Who waits for what: from the tickets of the core back to the callers of the application.

use std::collections::HashMap;

use gaggle_client_core::{Answer, Confirmed, Failure, Settled};
use gaggle_wire::{Receipt, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::command::SettleDone;

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Waiters {
    last: u64,
    sends: HashMap<u64, SendWaiter>,
    asks: HashMap<u64, AskWaiter>,
    /// The group of a ticket, and its place in it.
    settlements: HashMap<u64, (u64, usize)>,
    groups: HashMap<u64, Group>,
}

struct SendWaiter {
    done: oneshot::Sender<Result<Confirmed, Failure>>,
    /// Room that is given back with the result.
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

struct AskWaiter {
    done: oneshot::Sender<Result<Answer, Failure>>,
    /// Whether what comes is received by being answered, and must go back if it cannot be.
    receives: bool,
}

struct Group {
    results: Vec<Option<Result<Settled, Failure>>>,
    missing: usize,
    done: oneshot::Sender<Vec<Result<Settled, Failure>>>,
}

impl Waiters {
    fn ticket(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn send(
        &mut self,
        done: oneshot::Sender<Result<Confirmed, Failure>>,
        permits: [Option<OwnedSemaphorePermit>; 2],
    ) -> u64 {
        let ticket = self.ticket();
        self.sends.insert(ticket, SendWaiter { done, _permits: permits });
        ticket
    }

    pub(crate) fn sent(&mut self, ticket: u64, result: Result<Confirmed, Failure>) {
        if let Some(waiter) = self.sends.remove(&ticket) {
            // Whoever no longer waits does not want to know.
            let _ = waiter.done.send(result);
        }
    }

    pub(crate) fn ask(
        &mut self,
        request: &Request,
        done: oneshot::Sender<Result<Answer, Failure>>,
    ) -> u64 {
        let ticket = self.ticket();
        let receives = matches!(request, Request::Receive { .. });
        self.asks.insert(ticket, AskWaiter { done, receives });
        ticket
    }

    /// Gives receipts of what was received by nobody, because nobody waits for it any more.
    pub(crate) fn answered(
        &mut self,
        ticket: u64,
        result: Result<Answer, Failure>,
    ) -> Vec<Receipt> {
        let Some(waiter) = self.asks.remove(&ticket) else {
            // Only receives are ended before their answers.
            return result.map_or_else(|_| Vec::new(), receipts);
        };
        match waiter.done.send(result) {
            Err(Ok(answer)) if waiter.receives => receipts(answer),
            _ => Vec::new(),
        }
    }

    /// Tickets for so many settlements of one caller.
    pub(crate) fn settle(&mut self, count: usize, done: SettleDone) -> std::ops::Range<u64> {
        let first = self.last + 1;
        self.last += count as u64;
        let tickets = first..self.last + 1;
        let Some(done) = done else { return tickets };
        if count == 0 {
            let _ = done.send(Vec::new());
            return tickets;
        }
        for (at, ticket) in tickets.clone().enumerate() {
            self.settlements.insert(ticket, (first, at));
        }
        let results = std::iter::repeat_with(|| None).take(count).collect();
        self.groups.insert(first, Group { results, missing: count, done });
        tickets
    }

    pub(crate) fn settled(&mut self, ticket: u64, result: Result<Settled, Failure>) {
        let Some((group, at)) = self.settlements.remove(&ticket) else { return };
        let Some(waiting) = self.groups.get_mut(&group) else { return };
        waiting.results[at] = Some(result);
        waiting.missing -= 1;
        if waiting.missing == 0
            && let Some(group) = self.groups.remove(&group)
        {
            let _ = group.done.send(group.results.into_iter().flatten().collect());
        }
    }

    /// Ends the waits for messages, which may be long. What comes nevertheless goes back.
    pub(crate) fn end_receives(&mut self) {
        for (_, waiter) in self.asks.extract_if(|_, waiter| waiter.receives) {
            let _ = waiter.done.send(Err(Failure::Closed));
        }
    }

    /// Whether a question is not answered.
    pub(crate) fn is_asking(&self) -> bool {
        !self.asks.is_empty()
    }
}

impl Drop for Waiters {
    /// Only when the driver is torn away (its runtime ends, say) does anybody still wait.
    fn drop(&mut self) {
        let unknown = || Failure::Unknown { last: None };
        for (_, waiter) in self.sends.drain() {
            let _ = waiter.done.send(Err(unknown()));
        }
        for (_, waiter) in self.asks.drain() {
            let _ = waiter.done.send(Err(unknown()));
        }
        for (_, group) in self.groups.drain() {
            let results = group.results.into_iter();
            let _ = group.done.send(results.map(|r| r.unwrap_or_else(|| Err(unknown()))).collect());
        }
    }
}

/// The receipts of what was received.
pub(crate) fn receipts(answer: Answer) -> Vec<Receipt> {
    match answer.response {
        Response::Deliveries { deliveries } => {
            deliveries.into_iter().map(|delivery| delivery.receipt).collect()
        }
        _ => Vec::new(),
    }
}
