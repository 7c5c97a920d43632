//! The node's clock among the others': what is told of it, heard, and done when it was wrong.

use gaggle_wire::{NodeId, ProcessId};
use rand::RngExt;

use super::Node;
use crate::effect::Effects;
use crate::envelope::Envelope;
use crate::now::Now;

impl Node {
    /// What this node tells the others of its clock.
    pub(super) fn clock_told(&self, now: Now) -> Envelope {
        let (wall, correction) = (now.wall.0, self.calendar.correction());
        Envelope::Clock { wall, correction, commits: self.run.commits.told() }
    }

    /// Another node told of its clock: what it believes counts for ours, and what its wall clock
    /// says is shown to whoever looks after it.
    pub(super) fn clock_heard(&mut self, now: Now, peer: NodeId, (wall, correction): (u64, i64)) {
        let Some(session) = self.sessions.progress_mut(peer) else { return };
        let says = i128::from(wall) - i128::from(correction);
        session.clock_offset = i64::try_from(says - i128::from(now.wall.0)).ok();
        self.calendar.told(peer, (wall, correction));
    }

    /// The wall clock has run ahead of the steady one: the machine was suspended, or its clock was
    /// set forward.
    pub(super) fn woke(&mut self, now: Now, effects: &mut Effects) {
        self.count("pauses_by_wall");
        let mut out = Vec::new();
        self.membership.woke(now.mono, &mut out);
        self.membership_said(now, out, effects);
    }

    /// Judges the own clock. Where it was ahead of what is believed now by more than others would
    /// take, stamps go back as those of another process (P8).
    pub(super) fn judge_clock(&mut self, now: Now) -> Now {
        let was_sick = self.calendar.is_sick();
        let now = match self.calendar.judge() {
            false => now,
            true => {
                self.count("clock_corrected");
                self.calendar.again()
            }
        };
        if self.calendar.is_sick() && !was_sick {
            self.count("clock_sick_times");
        }
        if self.clock.is_ahead(now.wall) {
            let process = ProcessId(self.run.rng.random());
            self.clock.renew(process, now.wall);
            self.count("clock_renewed");
        }
        now
    }
}
