//! From a doubt to a verdict, and whom to believe about names.
//!
//! Part of [`Membership`]; kept apart because these are the rules that foca does not have.

use std::collections::BTreeSet;
use std::time::Duration;

use foca::{Identity as _, State};
use gaggle_wire::NodeId;

use super::identity::Identity;
use super::packet::{Packet, PacketRefused};
use super::timers::{Entry, Task};
use super::told::{News, Told};
use super::{Membership, Output, Standing};
use crate::now::Mono;

impl Membership {
    /// The connection to a node closed: it is suspected, and down unless it objects in time.
    pub(crate) fn link_lost(&mut self, now: Mono, node: NodeId, out: &mut Vec<Output>) {
        self.note(now, out);
        let forgiven = self.moments.links_forgiven_until.is_some_and(|until| now < until);
        if forgiven || self.standing == Standing::Left {
            return;
        }
        let Some((identity, incarnation)) = self.active(node) else { return };
        let task = Task::LinkSuspicion { identity, incarnation };
        if !self.timers.contains(&task) {
            self.timers.add(now, self.config.suspicion, task);
            let suspect = foca::Member::new(identity, incarnation, State::Suspect);
            self.apply(now, suspect, Audience::Everybody, out);
            self.settle(out);
        }
    }

    /// A node was removed from the cluster: it stays in the view only while it is there.
    pub(crate) fn remove(&mut self, node: NodeId, out: &mut Vec<Output>) {
        self.removed.insert(node);
        self.settle(out);
    }

    /// A node that was removed is a member again, with a new disk.
    pub(crate) fn readmit(&mut self, node: NodeId) {
        self.removed.remove(&node);
    }

    /// A suspicion is due: the member is down if it has not objected.
    pub(super) fn conclude(&mut self, now: Mono, entry: Entry, out: &mut Vec<Output>) {
        let deaf = self.pace.is_deaf_since(entry.since);
        let (identity, incarnation) = match &entry.task {
            Task::LinkSuspicion { identity, incarnation } => (*identity, *incarnation),
            Task::Swim(foca::Timer::ChangeSuspectToDown { member_id, incarnation, .. }) => {
                (*member_id, *incarnation)
            }
            Task::Swim(_) | Task::Reach | Task::Introduce | Task::Refresh => return,
        };
        let stands = self.swim.iter_members().any(|member| {
            *member.id() == identity
                && member.incarnation() == incarnation
                && member.state() == State::Suspect
        });
        if !stands {
            // foca would tell the healthy member that it is down, and it would rejoin.
            return;
        }
        let down = foca::Member::new(identity, incarnation, State::Down);
        if deaf {
            self.apply(now, down, Audience::Nobody, out);
        } else if let Task::Swim(timer) = entry.task {
            self.swim_timer(now, timer, out);
        } else {
            self.apply(now, down, Audience::Everybody, out);
        }
    }

    /// What does not fit the view cannot be taken in.
    pub(super) fn admit(&self, read: &Packet) -> Result<(), PacketRefused> {
        let me = self.me();
        let src = read.header.src;
        let mut unknown = BTreeSet::new();
        if self.view.member(src.node).is_none() {
            unknown.insert(src.node);
        }
        let claims = read.updates.iter().map(|update| update.id()).chain([&read.header.dst]);
        for claim in claims {
            let known = if claim.node == me.node {
                Some(me.generation)
            } else {
                self.view.member(claim.node).map(|member| member.generation)
            };
            match known {
                // A node says of itself what it is; what others say of it has bounds.
                Some(_) if *claim == src => {}
                Some(known) if !known.may_become(claim.generation) => {
                    return Err(PacketRefused::BadGeneration(claim.node));
                }
                Some(_) => {}
                None => {
                    unknown.insert(claim.node);
                }
            }
        }
        if self.view.len() + unknown.len() > self.config.members_max {
            return Err(PacketRefused::TooManyMembers);
        }
        Ok(())
    }

    /// Tops a newer claim to the own name: after a wiped disk the others remember a higher
    /// generation, and what this node says would be void for ever.
    pub(super) fn defend_name(&mut self, now: Mono, read: &Packet, out: &mut Vec<Output>) {
        let me = self.me();
        let own = read.updates.iter().filter(|update| update.id().node == me.node);
        let claims = own.map(|update| (*update.id(), update.state()));
        let highest = claims
            // Whoever corrects us knows this claim from somewhere: see `correct`.
            .chain([(read.header.dst, State::Alive)])
            .filter(|(claim, _)| claim.win_addr_conflict(&me))
            .max_by_key(|(claim, _)| (claim.generation, claim.address));
        let Some((claim, state)) = highest else { return };
        let recent = self.moments.defended.filter(|(at, _)| now.since(*at) < DEFENCE_PAUSE);
        let (since, times) = recent.unwrap_or((now, 0));
        let most = if claim.address == me.address { DEFENCES } else { 1 };
        let Some(generation) = claim.generation.next().filter(|_| times < most) else { return };
        self.moments.defended = Some((since, times + 1));
        if state != State::Down && claim.address != me.address {
            self.ask_rival(now, claim.address, out);
        }
        self.timers.drop_if(|task| matches!(task, Task::Swim(_)));
        self.standing = Standing::Alone { pause: self.config.reach_alone.0 };
        let mut told = Told::default();
        let changed = self.swim.change_identity(Identity { generation, ..me }, &mut told);
        self.absorb(now, told, out);
        match changed {
            Ok(()) => self.go_on_renewed(now, out),
            Err(error) => self.survive(now, &error, out),
        }
    }

    /// Tells a node that speaks under an old generation what it is known as: it cannot learn that
    /// from anybody who ignores it.
    pub(super) fn correct(&mut self, now: Mono, src: &Identity, out: &mut Vec<Output>) {
        let Some(newer) = self.newer_than(src) else { return };
        let mut told = Told::default();
        let announced = self.swim.announce(newer, &mut told);
        // Addressed to the claim that wins, carried to the node that lost.
        for news in &mut told.0 {
            if let News::Send(to, _) = news {
                to.address = src.address;
            }
        }
        self.absorb(now, told, out);
        if let Err(error) = announced {
            self.survive(now, &error, out);
        }
    }

    fn newer_than(&self, src: &Identity) -> Option<Identity> {
        let mut known = self.swim.iter_membership_state().map(|member| *member.id());
        known.find(|id| id.node == src.node && id.win_addr_conflict(src))
    }

    fn active(&self, node: NodeId) -> Option<(Identity, u16)> {
        let mut members = self.swim.iter_members();
        let member = members.find(|member| member.id().node == node)?;
        Some((*member.id(), member.incarnation()))
    }

    fn apply(
        &mut self,
        now: Mono,
        update: foca::Member<Identity>,
        audience: Audience,
        out: &mut Vec<Output>,
    ) {
        let mut told = Told::default();
        let tell = audience == Audience::Everybody;
        let applied = self.swim.apply_many([update].into_iter(), tell, &mut told);
        self.absorb(now, told, out);
        if let Err(error) = applied {
            self.survive(now, &error, out);
        }
    }
}

/// Who is to hear of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Everybody,
    Nobody,
}

/// Two processes under one name would top each other without end; it takes a moment to find out
/// which of them has to end.
const DEFENCE_PAUSE: Duration = Duration::from_secs(1);
/// How often claims of earlier runs at the own address are topped meanwhile. Of a disk that is lost
/// again and again several go round; who tops one only would be told of the next, and foca renews
/// one by one, as fast as the network carries it.
const DEFENCES: u32 = 4;
