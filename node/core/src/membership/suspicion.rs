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
use super::told::Told;
use super::{Membership, Output, Standing};
use crate::now::Mono;

impl Membership {
    /// The connection to a node closed: it is suspected, and down unless it objects in time.
    pub(crate) fn link_lost(&mut self, now: Mono, node: NodeId, out: &mut Vec<Output>) {
        self.note(now, out);
        if self.moments.links_forgiven_until.is_some_and(|until| now < until) {
            return;
        }
        let Some((identity, incarnation)) = self.active(node) else { return };
        let task = Task::LinkSuspicion { identity, incarnation };
        if !self.timers.contains(&task) {
            self.timers.add(now, self.config.suspicion, task);
            self.apply(now, foca::Member::new(identity, incarnation, State::Suspect), true, out);
            self.settle(out);
        }
    }

    /// A suspicion is due: the member is down if it has not objected.
    pub(super) fn conclude(&mut self, now: Mono, entry: Entry, out: &mut Vec<Output>) {
        let deaf = self.is_deaf_since(entry.since);
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
        match entry.task {
            _ if deaf => self.apply(now, down, false, out),
            Task::Swim(timer) => self.swim_timer(now, timer, out),
            _ => self.apply(now, down, true, out),
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
            .chain([(read.header.dst, State::Down)])
            .filter(|(claim, _)| claim.win_addr_conflict(&me))
            .max_by_key(|(claim, _)| (claim.generation, claim.address));
        let Some((claim, state)) = highest else { return };
        let recently = self.moments.defended.is_some_and(|at| now.since(at) < DEFENCE_PAUSE);
        let Some(generation) = claim.generation.next().filter(|_| !recently) else { return };
        self.moments.defended = Some(now);
        if state != State::Down && claim.address != me.address {
            out.push(Output::Rival { address: claim.address });
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
        let known = self.swim.iter_membership_state().map(|member| *member.id());
        let newer = known.filter(|id| id.node == src.node && id.win_addr_conflict(src)).next();
        if let Some(newer) = newer {
            let to = Identity { address: src.address, ..newer };
            self.announce(now, to, out);
        }
    }

    /// Whether no packet of anybody came in since the suspicion was raised.
    fn is_deaf_since(&self, raised: Mono) -> bool {
        let since = self.pace.resumed().map_or(raised, |resumed| resumed.max(raised));
        !self.heard.values().any(|heard| *heard > since)
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
        tell: bool,
        out: &mut Vec<Output>,
    ) {
        let mut told = Told::default();
        let applied = self.swim.apply_many([update].into_iter(), tell, &mut told);
        self.absorb(now, told, out);
        if let Err(error) = applied {
            self.survive(now, &error, out);
        }
    }
}

/// Two processes under one name would top each other without end; the driver needs a moment to
/// find out which of them is to stop.
const DEFENCE_PAUSE: Duration = Duration::from_secs(1);
