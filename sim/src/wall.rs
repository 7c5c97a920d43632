//! The wall clock of a node: off by some, a little fast or slow, set by hand, or stuck.
//!
//! What this file does not do: it does not decide when; and the steady clock of a node is that of
//! the world.

use gaggle_core::now::Wall;

use crate::process::{EPOCH, Process};
use crate::world::World;

/// See the top of this file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    /// By how much it is off, in nanoseconds, drift apart.
    off: i64,
    /// By how much it is off while nothing is done to it.
    usual: i64,
    /// How much faster than the world it runs, in millionths.
    drift: i32,
    /// When it got stuck.
    stuck_at: Option<u64>,
    /// Until when what is done to it, or was, may show.
    wrong_until: u64,
}

impl WallClock {
    /// A clock that is off by so many nanoseconds, and runs fast by so many millionths.
    pub(crate) fn new(off: i64, drift: i32) -> Self {
        Self { off, usual: off, drift, stuck_at: None, wrong_until: 0 }
    }

    /// What it says.
    pub(crate) fn read(&self, now: u64) -> Wall {
        let now = self.stuck_at.unwrap_or(now);
        // In two parts, so that 64 bits are enough: this is asked after every event.
        let (drift, time) = (i64::from(self.drift), now.cast_signed());
        let gained = time / MILLION * drift + time % MILLION * drift / MILLION;
        let right = EPOCH.saturating_add(now);
        Wall(right.saturating_add_signed(gained).saturating_add_signed(self.off))
    }

    /// Whether it goes.
    pub(crate) fn goes(&self) -> bool {
        self.stuck_at.is_none()
    }

    fn is_usual(&self) -> bool {
        self.off == self.usual && self.goes()
    }
}

impl World {
    /// The wall clock of a node jumps by so many nanoseconds.
    pub fn step_clock(&mut self, at: usize, nanos: i64) {
        let by = nanos as f64 / 1e9;
        self.report.line(self.now, format_args!("clock of {} steps by {by:.3}", at + 1));
        let wall = &mut self.processes[at].wall;
        wall.off = wall.off.saturating_add(nanos);
        self.clock_is_wrong(at);
    }

    /// The wall clock of a node gets stuck.
    pub fn stop_clock(&mut self, at: usize) {
        self.report.line(self.now, format_args!("clock of {} gets stuck", at + 1));
        self.processes[at].wall.stuck_at.get_or_insert(self.now);
        self.clock_is_wrong(at);
    }

    /// A node that was right a moment ago believes its clock until it has judged it by the others.
    fn clock_is_wrong(&mut self, at: usize) {
        self.processes[at].wall.wrong_until = u64::MAX;
        self.judge.weather.disturb();
    }

    /// What a clock said, or did not, may show for a while in what its node believes.
    pub(crate) fn clock_shows(&mut self, at: usize) {
        let wall = &mut self.processes[at].wall;
        wall.wrong_until = wall.wrong_until.max(self.now + SHOWS);
    }

    /// Whether a node may rightly believe another time than its own wall clock says: that one is
    /// wrong, or those of most are.
    pub(crate) fn may_be_misled(&self, at: usize) -> bool {
        let wrong = |process: &&Process| self.now < process.wall.wrong_until;
        let up = self.processes.iter().filter(|process| process.node.is_some()).count();
        let most = 2 * self.processes.iter().filter(wrong).count() > up;
        most || wrong(&&self.processes[at])
    }

    /// The wall clock of a node goes again, and is as it was.
    pub fn right_clock(&mut self, at: usize) {
        let wall = &mut self.processes[at].wall;
        if !wall.is_usual() {
            (wall.off, wall.stuck_at) = (wall.usual, None);
            wall.wrong_until = self.now + SHOWS;
            self.judge.weather.disturb();
            self.report.line(self.now, format_args!("clock of {} is right", at + 1));
        }
    }
}

const MILLION: i64 = 1_000_000;
/// For how long a node may go by what it was told of a clock, and then has judged anew.
const SHOWS: u64 = 15_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn a_clock_that_is_fast_gains_and_one_that_is_stuck_says_the_same() {
        let mut clock = WallClock::new(-7, 500);
        assert_eq!(clock.read(0), Wall(EPOCH - 7));
        assert_eq!(clock.read(HOUR), Wall(EPOCH + HOUR + HOUR / 2000 - 7));
        clock.stuck_at = Some(HOUR);
        assert_eq!(clock.read(2 * HOUR), clock.read(HOUR));
        assert!(!clock.is_usual());
    }
}
