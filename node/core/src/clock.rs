//! The clock: a hybrid logical clock on told time, with guards in front.
//!
//! `hybrid-clocks` does the logic; it has no guards that suffice, so they stand here. Its counts
//! are added to without a check, so a count near the end is refused at the door and the own one
//! is carried into the time. Its offset check looks at the time only, so the epoch, which would
//! win over any time, is not on the wire at all. And the own wall clock is the measure of what
//! lies too far ahead, never the own hybrid clock, which could be ratcheted (P14).
//!
//! Invariants: stamps rise strictly (P8); every stamp is below the ceiling that was asked to be
//! written. What this file does not do: it does not write the ceiling, and it does not judge
//! copies, tombstones or table entries, which are stored whatever their stamps say.

mod calendar;
mod leap;

use std::fmt;
use std::time::Duration;

use gaggle_wire::{ProcessId, Refusal, Stamp};
use hybrid_clocks::{Clock as Hybrid, ManualClock, Timestamp};

use crate::now::Wall;

pub(crate) use calendar::Calendar;
pub(crate) use leap::Leaps;

/// The clock of a node.
pub(crate) struct Clock {
    hybrid: Hybrid<ManualClock>,
    process: ProcessId,
    drift_max: u64,
    ceiling: u64,
    ceiling_step: u64,
    /// The last stamp's time and count; the library's own are not readable without a step.
    last: (u64, u32),
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("process", &self.process).field("last", &self.last).finish()
    }
}

impl Clock {
    /// A clock that goes on above this ceiling, unless the ceiling lies so far ahead of the wall
    /// that only a wrong clock can have written it: the process is a new one, so its stamps are
    /// unique also below it.
    pub(crate) fn new(
        process: ProcessId,
        ceiling: u64,
        wall: Wall,
        drift_max: Duration,
        ceiling_step: Duration,
    ) -> Self {
        let (drift_max, ceiling_step) = (nanos(drift_max), nanos(ceiling_step));
        let ceiling = if ceiling > wall.0.saturating_add(drift_max) { 0 } else { ceiling };
        let start = wall.0.max(ceiling);
        let hybrid = Hybrid::manual(start).expect("a told clock has no way to fail");
        Self { hybrid, process, drift_max, ceiling, ceiling_step, last: (start, 0) }
    }

    /// A new stamp, above all that were made or observed.
    pub(crate) fn stamp(&mut self, wall: Wall) -> Stamp {
        self.hybrid.set_time(wall.0);
        let mut made = self.hybrid.now().expect("a told clock has no way to fail");
        if made.count >= Stamp::COUNT_MAX {
            self.hybrid.observe(&Timestamp { epoch: 0, time: made.time + 1, count: 0 });
            made = self.hybrid.now().expect("a told clock has no way to fail");
        }
        assert!((made.time, made.count) > self.last, "P8: stamps rise");
        self.last = (made.time, made.count);
        Stamp { time: made.time, count: made.count, process: self.process }
    }

    /// The time that the next stamp would have, without making one.
    pub(crate) fn reading(&self, wall: Wall) -> u64 {
        wall.0.max(self.last.0)
    }

    /// Whether its stamps are so far ahead of this wall that others would refuse them.
    pub(crate) fn is_ahead(&self, wall: Wall) -> bool {
        self.last.0 > wall.0.saturating_add(self.drift_max)
    }

    /// Goes on as another process, which alone may go back in time.
    pub(crate) fn renew(&mut self, process: ProcessId, wall: Wall) {
        let hybrid = Hybrid::manual(wall.0).expect("a told clock has no way to fail");
        *self = Self { hybrid, process, ceiling: 0, last: (wall.0, 0), ..*self };
    }

    /// Whether a stamp from outside may be taken in and observed.
    pub(crate) fn gate(&self, stamp: Stamp, wall: Wall) -> Result<(), Refusal> {
        let limit = wall.0.saturating_add(self.drift_max);
        if stamp.time > limit {
            let by_ms = (stamp.time - wall.0) / 1_000_000;
            return Err(Refusal::ClockAhead { by_ms });
        }
        if stamp.count > Stamp::COUNT_MAX {
            let why = "the count of a stamp is beyond what a clock makes".to_owned();
            return Err(Refusal::BadRequest { why });
        }
        Ok(())
    }

    /// Makes later stamps greater than this one, which has passed the gate.
    pub(crate) fn observe(&mut self, stamp: Stamp) {
        if (stamp.time, stamp.count) > self.last {
            self.hybrid.observe(&Timestamp { epoch: 0, time: stamp.time, count: stamp.count });
            self.last = (stamp.time, stamp.count);
        }
    }

