//! `gaggle status`: how the nodes and the queues are.
//!
//! Healthy means: every member is up and ready, and every pair of them has a session. Anything
//! less ends with exit code 10, so that a script needs no parsing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gaggle_client::{Client, Status};
use gaggle_wire::{ArrivalSkew, MemberStatus, NodeId, QueueCounts, QueueStatus, Standing};
use serde_json::{Value, json};

use super::connect::ConnectArgs;
use super::failure::{Exit, Failure};
use super::{output, values};

/// Show how the nodes and the queues are; exit code 10 when something is not well.
///
/// Of a node that does not answer, the last known figures are shown, with their age.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Wait until all is ready
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = values::duration)]
    #[arg(requires = "wait")]
    timeout: Duration,
    /// Wait until there are at least so many nodes
    #[arg(long, value_name = "N", default_value_t = 1, requires = "wait")]
    members: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let client = args.connect.client().await?;
    let asked = if args.wait {
        wait_until_healthy(&client, args.members, args.timeout).await
    } else {
        ask(&client).await
    };
    client.close().await;
    let status = asked?;
    if args.json {
        output::object(&object(&status))?;
    } else {
        print(&status)?;
    }
    Ok(if is_healthy(&status) { Exit::Done } else { Exit::Unhealthy })
}

async fn ask(client: &Client) -> Result<Status, Failure> {
    client.status().await.map_err(|error| Failure::of("cannot tell how the cluster is", &error))
}

