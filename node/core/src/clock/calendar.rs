//! The calendar: what time of day this node believes it is.
//!
//! Ages, delays and stamps go by the calendar, so a wall clock that is wrong would expire what is
//! young or refuse what is right (P14). Two things stand against that. A step of the wall clock
//! beside the steady clock is not followed until the others agree with it. And a node whose wall
//! clock differs by more than the drift bound from more than half of those it can measure, itself
//! counted as agreeing, is *clock-sick*: it goes by the others' time until its own is right again.
//! On a tie, and alone, everybody goes by its own wall clock. A wall clock is right as well that
//! agrees with as many wall clocks, whatever those nodes believe: all machines may have been
//! suspended at once, and then each would go by the old time because the others do.
//!
//! Invariant: what is believed moves with the steady clock between two judgements, unless nobody
//! can be measured. What this file does not do: it makes no stamps, and does not say what follows
//! from a clock that goes back.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::NodeId;

use crate::now::{Mono, Now, Wall};

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Calendar {
    drift_max: i128,
    /// What is believed minus what the wall clock says.
    correction: i64,
    /// The clocks as they were told last.
    last: Now,
    others: BTreeMap<NodeId, Readings>,
    sick: bool,
}

/// What another node believed, minus the own steady clock. A reading is too small by the time it
/// was on its way, so the largest one of the last while is the best.
#[derive(Clone, Copy, Debug)]
struct Readings {
    began: Mono,
    last: Mono,
    best: i128,
    before: Option<i128>,
    /// By how much it corrected its wall clock: with another correction it believes something else,
    /// and what it said before counts no more.
    correction: i64,
}

impl Calendar {
    pub(crate) fn new(now: Now, drift_max: Duration) -> Self {
        let drift_max = i128::try_from(drift_max.as_nanos()).unwrap_or(i128::MAX);
        Self { drift_max, correction: 0, last: now, others: BTreeMap::new(), sick: false }
    }

    /// The time to go by, of clocks that say this.
    pub(crate) fn read(&mut self, now: Now) -> Now {
        let step = behind(now) - behind(self.last);
        self.last = now;
        if step.abs() > self.drift_max && !self.others.is_empty() {
            let correction = i128::from(self.correction) - step;
            self.correction = i64::try_from(correction).unwrap_or_default();
        }
        self.believed(now)
    }

    /// As [`Calendar::read`], for who only looks.
    pub(crate) fn believed(&self, now: Now) -> Now {
        Now { wall: Wall(now.wall.0.saturating_add_signed(self.correction)), ..now }
    }

    /// The present time once more, after a judgement.
    pub(crate) fn again(&self) -> Now {
        self.believed(self.last)
    }

    /// What is believed minus what the wall clock says, in nanoseconds.
    pub(crate) fn correction(&self) -> i64 {
        self.correction
    }

    /// Whether the others' time is gone by because the own one is wrong.
    pub(crate) fn is_sick(&self) -> bool {
        self.sick
    }

    /// Another node has told what it believes, and by how much it corrects its wall clock for that.
    pub(crate) fn told(&mut self, node: NodeId, (wall, correction): (u64, i64)) {
        let now = self.last.mono;
        let reading = i128::from(wall) - i128::from(now.0);
        let fresh = Readings { began: now, last: now, best: reading, before: None, correction };
        let present = self.others.entry(node).or_insert(fresh);
        if present.correction != correction {
            *present = fresh;
        } else if now.since(present.began) > WINDOW {
            *present = Readings { before: Some(present.best), ..fresh };
        }
        present.best = present.best.max(reading);
        present.last = now;
    }

    /// Judges the own clock by the others'; whether something else is believed from now on.
    pub(crate) fn judge(&mut self) -> bool {
        let now = self.last.mono;
        self.others.retain(|_, readings| now.since(readings.last) <= WINDOW);
        let mut others: Vec<i128> = self.others.values().map(Readings::best).collect();
        others.sort_unstable();
        let walls: Vec<i128> = self.others.values().map(Readings::wall).collect();
        let own = behind(self.last);
        self.sick = self.differs(own, &others) && self.differs(own, &walls);
        let before = self.correction;
        if !self.sick {
            self.correction = 0;
        } else if self.differs(own + i128::from(before), &others) {
            let middle = others[(others.len() - 1) / 2];
            self.correction = i64::try_from(middle - own).unwrap_or_default();
        }
        self.correction != before
    }

    /// Whether a clock differs from more than half of all, itself among them.
    fn differs(&self, clock: i128, others: &[i128]) -> bool {
        let apart = others.iter().filter(|other| (*other - clock).abs() > self.drift_max).count();
        2 * apart > others.len() + 1
    }
}

impl Readings {
    fn best(&self) -> i128 {
        self.before.map_or(self.best, |before| before.max(self.best))
    }

    /// What its wall clock says, minus the own steady clock.
    fn wall(&self) -> i128 {
        self.best() - i128::from(self.correction)
    }
}

/// The wall clock minus the steady one.
fn behind(now: Now) -> i128 {
    i128::from(now.wall.0) - i128::from(now.mono.0)
}

