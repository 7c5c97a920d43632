//! Classes of faults that draw from generators of their own.
//!
//! Each draws from its own generator whether a run has it, how often it strikes and how hard: so a
//! class that is added leaves all else of a seed as it was. What this file does not do: the
//! classes of the first generator are in `draw.rs`.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::draw::Draw;
use super::{Class, Deed, RowLoss};
use crate::options::Span;
use crate::suspension::Standstill;

impl Draw {
    /// What all these classes add.
    pub(super) fn own(&mut self) {
        for (class, chance) in Class::OWN {
            let salt = (class as u64 + 1) << 32;
            self.rng = Pcg64Mcg::seed_from_u64(self.plan.options.seed ^ salt);
            let has = self.rng.random_range(0..100) < chance;
            let strict = self.plan.queue.window_ms.is_some();
            let fits = !self.plan.calm || class.is_calm();
            if has && fits && !(strict && class.loses_disks()) {
                self.plan.classes.push(class);
                self.all_strikes(class);
            }
        }
    }

    fn all_strikes(&mut self, class: Class) {
        match class {
            Class::Sleep => self.sleep(),
            Class::Stops if self.plan.calm => self.stop_all(),
            Class::Clocks => {
                self.plan.options.drift = [0, 100, 500][self.rng.random_range(0..3)];
                let sick = self.rng.random_bool(0.8).then(|| self.node());
                self.often((100, 6000), |draw, at| draw.strike_clock(sick, at));
            }
            Class::Recovery => self.often((300, 6000), Self::strike_recovery),
            Class::FastRestarts => self.often((200, 6000), Self::strike_fast),
            Class::SlowProcesses => {
                self.often((500, 8000), Self::strike_slowly);
                self.plan.options.slow_after =
                    Duration::from_secs([1, 2, 4][self.rng.random_range(0..3)]);
            }
            Class::Stops => self.often((1000, 8000), Self::stop),
            Class::Tail => {
                self.plan.options.tail = [2, 30, 200][self.rng.random_range(0..3)];
                self.plan.options.tail_delay = self.within((20, 250)) * MS;
            }
            Class::Replays => {
                self.plan.options.replays = [5, 50, 500][self.rng.random_range(0..3)];
                self.plan.options.replay_after =
                    [100, 5000, 60_000][self.rng.random_range(0..3)] * MS;
            }
            Class::Clogs => self.often((200, 4000), Self::clog),
            Class::Wipes if self.plan.founders > 2 => {
                let victim = self.node();
                self.often((3000, 12_000), |draw, at| draw.wipe(victim, at));
            }
            Class::PutBacks if self.plan.founders > 2 => {
                let victim = self.node();
                self.often((3000, 12_000), |draw, at| draw.put_back(victim, at));
            }
            Class::Wipes | Class::PutBacks => {}
            Class::Rot => self.often((500, 8000), Self::rot),
            Class::FailedCommits => self.often((100, 4000), |draw, at| {
                let node = draw.node();
                draw.add(at, Deed::FailCommit { node });
            }),
            Class::FullDisks => self.often((1000, 8000), Self::fill),
            Class::SlowDisks => {
                self.often((1000, 8000), Self::slow_disk);
                self.plan.options.slow_after =
                    Duration::from_secs([1, 2, 4][self.rng.random_range(0..3)]);
            }
            Class::Breaks => self.often((100, 4000), Self::break_one),
            Class::LostRows => self.often((500, 8000), Self::lose_rows),
            Class::Suspensions => self.often((1000, 10_000), Self::suspend),
            Class::Guests => self.guests(),
            Class::Renewals => self.renewals(),
            Class::Lone => self.lone(),
            Class::Removals => self.removals(),
            _ => unreachable!("it is drawn from the first generator"),
        }
    }

    /// Strikes again and again until the storm is over; how often is drawn once.
    fn often(&mut self, most: Span, mut strike: impl FnMut(&mut Self, u64)) {
        let every = (20, self.within(most));
        let mut at = self.within(every);
        while at < self.plan.storm_ms {
            strike(self, at);
            at += self.within(every);
        }
    }

    /// A clock goes wrong for a while: mostly that of one node only, which is then alone with it.
    fn strike_clock(&mut self, sick: Option<u64>, at: u64) {
        let node = sick.unwrap_or_else(|| self.node());
        let most = [400, 60_000, 8 * 3_600_000][self.rng.random_range(0..3)];
        let deed = if self.rng.random_bool(0.2) {
            Deed::StopClock { node }
        } else {
            Deed::StepClock { node, ms: self.rng.random_range(-most..=most) }
        };
        self.add(at, deed);
        if self.rng.random_bool(0.7) {
            let lasts = self.short_or_long((1, 1000), (1000, 8000));
            self.add(at + lasts, Deed::RightClock { node });
        }
    }

    /// A process is killed while it writes, and its next runs while they begin.
    fn strike_recovery(&mut self, at: u64) {
        let node = self.node();
        let writes = u32::try_from(self.short_or_long((1, 4), (4, 200))).expect("a few");
        self.add(at, Deed::KillAtWrite { node, writes });
        let mut at = at + self.within((5, 500));
        for _ in 0..self.rng.random_range(0..=3) {
            let killed_after = self.short_or_long((0, 10), (10, 400));
            if self.rng.random_bool(0.5) {
                let writes = self.rng.random_range(1..=6);
                self.add(at, Deed::KillAtWrite { node, writes });
            }
            self.add(at, Deed::Start { node });
            self.add(at + killed_after, Deed::Crash { node });
            at += killed_after + self.within((1, 300));
        }
        self.add(at, Deed::Start { node });
    }