/// Asks until there are so many nodes and all of them are well.
pub(crate) async fn wait_until_healthy(
    client: &Client,
    members: usize,
    timeout: Duration,
) -> Result<Status, Failure> {
    let deadline = Instant::now() + timeout;
    loop {
        let last = match ask(client).await {
            Ok(status) if status.members.len() >= members && is_healthy(&status) => {
                return Ok(status);
            }
            Ok(status) => complaint(&status, members),
            Err(failure) => failure.why,
        };
        if Instant::now() >= deadline {
            return Err(Failure::new(
                Exit::Unavailable,
                format!("the cluster was not ready within {}", humantime::format_duration(timeout)),
                last,
                "look at the logs of the nodes, or wait longer with --timeout",
            ));
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Whether every member is up and ready and in session with every other.
pub(crate) fn is_healthy(status: &Status) -> bool {
    let all: BTreeSet<NodeId> = status.members.iter().map(|member| member.node).collect();
    let is_well = |member| trouble_of(member).is_none() && missing_session(member, &all).is_none();
    status.members.iter().all(is_well)
}

/// What is wrong. That a node is down also costs the others a session, so it is said first.
fn complaint(status: &Status, members: usize) -> String {
    let all: BTreeSet<NodeId> = status.members.iter().map(|member| member.node).collect();
    let trouble = status.members.iter().find_map(trouble_of);
    trouble
        .or_else(|| status.members.iter().find_map(|member| missing_session(member, &all)))
        .unwrap_or_else(|| format!("{} of {members} nodes are there", all.len()))
}

fn trouble_of(member: &MemberStatus) -> Option<String> {
    let node = member.node;
    if member.standing != Standing::Ready {
        return Some(format!("node {node} is {}", standing(member.standing)));
    }
    let Some(report) = &member.report else {
        return Some(format!("node {node} does not report"));
    };
    (!report.ready).then(|| format!("node {node} is not ready"))
}

fn missing_session(member: &MemberStatus, all: &BTreeSet<NodeId>) -> Option<String> {
    let (node, report) = (member.node, member.report.as_ref()?);
    let missing = all.iter().find(|other| **other != node && !report.sessions.contains(other));
    missing.map(|other| format!("node {node} has no session with node {other}"))
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Ready => "ready",
        Standing::NotReady => "not ready",
        Standing::Slow => "slow",
        Standing::Down => "down",
        Standing::Full => "full",
    }
}

fn print(status: &Status) -> Result<(), Failure> {
    let titles = ["node", "zone", "state", "sessions", "clock", "disk", "free", "address", "age"];
    output::table(titles, status.members.iter().map(member_row).collect())?;
    if let Some(line) = repair_line(status) {
        output::line(format!("\n{line}"))?;
    }
    if let Some(line) = space_line(status) {
        output::line(format!("\n{line}"))?;
    }
    if status.queues.is_empty() {
        return output::line("\nno queues");
    }
    output::line("")?;
    let mut rows = Vec::new();
    for queue in &status.queues {
        rows.push(counts_row(queue.name.to_string(), &queue.total));
        for (node, counts) in &queue.nodes {
            rows.push(counts_row(format!("  copies on node {node}"), counts));
        }
    }
    output::table(["queue", "messages", "in flight", "oldest", "age"], rows)
}

/// Whose disks new copies avoid, or do not take.
fn space_line(status: &Status) -> Option<String> {
    let scarce = |member: &&MemberStatus| {
        let counters = member.report.iter().flat_map(|report| &report.counters);
        counters.into_iter().any(|(name, count)| name == "disk_scarce" && *count > 0)
    };
    let nodes: Vec<NodeId> = status.members.iter().filter(scarce).map(|of| of.node).collect();
    (!nodes.is_empty()).then(|| {
        let nodes = join(&nodes);
        format!("little room on the disk of node {nodes}: new copies go to others, if they can")
    })
}

/// What is being made up for, if anything has too few holders.
fn repair_line(status: &Status) -> Option<String> {
    let up = status.members.iter().filter(|member| member.standing != Standing::Down);
    let reports: Vec<_> = up.filter_map(|member| member.report.as_ref()).collect();
    let each = |name: &str| {
        let counters = reports.iter().flat_map(|report| &report.counters);
        counters.filter(|(of, _)| of == name).map(|(_, count)| *count).collect::<Vec<u64>>()
    };
    let few: u64 = each("under_replicated").iter().sum();
    let left: u64 = each("to_be_replaced").iter().sum();
    let seconds = each("to_be_replaced_seconds").into_iter().max().unwrap_or_default();
    if few == 0 {
        return None;
    }
    let rest = if left == 0 {
        "there is no further host for them".to_owned()
    } else {
        let time = humantime::format_duration(Duration::from_secs(seconds));
        format!("{left} of them will be copied to further hosts, done in about {time}")
    };
    Some(format!("{few} messages have too few holders; {rest}"))
}

fn member_row(member: &MemberStatus) -> [String; 9] {
    let dash = || "-".to_owned();
    let report = member.report.as_ref();
    let shown = match report {
        Some(report) if !report.ready && member.standing == Standing::Ready => "not ready",
        _ => standing(member.standing),
    };
    [
        member.node.to_string(),
        if member.zone.is_empty() { dash() } else { member.zone.clone() },
        shown.to_owned(),
        report.map_or_else(dash, |report| join(&report.sessions)),
        report.and_then(|report| report.clock_offset_ns).map_or_else(dash, values::show_offset),
        report.map_or_else(dash, |report| values::show_size(report.disk_bytes)),
        report.map_or_else(dash, |report| values::show_size(report.disk_free_bytes)),
        member.client_address.to_string(),
        report.map_or_else(dash, |report| values::show_age(report.age_ms)),
    ]
}

fn counts_row(title: String, counts: &QueueCounts) -> [String; 5] {
    [
        title,
        counts.messages.to_string(),
        counts.in_flight.to_string(),
        values::show_age(counts.oldest_age_ms),
        values::show_age(counts.age_ms),
    ]
}

fn join(nodes: &[NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn object(status: &Status) -> Value {
    json!({
        "node": status.node.0,
        "healthy": is_healthy(status),
        "nodes": status.members.iter().map(member_object).collect::<Vec<_>>(),
        "queues": status.queues.iter().map(queue_object).collect::<Vec<_>>(),
    })
}

fn member_object(member: &MemberStatus) -> Value {
    let report = member.report.as_ref().map(|report| {
        let counters = report.counters.iter().map(|(name, value)| (name.clone(), json!(value)));
        json!({
            "age_ms": report.age_ms,
            "boot": report.boot,
            "ready": report.ready,
            "sessions": report.sessions.iter().map(|node| node.0).collect::<Vec<_>>(),
            "clock_offset_ns": report.clock_offset_ns,
            "disk_bytes": report.disk_bytes,
            "disk_free_bytes": report.disk_free_bytes,
            "socket_buffer_bytes": report.socket_buffer_bytes,
            "counters": Value::Object(counters.collect()),
        })
    });
    json!({
        "node": member.node.0,
        "zone": member.zone,
        "state": standing(member.standing),
        "client_address": member.client_address.to_string(),
        "peer_address": member.peer_address.to_string(),
        "report": report,
    })
}

/// The figures of a queue as JSON.
pub(crate) fn queue_object(queue: &QueueStatus) -> Value {
    let counts = |counts: &QueueCounts| {
        json!({
            "messages": counts.messages,
            "in_flight": counts.in_flight,
            "oldest_age_ms": counts.oldest_age_ms,
            "age_ms": counts.age_ms,
        })
    };
    let node = |(node, figures): &(NodeId, QueueCounts)| {
        let mut object = counts(figures);
        object["node"] = json!(node.0);
        object
    };
    json!({
        "name": queue.name.as_str(),
        "id": queue.id.to_string(),
        "total": counts(&queue.total),
        "nodes": queue.nodes.iter().map(node).collect::<Vec<_>>(),
        "arrival_skew_ms": {
            "count": queue.skew.total(),
            "p50_below": skew_below(&queue.skew, 500),
            "p99_below": skew_below(&queue.skew, 990),
            "max_below": skew_below(&queue.skew, 1000),
        },
    })
}

/// What of so many in a thousand messages the skew was below, in milliseconds.
fn skew_below(skew: &ArrivalSkew, per_mille: u64) -> Option<u64> {
    skew.below(per_mille).map(values::milliseconds)
}

/// Quick for a person, and no load.
const ASK_AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use gaggle_wire::NodeReport;

    use super::*;

    fn status(reports: &[(Standing, [u64; 3])]) -> Status {
        let member = |(standing, [few, left, seconds]): &(Standing, [u64; 3])| MemberStatus {
            node: NodeId(1),
            client_address: "127.0.0.1:7400".parse().unwrap(),
            peer_address: "127.0.0.1:7400".parse().unwrap(),
            zone: String::new(),
            standing: *standing,
            report: Some(NodeReport {
                age_ms: 0,
                boot: 1,
                ready: true,
                sessions: Vec::new(),
                clock_offset_ns: None,
                disk_bytes: 0,
                disk_free_bytes: 0,
                socket_buffer_bytes: 0,
                counters: vec![
                    ("under_replicated".to_owned(), *few),
                    ("to_be_replaced".to_owned(), *left),
                    ("to_be_replaced_seconds".to_owned(), *seconds),
                ],
            }),
        };
        let members = reports.iter().map(member).collect();
        Status { node: NodeId(1), members, queues: Vec::new(), more: false }
    }

    #[test]
    fn what_has_too_few_holders_is_said_with_the_time_that_is_left() {
        assert_eq!(repair_line(&status(&[(Standing::Ready, [0, 0, 0])])), None);
        let line = |reports: &[_]| repair_line(&status(reports)).unwrap();
        let (ready, down) = (Standing::Ready, Standing::Down);
        assert_eq!(
            line(&[(ready, [300, 200, 70]), (ready, [5, 5, 30]), (down, [9, 9, 900])]),
            "305 messages have too few holders; 205 of them will be copied to further hosts, done \
             in about 1m 10s"
        );
        assert_eq!(
            line(&[(ready, [7, 0, 0])]),
            "7 messages have too few holders; there is no further host for them"
        );
    }
}
