//! The view: every node this one has ever seen, sorted, with a version.
//!
//! A member once seen stays, as down: it remains a ranked host, and what it holds is still its.
//! Views are never synchronized between nodes; nothing that must be safe may hang on one. The
//! version rises at every change and is this node's own: it means nothing elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use gaggle_wire::NodeId;

use super::identity::Generation;
use super::profile::{Profile, Readiness, Zone};

/// How a member looks from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemberState {
    /// It answers, or others say so.
    Alive,
    /// Somebody had no answer; it counts as present until it is down.
    Suspect,
    /// Gone, left, or not seen since this node started.
    Down,
}

/// One node of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Where peers reach it.
    pub(crate) peer_address: SocketAddr,
    /// Where clients reach it; unknown until its profile arrived.
    pub(crate) client_address: Option<SocketAddr>,
    /// Where it stands; the empty zone until its profile arrived.
    pub(crate) zone: Zone,
    /// How it looks from here.
    pub(crate) state: MemberState,
    /// How ready it says that it is.
    pub(crate) readiness: Readiness,
    /// Which claim to its name this is; at least its boot counter times 65,536.
    pub(crate) generation: Generation,
}

impl Member {
    /// Whether it counts as there: alive, or merely suspected.
    pub(crate) fn is_present(&self) -> bool {
        self.state != MemberState::Down
    }
}

/// All members, this node among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    members: BTreeMap<NodeId, Member>,
    version: u64,
}

impl View {
    /// Rises at each change.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// One member.
    pub(crate) fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// All members ever seen, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().map(|(node, member)| (*node, member))
    }

    /// The members that are not down.
    pub(crate) fn present(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.iter().filter(|(_, member)| member.is_present())
    }

    /// How many were ever seen.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Takes in what gossip says of a node.
    pub(super) fn place(
        &mut self,
        node: NodeId,
        generation: Generation,
        peer_address: SocketAddr,
        state: MemberState,
    ) {
        let Some(member) = self.members.get_mut(&node) else {
            self.version += 1;
            let zone = Zone::default();
            let (client_address, readiness) = (None, Readiness::default());
            let fresh = Member { peer_address, client_address, zone, state, readiness, generation };
            self.members.insert(node, fresh);
            return;
        };
        let known = (member.peer_address, member.state, member.generation);
        if known == (peer_address, state, generation) {
            return;
        }
        if !member.generation.same_run(generation) {
            // What a former run said of its readiness says nothing of this one.
            member.readiness = Readiness::default();
        }
        (member.peer_address, member.state, member.generation) = (peer_address, state, generation);
        self.version += 1;
    }

    /// Marks as down whoever `is_known` does not know.
    pub(super) fn close_eyes_on(&mut self, is_known: impl Fn(NodeId) -> bool) {
        for (node, member) in &mut self.members {
            if member.state != MemberState::Down && !is_known(*node) {
                member.state = MemberState::Down;
                self.version += 1;
            }
        }
    }

    /// Forgets those of these nodes that are down.
    pub(super) fn forget_down(&mut self, removed: &BTreeSet<NodeId>) {
        let before = self.members.len();
        self.members.retain(|node, member| member.is_present() || !removed.contains(node));
        self.version += u64::from(self.members.len() < before);
    }

    /// Takes in what a node says of itself; nothing happens when the node is not in the view.
    pub(super) fn describe(&mut self, node: NodeId, profile: &Profile) {
        let Some(member) = self.members.get_mut(&node) else { return };
        let known = (member.client_address, member.readiness);
        if known == (Some(profile.client_address), profile.readiness)
            && member.zone.is_same(&profile.zone)
        {
            return;
        }
        member.client_address = Some(profile.client_address);
        member.zone = profile.zone.clone();
        member.readiness = profile.readiness;
        self.version += 1;
    }
}
