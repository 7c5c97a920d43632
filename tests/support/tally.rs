//! What was confirmed and what came, message by message.
//!
//! Messages are told apart by their stamps, so that of two empty bodies one cannot stand for the
//! other, and bodies are compared by length and hash, so that a mebibyte costs sixteen bytes
//! here. A send whose outcome is unknown may come or not.
//!
//! What must never be (two bodies under one stamp) is noted and not asserted on the spot: it is
//! found in tasks that nobody waits for. [`Tally::assert_complete`] tells it.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gaggle_client::{Client, Confirmed, Delivery, Outgoing, Received, SendError, Stamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// The account of a test; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    accounts: Arc<Mutex<Accounts>>,
}

#[derive(Debug, Default)]
struct Accounts {
    confirmed: HashMap<Stamp, Mark>,
    received: HashMap<Stamp, (Mark, u32)>,
    /// When, and in which epoch.
    deleted: HashMap<Stamp, (Instant, u32)>,
    epoch: u32,
    /// Kept up to date, because it is asked for all the time.
    missing: usize,
    failed: Vec<SendError>,
    resurrected: Vec<Stamp>,
    violations: Vec<String>,
}

/// What is kept of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    length: usize,
    hash: u64,
}

impl Mark {
    fn of(body: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(body);
        Self { length: body.len(), hash: hasher.finish() }
    }
}

impl Tally {
    /// Notes how a send went.
    pub fn sent(&self, body: &[u8], result: Result<Confirmed, SendError>) {
        let mut accounts = self.lock();
        match result {
            Ok(confirmed) => {
                let before = accounts.confirmed.insert(confirmed.stamp, Mark::of(body));
                if before.is_some() {
                    let stamp = confirmed.stamp;
                    accounts.violations.push(format!("P8: {stamp:?} was confirmed twice"));
                }
                accounts.missing += usize::from(!accounts.received.contains_key(&confirmed.stamp));
            }
            Err(error) => accounts.failed.push(error),
        }
    }

    /// Notes a delivery.
    pub fn received(&self, received: &Received) {
        self.came(received.stamp, Mark::of(&received.message.body));
    }

    fn came(&self, stamp: Stamp, mark: Mark) {
        let mut accounts = self.lock();
        let known = accounts.received.entry(stamp).or_insert((mark, 0));
        let differs = known.0 != mark;
        known.1 += 1;
        let first = known.1 == 1;
        if differs {
            accounts.violations.push(format!("P2: {stamp:?} came with two bodies"));
        }
        if first && accounts.confirmed.contains_key(&stamp) {
            accounts.missing -= 1;
        }
        let epoch = accounts.epoch;
        let deleted = accounts.deleted.get(&stamp);
        if deleted.is_some_and(|(at, then)| *then < epoch || at.elapsed() > ON_THE_SHELF) {
            accounts.resurrected.push(stamp);
        }
    }

    /// Notes that a delete was confirmed.
    pub fn deleted(&self, stamp: Stamp) {
        let mut accounts = self.lock();
        let epoch = accounts.epoch;
        accounts.deleted.entry(stamp).or_insert_with(|| (Instant::now(), epoch));
    }

    /// Everybody who received has stopped, and nothing is in anybody's hands: of what was deleted
    /// up to now nothing may come from now on, however soon.
    pub fn begin_epoch(&self) {
        self.lock().epoch += 1;
    }

    /// How many deletes were confirmed.
    #[must_use]
    pub fn deleted_count(&self) -> usize {
        self.lock().deleted.len()
    }

    /// How many sends were confirmed.
    #[must_use]
    pub fn confirmed_count(&self) -> usize {
        self.lock().confirmed.len()
    }

    /// How many different messages came.
    #[must_use]
    pub fn received_count(&self) -> usize {
        self.lock().received.len()
    }

    /// The sends that were not confirmed.
    #[must_use]
    pub fn failed(&self) -> Vec<SendError> {
        self.lock().failed.clone()
    }

