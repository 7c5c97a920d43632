//! The client: one handle on a cluster, cheap to clone, from which everything else is reached.
//!
//! Behind it one task owns all state (see `driver.rs`); handles send it commands. The task ends
//! when the client is closed or its last handle is gone. What this file does not do: it knows
//! nothing of connections, retries or batches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gaggle_client_core::{Answer, ClockEstimate, Failure, Verb};
use gaggle_wire::{
    ChangeMode, Loss, NodeId, QueueDescription, QueueName, QueueNameError, QueueStatus, Receipt,
    Request, Response, Settings, SettingsChange, Status,
};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::command::{Command, Handle, PERMIT_BYTES, Shared};
use crate::delivery::{Deleted, deleted, extended, millis, released};
use crate::driver;
use crate::error::{ConnectError, DeleteError, ExtendError, QueueError, ReleaseError};
use crate::options::ConnectOptions;
use crate::queue::Queue;

/// A connection to a cluster, over as many nodes as it takes. Clones share it.
///
/// ```no_run
/// # async fn tour() -> Result<(), Box<dyn std::error::Error>> {
/// use gaggle_client::{Client, SettingsChange};
///
/// let url = "gaggle://n1:7400,n2:7400?ca=ca.pem&cert=client-a.pem&key=client-a.key";
/// let client = Client::connect(url).await?;
/// client.create_queue("orders", SettingsChange::default()).await?;
/// client.queue("orders")?.send("one flat white").await?;
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Handle,
}

/// Settings before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsChanged {
    /// As they were.
    pub before: Settings,
    /// As they are, or would be after a dry run.
    pub after: Settings,
}

/// How far the removal of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removing {
    /// It leaves.
    Leaving {
        /// How many messages still depend on it, as far as that is known.
        left: Option<u64>,
    },
    /// It is no member any more.
    Removed,
}

