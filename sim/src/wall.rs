//! The wall clock of a node: off by some, a little fast or slow, set by hand, or stuck.
//!
//! What this file does not do: it does not decide when; and the steady clock of a node is that of
//! the world.

use gaggle_core::now::Wall;

use crate::process::EPOCH;
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
    /// wrong, or those of most are, or of most that it can measure, itself among them. A single one
    /// that is wrong is never most of these.
    pub(crate) fn may_be_misled(&self, at: usize) -> bool {
        let is_wrong = |at: usize| self.now < self.processes[at].wall.wrong_until;
        let wrong: Vec<usize> = (0..self.processes.len()).filter(|node| is_wrong(*node)).collect();
        let up = self.processes.iter().filter(|process| process.node.is_some()).count();
        if is_wrong(at) || 2 * wrong.len() > up || wrong.len() < 2 {
            return is_wrong(at) || 2 * wrong.len() > up;
        }
        let heard = |since: u64, of: usize| is_wrong(of) || since + JUDGES <= self.now;
        let met = |of: usize| self.network.met_since(at, of).is_some_and(|since| heard(since, of));
        let measures = |node: &usize| *node == at || met(*node);
        let measured = (0..self.processes.len()).filter(measures).count();
        2 * wrong.iter().filter(|node| measures(node)).count() > measured
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
/// How long it takes until a node that begins to measure another one has judged its clock by it.
const JUDGES: u64 = 2_500_000_000;
/// For how long a node may go by what it was told of a clock, and then has judged anew.
const SHOWS: u64 = 15_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Detail;
    use crate::options::Options;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn two_wrong_clocks_of_four_mislead_who_is_in_session_with_no_other_and_one_misleads_nobody() {
        let mut world = World::new(Options::calm(4, 74), Detail::Off);
        world.form(4);
        let misled = |world: &World| [0, 1, 2, 3].map(|at| world.may_be_misled(at));
        world.step_clock(1, HOUR.cast_signed());
        world.cut(0, 2);
        world.run(30_000_000_000);
        assert_eq!(misled(&world), [false, true, false, false]);
        world.step_clock(3, -HOUR.cast_signed());
        assert_eq!(misled(&world), [true; 4]);
        world.heal_all();
        let met = |world: &World| world.network.is_met(0, 2);
        assert!(world.run_until(30_000_000_000, met));
        assert_eq!(misled(&world), [true; 4], "they have not judged anew");
        world.run(30_000_000_000);
        assert_eq!(misled(&world), [false, true, false, true]);
    }

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