    /// Confirmed messages that have not come.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.lock().missing
    }

    /// Deliveries beyond the first of each message.
    #[must_use]
    pub fn duplicates(&self) -> u32 {
        self.lock().received.values().map(|(_, count)| count - 1).sum()
    }

    /// What came again so far is forgiven: during a cut each side delivers what it has.
    pub fn forgive(&self) {
        self.lock().resurrected.clear();
    }

    /// Deliveries of messages whose delete had been confirmed in an epoch before, or well before.
    #[must_use]
    pub fn resurrected(&self) -> Vec<Stamp> {
        self.lock().resurrected.clone()
    }

    /// Asserts that all that was confirmed came, byte for byte (P1, P2), and that nothing was seen
    /// that must never be.
    ///
    /// # Panics
    /// When it did not.
    pub fn assert_complete(&self) {
        let accounts = self.lock();
        assert_eq!(accounts.violations, Vec::<String>::new());
        let mut missing = Vec::new();
        for (stamp, mark) in &accounts.confirmed {
            match accounts.received.get(stamp) {
                Some((came, _)) => assert_eq!(came, mark, "P2: {stamp:?} came with another body"),
                None => missing.push(*stamp),
            }
        }
        missing.sort_unstable();
        assert!(
            missing.is_empty(),
            "P1: {} confirmed messages are lost: {missing:?}",
            missing.len()
        );
    }

    /// Waits until all that was confirmed has come, as long as something still comes.
    ///
    /// # Panics
    /// When nothing came for `patience`.
    pub async fn wait_complete(&self, patience: Duration) {
        let mut last = (usize::MAX, Instant::now());
        loop {
            let missing = self.missing();
            if missing == 0 {
                return;
            }
            if missing != last.0 {
                last = (missing, Instant::now());
            }
            assert!(last.1.elapsed() < patience, "P1: {missing} confirmed messages do not come");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives and deletes until it is aborted, whatever happens to nodes meanwhile.
#[must_use]
pub fn spawn_consumer(client: Client, queue: &str, tally: &Tally) -> JoinHandle<()> {
    let (queue, tally) = (client.queue(queue).expect("a name"), tally.clone());
    tokio::spawn(async move {
        let deletes = Arc::new(Semaphore::new(DELETES_MAX));
        loop {
            let mut consumer = queue.consumer().open();
            while let Some(Ok(delivery)) = consumer.next().await {
                tally.received(delivery.received());
                let permit = Arc::clone(&deletes).acquire_owned().await.expect("it stays open");
                tokio::spawn(delete(delivery, tally.clone(), permit));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
}

/// What could not be deleted comes again, which is for the test to judge.
async fn delete(delivery: Delivery, tally: Tally, permit: OwnedSemaphorePermit) {
    let stamp = delivery.received().stamp;
    if delivery.delete().await.is_ok() {
        tally.deleted(stamp);
    }
    drop(permit);
}

/// Sends these bodies, so many at a time, and notes how each went.
#[must_use]
pub fn spawn_producer(
    client: Client,
    queue: &str,
    bodies: Vec<bytes::Bytes>,
    tally: &Tally,
) -> JoinHandle<()> {
    let (queue, tally) = (client.queue(queue).expect("a name"), tally.clone());
    tokio::spawn(async move {
        // Few enough that a kill in the middle finds most of them still to come.
        let producer = queue.producer().under_way_max(64);
        let mut under_way = Vec::new();
        for body in bodies {
            match producer.send(Outgoing::new(body.clone())).await {
                Ok(sending) => {
                    let tally = tally.clone();
                    under_way.push(tokio::spawn(async move { tally.sent(&body, sending.await) }));
                }
                Err(error) => tally.sent(&body, Err(error)),
            }
        }
        for noted in under_way {
            noted.await.expect("noting a result does not panic");
        }
    })
}

/// Stops tasks and waits until they have noted what they had.
///
/// # Panics
/// When one of them has.
pub async fn stop(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.abort();
        if let Err(error) = task.await {
            assert!(error.is_cancelled(), "a task of the test panicked: {error}");
        }
    }
}

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Deletes under way per consumer.
const DELETES_MAX: usize = 32;

/// A duplicate that a fault explains may wait in a client's hands while another one is deleted.
const ON_THE_SHELF: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use gaggle_client::MessageId;
    use gaggle_wire::ProcessId;

    use super::*;

    fn stamp(time: u64) -> Stamp {
        Stamp { time, count: 0, process: ProcessId(1) }
    }

    fn confirmed(time: u64) -> Confirmed {
        let id = MessageId { process: ProcessId(1), number: time };
        Confirmed { stamp: stamp(time), id, copies: 2 }
    }

    #[test]
    fn what_was_deleted_before_an_epoch_began_is_resurrected_however_soon_it_comes() {
        let tally = Tally::default();
        for time in 1..=2 {
            tally.came(stamp(time), Mark::of(b"a"));
            tally.deleted(stamp(time));
        }
        tally.came(stamp(1), Mark::of(b"a"));
        assert_eq!(tally.resurrected(), [], "it was in another one's hands");
        tally.begin_epoch();
        tally.came(stamp(3), Mark::of(b"a"));
        tally.came(stamp(2), Mark::of(b"a"));
        assert_eq!(tally.resurrected(), [stamp(2)]);
    }

    #[test]
    #[should_panic(expected = "came with two bodies")]
    fn two_bodies_under_one_stamp_are_told_although_nobody_waits_for_who_saw_them() {
        let tally = Tally::default();
        tally.came(stamp(1), Mark::of(b"a"));
        tally.came(stamp(1), Mark::of(b"b"));
        tally.assert_complete();
    }

    #[test]
    #[should_panic(expected = "1 confirmed messages are lost")]
    fn a_confirmed_message_that_does_not_come_is_lost() {
        let tally = Tally::default();
        tally.sent(b"a", Ok(confirmed(1)));
        tally.sent(b"b", Ok(confirmed(2)));
        tally.came(stamp(1), Mark::of(b"a"));
        tally.assert_complete();
    }
}
