//! Looking for those who are out of reach.
//!
//! Part of [`Membership`]. While alone: everybody ever seen and every seed, with a growing pause.
//! In company: whoever is down, and seeds that no present member answers for, at a steady pace;
//! two halves of a cluster that were cut apart, or started apart, meet again this way.

use std::time::Duration;

use super::identity::Identity;
use super::timers::Task;
use super::told::Told;
use super::{Membership, Output, Standing};
use crate::now::Mono;

impl Membership {
    /// One round of announcing, and the date of the next.
    pub(super) fn reach(&mut self, now: Mono, out: &mut Vec<Output>) {
        let targets = self.out_of_reach();
        let first = if targets.is_empty() { 0 } else { self.moments.round % targets.len() };
        let some = targets.iter().cycle().skip(first).take(targets.len().min(TARGETS_MAX));
        for target in some {
            self.announce(now, *target, out);
        }
        // The next round begins where this one stopped.
        self.moments.round = first + TARGETS_MAX;
        self.moments.reached = Some(now);
        let pause = match self.standing {
            Standing::Alone { pause } => {
                let longer = (pause * 2).min(self.config.reach_alone.1);
                self.standing = Standing::Alone { pause: longer };
                pause
            }
            Standing::Together => self.config.reach_in_company,
            Standing::Left => return,
        };
        let pause = self.jittered(pause.max(PAUSE_MIN));
        self.timers.drop_if(|task| *task == Task::Reach);
        self.timers.add(now, pause, Task::Reach);
    }

    /// Asks to be let in by one node.
    pub(super) fn announce(&mut self, now: Mono, to: Identity, out: &mut Vec<Output>) {
        let mut told = Told::default();
        let announced = self.swim.announce(to, &mut told);
        self.absorb(now, told, out);
        if let Err(error) = announced {
            self.survive(now, &error, out);
        }
    }

    fn out_of_reach(&self) -> Vec<Identity> {
        let me = self.me();
        let alone = self.standing != Standing::Together;
        let missing = |present: bool| alone || !present;
        let members = self.view.iter().filter(|(node, _)| *node != me.node);
        let mut targets: Vec<Identity> = members
            .filter(|(_, member)| missing(member.is_present()))
            .map(|(node, member)| Identity {
                node,
                generation: member.generation,
                address: member.peer_address,
            })
            .collect();
        for seed in &self.contacts.seeds {
            let answered = *seed == me.address
                || targets.iter().any(|target| target.address == *seed)
                || self.view.present().any(|(_, member)| member.peer_address == *seed);
            if !answered {
                targets.push(Identity::anyone(*seed));
            }
        }
        targets
    }
}

/// The most announcements of one round; the next round goes on with the others.
const TARGETS_MAX: usize = 16;
/// A setting of zero must not keep the node busy with nothing else.
const PAUSE_MIN: Duration = Duration::from_millis(10);