    /// The ceiling to be written now, if the present one is near.
    pub(crate) fn raise_ceiling(&mut self, wall: Wall) -> Option<u64> {
        let reading = self.reading(wall);
        if reading.saturating_add(self.ceiling_step / 2) <= self.ceiling {
            return None;
        }
        self.ceiling = reading.saturating_add(self.ceiling_step);
        Some(self.ceiling)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn clock(ceiling: u64, wall: u64) -> Clock {
        let drift = Duration::from_millis(500);
        Clock::new(ProcessId(1), ceiling, Wall(wall), drift, Duration::from_millis(400))
    }

    #[test]
    fn stamps_rise_whatever_the_wall_does() {
        let mut clock = clock(0, 50 * SECOND);
        let mut last = Stamp::ZERO;
        for wall in [50, 50, 51, 49, 0, 52] {
            let stamp = clock.stamp(Wall(wall * SECOND));
            assert!(stamp > last);
            last = stamp;
        }
    }

    #[test]
    fn a_restart_with_a_wall_set_back_goes_on_above_the_ceiling() {
        let mut before = clock(0, 50 * SECOND);
        let ceiling = before.raise_ceiling(Wall(50 * SECOND)).unwrap();
        let last = before.stamp(Wall(50 * SECOND));
        let mut after = clock(ceiling, 50 * SECOND - SECOND / 10);
        assert!(after.stamp(Wall(50 * SECOND - SECOND / 10)) > last);
    }

    #[test]
    fn a_ceiling_from_a_wrong_clock_is_dropped() {
        let mut clock = clock(8 * 3600 * SECOND, 50 * SECOND);
        assert_eq!(clock.stamp(Wall(51 * SECOND)).time, 51 * SECOND);
    }

    #[test]
    fn a_clock_goes_back_as_another_process_only() {
        let mut clock = clock(0, 8 * 3600 * SECOND);
        let before = clock.stamp(Wall(8 * 3600 * SECOND));
        clock.renew(ProcessId(2), Wall(50 * SECOND));
        let after = clock.stamp(Wall(50 * SECOND));
        assert_eq!((after.time, after.process), (50 * SECOND, ProcessId(2)));
        assert!(after < before && before.process != after.process);
        assert!(clock.raise_ceiling(Wall(50 * SECOND)) < Some(before.time));
    }

    #[test]
    fn a_stamp_from_the_future_is_refused_and_moves_nothing() {
        let mut clock = clock(0, 50 * SECOND);
        let wall = Wall(50 * SECOND);
        let ahead = |time, count| Stamp { time, count, process: ProcessId(2) };
        for time in [wall.0 + SECOND, u64::MAX] {
            let refused = clock.gate(ahead(time, 0), wall);
            assert!(matches!(refused, Err(Refusal::ClockAhead { .. })), "{refused:?}");
        }
        assert!(clock.gate(ahead(wall.0, u32::MAX), wall).is_err());
        assert!(clock.gate(ahead(wall.0 + SECOND / 4, 0), wall).is_ok());
        assert!(clock.stamp(Wall(50 * SECOND + 1)).time <= 50 * SECOND + 1);
    }

    #[test]
    fn a_count_at_its_end_is_carried_into_the_time() {
        let mut clock = clock(0, 50 * SECOND);
        let wall = Wall(50 * SECOND);
        clock.observe(Stamp { time: wall.0, count: Stamp::COUNT_MAX, process: ProcessId(2) });
        let first = clock.stamp(wall);
        let second = clock.stamp(wall);
        assert!(first.time > wall.0 && second > first);
        assert!(second.count < Stamp::COUNT_MAX);
    }

    #[test]
    fn an_observed_stamp_is_followed() {
        let mut clock = clock(0, 50 * SECOND);
        let seen = Stamp { time: 50 * SECOND + 9, count: 4, process: ProcessId(2) };
        clock.observe(seen);
        assert!(clock.stamp(Wall(50 * SECOND)) > seen);
    }

    #[test]
    fn the_ceiling_is_ahead_of_every_stamp() {
        let mut clock = clock(0, 50 * SECOND);
        let mut ceiling = 0;
        for step in 0..1000 {
            let wall = Wall(50 * SECOND + step * 7_000_000);
            if let Some(raised) = clock.raise_ceiling(wall) {
                ceiling = raised;
            }
            assert!(clock.stamp(wall).time < ceiling);
        }
    }
}
