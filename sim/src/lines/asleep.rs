//! Lines to a machine that is suspended: nothing comes through.
//!
//! A client says again what was not acknowledged, until it takes the connection for dead. So what
//! is said to such a machine comes when it goes on, if its client still waits by then, or not at
//! all: never so late that the resend window is over. For who wakes with both its clocks stopped
//! cannot know how old a send is. What comes from other nodes is in `network.rs`.
//!
//! What this file does not do: a process that is paused hears all that its machine took in for it.

use gaggle_core::event::Event;

use super::{Caller, End, News};
use crate::world::{Happening, World};

impl World {
    /// The machine of a node is suspended: its clients hear nothing more.
    pub(crate) fn lines_fall_silent(&mut self, at: usize) {
        let (since, idle) = (self.now, self.options.client_idle());
        for id in self.town.lines.to(at) {
            let line = self.town.lines.by_id.get_mut(&id).expect("it was listed");
            if line.client_end == End::Gone || line.caller == Caller::Hand {
                continue;
            }
            let (actor, known) = (line.actor, line.silent_since.is_some());
            line.silent_since.get_or_insert(since);
            self.judge.oracle.cut(since, (actor, at));
            if !known {
                self.at(since + idle, Happening::Client(actor, News::Listen(id, since)));
            }
        }
    }

    /// Whether a machine that goes on after so long hears this, of what came to it meanwhile.
    pub(crate) fn comes_through(&mut self, lasted: u64, event: &Event) -> bool {
        let Event::Request { reply, .. } = event else { return true };
        let Some(line) = self.town.lines.by_id.get(&reply.client) else { return false };
        let waits = match line.caller {
            Caller::Hand => lasted < self.options.client_idle(),
            Caller::Client { .. } => line.client_end == End::Open,
        };
        let place = line.place(reply.client);
        if !waits {
            self.judge.lost(self.now, place);
        }
        waits
    }

    /// The machine of a node goes on: who still waits hears of it, who has left it finds out about.
    pub(crate) fn lines_go_on(&mut self, at: usize) {
        for id in self.town.lines.to(at) {
            let line = self.town.lines.by_id.get_mut(&id).expect("it was listed");
            let actor = line.actor;
            if line.node_end == End::Gone {
                continue;
            }
            let cut = self.town.lines.cuts.contains(&(actor, at));
            if line.client_end == End::Open && !cut {
                line.silent_since = None;
                self.judge.oracle.healed((actor, at));
            } else if line.caller != Caller::Hand {
                let since = line.silent_since.unwrap_or(self.now);
                let noticed = self.now + self.draw((0, self.options.client_idle()));
                self.at(noticed, Happening::Client(actor, News::Forsaken(id, since)));
            }
        }
    }
}
