//! Leaps of the wall clock: how a node finds that its machine was suspended when every counter of
//! it stood still.
//!
//! A virtual machine that is stopped with all its memory goes on later as if nothing had been: no
//! timer is late. What tells of it is the wall clock, once that is right again: it has run ahead of
//! the steady one. An operator who sets a clock forward looks the same, and is taken for it:
//! sessions end and begin anew, which takes a moment and breaks nothing. Nothing that others say
//! counts.
//!
//! Invariant: of leaps that follow each other one counts in ten seconds, so that a clock which is
//! set again and again does not keep its node from serving (P14). What this file does not do: a
//! pause that the steady clock has counted is membership's.

use std::time::Duration;

use crate::now::{Mono, Now};

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Leaps {
    /// The clocks as they were told last.
    last: Now,
    /// When one counted last.
    counted: Option<Mono>,
}

impl Leaps {
    pub(crate) fn new(now: Now) -> Self {
        Self { last: now, counted: None }
    }

    /// Whether the wall clock has run ahead of the steady one by more than this since it was looked
    /// at last.
    pub(crate) fn look(&mut self, now: Now, more_than: Duration) -> bool {
        let Now { mono, wall } = self.last;
        self.last = now;
        let ahead = now.wall.since(wall.0).saturating_sub(now.mono.since(mono));
        let soon = |counted: Mono| now.mono.since(counted) < APART;
        let counts = ahead > more_than && !self.counted.is_some_and(soon);
        if counts {
            self.counted = Some(now.mono);
        }
        counts
    }
}

/// Ten times what nodes need to come together anew.
const APART: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::Wall;

    const MS: u64 = 1_000_000;
    const LONG: Duration = Duration::from_millis(900);

    fn at(mono_ms: u64, ahead_ms: i64) -> Now {
        let mono = Mono(mono_ms * MS);
        Now { mono, wall: Wall((1 << 60) + mono.0).ahead(ahead_ms) }
    }

    impl Wall {
        fn ahead(self, ms: i64) -> Self {
            Self(self.0.saturating_add_signed(ms * MS as i64))
        }
    }

    #[test]
    fn a_wall_clock_that_ran_ahead_for_long_tells_of_a_suspension_once() {
        let mut leaps = Leaps::new(at(0, 0));
        assert!(!leaps.look(at(60_000, 0), LONG), "time that both have counted");
        assert!(!leaps.look(at(60_100, 900), LONG), "as long as a suspicion may last");
        assert!(leaps.look(at(60_200, 1801), LONG));
        assert!(!leaps.look(at(60_300, 1801), LONG));
    }

    #[test]
    fn a_clock_that_is_set_back_tells_of_nothing_and_one_that_runs_fast_neither() {
        let mut leaps = Leaps::new(at(0, 0));
        assert!(!leaps.look(at(1000, -3_600_000), LONG));
        for second in 2..4000 {
            assert!(!leaps.look(at(second * 1000, -3_600_000 + second as i64), LONG));
        }
    }

    #[test]
    fn of_a_clock_that_is_set_every_second_one_leap_in_ten_counts() {
        let mut leaps = Leaps::new(at(0, 0));
        let counted =
            (1..=100).filter(|second| leaps.look(at(second * 1000, *second as i64 * 5000), LONG));
        assert_eq!(counted.count(), 10);
    }
}
