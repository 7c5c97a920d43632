//! How well this node itself is doing: the part of Lifeguard that membership needs.
//!
//! A node that was stopped, starved of CPU or stuck in a long batch must not blame its peers for
//! it. It has no other witness than its own timers: one that is handled much too late says that
//! nobody was at home. The judgement is made at the very start of each call, before anything that
//! came in meanwhile is looked at.
//!
//! This file only measures; the room decides what follows.

use std::time::Duration;

use crate::now::Mono;

/// Keeps track of the own lag.
#[derive(Debug)]
pub(super) struct Pace {
    lag_max: Duration,
    probe_period: Duration,
    last_call: Mono,
    resumed: Option<Mono>,
}

/// What a call at some moment says of the time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lag {
    /// Nothing was late to speak of.
    Small,
    /// Timers are late by `by`; nothing was done for `pause` at most.
    Late { by: Duration, pause: Duration },
}

impl Pace {
    pub(super) const fn new(lag_max: Duration, probe_period: Duration) -> Self {
        Self { lag_max, probe_period, last_call: Mono(0), resumed: None }
    }

    /// Notes a call; `first_due` is when the earliest timer should have been handled.
    pub(super) fn note(&mut self, now: Mono, first_due: Option<Mono>) -> Lag {
        let idle = now.since(self.last_call);
        self.last_call = self.last_call.max(now);
        let by = first_due.map_or(Duration::ZERO, |due| now.since(due));
        if by <= self.lag_max {
            return Lag::Small;
        }
        self.resumed = Some(now);
        // While alone timers are far apart, so the time since the last call alone says too much.
        Lag::Late { by, pause: idle.min(by + self.probe_period) }
    }

    /// When this node last found that it had lagged.
    pub(super) const fn resumed(&self) -> Option<Mono> {
        self.resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_late_timer_tells_of_a_pause() {
        let mut pace = Pace::new(MS * 50, MS * 200);
        let start = Mono(0);
        assert_eq!(pace.note(start.plus(MS * 100), Some(start.plus(MS * 60))), Lag::Small);
        assert_eq!(pace.resumed(), None);
        let late = pace.note(start.plus(MS * 1_000), Some(start.plus(MS * 200)));
        assert_eq!(late, Lag::Late { by: MS * 800, pause: MS * 900 });
        assert_eq!(pace.resumed(), Some(start.plus(MS * 1_000)));
    }

    #[test]
    fn quiet_times_are_no_pause() {
        let mut pace = Pace::new(MS * 50, MS * 200);
        assert_eq!(pace.note(Mono(0).plus(MS * 4_000), Some(Mono(0).plus(MS * 4_000))), Lag::Small);
        let late = pace.note(Mono(0).plus(MS * 8_100), Some(Mono(0).plus(MS * 8_000)));
        assert_eq!(late, Lag::Late { by: MS * 100, pause: MS * 300 });
    }
}
