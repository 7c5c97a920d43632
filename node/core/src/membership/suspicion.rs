//! From a doubt to a verdict, and what fits the view.
//!
//! Part of [`Membership`]; kept apart because these are the rules that foca does not have.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use foca::State;
use gaggle_wire::NodeId;

use super::identity::{Generation, Identity};
use super::packet::{Packet, PacketRefused};
use super::timers::{Entry, Task};
use super::told::Told;
use super::{MemberState, Membership, Output, Standing};
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

    /// Others have seen these nodes, and say that they are down. Who is not known here is from now
    /// on, and stays down until it is heard.
    pub(crate) fn hear_of(&mut self, members: &[(NodeId, SocketAddr)], out: &mut Vec<Output>) {
        let me = self.me();
        for (node, address) in members {
            let said = Identity { node: *node, address: *address, ..me };
            let known = self.view.member(*node).is_some() || self.removed.contains(node);
            if said.is_plausible() && !known && self.view.len() < self.config.members_max {
                self.view.place(*node, Generation::UNKNOWN, *address, MemberState::Down);
            }
        }
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
