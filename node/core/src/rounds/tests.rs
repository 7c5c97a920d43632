//! What the tests of this room share: three pinned hosts, entries and rounds by a few numbers.

mod checking;
mod hearing;
mod host;
mod log;
mod planted;
mod walk;
mod world;

use gaggle_wire::{MessageId, NodeId, ProcessId, Stamp};

use super::*;

/// The host with this number and its first store.
fn seat(node: u64) -> Seat {
    Seat { node: NodeId(node), store: 1 }
}

fn three() -> Pinned {
    Pinned::new([seat(1), seat(2), seat(3)])
}

/// The last stamp of this time.
fn at(time: u64) -> Stamp {
    Stamp { time, ..Stamp::MAX }
}

/// The message with this number, stamped at this time, of this key.
fn entry(number: u64, time: u64, key: u64) -> Entry {
    let process = ProcessId(1);
    let name = Name { id: MessageId { process, number }, moves: 0 };
    let stamp = Stamp { time, count: 0, process };
    Entry { stamp, name, key, holders: vec![NodeId(1), NodeId(2)] }
}

/// A round that does nothing but move the watermark.
fn round(n: u64, up_to: u64) -> Round {
    Round { n, up_to: at(up_to), released: vec![], late: vec![], out: vec![], change: None }
}