/// How long a reading counts, twice this at most: a few of those that are told once a second.
const WINDOW: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: i64 = 3_600_000_000_000;

    fn at(seconds: u64, off: i64) -> Now {
        let mono = Mono(seconds * SECOND);
        Now { mono, wall: Wall((1_000_000 * SECOND + mono.0).saturating_add_signed(off)) }
    }

    /// A node whose wall clock is off, and others that are, told every second until then.
    struct Bench(Calendar);

    impl Bench {
        fn new(off: i64) -> Self {
            Self(Calendar::new(at(0, off), Duration::from_millis(500)))
        }

        fn pass(&mut self, seconds: std::ops::Range<u64>, off: i64, others: &[i64]) {
            for second in seconds {
                self.0.read(at(second, off));
                for (node, other) in (2..).zip(others) {
                    self.0.told(NodeId(node), (at(second, *other).wall.0, 0));
                }
                self.0.judge();
            }
        }

        /// How far from right it is.
        fn off(&self, second: u64, off: i64) -> i64 {
            let believed = self.0.believed(at(second, off)).wall.0;
            (i128::from(believed) - i128::from(at(second, 0).wall.0)) as i64
        }
    }

    #[test]
    fn a_node_that_is_alone_with_its_time_goes_by_that_of_the_others_until_it_is_right() {
        for off in [-HOUR, HOUR] {
            let mut bench = Bench::new(off);
            bench.pass(0..2, off, &[0, 0]);
            assert!(bench.0.is_sick());
            assert_eq!(bench.off(2, off), 0);
            bench.pass(2..4, 0, &[0, 0]);
            assert!(!bench.0.is_sick());
            assert_eq!((bench.off(4, 0), bench.0.correction()), (0, 0));
        }
    }

    #[test]
    fn a_step_is_not_followed_for_a_moment_while_others_can_be_measured() {
        let mut bench = Bench::new(0);
        bench.pass(0..3, 0, &[0, 0]);
        bench.0.read(at(3, 8 * HOUR));
        assert_eq!(bench.off(3, 8 * HOUR), 0);
        bench.pass(4..6, 8 * HOUR, &[0, 0]);
        assert!(bench.0.is_sick());
        assert_eq!(bench.off(6, 8 * HOUR), 0);
        bench.pass(6..8, 0, &[0, 0]);
        assert_eq!((bench.off(8, 0), bench.0.is_sick()), (0, false));
    }

    /// All machines were suspended, and their steady clocks stood still: each went by the time from
    /// before, since the others did, and refused every producer that was right.
    #[test]
    fn a_step_that_all_take_at_once_is_followed() {
        let mut nodes: Vec<Bench> = (0..3).map(|_| Bench::new(0)).collect();
        let mut off = 0;
        for second in 0..6 {
            off = if second < 3 { 0 } else { HOUR };
            let now = at(second, off);
            let tells =
                |Bench(calendar): &mut Bench| (calendar.read(now).wall.0, calendar.correction());
            let told: Vec<(u64, i64)> = nodes.iter_mut().map(tells).collect();
            for (node, Bench(calendar)) in nodes.iter_mut().enumerate() {
                let others = (0..).zip(&told).filter(|(other, _)| *other != node);
                for (other, told) in others {
                    calendar.told(NodeId(other as u64), *told);
                }
                calendar.judge();
            }
        }
        for bench in &nodes {
            assert_eq!((bench.off(6, off), bench.0.is_sick()), (HOUR, false), "P14");
        }
    }

    #[test]
    fn a_step_to_what_the_others_say_is_followed() {
        let mut bench = Bench::new(HOUR);
        bench.pass(0..3, HOUR, &[HOUR, HOUR]);
        assert!(!bench.0.is_sick());
        bench.pass(3..20, 0, &[0, 0]);
        assert_eq!((bench.off(20, 0), bench.0.is_sick()), (0, false));
    }

    #[test]
    fn on_a_tie_and_alone_the_own_clock_counts() {
        let mut two = Bench::new(HOUR);
        two.pass(0..3, HOUR, &[0]);
        assert_eq!((two.off(3, HOUR), two.0.is_sick()), (HOUR, false));
        let mut alone = Bench::new(0);
        alone.pass(0..3, 0, &[]);
        alone.pass(3..4, HOUR, &[]);
        assert_eq!(alone.off(4, HOUR), HOUR);
        let mut split = Bench::new(0);
        split.pass(0..3, 0, &[0, HOUR, HOUR]);
        assert_eq!((split.off(3, 0), split.0.is_sick()), (0, false));
    }

    #[test]
    fn one_sick_clock_among_the_others_and_readings_that_come_late_move_nothing() {
        let mut bench = Bench::new(0);
        bench.pass(0..3, 0, &[0, HOUR]);
        assert!(!bench.0.is_sick());
        // Paused for three seconds, then all that was told meanwhile is heard at once.
        bench.0.read(at(6, 0));
        for second in 3..6 {
            for node in [2, 3] {
                bench.0.told(NodeId(node), (at(second, 0).wall.0, 0));
            }
        }
        bench.0.judge();
        assert_eq!((bench.off(6, 0), bench.0.is_sick()), (0, false));
    }

    #[test]
    fn what_the_others_have_corrected_since_counts_no_more() {
        let mut bench = Bench::new(0);
        let told = |bench: &mut Bench, second, others: [(i64, i64); 2]| {
            bench.0.read(at(second, 0));
            for (node, (off, correction)) in (2..).zip(others) {
                bench.0.told(NodeId(node), (at(second, off).wall.0, correction));
            }
            bench.0.judge();
        };
        // Both are wrong, and one believes what is worse.
        told(&mut bench, 0, [(HOUR, 0), (2 * HOUR, HOUR)]);
        assert_eq!(bench.off(0, 0), HOUR);
        told(&mut bench, 1, [(0, -HOUR), (0, 0)]);
        assert_eq!((bench.off(1, 0), bench.0.is_sick()), (0, false), "P14");
    }

    #[test]
    fn small_differences_are_nobodys_business() {
        let mut bench = Bench::new(300_000_000);
        bench.pass(0..9, 300_000_000, &[0, -100_000_000]);
        assert_eq!((bench.0.is_sick(), bench.0.correction()), (false, 0));
    }
}
