//! `gaggle send`: one message from the command line, or one per line of a file or of stdin.
//!
//! Sends are pipelined; the first one that fails stops the reading, so that a cluster which is
//! gone does not fail a million lines one after the other. How lines are cut is told in
//! `lines.rs`.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gaggle_client::{
    AttributeValue, Attributes, Client, Confirmed, Message, Outcome, Outgoing, Queue, QueueName,
    SendError, Sending,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::connect::ConnectArgs;
use super::failure::{Exit, Failure};
use super::lines::{self, Input, LineError, Pace};
use super::output;
use super::values::{self, Attribute};

/// Send messages: BODY, or one per line of a file or of stdin.
///
/// Every byte string between newlines is a message; its line number becomes the attribute
/// `line`. A line longer than the queue takes ends the command before anything was sent.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The queue
    #[arg(value_parser = QueueName::parse)]
    queue: QueueName,
    /// The message; without it and without --file, stdin is read, one message per line
    #[arg(conflicts_with = "file")]
    body: Option<String>,
    /// Send every line of this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Send each line as it comes, before it is known that no later one is too long
    #[arg(long, conflicts_with = "body")]
    follow: bool,
    /// An attribute of every message; may be repeated
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = values::attribute)]
    attributes: Vec<Attribute>,
    /// The ordering key: messages of one key go to one partition
    #[arg(long, value_parser = values::ordering_key)]
    key: Option<Bytes>,
    /// How long the messages are not to be received yet, e.g. 30s
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    delay: Option<Duration>,
    /// How long each send may take
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    within: Duration,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let what = format!("cannot send to {}", args.queue);
    let attributes = values::attributes(&args.attributes)
        .map_err(|why| Failure::usage(&what, why, "check the --attribute flags"))?;
    let pattern = Pattern { attributes, key: args.key.clone(), args: &args };
    let client = args.connect.client().await?;
    let queue = client
        .queue(args.queue.as_str())
        .map_err(|error| Failure::usage(&what, error, "choose another name"))?;
    let ended = match &args.body {
        Some(body) => send_one(&queue, pattern.outgoing(body.clone().into()), &args).await,
        None => send_lines(&client, &queue, &pattern).await,
    };
    client.close().await;
    ended
}

/// What all messages of one command have in common.
struct Pattern<'a> {
    attributes: Attributes,
    key: Option<Bytes>,
    args: &'a Args,
}

impl Pattern<'_> {
    fn outgoing(&self, body: Bytes) -> Outgoing {
        self.finish(Message { key: self.key.clone(), attributes: self.attributes.clone(), body })
    }

    fn line(&self, line: lines::Line) -> Outgoing {
        let number = AttributeValue::Text(line.number.to_string());
        self.outgoing(line.body).attribute("line", number)
    }

    fn finish(&self, message: Message) -> Outgoing {
        Outgoing::from(message).delay(self.args.delay.unwrap_or_default()).within(self.args.within)
    }
}

async fn send_one(queue: &Queue, outgoing: Outgoing, args: &Args) -> Result<Exit, Failure> {
    let sent = queue.send(outgoing).await;
    let confirmed =
        sent.map_err(|error| Failure::of(format!("cannot send to {}", args.queue), &error))?;
    if args.json {
        let id = format!("{}:{}", confirmed.id.process, confirmed.id.number);
        let stamp = confirmed.stamp.to_string();
        let queue = args.queue.as_str();
        let copies = confirmed.copies;
        output::object(&json!({ "queue": queue, "id": id, "stamp": stamp, "copies": copies }))?;
    } else {
        output::line(format!("sent, {} copies on disk", confirmed.copies))?;
    }
    Ok(Exit::Done)
}

