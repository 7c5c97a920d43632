//! The load generator: producers and consumers that measure what they see.
//!
//! `gaggle bench` and the bench of a node (`bench/benches/node.rs`) use it. In a closed loop each
//! producer keeps so many sends under way. At a fixed rate a clock thread says when each message
//! is due, and every latency counts from that moment and not from when the generator got round to
//! it: a stall is then seen by all messages that it held up, not only by the one that met it
//! (coordinated omission).
//!
//! Every message carries its number, so that what comes twice or not at all is counted as such.
//! What this file does not do: it starts and kills no nodes; whoever runs it does.

mod consumer;
mod meter;
mod pace;
mod producer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gaggle_client::{Client, QueueError, SettingsChange};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

pub use meter::Meter;

/// What is to be sent and received.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Tasks that send.
    pub producers: usize,
    /// Tasks that receive and delete; with none, only sends are measured.
    pub consumers: usize,
    /// Sends under way per producer.
    pub in_flight: usize,
    /// Bytes of each body, at least [`Load::SIZE_MIN`].
    pub size: usize,
    /// Messages in all, without the backlog.
    pub messages: u64,
    /// Messages per second over all producers; as fast as it goes when `None`.
    pub rate: Option<f64>,
    /// The queues, which must exist.
    pub queues: Vec<String>,
    /// Messages that are sent before anything is measured.
    pub backlog: u64,
}

impl Load {
    /// Room for the number of the message and the moment when it was due.
    pub const SIZE_MIN: usize = 16;
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Sends that were confirmed.
    pub confirmed: u64,
    /// Sends that were refused or not done in time.
    pub failed: u64,
    /// Sends whose outcome is unknown.
    pub unknown: u64,
    /// Different messages that were received, the backlog among them.
    pub received: u64,
    /// Deliveries of messages that had come already.
    pub duplicates: u64,
    /// Messages that were confirmed and did not come, if anybody received.
    pub lost: u64,
    /// From the first send to the last confirm.
    pub send_time: Duration,
    /// From the first send to the last delete.
    pub end_to_end_time: Duration,
    /// From due to confirmed, in microseconds.
    pub send_us: Histogram<u64>,
    /// From due to received, in microseconds; without the backlog.
    pub end_to_end_us: Histogram<u64>,
    /// The longest time without a confirmed send, between the first and the last.
    pub send_gap: Duration,
    /// The longest time without a delivery, between the first and the last.
    pub delivery_gap: Duration,
}

/// Creates queues for a load, with settings of their own.
///
/// # Errors
/// See [`QueueError`].
pub async fn create_queues(
    client: &Client,
    names: &[String],
    change: SettingsChange,
) -> Result<(), QueueError> {
    for name in names {
        client.create_queue(name, change).await?;
    }
    Ok(())
}

/// Sends the backlog; returns how many were confirmed.
pub async fn fill(client: &Client, load: &Load, meter: &Arc<Meter>) -> u64 {
    let share = Load { messages: load.backlog, backlog: 0, rate: None, ..load.clone() };
    let mut producers = producer::spawn(client, &share, meter, 0..load.backlog, None);
    let mut confirmed = 0;
    while let Some(done) = producers.join_next().await {
        confirmed += done.map_or(0, |sent| sent.confirmed);
    }
    confirmed
}

/// Runs the load. The meter can be watched meanwhile; it must be of this load.
pub async fn run(senders: &Client, receivers: &Client, load: &Load, meter: &Arc<Meter>) -> Figures {
    let consumers = consumer::spawn(receivers, load, meter);
    let started = Instant::now();
    meter.begin(started);
    let pace = load.rate.map(|rate| pace::Pace::new(rate, load.producers));
    let numbers = load.backlog..load.backlog + load.messages;
    let producers = producer::spawn(senders, load, meter, numbers, pace);
    let sent = join_producers(producers).await;
    meter.all_sent();
    let (end_to_end_us, last_delete) = join_consumers(consumers, meter).await;
    let end = |moment: Option<Instant>| moment.map_or(Duration::ZERO, |last| last - started);
    Figures {
        confirmed: sent.confirmed,
        failed: sent.failed,
        unknown: sent.unknown,
        received: meter.received(),
        duplicates: meter.duplicates(),
        lost: if load.consumers == 0 { 0 } else { meter.missing() },
        send_time: end(sent.last),
        end_to_end_time: end(last_delete),
        send_us: sent.latency_us,
        end_to_end_us,
        send_gap: meter.send_gap(),
        delivery_gap: meter.delivery_gap(),
    }
}

async fn join_producers(mut producers: JoinSet<producer::Sent>) -> producer::Sent {
    let mut sum = producer::Sent::new();
    while let Some(done) = producers.join_next().await {
        if let Ok(sent) = done {
            sum.add(&sent);
        }
    }
    sum
}

/// Waits until every confirmed message has come and its deletion is done; gives up when nothing
/// has come for longer than any lease lasts.
async fn join_consumers(
    mut consumers: JoinSet<consumer::Taken>,
    meter: &Meter,
) -> (Histogram<u64>, Option<Instant>) {
    let mut latency = histogram();
    let mut last = None;
    if consumers.is_empty() {
        return (latency, last);
    }
    meter.drained(PATIENCE).await;
    while let Some(done) = consumers.join_next().await {
        let Ok(taken) = done else { continue };
        // Both have the same bounds, so adding cannot fail.
        let _ = latency.add(&taken.latency_us);
        last = last.max(taken.last);
    }
    (latency, last)
}

/// Microseconds, three digits, growing as needed.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are within what it can do")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Longer than the visibility timeout of a queue that was created without one: what was in flight
/// at a killed node has come again by then.
const PATIENCE: Duration = Duration::from_secs(45);
