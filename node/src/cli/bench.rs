//! `gaggle bench`: how fast is it here, and what does a killed node cost.
//!
//! Without --connect it measures a cluster of its own: three nodes on loopback, everything on
//! this machine. The generator itself is in `crate::load`.

use std::sync::Arc;
use std::time::Duration;

use gaggle_client::{Client, SettingsChange};
use tempfile::TempDir;

use super::bench_report::Report;
use super::connect::{ConnectArgs, connect};
use super::failure::{Exit, Failure};
use super::{local, output, values};
use crate::cluster::Cluster;
use crate::load::{self, Figures, Load, Meter};

/// Measure a cluster: throughput, latency, and with --kill what a killed node costs.
///
/// Without --connect or another word about where the cluster is, it starts one of three nodes on
/// this machine and measures that.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Tasks that send
    #[arg(long, value_name = "P", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    producers: u32,
    /// Tasks that receive and delete; with 0 only sends are measured
    #[arg(long, value_name = "C", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000))]
    consumers: u32,
    /// Sends under way per producer
    #[arg(long, value_name = "F", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: u32,
    /// Bytes of each message, 16 at least
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size)]
    size: usize,
    /// Messages in all
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    messages: u64,
    /// Messages per second in all; latency then counts from when each was due
    #[arg(long, value_name = "R", value_parser = rate)]
    rate: Option<f64>,
    /// How many queues to spread over
    #[arg(long, value_name = "Q", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    queues: u32,
    /// Messages to send before anything is measured
    #[arg(long, value_name = "B", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    backlog: u64,
    /// Kill a node half-way with SIGKILL and start it again 5 s later; only for its own cluster
    #[arg(long)]
    kill: bool,
    /// Nodes of its own cluster
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn size(text: &str) -> Result<usize, String> {
    match usize::try_from(values::size(text)?) {
        Ok(size) if (Load::SIZE_MIN..=gaggle_wire::BODY_LENGTH_MAX).contains(&size) => Ok(size),
        _ => Err("a message of a bench has 16B to 16MiB".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && (0.001..=10_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("a rate is a number of messages per second".to_owned()),
    }
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    if args.kill && (args.connect.names_cluster() || args.nodes < 2) {
        return Err(Failure::usage(
            "cannot kill a node of this cluster",
            "--kill is for a cluster that this command starts itself, of two nodes or more",
            "leave --connect, --node, --cluster, GAGGLE_CONNECT and GAGGLE_CLUSTER away",
        ));
    }
    let mut target = Target::open(&args).await?;
    let measured = measure(&args, &mut target).await;
    target.close().await?;
    let report = measured?;
    if args.json {
        output::object(&report.object())?;
    } else {
        report.print()?;
    }
    let lost = report.figures.lost > 0;
    Ok(if lost { Exit::Failed } else { Exit::Done })
}

/// The cluster that is measured.
struct Target {
    senders: Client,
    receivers: Client,
    own: Option<(Cluster, TempDir)>,
}

impl Target {
    async fn open(args: &Args) -> Result<Self, Failure> {
        if args.connect.names_cluster() {
            let (senders, receivers) = (args.connect.client().await?, args.connect.client().await?);
            return Ok(Self { senders, receivers, own: None });
        }
        let dir = tempfile::Builder::new().prefix("gaggle-bench-").tempdir().map_err(|error| {
            Failure::new(Exit::Failed, "cannot make a directory", error, "check TMPDIR")
        })?;
        output::note(format!("starting {} nodes in {}", args.nodes, dir.path().display()));
        let nodes = usize::from(args.nodes);
        let (cluster, senders) = local::start_on_free_ports(dir.path(), nodes).await?;
        let options = cluster.connect_options().map_err(|error| local::explain(&error))?;
        let receivers = connect(options).await?;
        Ok(Self { senders, receivers, own: Some((cluster, dir)) })
    }

    async fn close(mut self) -> Result<(), Failure> {
        self.receivers.close().await;
        self.senders.close().await;
        match &mut self.own {
            Some((cluster, _)) => cluster.stop_all().await.map_err(|error| local::explain(&error)),
            None => Ok(()),
        }
    }
}

async fn measure(args: &Args, target: &mut Target) -> Result<Report, Failure> {
    let queues = queue_names(args.queues);
    let load = Load {
        producers: args.producers as usize,
        consumers: args.consumers as usize,
        in_flight: args.in_flight as usize,
        size: args.size,
        messages: args.messages,
        rate: args.rate,
        queues,
        backlog: args.backlog,
    };
    let size_max = u32::try_from(args.size).unwrap_or(u32::MAX).max(1024 * 1024);
    let change = SettingsChange { message_size_max: Some(size_max), ..SettingsChange::default() };
    let created = load::create_queues(&target.senders, &load.queues, change).await;
    created.map_err(|error| Failure::of("cannot create the queues of the bench", &error))?;
    let meter = Arc::new(Meter::new(load.backlog + load.messages));
    let empty = target.own.as_ref().map(|(cluster, _)| disk(cluster));
    if load.backlog > 0 {
        output::note(format!("sending a backlog of {}", load.backlog));
        let confirmed = load::fill(&target.senders, &load, &meter).await;
        if confirmed < load.backlog {
            let why = format!(
                "{} of its {} messages were not confirmed",
                load.backlog - confirmed,
                load.backlog
            );
            let remedy = "`gaggle status` shows how the cluster is";
            return Err(Failure::new(Exit::Failed, "cannot make the backlog", why, remedy));
        }
    }
    let filled = target.own.as_ref().map(|(cluster, _)| disk(cluster));
    let figures = run_load(args, target, &load, &meter).await?;
    let mut report = Report::new(load, figures);
    if let Some((cluster, _)) = &target.own {
        report.add_nodes(cluster, empty.unwrap_or(0), filled.unwrap_or(0));
    }
    for name in &report.load.queues {
        // Best effort: the figures are there, and a queue that stays is found by its name.
        let _ = target.senders.delete_queue(name).await;
    }
    Ok(report)
}

/// Names that no other run has.
fn queue_names(count: u32) -> Vec<String> {
    let run = std::process::id();
    let started = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    (0..count).map(|index| format!("bench-{started:x}-{run:x}-{index}")).collect()
}

fn disk(cluster: &Cluster) -> u64 {
    (0..cluster.len()).map(|index| cluster.disk_bytes(index)).sum()
}

async fn run_load(
    args: &Args,
    target: &mut Target,
    load: &Load,
    meter: &Arc<Meter>,
) -> Result<Figures, Failure> {
    let running = load::run(&target.senders, &target.receivers, load, meter);
    match &mut target.own {
        Some((cluster, _)) if args.kill => {
            let killing = kill_half_way(cluster, load, meter);
            let (figures, killed) = tokio::join!(running, killing);
            killed.map(|()| figures)
        }
        _ => Ok(running.await),
    }
}

/// Kills the second node once half of the messages are confirmed, and starts it again.
async fn kill_half_way(cluster: &mut Cluster, load: &Load, meter: &Meter) -> Result<(), Failure> {
    let half = load.backlog + load.messages / 2;
    while meter.confirmed() < half {
        if meter.is_all_sent() {
            // Too many sends failed, and the figures say so.
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    output::note("killing a node");
    cluster.kill(VICTIM).await.map_err(|error| local::explain(&error))?;
    tokio::time::sleep(RESTART_AFTER).await;
    output::note("starting it again");
    cluster.start(VICTIM).map_err(|error| local::explain(&error))
}

/// One with a node before it and, of three, one behind it.
const VICTIM: usize = 1;
/// Long enough that the others notice and go on without it.
const RESTART_AFTER: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
