//! The driver: the one task that owns the core, over as many lives of the store as it takes.
//!
//! A store that failed says nothing reliable any more: pages that look clean may never have been
//! written. So the core is thrown away with all it had not said, every connection is closed (what
//! was asked is unknown to who asked), the store is closed, the system's copy of its file is
//! dropped, and the node is opened anew from what is really on disk, as another run of itself.
//! That is tried a few times; a disk that keeps failing ends the node. So does an earlier process
//! under its name, once it has answered. A full disk does not: the node is away, takes nothing in
//! and deletes nothing, until there is room again.
//!
//! What this file does not do: the loop of one life is in `life.rs`.

mod commits;
mod groups;
mod hearing;
mod held;
pub(crate) mod input;
pub(crate) mod life;
mod recent;
mod speaking;
mod voices;
mod word;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gaggle_core::config::Config;
use gaggle_core::effect::Stop;
use gaggle_core::{Node, OpenError};
use gaggle_wire::NodeId;
use thiserror::Error;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use crate::bodies::Bodies;
use crate::clocks::Clocks;
use crate::entropy;
use crate::net::close::Close;
use crate::net::corridor::dial::Dials;
use crate::net::{Network, Own};
use crate::shutdown;
use crate::store::{Store, StoreError, StoreSource, Threads, supervised};
use input::Urgent;
use life::{End, Life, Parts, Sources};

/// Why a node ended by itself. What it had confirmed is on its disk.
#[derive(Debug, Error)]
pub enum DriveError {
    /// The store cannot be opened or keeps failing.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rows of the store cannot be read.
    #[error(transparent)]
    Rows(#[from] OpenError),
    /// The socket failed.
    #[error("the socket failed; the log says why")]
    Deaf,
    /// Another process runs under the name of this node.
    #[error("node {node} runs already, at {by}, and was there first")]
    NameTaken {
        /// The name in its certificate.
        node: NodeId,
        /// Where other nodes reach that process.
        by: SocketAddr,
    },
    /// The system refused a thread or randomness.
    #[error("the system refused what the node needs: {0}")]
    System(#[from] std::io::Error),
}

/// What stays the same over all lives.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) store: StoreSource,
    pub(crate) network: Arc<Network>,
    pub(crate) own: watch::Sender<Option<Own>>,
    pub(crate) clocks: Clocks,
    pub(crate) body_cache: usize,
    pub(crate) sends_max: usize,
    pub(crate) socket_buffer_bytes: u64,
}

/// A core on a store.
pub(crate) struct Opened {
    node: Node,
    store: Store,
}

impl Driver {
    /// Opens the store and the core on it, on a thread of its own: it may take long.
    pub(crate) async fn open(&self) -> Result<Opened, DriveError> {
        let first_boot = 1 + entropy::number()? % Config::FIRST_BOOT_MAX;
        let config = Config { seed: entropy::number()?, first_boot, ..self.config.clone() };
        let (source, clocks) = (self.store.clone(), self.clocks);
        let (done, opened) = oneshot::channel();
        thread::Builder::new().name("gaggle-open".to_owned()).spawn(move || {
            let opened = supervised(|| source.open()).map_err(DriveError::from).and_then(|store| {
                let node =
                    supervised(|| store.read_all(|rows| Node::open(config, clocks.now(), rows)))??;
                Ok(Opened { node, store })
            });
            // Nobody waits any more when the start was given up.
            let _ = done.send(opened);
        })?;
        opened.await.map_err(|_| StoreError::Panicked("the core did not open".to_owned()))?
    }

