//! The figures of a bench, as lines for people and as JSON.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::failure::Failure;
use super::{output, values};
use crate::cluster::Cluster;
use crate::load::{Figures, Load};

/// Everything that is told at the end.
pub(crate) struct Report {
    pub(crate) load: Load,
    pub(crate) figures: Figures,
    nodes: Vec<NodeFigures>,
    disk_per_byte: Option<f64>,
}

struct NodeFigures {
    node: u64,
    memory_peak: Option<u64>,
    disk: u64,
}

impl Report {
    pub(crate) fn new(load: Load, figures: Figures) -> Self {
        Self { load, figures, nodes: Vec::new(), disk_per_byte: None }
    }

    /// Adds what is known of nodes on this machine: their memory and their disks, and how many
    /// bytes of disk a byte of message took, all copies together, where messages were kept.
    pub(crate) fn add_nodes(&mut self, cluster: &Cluster, empty: u64, filled: u64) {
        self.nodes = (0..cluster.len())
            .map(|index| NodeFigures {
                node: cluster.id(index).0,
                memory_peak: cluster.memory_peak(index),
                disk: cluster.disk_bytes(index),
            })
            .collect();
        let kept_at_end = self.load.consumers == 0;
        let (messages, disk) = match (kept_at_end, self.load.backlog) {
            (true, backlog) => {
                let now: u64 = self.nodes.iter().map(|node| node.disk).sum();
                (backlog + self.figures.confirmed, now)
            }
            (false, 0) => return,
            (false, backlog) => (backlog, filled),
        };
        let bytes = messages.saturating_mul(self.load.size as u64);
        self.disk_per_byte = Some(ratio(disk.saturating_sub(empty), bytes));
    }

    fn sends_per_second(&self) -> f64 {
        per_second(self.figures.confirmed, self.figures.send_time)
    }

    fn end_to_end_per_second(&self) -> f64 {
        per_second(self.figures.received, self.figures.end_to_end_time)
    }

    pub(crate) fn print(&self) -> Result<(), Failure> {
        let Figures { confirmed, failed, unknown, received, duplicates, lost, .. } = self.figures;
        let mut rows = vec![
            ["confirmed".to_owned(), confirmed.to_string()],
            ["failed, unknown".to_owned(), format!("{failed}, {unknown}")],
            ["sends/s".to_owned(), format!("{:.0}", self.sends_per_second())],
            ["send p50 p99 p99.9".to_owned(), show_quantiles(&self.figures.send_us)],
            ["longest gap of sends".to_owned(), show(self.figures.send_gap)],
        ];
        if self.load.consumers > 0 {
            rows.extend([
                ["received".to_owned(), received.to_string()],
                ["duplicates, lost".to_owned(), format!("{duplicates}, {lost}")],
                ["end to end/s".to_owned(), format!("{:.0}", self.end_to_end_per_second())],
                [
                    "end to end p50 p99 p99.9".to_owned(),
                    show_quantiles(&self.figures.end_to_end_us),
                ],
                ["longest gap of deliveries".to_owned(), show(self.figures.delivery_gap)],
            ]);
        }
        for node in &self.nodes {
            let memory = node.memory_peak.map_or_else(|| "-".to_owned(), values::show_size);
            let title = format!("node {} memory, disk", node.node);
            rows.push([title, format!("{memory}, {}", values::show_size(node.disk))]);
        }
        if let Some(ratio) = self.disk_per_byte {
            rows.push(["disk per byte of message".to_owned(), format!("{ratio:.2}")]);
        }
        output::table(["figure", "value"], rows)
    }

    pub(crate) fn object(&self) -> Value {
        let Figures { confirmed, failed, unknown, received, duplicates, lost, .. } = self.figures;
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|node| {
                json!({
                    "node": node.node,
                    "memory_peak_bytes": node.memory_peak,
                    "disk_bytes": node.disk,
                })
            })
            .collect();
        json!({
            "producers": self.load.producers,
            "consumers": self.load.consumers,
            "in_flight": self.load.in_flight,
            "size": self.load.size,
            "messages": self.load.messages,
            "rate": self.load.rate,
            "queues": self.load.queues.len(),
            "backlog": self.load.backlog,
            "confirmed": confirmed,
            "failed": failed,
            "unknown": unknown,
            "received": received,
            "duplicates": duplicates,
            "lost": lost,
            "sends_per_second": self.sends_per_second(),
            "end_to_end_per_second": self.end_to_end_per_second(),
            "send_ms": quantiles(&self.figures.send_us),
            "end_to_end_ms": quantiles(&self.figures.end_to_end_us),
            "send_gap_ms": milliseconds(self.figures.send_gap),
            "delivery_gap_ms": milliseconds(self.figures.delivery_gap),
            "nodes": nodes,
            "disk_bytes_per_message_byte": self.disk_per_byte,
        })
    }
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let at = |quantile| ratio(histogram.value_at_quantile(quantile), 1000);
    let longest = ratio(histogram.max(), 1000);
    json!({ "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": longest })
}

fn show_quantiles(histogram: &Histogram<u64>) -> String {
    let at = |quantile| show(Duration::from_micros(histogram.value_at_quantile(quantile)));
    format!("{}  {}  {}", at(0.5), at(0.99), at(0.999))
}

fn show(duration: Duration) -> String {
    format!("{:.2}ms", milliseconds(duration))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}
