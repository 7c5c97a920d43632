//! How long answers take: the basis for deciding that one takes too long.

use std::time::Duration;

use crate::config::Config;

/// The last answers' times.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    recent: Vec<Duration>,
    next: usize,
    seen: u64,
    p99: Option<Duration>,
}

impl Latency {
    pub(crate) fn note(&mut self, took: Duration) {
        if self.recent.len() < KEPT {
            self.recent.push(took);
        } else {
            self.recent[self.next] = took;
            self.next = (self.next + 1) % KEPT;
        }
        self.seen += 1;
        if self.seen.is_multiple_of(EVERY) {
            let mut sorted = self.recent.clone();
            sorted.sort_unstable();
            self.p99 = sorted.get((sorted.len() * 99).div_ceil(100) - 1).copied();
        }
    }

    /// How long to wait for an answer before a second node is asked.
    pub(crate) fn hedge_after(&self, config: &Config) -> Duration {
        self.p99.map_or(config.hedge_max, |p99| p99.clamp(config.hedge_min, config.hedge_max))
    }
}

/// How many hedges may be made against nodes that are slow but alive. When all of them are slow,
/// asking twice only makes them slower.
#[derive(Debug)]
pub(crate) struct Hedges(u32);

impl Default for Hedges {
    fn default() -> Self {
        Self(SAVED_MAX)
    }
}

impl Hedges {
    /// An attempt was made.
    pub(crate) fn earn(&mut self) {
        self.0 = (self.0 + 1).min(SAVED_MAX);
    }

    /// Whether there may be one more.
    pub(crate) fn spend(&mut self) -> bool {
        let rest = self.0.checked_sub(COST);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}

/// One attempt in twenty may be a hedge: five times what a p99 asks for.
const COST: u32 = 20;
/// Ten at once: more than one lost packet holds up.
const SAVED_MAX: u32 = 10 * COST;

/// Enough for a p99, few enough to follow a change within a second of light load.
const KEPT: usize = 200;
/// The sort is then a few nanoseconds per answer.
const EVERY: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_counts_within_its_bounds() {
        let config = Config::default();
        let mut latency = Latency::default();
        assert_eq!(latency.hedge_after(&config), config.hedge_max);
        for ms in 1..=200 {
            latency.note(Duration::from_millis(ms));
        }
        assert_eq!(latency.hedge_after(&config), Duration::from_millis(198));
        for _ in 0..200 {
            latency.note(Duration::from_millis(1));
        }
        assert_eq!(latency.hedge_after(&config), config.hedge_min);
    }
}
