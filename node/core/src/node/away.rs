//! Members that are away, told of as a session begins.
//!
//! Gossip tells of those who are there. A node that starts while a member is down would not know
//! that there is such a member: it would rank hosts without it, forget deleted queues that live
//! with it (P13), and let a member be removed that has what only the two of them have.
//!
//! Invariant: nobody is taken for down because of what another one says; only who is not known yet
//! is. What this file does not do: who was removed is told of in the table, and is not heard of.

use std::net::SocketAddr;

use gaggle_wire::NodeId;

use super::Node;
use crate::effect::Effects;
use crate::envelope::Envelope;
use crate::now::Now;
use crate::table::Stage;

impl Node {
    /// Tells a node which members it cannot have heard of from themselves.
    pub(super) fn tell_members_away(&self, peer: NodeId, effects: &mut Effects) {
        let away = self.in_view().filter(|(node, member)| *node != peer && !member.is_present());
        let members: Vec<_> = away.map(|(node, member)| (node, member.peer_address)).collect();
        if !members.is_empty() {
            self.say(peer, Envelope::Away { members }, effects);
        }
    }

    /// Another node tells which members it has seen and are down.
    pub(super) fn hear_of_members(
        &mut self,
        now: Now,
        mut members: Vec<(NodeId, SocketAddr)>,
        effects: &mut Effects,
    ) {
        members.retain(|(node, _)| {
            self.stage(*node) != Stage::Removed && !self.sessions.reaches(*node)
        });
        let mut out = Vec::new();
        self.membership.hear_of(&members, &mut out);
        self.membership_said(now, out, effects);
    }
}
