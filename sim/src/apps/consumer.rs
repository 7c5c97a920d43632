//! A consumer: a stream of deliveries, or one receive after the other; so many messages are
//! worked on at once.
//!
//! What has come and was not taken lies on a shelf, as in the real client (`client/src/shelf.rs`):
//! it belongs to nobody yet, and is swept off when its run is lost. What this file does not do:
//! what becomes of a message that was taken is in `work.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use gaggle_client_core::{Answer, Failure};
use gaggle_wire::{DeliveryLabel, QueueName, Request, Response};

use super::Handle;
pub(crate) use super::work::Manner;
use super::work::Work;

/// What a consumer does.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) queue: QueueName,
    pub(crate) mode: Mode,
    /// How long messages are hidden; as the queue says when `None`.
    pub(crate) visibility_ms: Option<u64>,
    /// How many messages it works on at once.
    pub(crate) workers: usize,
    pub(crate) manner: Manner,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// A stream with this much credit.
    Stream { credit: u64 },
    /// One receive after the other.
    Poll { max: u32, wait_ms: u64 },
}

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) habits: Habits,
    queue: Arc<QueueName>,
    open: Open,
    shelf: VecDeque<(DeliveryLabel, u64)>,
    /// Which run what is on the shelf came from, and how many of it were taken.
    run: (u64, u64),
    work: Work,
}

/// Where deliveries come from now.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// From nowhere before then.
    No(u64),
    /// From the stream of this name.
    Stream(u64),
    /// From the receive with this ticket.
    Receive(u64),
}

impl Consumer {
    pub(crate) fn new(habits: Habits, now: u64) -> Self {
        let (queue, work) = (Arc::new(habits.queue.clone()), Work::new(habits.manner.clone()));
        Self { habits, queue, open: Open::No(now), shelf: VecDeque::new(), run: (0, 0), work }
    }

    /// From now on it deletes all that it takes, and is quick enough for its credit: what lies on
    /// a shelf until its lease ends might do so for ever.
    pub(crate) fn behave(&mut self) {
        let Manner { think, keeps, .. } = self.habits.manner;
        let think = (think.0.min(QUICK), think.1.min(QUICK));
        self.work.manner = Manner { keeps, ..Manner::good(think) };
    }

    pub(super) fn wake(&mut self, handle: &mut Handle<'_>) {
        self.work.wake(handle);
        self.take(handle);
        if let Open::No(at) = self.open
            && at <= handle.now
            && self.shelf.is_empty()
        {
            self.begin(handle);
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<u64> {
        let open = match self.open {
            Open::No(at) if self.shelf.is_empty() => Some(at),
            Open::No(_) | Open::Stream(_) | Open::Receive(_) => None,
        };
        open.into_iter().chain(self.work.next_wakeup()).min()
    }

    fn begin(&mut self, handle: &mut Handle<'_>) {
        let visibility_ms = self.habits.visibility_ms;
        self.open = match self.habits.mode {
            Mode::Stream { credit } => {
                Open::Stream(handle.subscribe(&self.queue, (credit, visibility_ms)))
            }
            Mode::Poll { max, wait_ms } => {
                let queue = self.habits.queue.clone();
                let request = Request::Receive { queue, max, wait_ms, visibility_ms };
                Open::Receive(handle.ask(request))
            }
        };
    }

    /// Takes from the shelf while there are hands free. What lay there for longer than its lease
    /// is others' by now.
    fn take(&mut self, handle: &mut Handle<'_>) {
        let before = self.run.1;
        while self.work.count() < self.habits.workers
            && let Some((delivery, came)) = self.shelf.pop_front()
        {
            self.run.1 += 1;
            if came + delivery.lease_ms * 1_000_000 > handle.now {
                self.work.begin(delivery, came, handle);
            }
        }
        if let Open::Stream(consumer) = self.open
            && self.run.1 > before
        {
            handle.taken(consumer, self.run);
        }
    }

    pub(super) fn delivered(
        &mut self,
        (consumer, run): (u64, u64),
        deliveries: Vec<DeliveryLabel>,
        handle: &mut Handle<'_>,
    ) {
        assert!(matches!(self.open, Open::Stream(open) if open == consumer), "nobody asked for it");
        if self.run.0 != run {
            self.shelf.clear();
            self.run = (run, 0);
        }
        for delivery in deliveries {
            let run = (handle.actor, consumer, run);
            handle.judge.given(handle.now, run, &delivery.receipt);
            self.shelf.push_back((delivery, handle.now));
        }
        self.take(handle);
    }

    pub(super) fn answered(
        &mut self,
        ticket: u64,
        result: Result<Answer, Failure>,
        handle: &mut Handle<'_>,
    ) {
        assert!(matches!(self.open, Open::Receive(open) if open == ticket), "nobody asked for it");
        match result {
            Ok(Answer { response: Response::Deliveries { deliveries }, .. }) => {
                self.open = Open::No(handle.now);
                let came = handle.now;
                self.shelf.extend(deliveries.into_iter().map(|delivery| (delivery, came)));
            }
            Ok(answer) => panic!("that answers no receive: {answer:?}"),
            Err(_) => self.open = Open::No(handle.now + PAUSE),
        }
        self.wake(handle);
    }

    pub(super) fn settled(&mut self, ticket: u64, handle: &mut Handle<'_>) {
        self.work.settled(ticket, handle);
    }

    /// What lies on the shelf goes to others.
    pub(super) fn swept(&mut self) {
        self.shelf.clear();
    }

    /// The stream has ended, and not because it was asked to: it is opened again.
    pub(super) fn ended(&mut self, handle: &Handle<'_>) {
        self.shelf.clear();
        self.open = Open::No(handle.now + PAUSE);
    }
}

/// Twenty of these, one after the other, take less than the shortest lease of a plan.
const QUICK: u64 = 50_000_000;
/// How long it waits before it tries again.
const PAUSE: u64 = 200_000_000;
