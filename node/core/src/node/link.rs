//! Sessions as they start, run and end; the view as it changes.
//!
//! At the start of a session each side says what is open for the other, in this order: table,
//! members that are away, tombstones, mark, what it holds. How custody is passed then is in
//! `passing.rs`.

use std::time::Duration;

use gaggle_wire::NodeId;

use super::tables::TableNews;
use super::{Drain, Node};
use crate::custody::burial::Push;
use crate::effect::{Effect, Effects};
use crate::envelope::{Envelope, PeerHello, Span, Wanted};
use crate::event::LinkId;
use crate::ledger::{Key, Write, record};
use crate::membership::{Generation, Profile, Readiness, Zone};
use crate::now::Now;
use crate::session::Disk;
use crate::table::Stage;
use crate::timer::Timer;

impl Node {
    pub(super) fn link_up(
        &mut self,
        now: Now,
        link: LinkId,
        hello: &PeerHello,
        effects: &mut Effects,
    ) {
        let peer = hello.node;
        if self.is_told() || peer == self.config.node {
            effects.push(Effect::CloseLink(link));
            return;
        }
        if self.table.removals().stage(peer, hello.store) == Stage::Removed {
            self.turn_away((peer, hello.store), link, effects);
            return;
        }
        if self.sessions.disks.is_outdated(hello) {
            self.disk_put_back((peer, link), effects);
            return;
        }
        if self.sessions.has_parted(peer, hello.boot, hello.store) {
            effects.push(Effect::CloseLink(link));
            return;
        }
        if let Some(session) = self.sessions.with(peer) {
            if session.boot > hello.boot && self.sessions.disks.has(peer, hello.store) {
                effects.push(Effect::CloseLink(link));
                return;
            }
            let old = session.link;
            effects.push(Effect::CloseLink(old));
            self.session_ended(now, old, effects);
        }
        self.membership.readmit(peer);
        let mut out = Vec::new();
        let zone = Zone::parse(&hello.zone).unwrap_or_default();
        let readiness = Readiness { space: hello.space, ..Readiness::default() };
        let profile = Profile { zone, client_address: hello.client_address, readiness };
        self.membership.learn(peer, hello.boot, profile, &mut out);
        self.membership_said(now, out, effects);
        self.sessions.start(link, peer, hello.boot);
        let mut partitions = self.partitions.values();
        let bare = partitions.all(|partition| partition.lists.held_for(peer).is_empty());
        if let Some(session) = self.sessions.progress_mut(peer) {
            session.bare = bare;
        }
        let joins = self.stage(peer) == Stage::Removed;
        if self.sessions.disks.met(hello) == Disk::Another {
            self.count("disks_replaced");
            self.forget_disk(peer);
            self.trust_copies(peer, effects);
        }
        self.write_disks(effects);
        if joins {
            self.view_changed(now, effects);
        }
        self.open_session(now, peer, effects);
        self.custody_changed(now, effects);
    }

    fn open_session(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        self.tell_fit(now, effects);
        for TableNews { entries, removals } in self.all_news() {
            self.say(peer, Envelope::Table { call: 0, entries, removals }, effects);
        }
        self.tell_members_away(peer, effects);
        self.push_tombstones(now, peer, Duration::ZERO, effects);
        self.say(peer, Envelope::Mark, effects);
        self.tell_inventory(peer, Span::all().after, effects);
        for queue in self.reception.wanted().collect::<Vec<_>>() {
            self.say(peer, Envelope::Want { queue, wanted: Wanted::Yes }, effects);
        }
        self.say(peer, self.clock_told(now), effects);
        self.ask_met(peer, effects);
    }

    /// A host has lost its disk or was removed with it, and nobody can say any more whether it had
    /// a copy when a send was confirmed. So whatever it should have had and this node holds counts
    /// as confirmed (P1), but for what this node knows to have been counted by nobody (P4).
    pub(super) fn trust_copies(&mut self, peer: NodeId, effects: &mut Effects) {
        let ids: Vec<_> = self.partitions.keys().copied().collect();
        for id in ids {
            let partition = self.partitions.get_mut(&id).expect("it was listed");
            for (process, numbers) in partition.lists.held_for(peer) {
                partition.known.trust(process, &numbers);
            }
            self.reconsider(id);
            self.write_settled(id, effects);
        }
    }

    pub(super) fn push_tombstones(
        &mut self,
        now: Now,
        peer: NodeId,
        age: Duration,
        effects: &mut Effects,
    ) {
        for push in self.burials.open_for(peer, now.mono, age) {
            let Push { batch, partition, holders, messages, known } = push;
            let (queue, partition) = partition;
            let envelope = Envelope::Tombstones {
                batch,
                queue,
                partition,
                holders,
                messages,
                stamps: Vec::new(),
                leases: Vec::new(),
                known,
            };
            self.say(peer, envelope, effects);
        }
    }

