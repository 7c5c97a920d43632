//! The shelf: where deliveries of a consumer wait until the application takes them.
//!
//! The driver task puts whole batches on it under one lock, the application takes one at a time.
//! What lies on it belongs to nobody yet: when the connection is lost, the node gives it to
//! others at once, so it is swept off here; only what was taken is the application's. That is
//! why taking and sweeping happen under the same lock.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use gaggle_client_core::Delivered;

use crate::error::ReceiveError;

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    /// With the time of arrival, from which their leases run.
    waiting: VecDeque<(Delivered, Instant)>,
    /// Which opening of the consumer these came from.
    run: u64,
    /// How many of that run were taken.
    taken: u64,
    /// Whether the driver knows of the last ones that were taken.
    told: bool,
    ended: Option<Option<ReceiveError>>,
    waker: Option<Waker>,
}

/// What became of an attempt to take something.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and mostly is the large one"
)]
pub(crate) enum Take {
    /// This one, when it came, and whether the driver must be told.
    One(Delivered, Instant, bool),
    /// No more will come, for this reason, which is told once.
    End(Option<ReceiveError>),
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next delivery.
    pub(crate) fn poll_take(&self, waker: &Context<'_>) -> Poll<Take> {
        let mut contents = self.lock();
        if let Some((delivered, arrived)) = contents.waiting.pop_front() {
            contents.taken += 1;
            let tell = std::mem::replace(&mut contents.told, false);
            return Poll::Ready(Take::One(delivered, arrived, tell));
        }
        if let Some(reason) = &mut contents.ended {
            return Poll::Ready(Take::End(reason.take()));
        }
        contents.waker = Some(waker.waker().clone());
        Poll::Pending
    }

    /// Puts a batch on the shelf.
    pub(crate) fn put(&self, run: u64, batch: Vec<Delivered>) {
        let now = crate::clock::instant();
        let mut contents = self.lock();
        if contents.run != run {
            contents.run = run;
            contents.taken = 0;
            contents.told = true;
            contents.waiting.clear();
        }
        contents.waiting.extend(batch.into_iter().map(|delivered| (delivered, now)));
        let waker = contents.waker.take();
        drop(contents);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Sweeps off what was not taken: others get it.
    pub(crate) fn sweep(&self) {
        self.lock().waiting.clear();
    }

    /// How many were taken of which run; from now on the driver wants to be told again.
    pub(crate) fn taken(&self) -> (u64, u64) {
        let mut contents = self.lock();
        contents.told = true;
        (contents.run, contents.taken)
    }

    /// Nothing more will come.
    pub(crate) fn end(&self, reason: Option<ReceiveError>) {
        let mut contents = self.lock();
        contents.waiting.clear();
        contents.ended.get_or_insert(reason);
        let waker = contents.waker.take();
        drop(contents);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
