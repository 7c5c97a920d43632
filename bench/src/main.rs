//! `gaggle-bench`: what a message costs in the core alone.
//!
//! It drives one standalone node, without disk and network, through send, receive and delete,
//! and prints the microseconds of each per message. The load generator for a whole cluster is
//! `gaggle bench`. What this does not do: it does not judge; compare two builds on one machine.

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
}
