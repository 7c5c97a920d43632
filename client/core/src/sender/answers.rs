//! What an answer means for each message of the attempt that it answers.
//!
//! The rule behind every case: a message is given another id, another queue, or up as not done
//! only if no attempt can have stored it.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{Outcome, Refusal, Response, Retry, SendException};

use super::Stray;
use super::batch::{Batch, Flight};
use super::lane::Item;
use crate::desk::Desk;
use crate::event::Effect;
use crate::parcel::{Confirmed, Failure};

/// What is to be done after an answer.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Messages that need new ids.
    pub(super) renewed: Vec<Item>,
    /// Messages whose queue is gone.
    pub(super) astray: Vec<Stray>,
    /// When to try the rest again.
    pub(super) wait: Wait,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// At once, at another node.
    #[default]
    Elsewhere,
    /// After a while, so long at the least.
    BackOff(Duration),
}

impl Verdict {
    fn back_off(&mut self, after: Duration) {
        self.wait = self.wait.max(Wait::BackOff(after));
    }
}

/// Settles what is settled by this answer.
pub(super) fn judge(
    desk: &mut Desk,
    batch: &mut Batch,
    flight: &Flight,
    response: Response,
) -> Verdict {
    let mut verdict = Verdict::default();
    let (copies, exceptions) = match response {
        Response::Sent(sent) => (sent.copies, sent.exceptions.into_iter().collect()),
        Response::Refused(refusal) => {
            for at in &flight.carries {
                refuse(desk, batch, *at, (&refusal, &mut verdict));
            }
            return verdict;
        }
        // No answer to a send: as good as none.
        _ => {
            for at in &flight.carries {
                refuse(desk, batch, *at, (&Refusal::OutcomeUnknown, &mut verdict));
            }
            return verdict;
        }
    };
    let exceptions: BTreeMap<u32, SendException> = exceptions;
    for (at, position) in flight.carries.iter().zip(0..) {
        match exceptions.get(&position) {
            None => confirm(desk, batch, *at, copies),
            Some(SendException::Gone) => confirm(desk, batch, *at, 0),
            Some(SendException::Refused(refusal)) => {
                refuse(desk, batch, *at, (refusal, &mut verdict));
            }
        }
    }
    verdict
}

fn confirm(desk: &mut Desk, batch: &mut Batch, at: usize, copies: u8) {
    let Some(item) = batch.items[at].take() else { return };
    let Item { ticket, label, .. } = item;
    let result = Ok(Confirmed { stamp: label.stamp, id: label.id(), copies });
    desk.effects.push(Effect::Sent { ticket, result });
}

fn refuse(
    desk: &mut Desk,
    batch: &mut Batch,
    at: usize,
    (refusal, verdict): (&Refusal, &mut Verdict),
) {
    let pending = !batch.flights.is_empty();
    let slot = &mut batch.items[at];
    let Some(item) = slot else { return };
    item.last = Some(refusal.clone());
    item.doubt |= refusal.outcome() == Outcome::Unknown;
    let may_renew = !pending && !item.doubt && !item.renewed;
    match refusal {
        Refusal::ClockAhead { .. } | Refusal::QueueNotFound { .. } if may_renew => {
            item.renewed = true;
            let queue = batch.queue;
            let item = slot.take().expect("it was there a moment ago");
            if matches!(refusal, Refusal::ClockAhead { .. }) {
                verdict.renewed.push(item);
            } else {
                verdict.astray.push(Stray { queue, item });
            }
        }
        // It keeps its id, for it may have been stored; some time its stamp is no longer ahead.
        Refusal::ClockAhead { .. } if item.doubt => verdict.back_off(Duration::ZERO),
        refusal => match refusal.retry() {
            Retry::Elsewhere => {}
            Retry::Later(after) => verdict.back_off(after),
            // Another attempt may yet succeed; if it does not, this one is repeated.
            Retry::Never if pending => verdict.back_off(Duration::ZERO),
            Retry::Never => {
                let item = slot.take().expect("it was there a moment ago");
                fail(desk, item, false);
            }
        },
    }
}

/// Gives a message up. `pending` says whether an attempt may yet store it.
pub(super) fn fail(desk: &mut Desk, item: Item, pending: bool) {
    let failure = match item.last {
        last if item.doubt || pending => Failure::Unknown { last },
        Some(refusal) => Failure::Refused(refusal),
        None => Failure::TimedOut,
    };
    desk.effects.push(Effect::Sent { ticket: item.ticket, result: Err(failure) });
}
