//! Membership: who is there. SWIM by foca, behind this room's own door.
//!
//! Packets, timers and closed connections come in; packets, and news that the view changed, go out.
//! What foca leaves open is decided here:
//!
//! - *Alone.* foca stops trying once nobody is left. This room goes on announcing to seeds and to
//!   everybody it has ever seen, with backoff while alone, at a steady pace in company (to those
//!   that are down), so that every cut heals, however long it lasted. A node that has lost sight of
//!   all others begins anew under a fresh generation and without memory of who it held to be down:
//!   else its return would make every healthy member renew itself, and end all sessions for it.
//! - *Suspicion.* A closed connection is a suspicion, with a timer of its own. A suspicion that is
//!   due counts only if the member has not objected since (foca would tell a healthy member that
//!   it is down). A node that heard from nobody meanwhile is itself the likely culprit: it believes
//!   what it must, and tells nobody.
//! - *Own lag.* After a pause everything that was due is put off, suspicions begin anew, and lost
//!   connections are not held against anyone for a while.
//! - *Names.* What a packet says it is must match the certificate; generations must be possible; a
//!   newer claim to this node's own name is topped. Of two processes that live under one name the
//!   later one ends, once the earlier one has answered it.
//! - *Rest.* What is said to a packet must come to an end by itself: no two nodes answer each other
//!   for ever (`renewal.rs`).
//!
//! Nothing that must be safe hangs on the view: that is what sessions are for. The room does not
//! dial and does not know sessions. Members once seen stay, as down, until the operator removes
//! them; behind the name of one that was removed another disk may come, so it is heard as before.

mod config;
mod identity;
mod introduction;
mod pace;
mod packet;
mod profile;
mod reach;
mod renewal;
mod rival;
mod suspicion;
#[cfg(test)]
mod tests;
mod timers;
mod told;
mod view;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use foca::OwnedNotification;
use gaggle_wire::NodeId;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub(crate) use config::MembershipConfig;
pub use config::PACKET_SIZE_LIMIT;
pub(crate) use identity::Generation;
pub(crate) use packet::PacketRefused;
pub(crate) use profile::{Profile, Readiness, Zone};
pub(crate) use view::{Member, MemberState, View};

use crate::now::Mono;
use identity::Identity;
use pace::{Lag, Pace};
use packet::{GossipCodec, Packet};
use profile::{Profiles, Spreading};
use timers::{Entry, Task, Timers};
use told::{News, Told};

/// This node, as it enters.
#[derive(Clone, Debug)]
pub(crate) struct Me {
    /// The name in its certificate.
    pub(crate) node: NodeId,
    /// Which run of it this is.
    pub(crate) boot: u64,
    /// Where peers are to reach it.
    pub(crate) peer_address: SocketAddr,
    /// What it says of itself.
    pub(crate) profile: Profile,
}

/// Where to look for the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contacts {
    /// Addresses from the configuration.
    pub(crate) seeds: Vec<SocketAddr>,
    /// Members of an earlier run of this node.
    pub(crate) remembered: Vec<(NodeId, SocketAddr)>,
}

/// What membership asks for or has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Send `data` to the node, or to whoever is at the address when no name is known yet.
    Packet {
        /// Where to.
        to: SocketAddr,
        /// Whose certificate to expect there.
        node: Option<NodeId>,
        /// The packet.
        data: Bytes,
    },
    /// The view is another one; told once per call, last.
    ViewChanged,
    /// This node goes on under a new generation because others held it to be down, or because it
    /// has lost sight of them all: all sessions must end.
    Rejoined,
    /// This node was paused for longer than the suspicion time: all sessions must end.
    Paused,
    /// Somebody at this address is said to be alive under this node's own name; it is asked.
    Rival {
        /// Where it is said to be.
        address: SocketAddr,
    },
    /// A process that was started earlier under this node's name has answered: this one has to
    /// end. Nothing comes out any more.
    Outlived {
        /// Where the earlier one is.
        by: SocketAddr,
    },
}

/// Who is there, as far as this node can tell.
pub(crate) struct Membership {
    config: MembershipConfig,
    contacts: Contacts,
    swim: Swim,
    view: View,
    profile: Profile,
    profiles: Profiles,
    /// Who was removed from the cluster, and is in the view only while it is there.
    removed: BTreeSet<NodeId>,
    timers: Timers,
    pace: Pace,
    standing: Standing,
    moments: Moments,
    /// Tells this process from others under its name.
    run: u64,
    rng: Pcg64Mcg,
}