    pub(super) fn link_down(&mut self, now: Now, link: LinkId, effects: &mut Effects) {
        if self.is_told() {
            // It was closed because this node leaves: nobody is suspected for it.
            self.part(now, link, effects);
            self.leave(now, effects);
        } else if let Some(peer) = self.session_ended(now, link, effects) {
            let mut out = Vec::new();
            self.membership.link_lost(now.mono, peer, &mut out);
            self.membership_said(now, out, effects);
        }
    }

    /// One of the two at the ends of a session leaves. It is still in view until it is gone: were
    /// there sessions with it all the while, each end of one would take everybody's marks.
    pub(super) fn part(&mut self, now: Now, link: LinkId, effects: &mut Effects) {
        self.sessions.part(link);
        self.session_ended(now, link, effects);
        self.view_changed(now, effects);
    }

    /// The other leaves as soon as it is let go.
    pub(super) fn leaves_soon(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        if let Some(session) = self.sessions.with_mut(peer) {
            session.leaving = true;
        }
        self.let_go(now, peer, effects);
    }

    /// Ends the session with a node that leaves, once it has granted what was taken from it: a
    /// grant that is lost keeps its messages hidden until their leases end (P10).
    pub(super) fn let_go(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        if let Some(session) = self.sessions.with(peer)
            && session.leaving
            && !self.reception.takes_from(peer)
        {
            let link = session.link;
            effects.push(Effect::CloseLink(link));
            self.part(now, link, effects);
        }
    }

    /// A session is over, for whatever reason; whose it was.
    pub(super) fn session_ended(
        &mut self,
        now: Now,
        link: LinkId,
        effects: &mut Effects,
    ) -> Option<NodeId> {
        let peer = self.sessions.end(link)?;
        self.count("sessions_ended");
        self.say_all(&Envelope::AskMark, effects);
        self.reception.lost(peer);
        self.rounds_lost(peer);
        self.sends.settled.remove(&peer);
        self.sends.lacking.remove(&peer);
        self.sends_lost(now, peer, effects);
        self.move_lost(now, peer, effects);
        for batch in self.burials.lost(peer) {
            self.delete_over(now, batch, effects);
        }
        for call in self.desk.calls.lost(peer) {
            self.call_over(now, call, effects);
        }
        self.custody_changed(now, effects);
        Some(peer)
    }

    /// This node was away: paused, or held to be down. What it is the first to hand out others have
    /// handed out meanwhile, and deleted, so it waits for them as when it has just started.
    pub(super) fn end_all_sessions(&mut self, now: Now, effects: &mut Effects) {
        self.count("sessions_all_ended");
        self.stop_rounds(now, effects);
        self.give_up_sends(effects);
        self.sessions.was_away(now.mono);
        if let Some(since) = self.sessions.first_unmet() {
            self.timers.at_latest(Timer::ServeAlone, since.plus(self.config.serve_alone_after));
        }
        let links: Vec<LinkId> = self.sessions.iter().map(|(_, session)| session.link).collect();
        for link in links {
            effects.push(Effect::CloseLink(link));
            self.session_ended(now, link, effects);
        }
    }

    /// The view is another one: whom to dial, whom to wait for, whom to tell.
    pub(super) fn view_changed(&mut self, now: Now, effects: &mut Effects) {
        let mut wanted = Vec::new();
        let mut down = Vec::new();
        let mut writes = Vec::new();
        for (node, member) in self.membership.view().iter() {
            if node == self.config.node {
                continue;
            }
            if self.stage(node) == Stage::Removed {
                // Behind its name there may be another disk by now; if not, it is told.
                wanted.extend(member.is_present().then_some((node, member.peer_address)));
                continue;
            }
            let row = record::encode(&member.peer_address);
            if self.run.members_written.get(&node) != Some(&row) {
                writes.push((node, row));
            }
            let parted = self.sessions.parted(node).map(Generation::of_boot);
            let parted = parted.is_some_and(|run| member.generation.same_run(run));
            if !member.is_present() {
                self.sessions.vanished(node);
            }
            if member.is_present() {
                // Behind a name whose last run has parted another one may be, with a new disk.
                wanted.push((node, member.peer_address));
            }
            if member.is_present() && !parted {
                self.sessions.appeared(node, now.mono);
            } else {
                down.extend(self.sessions.with(node).map(|session| session.link));
            }
        }
        for (node, row) in writes {
            effects.write(Write::Put { key: Key::Member(node).encode(), value: row.clone() });
            self.run.members_written.insert(node, row);
        }
        for link in down {
            effects.push(Effect::CloseLink(link));
            self.session_ended(now, link, effects);
        }
        effects.push(Effect::Links(wanted));
        self.tell_members(effects);
        let later = now.mono.plus(self.config.serve_alone_after);
        self.timers.at_latest(Timer::ServeAlone, later);
        self.custody_changed(now, effects);
    }

