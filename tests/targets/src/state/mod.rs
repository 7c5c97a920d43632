//! A node, or a few, and anything that may happen to them, drawn from bytes.
//!
//! Two targets: one node among peers that say whatever they like (`node`), and a few nodes that
//! talk to each other over links that come and go (`cluster`). Both ask that no event panics a
//! node, that its own checks hold after every event, that whatever it writes can be read, and that
//! it can be opened again on its rows at any moment.
//!
//! What this room does not do: what clients are promised is the simulator's to watch.

mod disk;
mod flock;
mod house;
mod ops;
mod walk;

use gaggle_core::Config;
use gaggle_core::now::{Mono, Now, Wall};
use gaggle_wire::NodeId;

pub(crate) use house::House;
pub use ops::kinds;
pub(crate) use ops::{cluster, meeting, node, noise};

/// A node whose limits are so small that a few steps meet them.
pub(crate) fn config(node: u64) -> Config {
    let address = |first: u64| {
        let port = u16::try_from(first + node).expect("nodes have small numbers");
        ([127, 0, 0, 1], port).into()
    };
    let mut config = Config::new(NodeId(node), address(7400), address(8400));
    config.seeds = vec![([127, 0, 0, 1], 7401).into(), ([127, 0, 0, 1], 7402).into()];
    config.seed = node;
    config.window_max = 4;
    config.page_rows = 3;
    config.in_flight_max = 8;
    config.waiting_max = 8;
    config.queues_max = 4;
    config.serve_alone_after = std::time::Duration::from_secs(1);
    config.resend_window = std::time::Duration::from_secs(2);
    config
}

/// So many milliseconds after the beginning, with a wall clock that is off by so many.
pub(crate) fn at(ms: u64, off: i64) -> Now {
    let nanos = ms.saturating_mul(1_000_000);
    let off = off.saturating_mul(1_000_000);
    Now { mono: Mono(nanos), wall: Wall(EPOCH.saturating_add(nanos).saturating_add_signed(off)) }
}

/// When everything begins: nanoseconds since 1970.
pub(crate) const EPOCH: u64 = 1_800_000_000_000_000_000;
