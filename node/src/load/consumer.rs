//! Consumers of a load: each takes what comes and deletes it in batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gaggle_client::{Client, Consumer, Delivery, Queue, Receipt};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::meter::Meter;
use super::producer::parse;
use super::{Load, histogram, micros};

/// What one consumer saw.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) latency_us: Histogram<u64>,
    pub(super) last: Option<Instant>,
}

/// Starts the consumers of a load.
pub(super) fn spawn(client: &Client, load: &Load, meter: &Arc<Meter>) -> JoinSet<Taken> {
    let mut tasks = JoinSet::new();
    for index in 0..load.consumers {
        let name = &load.queues[index % load.queues.len()];
        let Ok(queue) = client.queue(name) else { continue };
        let task = Task {
            client: client.clone(),
            meter: Arc::clone(meter),
            backlog: load.backlog,
            taken: Taken { latency_us: histogram(), last: None },
        };
        tasks.spawn(task.run(queue));
    }
    tasks
}

struct Task {
    client: Client,
    meter: Arc<Meter>,
    backlog: u64,
    taken: Taken,
}

impl Task {
    async fn run(mut self, queue: Queue) -> Taken {
        let mut deletes = FuturesUnordered::new();
        let mut consumer = queue.consumer().credit(CREDIT).open();
        while !self.meter.is_stopped() {
            let meter = Arc::clone(&self.meter);
            let next = tokio::select! {
                next = consumer.next() => next,
                () = meter.stopped() => break,
                Some(deleted) = deletes.next(), if !deletes.is_empty() => {
                    self.count(deleted);
                    continue;
                }
            };
            let Some(Ok(delivery)) = next else {
                // The stream ends when a node says no; the next one may say yes.
                tokio::time::sleep(OPEN_AGAIN).await;
                consumer = queue.consumer().credit(CREDIT).open();
                continue;
            };
            let receipts = self.take(delivery, &mut consumer);
            deletes.push(delete(self.client.clone(), receipts));
        }
        while let Some(deleted) = deletes.next().await {
            self.count(deleted);
        }
        consumer.close().await;
        self.taken
    }

    fn count(&mut self, deleted: Option<Instant>) {
        self.taken.last = self.taken.last.max(deleted);
    }

    /// Takes this one and all that wait behind it.
    fn take(&mut self, first: Delivery, consumer: &mut Consumer) -> Vec<Receipt> {
        let now = Instant::now();
        let mut receipts = vec![self.note(first, now)];
        while receipts.len() < BATCH {
            let Some(Some(Ok(delivery))) = consumer.next().now_or_never() else { break };
            receipts.push(self.note(delivery, now));
        }
        receipts
    }

    fn note(&mut self, delivery: Delivery, now: Instant) -> Receipt {
        if let Some((number, due)) = parse(delivery.body(), self.meter.origin())
            && self.meter.receive(number, now)
            && number >= self.backlog
        {
            let latency = now.saturating_duration_since(due);
            // It grows by itself, so recording cannot fail.
            let _ = self.taken.latency_us.record(micros(latency));
        }
        delivery.into_parts().1
    }
}

/// What could not be deleted comes again and is counted as a duplicate.
async fn delete(client: Client, receipts: Vec<Receipt>) -> Option<Instant> {
    let results = client.delete_all(receipts).await;
    results.iter().any(Result::is_ok).then(Instant::now)
}

/// What may wait here to be taken.
const CREDIT: u64 = 256;
/// A delete is one request for so many at most.
const BATCH: usize = 128;
const OPEN_AGAIN: Duration = Duration::from_millis(100);
