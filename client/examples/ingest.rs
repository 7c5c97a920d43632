//! Ingestion: every line of a file, or of stdin, becomes a message.
//!
//! ```text
//! export GAGGLE_URL='gaggle://127.0.0.1:7400?ca=ca.pem&cert=client-a.pem&key=client-a.key'
//! cargo run --example ingest -- events.jsonl
//! tail -f log | cargo run --example ingest
//! ```
//!
//! A line that is a JSON object with a string `key` is sent with that ordering key. The end says
//! how many lines are confirmed, and how many are not and why.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::time::Instant;

use gaggle_client::{Client, Outgoing, Producer, SendError, Sending, SettingsChange};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&env::var("GAGGLE_URL")?).await?;
    client.create_queue(QUEUE, SettingsChange::default()).await?;
    let producer = client.queue(QUEUE)?.producer();
    let began = Instant::now();
    let counts = match env::args().nth(1) {
        Some(path) => ingest(&producer, BufReader::new(File::open(path)?)).await?,
        None => ingest(&producer, io::stdin().lock()).await?,
    };
    client.close().await;
    let seconds = began.elapsed().as_secs_f64();
    println!("{} lines confirmed in {seconds:.1} s", counts.confirmed);
    for (reason, lines) in &counts.failed {
        println!("{lines} lines failed: {reason}");
    }
    if counts.failed.is_empty() { Ok(()) } else { Err("not every line is confirmed".into()) }
}

#[derive(Default)]
struct Counts {
    confirmed: u64,
    failed: BTreeMap<String, u64>,
}

/// Sends every line. The confirms are counted beside it, so that none is waited for. Reading
/// blocks, but only this task: the client has the runtime's other threads.
async fn ingest(producer: &Producer, input: impl BufRead) -> Result<Counts, Box<dyn Error>> {
    let (pending, results) = mpsc::unbounded_channel::<Result<Sending, SendError>>();
    let counting = tokio::spawn(count(results));
    for (number, line) in (1_u64..).zip(input.split(b'\n')) {
        let line = line?;
        let key = ordering_key(&line);
        let mut message = Outgoing::new(line).attribute("line", number.to_string());
        if let Some(key) = key {
            message = message.key(key);
        }
        // This waits while too many are under way.
        pending.send(producer.send(message).await)?;
    }
    drop(pending);
    Ok(counting.await?)
}

async fn count(mut results: mpsc::UnboundedReceiver<Result<Sending, SendError>>) -> Counts {
    let mut counts = Counts::default();
    while let Some(sending) = results.recv().await {
        let result = match sending {
            Ok(sending) => sending.await,
            Err(error) => Err(error),
        };
        match result {
            Ok(_) => counts.confirmed += 1,
            Err(error) => *counts.failed.entry(error.to_string()).or_default() += 1,
        }
    }
    counts
}

fn ordering_key(line: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    Some(value.get("key")?.as_str()?.to_owned())
}

const QUEUE: &str = "events";
