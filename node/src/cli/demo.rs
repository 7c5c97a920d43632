//! `gaggle demo`: the main job in one command, with a node killed half-way.
//!
//! Three nodes in a temporary directory; every line of a text is sent, one node after the other
//! taking it, while consumers at all nodes receive. Half-way one node is killed with SIGKILL and
//! a little later started again. At the end the bodies that came are compared with those that
//! were confirmed. The last line is a contract with scripts.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gaggle_client::{Client, Confirmed, Outgoing, Producer, SendError, SettingsChange};
use serde_json::json;
use tokio::task::JoinSet;

use super::connect::connect;
use super::demo_ledger::{Ledger, Sum};
use super::failure::{Exit, Failure};
use super::lines::{self, Pace};
use super::{local, output};
use crate::cluster::Cluster;

/// Send a text through three nodes, kill one of them half-way, and lose nothing.
///
/// Starts its own cluster in a temporary directory; needs nothing and leaves nothing behind.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Send every line of this file instead of a built-in text
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(3..=9))]
    nodes: u16,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let bodies = read(&args)?;
    let dir = tempfile::Builder::new().prefix("gaggle-demo-").tempdir().map_err(|error| {
        Failure::new(Exit::Failed, "cannot make a directory", error, "check TMPDIR")
    })?;
    let story = Story { json: args.json };
    story.tell(format!("starting {} nodes in {}", args.nodes, dir.path().display()))?;
    let (cluster, client) = local::start_on_free_ports(dir.path(), usize::from(args.nodes)).await?;
    let change = SettingsChange {
        confirms: Some(2),
        visibility_timeout_ms: Some(VISIBILITY_MS),
        ..SettingsChange::default()
    };
    let created = client.create_queue(QUEUE, change).await;
    created.map_err(|error| Failure::of("cannot create the queue of the demo", &error))?;
    story.tell(format!("sending {} lines, receiving at the same time", bodies.len()))?;
    let mut show = Show::new(cluster, story).await?;
    let started = Instant::now();
    let played = show.play(bodies).await;
    let took = started.elapsed();
    let stopped = show.end().await;
    client.close().await;
    played?;
    stopped?;
    let sum = lock(&show.ledger).sum();
    report(&sum, took, args.json)?;
    Ok(if sum.is_kept() { Exit::Done } else { Exit::Failed })
}

fn read(args: &Args) -> Result<VecDeque<Bytes>, Failure> {
    let mut bodies = VecDeque::new();
    let Some(path) = &args.file else {
        let mut lines = lines::Lines::new(TEXT, LINE_LENGTH_MAX);
        while let Ok(Some(line)) = lines.next_line() {
            bodies.push_back(line.body);
        }
        return Ok(bodies);
    };
    let explain = |error| {
        let what = format!("cannot read {}", path.display());
        Failure::usage(what, error, "name a file whose lines have at most 1MiB")
    };
    let mut input = lines::open_file(path, LINE_LENGTH_MAX, Pace::WholeFirst).map_err(explain)?;
    while let Some(line) = input.lines.next_line().map_err(explain)? {
        bodies.push_back(line.body);
    }
    Ok(bodies)
}

/// What is told on the way, where a person reads it.
#[derive(Clone, Copy)]
struct Story {
    json: bool,
}

impl Story {
    fn tell(self, text: impl AsRef<str>) -> Result<(), Failure> {
        if self.json { Ok(()) } else { output::line(text) }
    }
}

/// The run itself.
struct Show {
    cluster: Cluster,
    story: Story,
    clients: Vec<Client>,
    producers: Vec<Producer>,
    consumers: JoinSet<()>,
    ledger: Arc<Mutex<Ledger>>,
    killed: Option<Instant>,
}

impl Show {
    /// Connects to each node alone, so that it is known through which one a message goes.
    async fn new(cluster: Cluster, story: Story) -> Result<Self, Failure> {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let (mut clients, mut producers, mut consumers) = (Vec::new(), Vec::new(), JoinSet::new());
        for index in 0..cluster.len() {
            let options = cluster.node_options(index).map_err(|error| local::explain(&error))?;
            let client = connect(options).await?;
            let queue = client.queue(QUEUE).map_err(|error| {
                Failure::new(Exit::Failed, "cannot name the queue", error, "report this")
            })?;
            producers.push(queue.producer());
            consumers.spawn(consume(client.clone(), Arc::clone(&ledger)));
            clients.push(client);
        }
        Ok(Self { cluster, story, clients, producers, consumers, ledger, killed: None })
    }

