//! Introductions: what nodes say of themselves, and to whom.
//!
//! Part of [`Membership`]. The own profile goes out as news when it changes, when somebody is new,
//! and from time to time; what others say of themselves is kept as far as there is room. What this
//! file does not do: how profiles are written and which one is newer is in `profile.rs`.

use std::time::Duration;

use gaggle_wire::NodeId;

use super::identity::Generation;
use super::profile::{Edition, Notice, Profile};
use super::timers::Task;
use super::told::Told;
use super::{Membership, Output, Standing};
use crate::now::Mono;

impl Membership {
    /// Says something else of this node from now on.
    pub(crate) fn set_profile(&mut self, now: Mono, profile: Profile, out: &mut Vec<Output>) {
        self.note(now, out);
        if self.profile == profile || self.standing == Standing::Left {
            return;
        }
        self.profile = profile;
        self.view.describe(self.me().node, &self.profile);
        self.tell_profile();
        let mut told = Told::default();
        let gossiped = self.swim.gossip(&mut told);
        self.absorb(now, told, out);
        if let Err(error) = gossiped {
            self.survive(now, &error, out);
        }
        self.settle(out);
    }

    /// Takes what a node said of itself in a session hello. Its broadcasts are numbered and win
    /// over it within one run.
    pub(crate) fn learn(
        &mut self,
        node: NodeId,
        boot: u64,
        profile: Profile,
        out: &mut Vec<Output>,
    ) {
        let edition = Edition { generation: Generation::of_boot(boot), sequence: 0 };
        self.keep_profile(Notice { node, edition, profile });
        self.settle(out);
    }

    /// Somebody is new: it is to hear the own profile soon.
    pub(super) fn introduce_soon(&mut self, now: Mono) {
        if !self.timers.contains(&Task::Introduce) {
            let after = self.jittered(INTRODUCE_AFTER);
            self.timers.add(now, after, Task::Introduce);
        }
    }

    /// Puts the own profile on the way, as news to everybody.
    pub(super) fn tell_profile(&mut self) {
        let me = self.me();
        self.moments.sequence = self.moments.sequence.saturating_add(1);
        let edition = Edition { generation: me.generation, sequence: self.moments.sequence };
        let notice = Notice { node: me.node, edition, profile: self.profile.clone() };
        self.swim
            .add_broadcast(&notice.encode())
            .expect("the own notice is valid and smaller than the smallest packet size");
    }

    /// Takes in what another node says of itself, if there is room for it.
    pub(super) fn keep_profile(&mut self, notice: Notice) {
        let has_room = self.profiles.len() < self.config.members_max;
        // Another disk counts its runs anew: what the run in view says is not outdone by another.
        let run = self.view.member(notice.node).map(|member| member.generation);
        if let Some(run) = run.filter(|run| notice.edition.generation.same_run(*run))
            && self.profiles.of(notice.node, run).is_none()
        {
            self.profiles.remove(notice.node);
        }
        if notice.node != self.me().node && (has_room || self.profiles.knows(notice.node)) {
            self.profiles.keep(notice);
        }
    }
}

/// Gathers the newcomers of a moment into one introduction.
const INTRODUCE_AFTER: Duration = Duration::from_millis(100);
