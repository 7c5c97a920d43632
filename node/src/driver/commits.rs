//! How long commits take: the one that is under way, and the slow ones of the last ten seconds.
//!
//! What this file does not do: it judges nothing; a slow disk is a matter of the core.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Times of commits.
#[derive(Debug)]
pub(crate) struct Commits {
    running: Option<Instant>,
    /// One histogram of microseconds per second, the present one at the end.
    seconds: Vec<Histogram<u32>>,
}

impl Commits {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { running: None, seconds: vec![empty(); WINDOW] }
    }

    /// One was started.
    pub(crate) fn started(&mut self) {
        self.running = Some(Instant::now());
    }

    /// It ended.
    pub(crate) fn ended(&mut self, took: Duration) {
        self.running = None;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(present) = self.seconds.last_mut() {
            present.saturating_record(micros);
        }
    }

    /// When the one under way was started.
    pub(crate) fn running(&self) -> Option<Instant> {
        self.running
    }

    /// The 99th percentile of the window. To be asked once a second: it moves the window on.
    pub(crate) fn p99_of_window(&mut self) -> Duration {
        let mut all = empty();
        for second in &self.seconds {
            all.add(second).expect("all histograms have the same range");
        }
        self.seconds.rotate_left(1);
        if let Some(present) = self.seconds.last_mut() {
            present.reset();
        }
        Duration::from_micros(all.value_at_quantile(0.99))
    }
}

fn empty() -> Histogram<u32> {
    Histogram::new_with_max(LONGEST, 2).expect("the range is valid")
}

const WINDOW: usize = 10;
/// Ten minutes in microseconds: longer is no less bad.
const LONGEST: u64 = 600_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_commit_is_seen_for_ten_seconds() {
        let mut commits = Commits::new();
        commits.started();
        assert!(commits.running().is_some());
        commits.ended(Duration::from_millis(300));
        assert!(commits.running().is_none());
        for _ in 0..WINDOW {
            let p99 = commits.p99_of_window();
            assert!(p99 > Duration::from_millis(290) && p99 < Duration::from_millis(310));
        }
        assert_eq!(commits.p99_of_window(), Duration::ZERO);
    }
}