    /// Runs the node until it is stopped or its disk keeps failing.
    pub(crate) async fn run(
        self,
        mut opened: Opened,
        mut sources: Sources,
    ) -> Result<(), DriveError> {
        let mut dials = Dials::new(Arc::clone(&self.network));
        let mut failures = 0;
        for number in 1.. {
            let start = Instant::now();
            let mut life = self.life(opened, number)?;
            let end = match life.begin(&mut dials).await {
                Ok(()) => {
                    let hello = life.node().hello();
                    self.own.send_replace(Some(Own { hello, life: number }));
                    life.run(&mut sources, &mut dials).await
                }
                Err(error) => End::Failed(error),
            };
            self.own.send_replace(None);
            let wait = match end {
                End::Stopped(done) => {
                    drop(dials);
                    let closed = shutdown::close(life, &self.network, sources).await;
                    // Whoever asked may have gone.
                    let _ = done.send(());
                    return Ok(closed?);
                }
                End::Deaf => {
                    close(life).await?;
                    return Err(DriveError::Deaf);
                }
                End::Told(Stop::NameTaken { by }) => {
                    tracing::error!(%by, "another process runs under the name of this node");
                    life.voices.close_all(Close::NotWanted);
                    self.network.close().await;
                    close(life).await?;
                    return Err(DriveError::NameTaken { node: self.config.node, by });
                }
                End::Abandoned => return Ok(close(life).await?),
                End::Renewed => {
                    tracing::warn!(
                        "it was told so by another node: a new host begins, unless it was removed"
                    );
                    dials.set(Vec::new());
                    life.voices.close_all(Close::StoreFailed);
                    close(life).await?;
                    false
                }
                End::Failed(error) => {
                    if !error.is_full() {
                        failures = if start.elapsed() > STABLE { 1 } else { failures + 1 };
                    }
                    dials.set(Vec::new());
                    give_up(life, &error, failures).await;
                    if failures > FAILURES_MAX {
                        return Err(error.into());
                    }
                    // What was set aside is room enough to go on with deletes.
                    error.is_full() && !self.store.reserve().spend()
                }
            };
            opened = match self.reopen(wait, &mut failures, &mut sources).await? {
                Ok(opened) => opened,
                Err(end) => return self.end_without_store(end).await,
            };
        }
        unreachable!("lives are counted in 64 bits")
    }

    /// Opens a store that failed, which may fail again; or says how the node ends instead.
    async fn reopen(
        &self,
        mut wait: bool,
        failures: &mut u32,
        sources: &mut Sources,
    ) -> Result<Result<Opened, End>, DriveError> {
        loop {
            if wait && let Some(end) = pause(sources).await {
                return Ok(Err(end));
            }
            wait = true;
            self.store.forget_pages();
            match self.open().await {
                Ok(opened) => return Ok(Ok(opened)),
                Err(DriveError::Store(error)) if error.is_full() => {
                    tracing::warn!(%error, "there is no room yet");
                }
                Err(error @ DriveError::Rows(OpenError::Removed(_))) => return Err(error),
                Err(error) if *failures >= FAILURES_MAX => return Err(error),
                Err(error) => {
                    *failures += 1;
                    tracing::error!(%error, failures, "the store cannot be opened again yet");
                }
            }
        }
    }

    async fn end_without_store(&self, end: End) -> Result<(), DriveError> {
        match end {
            End::Deaf => Err(DriveError::Deaf),
            End::Stopped(done) => {
                self.network.close().await;
                // Whoever asked may have gone.
                let _ = done.send(());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn life(&self, opened: Opened, number: u64) -> Result<Life, DriveError> {
        let (sender, reports) = unbounded_channel();
        Ok(Life::new(Parts {
            node: opened.node,
            threads: Threads::start(opened.store, &sender)?,
            reports,
            network: Arc::clone(&self.network),
            bodies: Bodies::new(self.body_cache, self.sends_max),
            clocks: self.clocks,
            number,
            reserve: self.store.reserve(),
            socket_buffer_bytes: self.socket_buffer_bytes,
        }))
    }
}

/// Ends a life whose store failed: what was asked of it is unknown.
async fn give_up(mut life: Life, error: &StoreError, failures: u32) {
    if error.is_full() {
        tracing::error!(%error, "the disk is full; the node waits for room");
    } else {
        tracing::error!(%error, failures, "the store failed");
    }
    life.voices.close_all(Close::StoreFailed);
    if let Err(error) = close(life).await {
        tracing::warn!(%error, "the failed store did not close well");
    }
}

/// Lets a moment pass without a store, unless the node is to end.
async fn pause(sources: &mut Sources) -> Option<End> {
    let over = sleep(REOPEN_PAUSE);
    tokio::pin!(over);
    loop {
        let urgent = tokio::select! {
            () = &mut over => return None,
            urgent = sources.urgent.recv() => urgent,
        };
        match urgent {
            Some(Urgent::Stop(done)) => return Some(End::Stopped(done)),
            Some(Urgent::Deaf) => return Some(End::Deaf),
            // Nobody is here to hear it.
            Some(Urgent::Gossip { .. }) => {}
            None => return Some(End::Abandoned),
        }
    }
}

/// Closes the store of a life, without holding up others.
pub(crate) async fn close(life: Life) -> Result<(), StoreError> {
    let threads = life.into_threads();
    tokio::task::spawn_blocking(|| threads.close())
        .await
        .unwrap_or_else(|panic| Err(StoreError::Panicked(panic.to_string())))
}

/// Failures in a row that are survived.
const FAILURES_MAX: u32 = 5;
/// A disk that is busy failing, or full, gets a moment.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);
/// A life that lasted so long was a good one.
const STABLE: Duration = Duration::from_mins(1);
