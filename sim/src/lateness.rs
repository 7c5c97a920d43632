//! How late the loop of a runtime was of late: the lag that a node is told of its own process.
//!
//! As in the runtime of a node, each time at which something was due counts, and what is told is
//! the 99th percentile of the last ten seconds. What this file does not do: it judges nothing.

use std::collections::VecDeque;

use crate::world::World;

/// Times of the last ten seconds.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    /// When something was done, and how late.
    times: VecDeque<(u64, u64)>,
}

impl Lateness {
    /// Something was done now, and was due by so much before.
    pub(crate) fn record(&mut self, now: u64, late: u64) {
        self.times.push_back((now, late));
        while self.times.front().is_some_and(|(at, _)| at + WINDOW < now) {
            self.times.pop_front();
        }
    }

    /// What no more than one of a hundred were late by.
    pub(crate) fn p99(&self, now: u64) -> u64 {
        let fresh = self.times.iter().filter(|(at, _)| at + WINDOW >= now);
        let mut all: Vec<u64> = fresh.map(|(_, late)| *late).collect();
        all.sort_unstable();
        let at = (all.len() * 99).div_ceil(100).saturating_sub(1);
        all.get(at).copied().unwrap_or(0)
    }
}

impl World {
    /// A node is woken, which was due then. A machine that was suspended has counted nothing of
    /// that, and its runtime neither.
    pub(crate) fn record_lateness(&mut self, at: usize, due: Option<u64>) {
        let now = self.now;
        if let Some(due) = due.filter(|due| *due <= now) {
            self.processes[at].lateness.record(now, now - due);
        }
    }

    /// Whether a node lags by its loop and not by its disk.
    pub(crate) fn is_late(&self, at: usize) -> bool {
        let node = self.processes[at].node.is_some();
        node && self.is_quick(at) && self.processes[at].lateness.p99(self.now) > SLOW
    }
}

const WINDOW: u64 = 10_000_000_000;
/// As the core judges it: 250 ms.
const SLOW: u64 = 250_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_counts_for_ten_seconds_unless_it_is_one_of_a_hundred() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.p99(0), 0);
        lateness.record(0, 300);
        assert_eq!(lateness.p99(WINDOW), 300);
        assert_eq!(lateness.p99(WINDOW + 1), 0);
        for at in 1..=99 {
            lateness.record(at, 1);
        }
        assert_eq!(lateness.p99(WINDOW), 1);
    }
}
