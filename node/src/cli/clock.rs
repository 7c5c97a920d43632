//! `gaggle clock`: how far the clocks of this machine and of the nodes are from the cluster's time.
//!
//! Each node is asked by a client of its own, so that all of them are measured in the same way.
//! What this file does not do: it sets no clock.

use std::time::Duration;

use gaggle_client::{Client, ClockEstimate, ConnectOptions, Status};
use gaggle_wire::{MemberStatus, NodeId};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::connect::{ConnectArgs, connect};
use super::failure::{Exit, Failure};
use super::{output, values};

/// Show how far clocks are from the cluster's time, and how well that is known.
///
/// Stamps, and so the order of messages, are made by the cluster's time, as well as a client knows
/// it: by the middle one of the nodes that it has asked. An offset is a clock's time minus that.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The clock of a node; what is not known when it did not answer.
struct Row {
    node: NodeId,
    /// Its time minus that of this machine, and by how much that may be wrong.
    measured: Option<(i64, u64)>,
    /// Whether it goes by the others' time, as its own is off.
    sick: bool,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let options = args.connect.options()?;
    let client = connect(options.clone()).await?;
    let asked = ask(&client, &options).await;
    client.close().await;
    let (own, rows) = asked?;
    if args.json {
        output::object(&object(&own, &rows))?;
    } else {
        print(&own, &rows)?;
    }
    Ok(Exit::Done)
}

async fn ask(
    client: &Client,
    options: &ConnectOptions,
) -> Result<(ClockEstimate, Vec<Row>), Failure> {
    let mut status = None;
    for _ in 0..ROUNDS {
        let asked = client.status().await;
        status = Some(asked.map_err(|error| Failure::of("cannot read the clocks", &error))?);
    }
    let status = status.expect("it was asked more than once");
    let rows = rows(&status, options).await;
    let own = client.clock().await.ok_or_else(|| {
        Failure::new(
            Exit::Unavailable,
            "cannot read the clocks",
            "no node has answered",
            "try again",
        )
    })?;
    Ok((own, rows))
}

/// Asks all nodes at once.
async fn rows(status: &Status, options: &ConnectOptions) -> Vec<Row> {
    let mut asked = JoinSet::new();
    for member in &status.members {
        let address = member.client_address.to_string();
        let options = options.clone().node_only(address).connect_timeout(PATIENCE);
        let (node, sick) = (member.node, is_sick(member));
        asked.spawn(async move { Row { node, sick, measured: measure(options).await } });
    }
    let mut rows = asked.join_all().await;
    rows.sort_by_key(|row| row.node);
    rows
}

async fn measure(options: ConnectOptions) -> Option<(i64, u64)> {
    let client = Client::connect_with(options.request_timeout(PATIENCE)).await.ok()?;
    for _ in 0..ROUNDS {
        // Each answer may come sooner than the last; without one the hello's counts.
        let _ = client.queue_status("clock").await;
    }
    let clock = client.clock().await;
    client.close().await;
    clock.map(|clock| (clock.offset_ns, clock.error_ns))
}

fn is_sick(member: &MemberStatus) -> bool {
    let counters = member.report.iter().flat_map(|report| &report.counters);
    counters.into_iter().any(|(name, count)| name == "clock_sick" && *count > 0)
}

fn print(own: &ClockEstimate, rows: &[Row]) -> Result<(), Failure> {
    let shown = |offset: i64, error: u64| {
        let error = i64::try_from(error).unwrap_or(i64::MAX);
        [values::show_offset(offset), values::show_offset(error).replacen('+', "", 1)]
    };
    let [offset, error] = shown(own.offset_ns.saturating_neg(), own.error_ns);
    let note = format!("the cluster's time is that of node {}", own.like);
    let mut table = vec![["this machine".to_owned(), offset, error, note]];
    for row in rows {
        let [offset, error] = match row.measured {
            Some((offset, error)) => shown(offset.saturating_sub(own.offset_ns), error),
            None => ["-", "-"].map(str::to_owned),
        };
        let note = match (row.measured, row.sick) {
            (None, _) => "does not answer",
            (_, true) => "clock-sick: it goes by the others' time",
            _ => "",
        };
        table.push([format!("node {}", row.node), offset, error, note.to_owned()]);
    }
    output::table(["clock", "offset", "known to", ""], table)
}

fn object(own: &ClockEstimate, rows: &[Row]) -> Value {
    let node = |row: &Row| {
        json!({
            "node": row.node.0,
            "offset_ns": row.measured.map(|(offset, _)| offset.saturating_sub(own.offset_ns)),
            "error_ns": row.measured.map(|(_, error)| error),
            "clock_sick": row.sick,
        })
    };
    json!({
        "offset_ns": own.offset_ns.saturating_neg(),
        "error_ns": own.error_ns,
        "like": own.like.0,
        "nodes": rows.iter().map(node).collect::<Vec<_>>(),
    })
}

/// How often each is asked: the shortest round trip tells most.
const ROUNDS: usize = 3;
/// A node that has not answered by then is down for this purpose.
const PATIENCE: Duration = Duration::from_secs(2);
