//! `gaggle receive`: prints bodies, and leaves the messages in flight or deletes them.
//!
//! A message is deleted only after it was printed and the output was flushed: a reader that goes
//! away costs a duplicate and no loss.

use std::time::Duration;

use futures_util::FutureExt;
use gaggle_client::{Client, Consumer, Delivery, Queue, QueueName, Receipt, ReceiveError};
use serde_json::{Value, json};

use super::connect::ConnectArgs;
use super::failure::{Exit, Failure};
use super::stop::Stop;
use super::{output, values};

/// Receive messages and print their bodies.
///
/// Without --delete a message stays in flight and comes again after its visibility timeout;
/// --json prints the receipt with which `gaggle delete`, `extend` and `release` settle it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The queue
    #[arg(value_parser = QueueName::parse)]
    queue: QueueName,
    /// The most messages; 1 unless it is said, and no end with --follow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// How long to wait for the first message
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    wait: Duration,
    /// How long the messages stay hidden from others, not what the queue says (100ms at least)
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    visibility: Option<Duration>,
    /// Go on until Ctrl-C
    #[arg(long, conflicts_with = "wait")]
    follow: bool,
    /// Delete each message after it was printed
    #[arg(long)]
    delete: bool,
    /// Print one JSON object per message, with its receipt
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let client = args.connect.client().await?;
    let queue = client.queue(args.queue.as_str()).map_err(|error| {
        Failure::usage(format!("cannot receive from {}", args.queue), error, "choose another name")
    })?;
    let mut printed = Printed { client: &client, args: &args, count: 0, not_deleted: 0 };
    let ended =
        if args.follow { printed.follow(&queue).await } else { printed.receive(&queue).await };
    client.close().await;
    ended?;
    if printed.count == 0 {
        output::note("no message");
    }
    Ok(if printed.not_deleted == 0 { Exit::Done } else { Exit::Partial })
}

/// What was printed so far.
struct Printed<'a> {
    client: &'a Client,
    args: &'a Args,
    count: u64,
    not_deleted: u64,
}

impl Printed<'_> {
    fn left(&self) -> u64 {
        let usual = if self.args.follow { u64::MAX } else { 1 };
        self.args.max.unwrap_or(usual) - self.count
    }

    async fn receive(&mut self, queue: &Queue) -> Result<(), Failure> {
        let mut wait = self.args.wait;
        while self.left() > 0 {
            let max = usize::try_from(self.left()).unwrap_or(usize::MAX).min(BATCH_MAX);
            let received = queue.receive_for(max, wait, self.args.visibility).await;
            let deliveries = received.map_err(|error| self.explain(&error))?;
            if deliveries.is_empty() {
                break;
            }
            self.print(deliveries).await?;
            wait = Duration::ZERO;
        }
        Ok(())
    }

    async fn follow(&mut self, queue: &Queue) -> Result<(), Failure> {
        let mut stop = Stop::listen()?;
        let builder = queue.consumer().credit(self.left().min(CREDIT));
        let builder = match self.args.visibility {
            Some(visibility) => builder.visibility(visibility),
            None => builder,
        };
        let mut consumer = builder.open();
        let ended = self.print_stream(&mut consumer, &mut stop).await;
        consumer.close().await;
        ended
    }

    async fn print_stream(
        &mut self,
        consumer: &mut Consumer,
        stop: &mut Stop,
    ) -> Result<(), Failure> {
        while self.left() > 0 {
            let next = tokio::select! {
                next = consumer.next() => next,
                () = stop.asked() => return Ok(()),
            };
            let Some(next) = next else { return Ok(()) };
            let mut deliveries = vec![next.map_err(|error| self.explain(&error))?];
            // What waits already is printed and deleted in one go.
            while (deliveries.len() as u64) < self.left().min(CREDIT) {
                let Some(Some(Ok(next))) = consumer.next().now_or_never() else { break };
                deliveries.push(next);
            }
            self.print(deliveries).await?;
        }
        Ok(())
    }

    /// Deliveries that cannot be printed are dropped, and go back at once.
    async fn print(&mut self, deliveries: Vec<Delivery>) -> Result<(), Failure> {
        let mut printed = Vec::new();
        let mut outcome = Ok(());
        for delivery in deliveries {
            outcome = self.print_one(&delivery);
            if outcome.is_err() {
                break;
            }
            printed.push(delivery.into_parts().1);
            self.count += 1;
        }
        if self.args.delete {
            self.delete(printed).await;
        }
        outcome
    }

    fn print_one(&self, delivery: &Delivery) -> Result<(), Failure> {
        if !self.args.json {
            return output::bytes(delivery.body());
        }
        let mut object = output::message(delivery.received());
        object.insert("receipt".to_owned(), json!(delivery.receipt().to_string()));
        let lease = values::milliseconds(delivery.lease_remaining());
        object.insert("lease_ms".to_owned(), json!(lease));
        output::object(&Value::Object(object))
    }

    async fn delete(&mut self, receipts: Vec<Receipt>) {
        for result in self.client.delete_all(receipts).await {
            if let Err(error) = result {
                eprintln!("a message was printed and may come again: {error}");
                self.not_deleted += 1;
            }
        }
    }

    fn explain(&self, error: &ReceiveError) -> Failure {
        Failure::of(format!("cannot receive from {}", self.args.queue), error)
    }
}

/// What one request brings at most.
const BATCH_MAX: usize = gaggle_wire::RECEIVE_MAX;

/// Small enough that what a person looks at does not hide much from others.
const CREDIT: u64 = 256;
