//! A client's clocks: a calendar that is off by some, and a steady one that runs a little fast or
//! slow.
//!
//! Invariant: neither goes back. What this file does not do: it does not draw by how much; the
//! world does.

use std::time::Duration;

use gaggle_client_core::Now;

use crate::process::EPOCH;

/// See the top of this file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    origin: u64,
    error: ClockError,
}

/// How a client's clocks differ from the world's.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockError {
    /// By how much the calendar is off, in nanoseconds.
    pub skew: i64,
    /// How much faster than the world both run, in millionths.
    pub drift: i32,
}

impl Watch {
    /// Clocks of a client that begins now.
    pub(crate) fn new(origin: u64, error: ClockError) -> Self {
        Self { origin, error }
    }

    /// What they say.
    pub(crate) fn now(&self, now: u64) -> Now {
        let mono = self.since_origin(now);
        let wall = EPOCH + self.origin + mono;
        let wall = wall.saturating_add_signed(self.error.skew);
        Now { mono: Duration::from_nanos(mono), wall }
    }

    /// When the steady clock will show this, or just after.
    pub(crate) fn when(&self, mono: Duration) -> u64 {
        let mono = u64::try_from(mono.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        let rate = self.rate();
        let mut at = self.origin + mono / rate * MILLION + mono % rate * MILLION / rate;
        while self.since_origin(at) < mono {
            at += 1;
        }
        at
    }

    fn since_origin(&self, now: u64) -> u64 {
        // In two parts, so that 64 bits are enough: this is asked at every turn.
        let (elapsed, rate) = (now - self.origin, self.rate());
        elapsed / MILLION * rate + elapsed % MILLION * rate / MILLION
    }

    /// What both clocks gain in a million.
    fn rate(&self) -> u64 {
        MILLION.checked_add_signed(self.error.drift.into()).expect("drift is small")
    }
}

const MILLION: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_due_when_the_steady_clock_shows_it_and_not_before() {
        for drift in [-200, -1, 0, 1, 200] {
            let watch = Watch::new(5, ClockError { skew: -3, drift });
            for mono in [0, 1, 999, 1_000_003, 77_000_000_001] {
                let due = Duration::from_nanos(mono);
                let at = watch.when(due);
                assert!(watch.now(at).mono >= due, "{drift} {mono}");
                assert!(at == 5 || watch.now(at - 1).mono < due, "{drift} {mono}");
            }
        }
    }
}