impl Client {
    /// Connects to the cluster at
    /// `gaggle://n1:7400,n2:7400?ca=ca.pem&cert=c.pem&key=c.key[&cluster=name]`.
    ///
    /// # Errors
    /// See [`ConnectError`]. Once this has succeeded, the client reconnects for ever.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(ConnectOptions::parse(url)?).await
    }

    /// Connects as the options say.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_with(options: ConnectOptions) -> Result<Self, ConnectError> {
        let permits = (options.under_way_bytes_max / PERMIT_BYTES).clamp(1, PERMITS_MAX);
        let shared = Shared {
            send_within: options.send_within,
            request_timeout: options.request_timeout,
            room: Arc::new(Semaphore::new(permits)),
            room_permits: u32::try_from(permits).unwrap_or(u32::MAX),
            names: AtomicU64::new(1),
        };
        let (commands, inbox) = mpsc::unbounded_channel();
        let handle = Handle { commands, shared: Arc::new(shared) };
        driver::start(options, inbox, handle.shared.clone()).await?;
        Ok(Self { handle })
    }

    /// A handle on a queue. Asks nothing: whether the queue exists shows when it is used.
    ///
    /// # Errors
    /// When this cannot be the name of a queue.
    pub fn queue(&self, name: &str) -> Result<Queue, QueueNameError> {
        Ok(Queue::new(QueueName::parse(name)?, self.handle.clone()))
    }

    /// Creates a queue with the cluster's defaults but for `change`. Creating it again with equal
    /// settings succeeds.
    ///
    /// # Errors
    /// See [`QueueError`]; `QueueExists` when it exists with other settings.
    pub async fn create_queue(
        &self,
        name: &str,
        change: SettingsChange,
    ) -> Result<QueueDescription, QueueError> {
        let name = QueueName::parse(name)?;
        self.describe(Request::CreateQueue { name, change }).await
    }

    /// Changes settings of a queue, or says what would change.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn set_queue(
        &self,
        name: &str,
        change: SettingsChange,
        mode: ChangeMode,
    ) -> Result<SettingsChanged, QueueError> {
        let name = QueueName::parse(name)?;
        let answer = self.handle.ask(Request::SetQueue { name, change, mode }).await?;
        match answer.response {
            Response::QueueSet { before, after } => Ok(SettingsChanged { before, after }),
            _ => Err(misfit()),
        }
    }

    /// All queues whose names start with `prefix`, by name.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn list_queues(&self, prefix: &str) -> Result<Vec<QueueDescription>, QueueError> {
        let mut all: Vec<QueueDescription> = Vec::new();
        loop {
            let after = all.last().map(|queue| queue.name.clone());
            let request = Request::ListQueues { prefix: prefix.to_owned(), after };
            let Response::Queues { queues, more } = self.handle.ask(request).await?.response else {
                return Err(misfit());
            };
            let ended = !more || queues.is_empty();
            all.extend(queues);
            if ended {
                return Ok(all);
            }
        }
    }

    /// What the cluster knows of a queue.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn describe_queue(&self, name: &str) -> Result<QueueDescription, QueueError> {
        self.describe(Request::DescribeQueue { name: QueueName::parse(name)? }).await
    }

    /// Deletes a queue with all its messages.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn delete_queue(&self, name: &str) -> Result<(), QueueError> {
        self.handle.ask(Request::DeleteQueue { name: QueueName::parse(name)? }).await?;
        Ok(())
    }

    /// Drops every message of the queue that was accepted before now.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn purge_queue(&self, name: &str) -> Result<(), QueueError> {
        self.handle.ask(Request::PurgeQueue { name: QueueName::parse(name)? }).await?;
        Ok(())
    }

    /// How the cluster is, as one node sees it, and all its queues.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn status(&self) -> Result<Status, QueueError> {
        let mut queues: Vec<QueueStatus> = Vec::new();
        loop {
            let after = queues.last().map(|queue| queue.name.clone());
            let page = self.status_page("", after).await?;
            let ended = !page.more || page.queues.is_empty();
            queues.extend(page.queues);
            if ended {
                return Ok(Status { queues, more: false, ..page });
            }
        }
    }

    /// What this client knows of the cluster's time, by which it stamps what it sends: how far
    /// the calendar time of this machine is off, and how well that is known. `None` when the
    /// client is closed.
    pub async fn clock(&self) -> Option<ClockEstimate> {
        let (done, told) = oneshot::channel();
        self.handle.tell(Command::Clock { done });
        // Without an answer the driver is gone.
        told.await.ok().flatten()
    }

    /// How it is with one queue, as one node sees it; `None` if that knows no such queue.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn queue_status(&self, name: &str) -> Result<Option<QueueStatus>, QueueError> {
        let name = QueueName::parse(name)?;
        // The first name that starts with this one is this one.
        let page = self.status_page(name.as_str(), None).await?;
        Ok(page.queues.into_iter().next().filter(|queue| queue.name == name))
    }

    async fn status_page(
        &self,
        prefix: &str,
        after: Option<QueueName>,
    ) -> Result<Status, QueueError> {
        let request = Request::Status { prefix: prefix.to_owned(), after };
        match self.handle.ask(request).await?.response {
            Response::Status(status) => Ok(*status),
            _ => Err(misfit()),
        }
    }

    /// Removes a node from the cluster for good, or goes on with that: at first it leaves, and once
    /// nothing depends on it any more it is removed. To be called again until it says so.
    ///
    /// # Errors
    /// See [`QueueError`]. A node that is away is refused, unless what only it holds may be lost.
    pub async fn remove_node(&self, node: NodeId, loss: Loss) -> Result<Removing, QueueError> {
        match self.handle.ask(Request::RemoveNode { node, loss }).await?.response {
            Response::Done => Ok(Removing::Removed),
            Response::Leaving { left } => Ok(Removing::Leaving { left }),
            _ => Err(misfit()),
        }
    }

    /// A node that is being removed stays after all.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn keep_node(&self, node: NodeId) -> Result<(), QueueError> {
        self.handle.ask(Request::KeepNode { node }).await?;
        Ok(())
    }

    /// Removes messages for good, by their deliveries or receipts; one result for each, in order.
    pub async fn delete_all<R: Into<Receipt>>(
        &self,
        receipts: impl IntoIterator<Item = R>,
    ) -> Vec<Result<Deleted, DeleteError>> {
        let receipts = receipts.into_iter().map(Into::into).collect();
        let results = self.handle.settle(Verb::Delete, receipts).await;
        results.into_iter().map(deleted).collect()
    }

    /// Hides messages for so long from now; one result for each, in order: how long it stays
    /// hidden.
    pub async fn extend_all(
        &self,
        receipts: impl IntoIterator<Item = Receipt>,
        visibility: Duration,
    ) -> Vec<Result<Duration, ExtendError>> {
        let receipts = receipts.into_iter().collect();
        let results = self.handle.settle(Verb::Extend(millis(visibility)), receipts).await;
        results.into_iter().map(extended).collect()
    }

    /// Gives messages back, to be ready again after `delay`; one result for each, in order.
    pub async fn release_all<R: Into<Receipt>>(
        &self,
        receipts: impl IntoIterator<Item = R>,
        delay: Duration,
    ) -> Vec<Result<(), ReleaseError>> {
        let receipts = receipts.into_iter().map(Into::into).collect();
        let results = self.handle.settle(Verb::Release(millis(delay)), receipts).await;
        results.into_iter().map(released).collect()
    }

    /// Ends the client, for all its clones: what was sent is confirmed or given up at its
    /// deadline, consumers are stopped so that what nobody took goes back at once, connections
    /// are closed. What is begun afterwards fails with `Closed`.
    pub async fn close(&self) {
        self.handle.shared.room.close();
        let (done, waiting) = oneshot::channel();
        if self.handle.tell(Command::Close { done }) {
            // An error means that it is closed already.
            let _ = waiting.await;
        }
    }

    async fn describe(&self, request: Request) -> Result<QueueDescription, QueueError> {
        match self.handle.ask(request).await? {
            Answer { response: Response::Queue(description), .. } => Ok(*description),
            _ => Err(misfit()),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The core lets only answers through that fit their requests.
fn misfit() -> QueueError {
    QueueError::from(Failure::Unknown { last: None })
}

/// Below what a semaphore takes, and what an acquire can count.
const PERMITS_MAX: usize = u32::MAX as usize >> 3;
