//! Machines that are suspended: a laptop that is closed, a virtual machine that is stopped with all
//! its memory.
//!
//! Nothing runs on it and nothing comes through to it or from it, while the world goes on. Its
//! clocks go on meanwhile, or its steady clock stands still, or its wall clock does so too, and is
//! behind until somebody sets it right. Its runtime finds out that a connection has been silent for
//! long by the steady clock, and so later than the other side does. What clients say meanwhile is
//! in `lines/asleep.rs`.
//!
//! What this file does not do: a process that is paused hears all that came meanwhile; that is in
//! `lives.rs`.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::world::{Happening, World};

/// Which clocks stand still while a machine is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standstill {
    /// None: the steady clock counts the time for which the machine was suspended.
    None,
    /// The steady one.
    Steady,
    /// Both, as if nothing had been.
    Both,
}

/// A machine that is suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspension {
    since: u64,
    stands: Standstill,
    /// Whether a commit was to end meanwhile.
    committing: bool,
}

impl Suspension {
    /// For how long the machine has been suspended.
    pub(crate) fn lasted(&self, now: u64) -> u64 {
        now - self.since
    }

    /// For how long the steady clock has stood still.
    pub(crate) fn stood(&self, now: u64) -> u64 {
        if self.stands == Standstill::None { 0 } else { now - self.since }
    }
}

impl World {
    /// Suspends the machine of a node for so many nanoseconds.
    pub fn suspend(&mut self, at: usize, nanos: u64, stands: Standstill) {
        if !self.processes[at].is_awake() {
            return;
        }
        self.report.line(self.now, format_args!("suspend {} {stands:?}", at + 1));
        self.judge.weather.disturb();
        self.judge.weather.trouble(self.now, at, at);
        let since = self.now;
        let process = &mut self.processes[at];
        process.backlog = Some(VecDeque::new());
        process.suspended = Some(Suspension { since, stands, committing: false });
        let life = process.life;
        for (link, end) in self.network.suspend(at) {
            self.silence(link, end);
        }
        self.lines_fall_silent(at);
        self.at(self.now + nanos, Happening::Resume { at, life });
    }

    /// The machine of a node goes on, if it was suspended.
    pub(crate) fn wake_up(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some(suspension) = process.suspended.take() else { return };
        process.stood += suspension.stood(self.now);
        let life = process.life;
        if suspension.committing {
            self.at(self.now + 1, Happening::Committed { at, life });
        }
        if suspension.stands == Standstill::Both {
            let slept = self.now - suspension.since;
            self.step_clock(at, -slept.cast_signed());
        }
        if suspension.stands != Standstill::None {
            self.clock_shows(at);
        }
        for (link, end, envelopes) in self.network.wake(at) {
            self.let_go(link, end, envelopes);
        }
        self.lines_go_on(at);
        // What is silent still was left meanwhile, which is found out from now on.
        for (link, end) in self.network.of(at) {
            let silent = self.network.end(link, end).and_then(|end| end.silent_since);
            if let Some(since) = silent {
                let later = self.now + self.options.idle;
                self.at(later, Happening::Idle { link, end, since });
            }
        }
    }

    /// A commit is to end: that of a machine that is suspended ends when it goes on. Whether it is.
    pub(crate) fn commits_later(&mut self, at: usize) -> bool {
        let suspended = self.processes[at].suspended.as_mut();
        suspended.map(|suspension| suspension.committing = true).is_some()
    }
}
