//! Times of the last ten seconds: how long something took, or how late it was.
//!
//! What this file does not do: it judges nothing; what is slow is a matter of the core.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Times that were recorded in the last ten seconds.
#[derive(Debug)]
pub(crate) struct Recent {
    /// One histogram of microseconds per second, the present one at the end.
    seconds: Vec<Histogram<u32>>,
}

impl Recent {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { seconds: vec![empty(); WINDOW] }
    }

    /// One more.
    pub(crate) fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(present) = self.seconds.last_mut() {
            present.saturating_record(micros);
        }
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
    fn a_long_time_is_seen_for_ten_seconds() {
        let mut recent = Recent::new();
        recent.record(Duration::from_millis(300));
        for _ in 0..WINDOW {
            let p99 = recent.p99_of_window();
            assert!(p99 > Duration::from_millis(290) && p99 < Duration::from_millis(310));
        }
        assert_eq!(recent.p99_of_window(), Duration::ZERO);
    }

    #[test]
    fn one_of_a_thousand_is_no_rule() {
        let mut recent = Recent::new();
        recent.record(Duration::from_secs(3));
        for _ in 0..1000 {
            recent.record(Duration::from_micros(50));
        }
        assert!(recent.p99_of_window() < Duration::from_millis(1));
    }
}
