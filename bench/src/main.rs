//! `gaggle-bench`: what a message costs in the core alone.
//!
//! It drives one standalone node, without disk and network, through send, receive and delete,
//! and prints the microseconds of each per message; and what a second's look at many tombstones
//! takes. The load generator for a whole cluster is `gaggle bench`, and that of `benches/node.rs`.
//! What this does not do: it does not judge; compare two builds on one machine.

use std::time::Instant;

use gaggle_bench::Lone;

fn main() {
    let messages = 200_000;
    let batch = 64;
    let mut lone = Lone::new();
    let started = Instant::now();
    let mut numbers = (1..=messages).step_by(batch);
    for first in numbers.by_ref() {
        lone.send(first, batch as u64);
    }
    let sent = started.elapsed();
    let started = Instant::now();
    let mut deliveries = Vec::new();
    loop {
        let batch = lone.receive(batch as u32);
        if batch.is_empty() {
            break;
        }
        deliveries.push(batch);
    }
    let received = started.elapsed();
    let count: usize = deliveries.iter().map(Vec::len).sum();
    let started = Instant::now();
    for batch in deliveries {
        lone.delete(batch);
    }
    let deleted = started.elapsed();
    println!("{count} messages in batches of {batch}, microseconds per message in the core:");
    for (what, time) in [("send", sent), ("receive", received), ("delete", deleted)] {
        println!("  {what:8} {:.2}", time.as_secs_f64() * 1e6 / count as f64);
    }
    let (fresh, joined) = look();
    println!("  a second's look at {BLOCKS} blocks of tombstones: {fresh:.2} ms");
    println!("  and when those that say the same were joined: {joined:.2} ms");
}

/// How long a node looks, in milliseconds, at what it does every second when each of many messages
/// was deleted by a request of its own: before and after the blocks of tombstones were joined.
fn look() -> (f64, f64) {
    let mut lone = Lone::new();
    for first in 1..=BLOCKS {
        lone.send(first, 1);
    }
    for _ in 0..BLOCKS {
        let delivery = lone.receive(1);
        lone.delete(delivery);
    }
    let mut second = || {
        let started = Instant::now();
        lone.second();
        started.elapsed().as_secs_f64() * 1e3
    };
    // The first look still has the bulk of what happened before it, the third joins.
    let looks: Vec<f64> = (0..LOOKS).map(|_| second()).collect();
    (looks[1], looks[LOOKS - 1])
}

/// As many as gather in the resend window at 250 deletes a second.
const BLOCKS: u64 = 30_000;
const LOOKS: usize = 10;