    async fn play(&mut self, bodies: VecDeque<Bytes>) -> Result<(), Failure> {
        let half = bodies.len() / 2;
        self.send(bodies, half).await?;
        self.story.tell("draining")?;
        let mut last = (lock(&self.ledger).sum(), Instant::now());
        while last.0.confirmed > last.0.received + last.0.lost || last.0.lost > 0 {
            if last.1.elapsed() > PATIENCE {
                return self.restart().await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            self.restart_when_due().await?;
            let now = lock(&self.ledger).sum();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        self.restart().await
    }

    /// Sends all bodies, and kills a node once the first half of them is confirmed.
    async fn send(&mut self, mut bodies: VecDeque<Bytes>, half: usize) -> Result<(), Failure> {
        let mut under_way = FuturesUnordered::new();
        let mut confirmed = 0;
        let mut turn = 0;
        loop {
            if self.killed.is_none() && confirmed >= half {
                self.kill().await?;
            }
            while under_way.len() < UNDER_WAY_MAX {
                // The second half waits for the kill.
                let Some(body) = bodies.pop_front() else { break };
                turn = self.next_node(turn);
                lock(&self.ledger).sent(&body);
                under_way.push(send(self.producers[turn].clone(), body));
            }
            let next = tokio::time::timeout(LOOK_AGAIN, under_way.next()).await;
            self.restart_when_due().await?;
            match next {
                Err(_) => {}
                Ok(None) => return Ok(()),
                Ok(Some((body, Ok(_)))) => {
                    confirmed += 1;
                    lock(&self.ledger).confirmed(&body);
                }
                Ok(Some((_, Err(error)))) => self.story.tell(format!("not confirmed: {error}"))?,
            }
        }
    }

    /// The next node that is running.
    fn next_node(&mut self, turn: usize) -> usize {
        let nodes = self.producers.len();
        let after = (1..=nodes).map(|step| (turn + step) % nodes);
        after.into_iter().find(|index| self.cluster.is_running(*index)).unwrap_or(turn)
    }

    async fn kill(&mut self) -> Result<(), Failure> {
        let node = self.cluster.id(VICTIM);
        self.story.tell(format!("half-way: killing node {node} with SIGKILL"))?;
        self.cluster.kill(VICTIM).await.map_err(|error| local::explain(&error))?;
        self.killed = Some(Instant::now());
        Ok(())
    }

    async fn restart_when_due(&mut self) -> Result<(), Failure> {
        match self.killed {
            Some(killed) if killed.elapsed() >= RESTART_AFTER => self.restart().await,
            _ => Ok(()),
        }
    }

    async fn restart(&mut self) -> Result<(), Failure> {
        if self.killed.is_none() || self.cluster.is_running(VICTIM) {
            return Ok(());
        }
        self.story.tell(format!("starting node {} again", self.cluster.id(VICTIM)))?;
        self.cluster.start(VICTIM).map_err(|error| local::explain(&error))
    }

    async fn end(&mut self) -> Result<(), Failure> {
        self.consumers.shutdown().await;
        for client in &self.clients {
            client.close().await;
        }
        self.cluster.stop_all().await.map_err(|error| local::explain(&error))
    }
}

async fn send(producer: Producer, body: Bytes) -> (Bytes, Result<Confirmed, SendError>) {
    let result = match producer.send(Outgoing::new(body.clone())).await {
        Ok(sending) => sending.await,
        Err(error) => Err(error),
    };
    (body, result)
}

/// Receives at one node until it is stopped, and deletes what it received.
async fn consume(client: Client, ledger: Arc<Mutex<Ledger>>) {
    let Ok(queue) = client.queue(QUEUE) else { return };
    loop {
        let mut consumer = queue.consumer().open();
        while let Some(Ok(delivery)) = consumer.next().await {
            lock(&ledger).received(&delivery.message().body);
            // One that could not be deleted comes again, and is counted as what it is.
            let _ = delivery.delete().await;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn report(sum: &Sum, took: Duration, as_json: bool) -> Result<(), Failure> {
    let Sum { sent, confirmed, received, lost, duplicates, invented } = *sum;
    let seconds = took.as_secs_f64();
    if as_json {
        return output::object(&json!({
            "sent": sent,
            "confirmed": confirmed,
            "received": received,
            "lost": lost,
            "duplicates": duplicates,
            "invented": invented,
            "seconds": seconds,
            "confirmed_per_second": rate(confirmed, seconds),
            "received_per_second": rate(received, seconds),
        }));
    }
    if invented > 0 {
        output::line(format!("{invented} messages came that nobody sent"))?;
    }
    output::line(format!("{:.1} s, {:.0} messages/s", seconds, rate(received, seconds)))?;
    output::line(format!(
        "sent {sent} confirmed {confirmed} received {received} lost {lost} duplicates {duplicates}"
    ))
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// A panic elsewhere does not make the figures wrong.
fn lock(ledger: &Mutex<Ledger>) -> std::sync::MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

const QUEUE: &str = "demo";
/// The default limit of a queue.
const LINE_LENGTH_MAX: usize = 1024 * 1024;
/// The second node: one with peers on both sides, and not the first that anybody asks.
const VICTIM: usize = 1;
/// Enough to keep three nodes busy, few enough that a kill meets some of them.
const UNDER_WAY_MAX: usize = 64;
/// Long enough that the others notice, short enough to watch.
const RESTART_AFTER: Duration = Duration::from_secs(2);
/// What the killed node's consumers had in hand comes again after so long: soon enough to watch,
/// far longer than a line is in hand.
const VISIBILITY_MS: u64 = 10_000;
/// Longer than every lease of this queue: after that nothing comes by itself any more.
const PATIENCE: Duration = Duration::from_secs(45);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const TEXT: &[u8] = include_bytes!("demo.txt");