async fn send_lines(
    client: &Client,
    queue: &Queue,
    pattern: &Pattern<'_>,
) -> Result<Exit, Failure> {
    let args = pattern.args;
    let what = || format!("cannot send to {}", args.queue);
    let described = client.describe_queue(args.queue.as_str()).await;
    let limit = described.map_err(|error| Failure::of(what(), &error))?.settings.message_size_max;
    let mut input = open(args, limit as usize).map_err(|error| unreadable(what(), &error))?;
    let mut batch = Batch::new(&input);
    let started = Instant::now();
    let producer = queue.producer();
    let mut ended = Ok(());
    while batch.failed.is_none() {
        let line = match input.lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => {
                ended = Err(unreadable(what(), &error));
                break;
            }
        };
        let number = line.number;
        match producer.send(pattern.line(line)).await {
            Ok(sending) => batch.under_way.push_back((number, sending)),
            Err(error) => batch.count(number, Err(error)),
        }
        batch.settle(UNDER_WAY_MAX).await;
    }
    batch.settle(0).await;
    batch.bar.finish_and_clear();
    batch.report(args, started.elapsed())?;
    ended?;
    batch.exit(what)
}

fn open(args: &Args, limit: usize) -> Result<Input, LineError> {
    let pace = if args.follow { Pace::AsItComes } else { Pace::WholeFirst };
    match &args.file {
        Some(path) => lines::open_file(path, limit, pace),
        None => lines::open_stdin(limit, pace),
    }
}

fn unreadable(what: String, error: &LineError) -> Failure {
    let remedy = match error {
        LineError::TooLong { .. } => {
            "split the line, or raise the limit: `gaggle queue set --message-size-max`"
        }
        LineError::Unreadable(_) => "check the file",
    };
    Failure::usage(what, error, remedy)
}

/// Lines on their way, and how those before them fared.
struct Batch {
    under_way: VecDeque<(u64, Sending)>,
    bar: ProgressBar,
    sent: u64,
    not_sent: u64,
    unknown: u64,
    failed: Option<(u64, SendError)>,
}

impl Batch {
    fn new(input: &Input) -> Self {
        // Drawn on stderr, and only if that is a terminal.
        let bar = input.count.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} lines, {per_sec}");
        if let (Ok(style), true) = (style, input.count.is_some()) {
            bar.set_style(style);
        }
        Self { under_way: VecDeque::new(), bar, sent: 0, not_sent: 0, unknown: 0, failed: None }
    }

    /// Awaits the oldest ones until at most so many are under way.
    async fn settle(&mut self, left: usize) {
        while self.under_way.len() > left {
            let Some((number, sending)) = self.under_way.pop_front() else { return };
            self.count(number, sending.await);
        }
    }

    fn count(&mut self, number: u64, result: Result<Confirmed, SendError>) {
        self.bar.inc(1);
        match result {
            Ok(_) => self.sent += 1,
            Err(error) => {
                match error.outcome() {
                    Outcome::Unknown => self.unknown += 1,
                    Outcome::Done | Outcome::NotDone => self.not_sent += 1,
                }
                if self.not_sent + self.unknown <= SHOWN_MAX {
                    eprintln!("line {number}: {error}");
                }
                self.failed.get_or_insert((number, error));
            }
        }
    }

    fn report(&self, args: &Args, took: Duration) -> Result<(), Failure> {
        let Self { sent, not_sent, unknown, .. } = self;
        if args.json {
            return output::object(&json!({
                "queue": args.queue.as_str(),
                "sent": sent,
                "failed": not_sent,
                "unknown": unknown,
                "seconds": took.as_secs_f64(),
            }));
        }
        if self.failed.is_none() {
            return output::line(format!("sent {sent} messages"));
        }
        output::line(format!("sent {sent} messages, failed {not_sent}, unknown {unknown}"))
    }

    fn exit(self, what: impl Fn() -> String) -> Result<Exit, Failure> {
        let Some((number, error)) = self.failed else { return Ok(Exit::Done) };
        let mut failure = Failure::of(what(), &error);
        if self.sent > 0 {
            failure.exit = Exit::Partial;
            failure.what = format!("sent only a part: line {number} was the first to fail");
        }
        Err(failure)
    }
}

/// More than a producer has under way, so that it never waits for this.
const UNDER_WAY_MAX: usize = 2048;

/// Enough to see a pattern.
const SHOWN_MAX: u64 = 10;