    fn strike_fast(&mut self, at: u64) {
        let node = self.node();
        let down = self.within((0, 30));
        self.add(at, Deed::Crash { node });
        self.add(at + down, Deed::Start { node });
    }

    fn strike_slowly(&mut self, at: u64) {
        let node = self.node();
        let each_ms = self.short_or_long((2, 60), (60, 800));
        let ms = self.within((200, 6000));
        self.add(at, Deed::SlowDown { node, each_ms, ms });
    }

    /// A process sleeps, far into a storm that has passed for all others.
    fn sleep(&mut self) {
        let node = self.node();
        let at = self.within((0, self.plan.storm_ms));
        let ms = self.within((30_000, 180_000));
        self.plan.storm_ms = self.plan.storm_ms.max(at + ms + 5000);
        self.add(at, Deed::Pause { node, ms });
    }

    /// A machine is suspended. A wall clock that stood still is set right soon, or is not.
    fn suspend(&mut self, at: u64) {
        let node = self.node();
        let ms = self.short_or_long((200, 4000), (4000, 20_000));
        let stands = [Standstill::None, Standstill::Steady, Standstill::Both];
        let stands = stands[self.rng.random_range(0..3)];
        self.add(at, Deed::Suspend { node, ms, stands });
        if stands == Standstill::Both && self.rng.random_bool(0.7) {
            let behind = self.short_or_long((1, 1000), (1000, 8000));
            self.add(at + ms + behind, Deed::RightClock { node });
        }
    }

    fn clog(&mut self, at: u64) {
        let from = self.node();
        let Some(to) = self.other(from) else { return };
        let lasts = self.short_or_long((10, 400), (400, 4000));
        self.add(at, Deed::Clog { from, to });
        self.add(at + lasts, Deed::Heal { a: from, b: to });
    }

    /// A connection breaks: of two nodes, or of a client.
    fn break_one(&mut self, at: u64) {
        let node = self.node();
        if self.rng.random_bool(0.5) {
            let client = self.client();
            self.add(at, Deed::BreakClient { client, node });
        } else if let Some(other) = self.other(node) {
            self.add(at, Deed::BreakLink { a: node, b: other });
        }
    }

    /// A disk is lost. That of one node only: the others have the queue, and what is confirmed.
    fn wipe(&mut self, node: u64, at: u64) {
        let down = self.short_or_long((20, 400), (800, 6000));
        self.add(at, Deed::Wipe { node });
        self.add(at + down, Deed::Start { node });
    }

    /// A disk is put back to when it was younger. That of one node only, as with lost ones.
    fn put_back(&mut self, node: u64, at: u64) {
        let later = self.short_or_long((0, 800), (800, 8000));
        let down = self.short_or_long((20, 400), (800, 6000));
        self.add(at, Deed::KeepDisk { node });
        self.add(at + later, Deed::PutBack { node });
        self.add(at + later + down, Deed::Start { node });
    }

    fn rot(&mut self, at: u64) {
        let of_thousand = [10, 200, 1000][self.rng.random_range(0..3)];
        let node = self.node();
        self.add(at, Deed::Rot { node, of_thousand });
    }

    fn lose_rows(&mut self, at: u64) {
        let of_thousand = [10, 200, 1000][self.rng.random_range(0..3)];
        let loss = [RowLoss::Vanish, RowLoss::Header][self.rng.random_range(0..2)];
        let node = self.node();
        self.add(at, Deed::LoseRows { node, of_thousand, loss });
    }

    fn fill(&mut self, at: u64) {
        let node = self.node();
        let lasts = self.short_or_long((20, 800), (800, 6000));
        self.add(at, Deed::FillDisk { node });
        self.add(at + lasts, Deed::FreeDisk { node });
    }

    fn slow_disk(&mut self, at: u64) {
        let node = self.node();
        let ms = [20, 100, 300, 3000][self.rng.random_range(0..4)];
        let lasts = self.short_or_long((100, 2000), (2000, 8000));
        self.add(at, Deed::SlowDisk { node, ms });
        self.add(at + lasts, Deed::QuickDisk { node });
    }

    fn stop(&mut self, at: u64) {
        let node = self.node();
        let down = self.short_or_long((0, 3000), (3000, 9000));
        self.add(at, Deed::Stop { node });
        self.add(at + down, Deed::Start { node });
    }

    /// Every node is stopped and started again, one after the other, each when the one before is
    /// well: as when a new version is brought in. Alone with its queue none is.
    fn stop_all(&mut self) {
        if self.plan.founders < 3 || self.plan.queue.replicas < 2 {
            return;
        }
        let mut at = self.within((1000, 5000));
        for node in 1..=self.plan.founders as u64 {
            self.plan.storm_ms = self.plan.storm_ms.max(at + ROLL_MS + 1);
            self.add(at, Deed::Stop { node });
            self.add(at + STOP_MS, Deed::Start { node });
            at += ROLL_MS;
        }
    }
}

const MS: u64 = 1_000_000;
/// What a stop takes at most: sends under way, then who still has to hear.
const STOP_MS: u64 = 4500;
/// And until the node is well again.
const ROLL_MS: u64 = 10_000;
