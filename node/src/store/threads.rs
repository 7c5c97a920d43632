//! The threads of a store: redb blocks, so nothing of it runs where events are handled.
//!
//! One thread writes, one reads. Both take their work in order and report on one channel, so
//! what two jobs of the reader find is told in the order in which they were asked. A thread that
//! dies of a panic in redb reports that as a failure of the store.
//!
//! Invariant: at most one commit is under way; the caller gathers while it runs. What this file
//! does not do: it does not decide what a failure means.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gaggle_core::event::LoadId;
use gaggle_core::ledger::MessageKey;
use gaggle_wire::Label;
use tokio::sync::mpsc::UnboundedSender;

use super::{Change, Page, Scan, Store, StoreError};

/// What a thread reports.
#[derive(Debug)]
pub(crate) enum ThreadsEvent<W> {
    /// The group that was handed over last is durable.
    Committed {
        /// How long it took.
        took: Duration,
    },
    /// A page of rows.
    Loaded {
        /// Which question.
        load: LoadId,
        /// The rows, and which of them are not whole.
        page: Page,
    },
    /// What was wanted, with the contents that could be read.
    Read(Wanted<W>),
    /// The store is of no use any more.
    Failed(StoreError),
}

/// Something that waits for contents.
#[derive(Debug)]
pub(crate) struct Wanted<W> {
    /// What waits.
    pub(crate) word: W,
    /// Since when.
    pub(crate) since: Instant,
    /// The contents it needs, in order.
    pub(crate) contents: Vec<Content>,
}

/// A content, or where to look for it.
#[derive(Debug)]
pub(crate) enum Content {
    /// Here it is.
    Here(Bytes),
    /// It is in the store.
    Stored(MessageKey, Label),
    /// It was not there, or damaged.
    Lost(MessageKey),
}

/// The threads of an open store.
#[derive(Debug)]
pub(crate) struct Threads<W> {
    store: Arc<Store>,
    writer: mpsc::Sender<Vec<Change>>,
    reader: mpsc::Sender<Job<W>>,
    running: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
enum Job<W> {
    Load { load: LoadId, scan: Scan },
    Read(Wanted<W>),
}

impl<W: Send + 'static> Threads<W> {
    /// Starts them.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(
        store: Store,
        events: &UnboundedSender<ThreadsEvent<W>>,
    ) -> std::io::Result<Self> {
        let store = Arc::new(store);
        let (writer, groups) = mpsc::channel::<Vec<Change>>();
        let (reader, jobs) = mpsc::channel::<Job<W>>();
        let running = vec![
            worker("gaggle-writer", groups, events, {
                let store = Arc::clone(&store);
                move |changes| {
                    let start = Instant::now();
                    store.commit(&changes)?;
                    Ok(ThreadsEvent::Committed { took: start.elapsed() })
                }
            })?,
            worker("gaggle-reader", jobs, events, {
                let store = Arc::clone(&store);
                move |job| run(&store, job)
            })?,
        ];
        Ok(Self { store, writer, reader, running })
    }

    /// Makes a group durable; answered by `Committed` or `Failed`.
    pub(crate) fn commit(&self, changes: Vec<Change>) {
        // A thread that is gone has reported why.
        let _ = self.writer.send(changes);
    }

    /// Reads rows; answered by `Loaded` or `Failed`.
    pub(crate) fn load(&self, load: LoadId, scan: Scan) {
        let _ = self.reader.send(Job::Load { load, scan });
    }

    /// Reads contents; answered by `Read` or `Failed`.
    pub(crate) fn read(&self, wanted: Wanted<W>) {
        let _ = self.reader.send(Job::Read(wanted));
    }

    /// Bytes of the store on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Bytes of them that no row takes.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.store.spare_bytes()
    }

    /// Ends the threads after the work they have, and closes the store. Blocks.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        let Self { store, writer, reader, running } = self;
        drop((writer, reader));
        for thread in running {
            // It has reported a panic itself.
            let _ = thread.join();
        }
        let store = Arc::into_inner(store).expect("the threads had the other handles");
        supervised(|| store.close())
    }
}

/// Runs something of redb so that a panic in it is an error.
pub(crate) fn supervised<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(StoreError::Panicked(text.unwrap_or("a panic without words").to_owned()))
    })
}

fn worker<J: Send + 'static, W: Send + 'static>(
    name: &str,
    jobs: mpsc::Receiver<J>,
    events: &UnboundedSender<ThreadsEvent<W>>,
    work: impl Fn(J) -> Result<ThreadsEvent<W>, StoreError> + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let events = events.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        for job in jobs {
            match supervised(|| work(job)) {
                Ok(event) => {
                    // Nobody listens any more when the node is being closed.
                    let _ = events.send(event);
                }
                Err(error) => {
                    let _ = events.send(ThreadsEvent::Failed(error));
                    return;
                }
            }
        }
    })
}

fn run<W>(store: &Store, job: Job<W>) -> Result<ThreadsEvent<W>, StoreError> {
    match job {
        Job::Load { load, scan } => Ok(ThreadsEvent::Loaded { load, page: store.scan(&scan)? }),
        Job::Read(Wanted { word, since, contents }) => {
            let stored = |content: &Content| match content {
                Content::Stored(key, label) => Some((*key, *label)),
                Content::Here(_) | Content::Lost(_) => None,
            };
            let missing: Vec<_> = contents.iter().filter_map(stored).collect();
            let mut read = store.read(&missing)?.into_iter();
            let fill = |content| match content {
                Content::Stored(key, _) => {
                    read.next().flatten().map_or(Content::Lost(key), Content::Here)
                }
                Content::Here(_) | Content::Lost(_) => content,
            };
            let contents = contents.into_iter().map(fill).collect();
            Ok(ThreadsEvent::Read(Wanted { word, since, contents }))
        }
    }
}
