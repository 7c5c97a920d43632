//! Processes that are not well and live: they stop again and again, or die of what they write.
//!
//! What this file does not do: a single pause and the death of a process are in `lives.rs`.

use crate::goals::Goal;
use crate::world::{Happening, World};

impl World {
    /// A process gets next to no time: it stops again and again, for so long at most each time.
    pub(crate) fn slow_down(&mut self, at: usize, (each, lasts): (u64, u64)) {
        if self.processes[at].is_awake() {
            self.report.line(self.now, format_args!("slow {}", at + 1));
            self.processes[at].stalls = Some((self.now + lasts, each.max(1)));
            self.begin_measuring(at);
            let life = self.processes[at].life;
            self.stall(at, life);
        }
    }

    pub(crate) fn stall(&mut self, at: usize, life: u64) {
        let Some((_, each)) = self.processes[at].stalls else { return };
        if self.processes[at].life == life {
            let nanos = self.draw((1, each));
            self.pause(at, nanos);
        }
    }

    /// A process that goes on after a pause stops once more, if it is to.
    pub(crate) fn stalls_again(&mut self, at: usize) {
        let Some((until, each)) = self.processes[at].stalls else { return };
        let next = self.now + self.draw((1, each / 10 + 1));
        if next >= until {
            self.processes[at].stalls = None;
            return;
        }
        let life = self.processes[at].life;
        self.at(next, Happening::Stall { at, life });
    }

    /// A node has written a change: it may die of it, before anything after it is done.
    pub(crate) fn written(&mut self, at: usize) {
        let Some(left) = &mut self.processes[at].dies_at_write else { return };
        *left -= 1;
        if *left == 0 {
            self.processes[at].dies_at_write = None;
            self.judge.goals.note(Goal::KilledWriting);
            self.crash(at);
        }
    }

    /// A node is killed at the so-manieth change that it writes from now on.
    pub(crate) fn kill_at_write(&mut self, at: usize, writes: u32) {
        self.processes[at].dies_at_write = Some(writes.max(1));
    }

    /// Nothing that was done to processes and clocks, and lasts, is left.
    pub(crate) fn recover_all(&mut self) {
        for at in 0..self.processes.len() {
            self.processes[at].dies_at_write = None;
            self.processes[at].stalls = None;
            self.right_clock(at);
            let life = self.processes[at].life;
            self.resume(at, life);
        }
    }
}
