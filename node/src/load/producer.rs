//! Producers of a load: each keeps its share of sends under way.
//!
//! ```text
//!  0               8               16
//!  +---------------+---------------+------- - -
//!  | number        | due, ns       | filler        little-endian
//!  +---------------+---------------+------- - -
//! ```
//!
//! Due counts from the origin of the meter.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{FuturesUnordered, StreamExt};
use gaggle_client::{Client, Confirmed, Outcome, Outgoing, Producer, SendError, Sending};
use hdrhistogram::Histogram;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::meter::Meter;
use super::pace::Pace;
use super::{Load, histogram, micros};

/// What one producer saw.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) confirmed: u64,
    pub(super) failed: u64,
    pub(super) unknown: u64,
    pub(super) latency_us: Histogram<u64>,
    pub(super) last: Option<Instant>,
}

impl Sent {
    pub(super) fn new() -> Self {
        Self { confirmed: 0, failed: 0, unknown: 0, latency_us: histogram(), last: None }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.confirmed += other.confirmed;
        self.failed += other.failed;
        self.unknown += other.unknown;
        // Both have the same bounds, so adding cannot fail.
        let _ = self.latency_us.add(&other.latency_us);
        self.last = self.last.max(other.last);
    }
}

/// Starts the producers of a load, which together send these numbers.
pub(super) fn spawn(
    client: &Client,
    load: &Load,
    meter: &Arc<Meter>,
    numbers: Range<u64>,
    pace: Option<Pace>,
) -> JoinSet<Sent> {
    let mut tasks = JoinSet::new();
    let mut dues = pace.map(Pace::into_dues).unwrap_or_default().into_iter();
    let step = load.producers.max(1);
    for index in 0..step {
        let name = &load.queues[index % load.queues.len()];
        // The names were made by the load's owner and exist; without one nothing is sent.
        let Ok(queue) = client.queue(name) else { continue };
        let task = Task {
            producer: queue.producer().under_way_max(load.in_flight),
            in_flight: load.in_flight,
            filler: Bytes::from(vec![b'.'; load.size.saturating_sub(Load::SIZE_MIN)]),
            meter: Arc::clone(meter),
            dues: dues.next(),
            sent: Sent::new(),
        };
        let first = numbers.start + index as u64;
        tasks.spawn(task.run((first..numbers.end).step_by(step)));
    }
    tasks
}

struct Task {
    producer: Producer,
    in_flight: usize,
    filler: Bytes,
    meter: Arc<Meter>,
    dues: Option<UnboundedReceiver<Instant>>,
    sent: Sent,
}

type Result = std::result::Result<Confirmed, SendError>;

impl Task {
    async fn run(mut self, numbers: impl Iterator<Item = u64>) -> Sent {
        let mut under_way = FuturesUnordered::new();
        for number in numbers {
            while under_way.len() >= self.in_flight {
                let Some(done) = under_way.next().await else { break };
                self.count(done);
            }
            let due = loop {
                tokio::select! {
                    due = next_due(&mut self.dues) => break due,
                    Some(done) = under_way.next(), if !under_way.is_empty() => self.count(done),
                }
            };
            match self.producer.send(Outgoing::new(self.body(number, due))).await {
                Ok(sending) => under_way.push(wait(number, due, sending)),
                Err(error) => self.count((number, due, Err(error))),
            }
        }
        while let Some(done) = under_way.next().await {
            self.count(done);
        }
        self.sent
    }

    fn body(&self, number: u64, due: Instant) -> Bytes {
        let since = due.saturating_duration_since(self.meter.origin());
        let mut body = BytesMut::with_capacity(Load::SIZE_MIN + self.filler.len());
        body.put_u64_le(number);
        body.put_u64_le(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        body.put_slice(&self.filler);
        body.freeze()
    }

    fn count(&mut self, (number, due, result): (u64, Instant, Result)) {
        let now = Instant::now();
        match result {
            Ok(_) => {
                self.sent.confirmed += 1;
                self.sent.last = Some(now);
                // It grows by itself, so recording cannot fail.
                let _ = self.sent.latency_us.record(micros(now - due));
                self.meter.confirm(number, now);
            }
            Err(error) if error.outcome() == Outcome::Unknown => self.sent.unknown += 1,
            Err(_) => self.sent.failed += 1,
        }
    }
}

/// When the next message is due: now, in a closed loop.
async fn next_due(dues: &mut Option<UnboundedReceiver<Instant>>) -> Instant {
    match dues {
        Some(dues) => dues.recv().await.unwrap_or_else(Instant::now),
        None => Instant::now(),
    }
}

async fn wait(number: u64, due: Instant, sending: Sending) -> (u64, Instant, Result) {
    (number, due, sending.await)
}

/// The number in a body, and when it was due.
pub(super) fn parse(body: &[u8], origin: Instant) -> Option<(u64, Instant)> {
    let (number, rest) = body.split_first_chunk::<8>()?;
    let (due, _) = rest.split_first_chunk::<8>()?;
    let since = Duration::from_nanos(u64::from_le_bytes(*due));
    Some((u64::from_le_bytes(*number), origin.checked_add(since)?))
}
