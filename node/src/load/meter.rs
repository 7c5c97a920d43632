//! What all tasks of a load share: which messages came, how many are missing, the longest gaps.
//!
//! One bit per message tells a new one from a duplicate. Everything is atomic and relaxed: the
//! figures are exact once the tasks have been joined, and near enough while they run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The shared figures of one load.
#[derive(Debug)]
pub struct Meter {
    origin: Instant,
    began: OnceLock<Instant>,
    confirmed: Bits,
    received: Bits,
    confirmed_count: AtomicU64,
    received_count: AtomicU64,
    duplicates: AtomicU64,
    sends: Beat,
    deliveries: Beat,
    all_sent: AtomicBool,
    stop: AtomicBool,
    changed: Notify,
    deadline_moves: AtomicU64,
}

impl Meter {
    /// A meter for so many messages, the backlog among them.
    #[must_use]
    pub fn new(messages: u64) -> Self {
        Self {
            origin: Instant::now(),
            began: OnceLock::new(),
            confirmed: Bits::new(messages),
            received: Bits::new(messages),
            confirmed_count: AtomicU64::new(0),
            received_count: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            sends: Beat::default(),
            deliveries: Beat::default(),
            all_sent: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            changed: Notify::new(),
            deadline_moves: AtomicU64::new(0),
        }
    }

    /// The moment from which times in messages count.
    pub(super) fn origin(&self) -> Instant {
        self.origin
    }

    /// From now on gaps are measured.
    pub(super) fn begin(&self, now: Instant) {
        // It is set once: a meter is of one run.
        let _ = self.began.set(now);
    }

    /// Sends that were confirmed so far, the backlog among them.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.confirmed_count.load(Relaxed)
    }

    /// Different messages that were received so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received_count.load(Relaxed)
    }

    /// Deliveries of messages that had come already.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Relaxed)
    }

    /// A send was confirmed.
    pub(super) fn confirm(&self, number: u64, now: Instant) {
        self.confirmed.set(number);
        self.confirmed_count.fetch_add(1, Relaxed);
        if self.began.get().is_some() {
            self.sends.beat(now - self.origin);
        }
    }

    /// A message came; says whether for the first time.
    pub(super) fn receive(&self, number: u64, now: Instant) -> bool {
        self.deadline_moves.fetch_add(1, Relaxed);
        if self.began.get().is_some() {
            self.deliveries.beat(now - self.origin);
        }
        let new = self.received.set(number);
        let count = if new { &self.received_count } else { &self.duplicates };
        count.fetch_add(1, Relaxed);
        new
    }

    /// No more will be confirmed.
    pub(super) fn all_sent(&self) {
        self.all_sent.store(true, Relaxed);
    }

    /// Whether every send has its outcome.
    #[must_use]
    pub fn is_all_sent(&self) -> bool {
        self.all_sent.load(Relaxed)
    }

    /// Confirmed messages that have not come.
    pub(super) fn missing(&self) -> u64 {
        self.confirmed.without(&self.received)
    }

    /// Whether consumers are to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Waits for the word to end.
    pub(super) async fn stopped(&self) {
        let changed = self.changed.notified();
        if !self.is_stopped() {
            changed.await;
        }
    }

    /// Waits until nothing is missing, or until nothing has come for so long; then says stop.
    pub(super) async fn drained(&self, patience: Duration) {
        let mut seen = (self.deadline_moves.load(Relaxed), Instant::now());
        while !(self.is_all_sent() && self.missing() == 0) {
            tokio::time::sleep(LOOK_AGAIN).await;
            let moves = self.deadline_moves.load(Relaxed);
            if moves != seen.0 {
                seen = (moves, Instant::now());
            }
            if seen.1.elapsed() > patience {
                break;
            }
        }
        self.stop.store(true, Relaxed);
        self.changed.notify_waiters();
    }

    pub(super) fn send_gap(&self) -> Duration {
        self.sends.longest()
    }

    pub(super) fn delivery_gap(&self) -> Duration {
        self.deliveries.longest()
    }
}

/// The longest time between two beats.
#[derive(Debug, Default)]
struct Beat {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Beat {
    fn beat(&self, since_origin: Duration) {
        let now = u64::try_from(since_origin.as_nanos()).unwrap_or(u64::MAX);
        let last = self.last_ns.fetch_max(now, Relaxed);
        if last != 0 {
            self.longest_ns.fetch_max(now.saturating_sub(last), Relaxed);
        }
    }

    fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Relaxed))
    }
}

/// One bit per message.
#[derive(Debug)]
struct Bits {
    words: Vec<AtomicU64>,
}

impl Bits {
    fn new(count: u64) -> Self {
        let words = usize::try_from(count.div_ceil(64)).expect("a load fits into memory");
        Self { words: std::iter::repeat_with(AtomicU64::default).take(words).collect() }
    }

    /// Sets a bit; says whether it was not set. A number that was never given out is not new.
    fn set(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|word| self.words.get(word));
        let bit = 1 << (number % 64);
        word.is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0)
    }

    fn without(&self, other: &Self) -> u64 {
        let pairs = self.words.iter().zip(&other.words);
        pairs.map(|(a, b)| u64::from((a.load(Relaxed) & !b.load(Relaxed)).count_ones())).sum()
    }
}

/// Little beside what a run takes, no load beside what it measures.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_confirmed_and_did_not_come_is_missing() {
        let meter = Meter::new(100);
        let now = Instant::now();
        for number in 0..100 {
            meter.confirm(number, now);
        }
        for number in 0..99 {
            assert!(meter.receive(number, now));
        }
        assert!(!meter.receive(5, now));
        assert!(!meter.receive(1000, now));
        assert_eq!((meter.missing(), meter.received(), meter.duplicates()), (1, 99, 2));
    }

    #[test]
    fn a_gap_is_between_beats_and_before_the_run_there_is_none() {
        let meter = Meter::new(10);
        let at = |ms| meter.origin() + Duration::from_millis(ms);
        meter.confirm(0, at(1));
        meter.begin(at(900));
        for (number, ms) in [(1, 1000), (2, 1010), (3, 1300), (4, 1290)] {
            meter.confirm(number, at(ms));
        }
        assert_eq!(meter.send_gap(), Duration::from_millis(290));
        assert_eq!(meter.delivery_gap(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_load_whose_messages_have_all_come_is_drained() {
        let meter = Meter::new(1);
        meter.confirm(0, Instant::now());
        meter.all_sent();
        meter.receive(0, Instant::now());
        meter.drained(Duration::from_secs(60)).await;
        assert!(meter.is_stopped());
        meter.stopped().await;
    }

    #[tokio::test]
    async fn patience_with_a_message_that_does_not_come_ends() {
        let meter = Meter::new(1);
        meter.confirm(0, Instant::now());
        meter.all_sent();
        meter.drained(Duration::from_millis(20)).await;
        assert_eq!(meter.missing(), 1);
    }
}
