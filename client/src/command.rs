//! What the handles of a client say to its driver task, and how they say it.
//!
//! One task owns the state of a client; handles are cheap and only send it commands. The channel
//! has no bound of its own: messages are bounded by the permits for bytes under way, deliveries by
//! credit, and everything else by one command per waiting caller. What this file does not do: it
//! decides nothing.

use std::sync::Arc;
use std::time::Duration;

use gaggle_client_core::{
    Answer, ClockEstimate, Confirmed, Failure, Parcel, Settled, Subscription, Verb, key_hash,
};
use gaggle_wire::{QueueName, Receipt, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::error::SendError;
use crate::outgoing::Outgoing;
use crate::shelf::Shelf;
use crate::waiters::receipts;

/// What a handle asks of the driver.
pub(crate) enum Command {
    Send(Vec<Posted>),
    Ask {
        request: Request,
        within: Duration,
        done: oneshot::Sender<Result<Answer, Failure>>,
    },
    Settle {
        verb: Verb,
        receipts: Vec<Receipt>,
        done: SettleDone,
    },
    Subscribe {
        subscription: Subscription,
        shelf: Arc<Shelf>,
    },
    /// Something was taken from this consumer's shelf.
    Taken {
        consumer: u64,
    },
    Unsubscribe {
        consumer: u64,
        done: Option<oneshot::Sender<()>>,
    },
    /// Extends this delivery's lease until it is told to stop.
    Keep {
        lease: u64,
        receipt: Receipt,
        remaining: Duration,
        visibility: Duration,
        /// Whom to tell when it is lost.
        lost: watch::Sender<bool>,
    },
    Unkeep {
        lease: u64,
    },
    /// What is known of the cluster's time.
    Clock {
        done: oneshot::Sender<Option<ClockEstimate>>,
    },
    Close {
        done: oneshot::Sender<()>,
    },
}

/// Where the results of a settlement go, in the order of the receipts; nowhere when nobody waits.
pub(crate) type SettleDone = Option<oneshot::Sender<Vec<Result<Settled, Failure>>>>;

/// A message on its way to the driver. The ticket in the parcel is set there.
pub(crate) struct Posted {
    pub(crate) parcel: Parcel,
    pub(crate) done: oneshot::Sender<Result<Confirmed, Failure>>,
    /// Room among the bytes under way, and in the producer's window.
    pub(crate) permits: [Option<OwnedSemaphorePermit>; 2],
}

/// The way to the driver, shared by all handles.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) shared: Arc<Shared>,
}

/// What all handles need to know.
pub(crate) struct Shared {
    pub(crate) send_within: Duration,
    pub(crate) request_timeout: Duration,
    /// One permit per [`PERMIT_BYTES`].
    pub(crate) room: Arc<Semaphore>,
    pub(crate) room_permits: u32,
    /// Names of consumers and leases.
    pub(crate) names: std::sync::atomic::AtomicU64,
}

impl Handle {
    /// A name that nothing else of this client has.
    pub(crate) fn name(&self) -> u64 {
        self.shared.names.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    /// Says something to the driver; `false` when it is gone.
    pub(crate) fn tell(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Packs a message and waits for room among the bytes under way. Without a key it goes where
    /// this hash of its producer says.
    pub(crate) async fn post(
        &self,
        queue: &Arc<QueueName>,
        outgoing: &Outgoing,
        producer: Option<u64>,
        window: Option<OwnedSemaphorePermit>,
    ) -> Result<(Posted, Waiting), SendError> {
        let (label, content) = outgoing.pack()?;
        let bytes = content.len().div_ceil(PERMIT_BYTES).max(1);
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.shared.room_permits);
        let room = Arc::clone(&self.shared.room).acquire_many_owned(permits).await;
        let room = room.map_err(|_| SendError::Closed)?;
        let (done, waiting) = oneshot::channel();
        let parcel = Parcel {
            ticket: 0,
            queue: Arc::clone(queue),
            key: outgoing.ordering_key().map(|key| key_hash(key)).or(producer),
            label,
            content,
            within: outgoing.time_limit().unwrap_or(self.shared.send_within),
        };
        Ok((Posted { parcel, done, permits: [Some(room), window] }, waiting))
    }

    /// Asks and waits for the answer.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Failure> {
        let (done, waiting) = oneshot::channel();
        let within = self.shared.request_timeout;
        self.tell(Command::Ask { request, within, done });
        waiting.await.unwrap_or(Err(Failure::Closed))
    }

    /// Asks for messages. When the wait is given up, what comes nevertheless is released.
    pub(crate) async fn receive(&self, request: Request) -> Result<Answer, Failure> {
        let (done, waiting) = oneshot::channel();
        let within = self.shared.request_timeout;
        self.tell(Command::Ask { request, within, done });
        let mut unclaimed = Unclaimed { waiting, handle: self };
        (&mut unclaimed.waiting).await.unwrap_or(Err(Failure::Closed))
    }

    /// Settles deliveries and waits for the results.
    pub(crate) async fn settle(
        &self,
        verb: Verb,
        receipts: Vec<Receipt>,
    ) -> Vec<Result<Settled, Failure>> {
        let count = receipts.len();
        let (done, waiting) = oneshot::channel();
        self.tell(Command::Settle { verb, receipts, done: Some(done) });
        waiting.await.unwrap_or_else(|_| vec![Err(Failure::Closed); count])
    }
}

/// An answer with messages that nobody may have looked at.
struct Unclaimed<'h> {
    waiting: oneshot::Receiver<Result<Answer, Failure>>,
    handle: &'h Handle,
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        self.waiting.close();
        if let Ok(Ok(answer)) = self.waiting.try_recv() {
            let (verb, receipts) = (Verb::Release(0), receipts(answer));
            self.handle.tell(Command::Settle { verb, receipts, done: None });
        }
    }
}

/// Where the result of a send arrives.
pub(crate) type Waiting = oneshot::Receiver<Result<Confirmed, Failure>>;

/// Fine enough for small messages, coarse enough for 32-bit permit counts.
pub(crate) const PERMIT_BYTES: usize = 1024;
