//! Randomness that is told: a generator seeded at open, for jitter, spreading and process ids.
//!
//! It is SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014):
//! any seed is a good one, and nothing here needs to be hard to guess.

use std::time::Duration;

use crate::config::Config;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The wait before attempt number `failures`: doubling from the least to the longest, and
    /// anywhere between half of that and all of it, so that clients do not come back in step.
    pub(crate) fn backoff(&mut self, config: &Config, failures: u32) -> Duration {
        let doubled = config.backoff_min.saturating_mul(1 << failures.min(16));
        let half = doubled.min(config.backoff_max) / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(self.next() % nanos)
    }
}

/// Scatters a number: equal ones equally, near ones far apart.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_within_its_bounds() {
        let config = Config::default();
        let mut random = Random::new(1);
        for failures in 0..100 {
            let full = config.backoff_min.saturating_mul(1 << failures.min(16));
            let full = full.min(config.backoff_max);
            let wait = random.backoff(&config, failures);
            assert!(wait >= full / 2 && wait <= full, "{failures}: {wait:?}");
        }
    }
}