type Swim = foca::Foca<Identity, GossipCodec, Pcg64Mcg, Spreading>;

/// Whether there is anybody to talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// No: the next round of announcing comes after this pause.
    Alone { pause: Duration },
    /// Somebody knows this node under its present identity.
    Together,
    /// It said goodbye, or has to end without.
    Left,
}

/// Small counters and dates.
#[derive(Debug, Default)]
struct Moments {
    /// Numbers the profile notices of this run.
    sequence: u32,
    /// Numbers the rounds of announcing.
    round: usize,
    /// When the last of them was.
    reached: Option<Mono>,
    /// Until when lost connections are the own fault.
    links_forgiven_until: Option<Mono>,
    /// Since when packets have made this node take new identities, and how many.
    renewed: Option<(Mono, u32)>,
    /// When it last asked somebody under its name.
    asked: Option<Mono>,
    /// When it began.
    started: Mono,
    /// The version of the view that was told last.
    version_told: u64,
}

impl Membership {
    /// Makes the room; nothing happens before [`Self::start`].
    pub(crate) fn new(config: MembershipConfig, me: Me, rng_seed: u64, contacts: Contacts) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(rng_seed);
        let generation = Generation::of_boot(me.boot);
        let identity = Identity { node: me.node, generation, address: me.peer_address };
        let swim = new_swim(&config, identity, &mut rng);
        let mut view = View::default();
        for (node, address) in &contacts.remembered {
            let plausible = Identity { node: *node, address: *address, ..identity }.is_plausible();
            if plausible && *node != me.node && view.len() + 1 < config.members_max {
                view.place(*node, Generation::UNKNOWN, *address, MemberState::Down);
            }
        }
        view.place(me.node, generation, me.peer_address, MemberState::Alive);
        view.describe(me.node, &me.profile);
        Self {
            pace: Pace::new(config.lag_max, config.probe_period),
            standing: Standing::Alone { pause: config.reach_alone.0 },
            config,
            contacts,
            swim,
            view,
            profile: me.profile,
            profiles: Profiles::default(),
            removed: BTreeSet::new(),
            timers: Timers::default(),
            moments: Moments::default(),
            run: rng.random(),
            rng,
        }
    }

    /// Begins: announces to seeds and remembered members.
    pub(crate) fn start(&mut self, now: Mono, out: &mut Vec<Output>) {
        self.note(now, out);
        self.moments.started = now;
        self.tell_profile();
        self.timers.add(now, self.config.profile_period, Task::Refresh);
        self.reach(now, out);
        self.settle(out);
    }

    /// Takes a packet that came over a connection whose certificate names `from`.
    ///
    /// # Errors
    /// See [`PacketRefused`]: the packet left nothing behind.
    pub(crate) fn received(
        &mut self,
        now: Mono,
        from: NodeId,
        packet: &[u8],
        out: &mut Vec<Output>,
    ) -> Result<(), PacketRefused> {
        self.note(now, out);
        if self.standing == Standing::Left {
            return Ok(());
        }
        if packet.len() > self.config.packet_size() {
            return Err(PacketRefused::TooBig(packet.len()));
        }
        if from == self.me().node {
            return self.own_name(now, packet, out);
        }
        let read = Packet::parse(packet, from, self.me().node)?;
        self.admit(&read)?;
        self.pace.hear(from, now);
        self.defend_name(now, &read, out);

        if let Some(newer) = self.newer_than(&read.header.src) {
            self.correct(&read, newer, out);
        } else if self.may_take(now, &read) {
            let mut told = Told::default();
            let handled = self.swim.handle_data(packet, &mut told);
            self.absorb(now, told, out);
            if let Err(error) = handled {
                self.survive(now, &error, out);
            }
        }
        for notice in read.notices {
            self.keep_profile(notice);
        }
        self.settle(out);
        Ok(())
    }

    /// Does everything that is due.
    pub(crate) fn wakeup(&mut self, now: Mono, out: &mut Vec<Output>) {
        self.note(now, out);
        while let Some(entry) = self.timers.take_due(now) {
            self.perform(now, entry, out);
        }
        self.settle(out);
    }

    /// This node was paused for longer than the suspicion time, of which its steady clock has
    /// counted nothing: no timer is late, but nobody was at home.
    pub(crate) fn woke(&mut self, now: Mono, out: &mut Vec<Output>) {
        self.pace.resume(now);
        self.timers.shift(now, self.config.probe_rtt, Some(self.config.suspicion));
        self.was_paused(now, out);
    }

    /// When [`Self::wakeup`] wants to be called.
    pub(crate) fn next_wakeup(&self) -> Option<Mono> {
        self.timers.first_due()
    }

    /// The present view.
    pub(crate) const fn view(&self) -> &View {
        &self.view
    }

    /// Where a node stands: as the view has it, or else as it has said itself.
    pub(crate) fn zone(&self, node: NodeId) -> &str {
        let seen = self.view.member(node).map(|member| &member.zone);
        seen.or_else(|| self.profiles.zone(node)).map_or("", Zone::as_str)
    }

    /// Says goodbye. Said three times, to three members each: packets get lost, and who has not
    /// heard it takes this node for dead a second later anyway.
    pub(crate) fn leave(&mut self, now: Mono, out: &mut Vec<Output>) {
        self.note(now, out);
        if self.standing == Standing::Left {
            return;
        }
        self.standing = Standing::Left;
        let mut told = Told::default();
        // An error here means that a packet could not be written: the others find out by probing.
        let said = self.swim.leave_cluster(&mut told);
        let again = said.and_then(|()| self.swim.gossip(&mut told));
        let _ = again.and_then(|()| self.swim.gossip(&mut told));
        self.absorb(now, told, out);
        self.timers.drop_if(|_| true);
        let me = self.me();
        self.view.place(me.node, me.generation, me.address, MemberState::Down);
        self.settle(out);
    }

    const fn me(&self) -> Identity {
        *self.swim.identity()
    }

    /// Judges the time since the last call, before anything else is looked at.
    fn note(&mut self, now: Mono, out: &mut Vec<Output>) {
        let Lag::Late { by, pause } = self.pace.note(now, self.timers.first_due()) else { return };
        // One round trip on top: answers that wait in the sockets are read before any probe ends.
        // A lag below one probe costs a suspect no more than one chance to object.
        let anew = (by > self.config.probe_period).then_some(self.config.suspicion);
        self.timers.shift(now, by + self.config.probe_rtt, anew);
        if pause > self.config.suspicion {
            self.was_paused(now, out);
        }
    }

    fn was_paused(&mut self, now: Mono, out: &mut Vec<Output>) {
        self.moments.links_forgiven_until = Some(now.plus(self.config.suspicion * 2));
        out.push(Output::Paused);
    }

    fn perform(&mut self, now: Mono, entry: Entry, out: &mut Vec<Output>) {
        match entry.task {
            Task::Swim(foca::Timer::ChangeSuspectToDown { .. }) | Task::LinkSuspicion { .. } => {
                self.conclude(now, entry, out);
            }
            Task::Swim(timer) => self.swim_timer(now, timer, out),
            Task::Reach => self.reach(now, out),
            Task::Introduce => self.tell_profile(),
            Task::Refresh => {
                self.tell_profile();
                let after = self.jittered(self.config.profile_period);
                self.timers.add(now, after, Task::Refresh);
            }
        }
    }

    fn swim_timer(&mut self, now: Mono, timer: foca::Timer<Identity>, out: &mut Vec<Output>) {
        let mut told = Told::default();
        let handled = self.swim.handle_timer(timer, &mut told);
        self.absorb(now, told, out);
        if let Err(error) = handled {
            self.survive(now, &error, out);
        }
    }

    /// Carries out what foca asked for in one call.
    fn absorb(&mut self, now: Mono, told: Told, out: &mut Vec<Output>) {
        let (mut renewed, mut deserted) = (false, false);
        for news in told.0 {
            match news {
                News::Send(to, data) => {
                    let node = (to.node != identity::ANYONE).then_some(to.node);
                    out.push(Output::Packet { to: to.address, node, data });
                }
                News::Later(timer, after) => self.timers.add(now, after, Task::Swim(timer)),
                News::Happened(OwnedNotification::MemberUp(_) | OwnedNotification::Rename(..)) => {
                    self.introduce_soon(now);
                }
                News::Happened(OwnedNotification::MemberDown(_)) => {}
                News::Happened(OwnedNotification::Active) => self.standing = Standing::Together,
                News::Happened(OwnedNotification::Rejoin(_)) => {
                    self.count_renewal(now);
                    // What foca wanted to do under the old identity is void.
                    self.timers.drop_if(|task| matches!(task, Task::Swim(_)));
                    self.standing = Standing::Alone { pause: self.config.reach_alone.0 };
                    renewed = true;
                }
                News::Happened(OwnedNotification::Idle | OwnedNotification::Defunct) => {
                    deserted = true;
                }
            }
        }
        if self.standing == Standing::Left {
            return;
        }
        if deserted {
            self.begin_anew(now, out);
        } else if renewed {
            self.go_on_renewed(now, out);
        }
    }

    /// Goes on as if just started, one generation later.
    fn begin_anew(&mut self, now: Mono, out: &mut Vec<Output>) {
        let mut identity = self.me();
        // Without room for a next generation the old one is as good as any.
        identity.generation = identity.generation.next().unwrap_or(identity.generation);
        self.swim = new_swim(&self.config, identity, &mut self.rng);
        self.timers.drop_if(|task| matches!(task, Task::Swim(_) | Task::LinkSuspicion { .. }));
        self.pace.forget_all();
        self.standing = Standing::Alone { pause: self.config.reach_alone.0 };
        self.go_on_renewed(now, out);
    }

    fn go_on_renewed(&mut self, now: Mono, out: &mut Vec<Output>) {
        let me = self.me();
        self.view.place(me.node, me.generation, me.address, MemberState::Alive);
        self.view.describe(me.node, &self.profile);
        self.tell_profile();
        // At once, unless that was just done: where renewals do not help, announcing, being turned
        // away and renewing would go round as fast as the network carries it.
        let next = self.moments.reached.map(|reached| reached.plus(self.config.reach_alone.0));
        let after = next.map_or(Duration::ZERO, |next| next.since(now));
        self.timers.drop_if(|task| *task == Task::Reach);
        self.timers.add(now, after, Task::Reach);
        out.push(Output::Rejoined);
    }

    /// Errors of foca that it does not get over by itself.
    fn survive(&mut self, now: Mono, error: &foca::Error, out: &mut Vec<Output>) {
        // After a failed encoding foca may never probe again.
        if matches!(error, foca::Error::Encode(_)) {
            self.begin_anew(now, out);
        }
    }

    /// Brings the view up to what foca and the profiles say.
    fn settle(&mut self, out: &mut Vec<Output>) {
        let me = self.me().node;
        let mut known = BTreeSet::from([me]);
        for member in self.swim.iter_membership_state() {
            let id = member.id();
            let down = state_of(member.state()) == MemberState::Down;
            if id.node == me || down && self.removed.contains(&id.node) {
                continue;
            }
            known.insert(id.node);
            self.view.place(id.node, id.generation, id.address, state_of(member.state()));
            if let Some(profile) = self.profiles.of(id.node, id.generation) {
                self.view.describe(id.node, profile);
            }
        }
        self.view.close_eyes_on(|node| known.contains(&node));
        self.view.forget_down(&self.removed);
        if self.view.version() != self.moments.version_told {
            self.moments.version_told = self.view.version();
            out.push(Output::ViewChanged);
        }
    }

    fn jittered(&mut self, duration: Duration) -> Duration {
        duration * self.rng.random_range(80..=120) / 100
    }
}

fn new_swim(config: &MembershipConfig, identity: Identity, rng: &mut Pcg64Mcg) -> Swim {
    let spreading = Spreading::new(identity.node, config.members_max);
    let codec = GossipCodec { me: identity.node };
    let rng = Pcg64Mcg::seed_from_u64(rng.random());
    foca::Foca::with_custom_broadcast(identity, config.swim(), rng, codec, spreading)
}

const fn state_of(state: foca::State) -> MemberState {
    match state {
        foca::State::Alive => MemberState::Alive,
        foca::State::Suspect => MemberState::Suspect,
        foca::State::Down => MemberState::Down,
    }
}