    /// What may be handed out may have changed.
    pub(super) fn custody_changed(&mut self, now: Now, effects: &mut Effects) {
        let (epoch, me) = (self.sessions.epoch(), self.config.node);
        let mut touched = Vec::new();
        let stale = self.partitions.iter().filter(|(_, partition)| !partition.is_fresh(epoch));
        for id in stale.map(|(id, _)| *id).collect::<Vec<_>>() {
            let homes = self.homes(id);
            let partition = self.partitions.get_mut(&id).expect("it was listed");
            let may_serve = |list: &[NodeId]| self.sessions.may_serve(list);
            if partition.refresh(epoch, may_serve, || homes.contains(&me)) {
                partition.close_window();
                touched.push(id.0);
            }
        }
        for queue in touched {
            self.reception.touch(queue);
        }
        self.tell_readiness(now, effects);
        self.tell_fit(now, effects);
    }

    pub(super) fn tell_readiness(&mut self, now: Now, effects: &mut Effects) {
        let told = self.readiness();
        if told != self.run.told {
            self.run.told = told;
            let (profile, mut out) = (self.profile(), Vec::new());
            self.membership.set_profile(now.mono, profile, &mut out);
            self.membership_said(now, out, effects);
            self.tell_members(effects);
        }
    }

    /// Tells the clients of the members and how they stand, if that has changed.
    fn tell_members(&mut self, effects: &mut Effects) {
        let welcome = self.welcome();
        if self.run.welcomed.as_ref() != Some(&welcome) {
            self.run.welcomed = Some(welcome.clone());
            effects.push(Effect::Welcome(welcome));
        }
    }

    /// The other's mark came.
    pub(super) fn marked(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        if let Some(session) = self.sessions.with_mut(peer) {
            session.marked = true;
        }
        self.pass_custody(now, peer, effects);
        self.custody_changed(now, effects);
    }

    /// The other asks for what is open for it, and a fresh mark.
    pub(super) fn mark_asked(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        self.push_tombstones(now, peer, Duration::ZERO, effects);
        self.say(peer, Envelope::Mark, effects);
    }

    /// The node is to be stopped: sends under way are waited for, and for a moment consumers that
    /// give back what they have not taken; then all is handed over.
    pub(super) fn drain(&mut self, now: Now, effects: &mut Effects) {
        if self.run.drain == Drain::No {
            let until = now.mono.plus(DRAIN_MAX);
            self.run.drain = Drain::Until(until);
            self.timers.at_latest(Timer::Deadlines, now.mono.plus(GIVE_BACK_MAX));
            self.tell_readiness(now, effects);
        }
        self.drained(now, effects);
    }

    /// Hands all over, if nothing is waited for any more.
    pub(super) fn drained(&mut self, now: Now, effects: &mut Effects) {
        let Drain::Until(until) = self.run.drain else { return };
        let waits = self.sends.under_way.values().any(|sending| !sending.answered)
            || !self.desk.deletes.is_empty()
            // What comes back once the leases are told stays hidden elsewhere until they end.
            || (self.reception.is_owed() && now.mono < until.minus(DRAIN_MAX - GIVE_BACK_MAX));
        if waits && now.mono < until {
            return;
        }
        let until = now.mono.plus(HEARD_WITHIN);
        self.run.drain = Drain::Told(until);
        self.stop_rounds(now, effects);
        self.timers.at_latest(Timer::Deadlines, until);
        self.tell_in_bulk(now, effects);
        self.tell_leases(now, None, Duration::ZERO, effects);
        self.say_all(&Envelope::Leaving, effects);
        for id in self.partitions.keys().copied().collect::<Vec<_>>() {
            self.write_settled(id, effects);
        }
        self.leave(now, effects);
    }

    /// Whether all was told to those who stay.
    pub(super) fn is_told(&self) -> bool {
        matches!(self.run.drain, Drain::Told(_) | Drain::Done)
    }

    /// Leaves the cluster once everybody has heard what was handed over. Gossip is quicker than
    /// what waits for a commit, and who hears first that this node is gone takes its custody over
    /// without its leases (P3).
    pub(super) fn leave(&mut self, now: Now, effects: &mut Effects) {
        let Drain::Told(until) = self.run.drain else { return };
        if self.sessions.iter().next().is_some() && now.mono < until {
            return;
        }
        self.run.drain = Drain::Done;
        let mut out = Vec::new();
        self.membership.leave(now.mono, &mut out);
        for output in out {
            if let crate::membership::Output::Packet { to, node, data } = output {
                effects.push(Effect::Gossip { to, node, packet: data });
            }
        }
        effects.push(Effect::Drained);
    }
}

/// How long sends under way are waited for at a stop.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// How long consumers may take then to give back what they have not taken: a few round trips.
const GIVE_BACK_MAX: Duration = Duration::from_millis(500);
/// How long the others may take to hear that a node leaves: many times what they need.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
