//! Sessions: who can be talked to, and what may be handed out because of it.
//!
//! Views of the membership are never synchronized, so nothing that must be safe hangs on them. It
//! hangs on sessions: one per pair of nodes, one connection, one run of either side. Each side
//! says at the start what is open for the other (tombstones, then its *mark*; what it holds, so
//! that missing copies are made up), and *yields*: stops handing out what the other precedes it
//! on. So of hosts that can talk to each other exactly one hands out a message, nobody is
//! elected, and on its death the next goes on (custody). The rules are those that
//! `may_serve` spells out; they are kept per pair of nodes and applied to whole holder lists.
//!
//! A node that is slow, or waits for one that is away, is not *fit*: it is not yielded to, and it
//! *hands over*, which undoes a yield. So what one of two precedes the other on is in the hands of
//! one of them at a time, and goes to and fro between them in turns.
//!
//! Invariants: at most one session per node; what comes from an ended session is dropped by the
//! caller, who finds no session for its link. What this room does not do: it does not send, and
//! it knows no messages.

mod disks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gaggle_wire::NodeId;

pub(crate) use disks::{Disk, DiskRecord, Disks};

use crate::custody::burial::Numbers;
use crate::envelope::{Place, Span};
use crate::event::LinkId;
use crate::now::Mono;

/// Identifies a partition everywhere in the core.
pub(crate) type PartitionId = (gaggle_wire::QueueId, u16);

/// One session, as this side has it.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its connection.
    pub(crate) link: LinkId,
    /// The other's run.
    pub(crate) boot: u64,
    /// Whether the other's mark has come.
    pub(crate) marked: bool,
    /// Whether this side has yielded to the other.
    pub(crate) yielded: bool,
    /// Whether the other has yielded to this side.
    pub(crate) yielded_by: bool,
    /// Whether the other is fit, as it said last. A session begins with both fit.
    pub(crate) fit: bool,
    /// What this side said last of itself.
    fit_told: bool,
    /// Whether this side kept custody when it could have yielded, or had it handed over. What it
    /// has heard since the session began is told with the yield that follows.
    pub(crate) kept: bool,
    /// Whether the other has said that it leaves.
    pub(crate) leaving: bool,
    /// How much of the other's inventory has come.
    pub(crate) inventoried: Inventoried,
    /// Whether the other was told all of the own inventory.
    pub(crate) told: bool,
    /// Whether this side held nothing that the other should have when the session began. What
    /// has come since, the other was sent as well.
    pub(crate) bare: bool,
    /// What the other lacks and this side holds, still to be read.
    pub(crate) make_up: VecDeque<(PartitionId, Numbers)>,
    /// Batches of made-up copies, and reads for them, that are under way.
    pub(crate) make_up_pending: u32,
    /// The partition that was compared with the other last.
    pub(crate) compared: Option<PartitionId>,
    /// The other's wall clock minus the own one, as last told.
    pub(crate) clock_offset: Option<i64>,
}

/// How much has come of what another node says that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inventoried {
    /// All up to here; what lies behind is on its way.
    Coming(Place),
    /// All.
    All,
}

impl Session {
    /// Whether all is known that the other knew to be gone when it sent its mark.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked && self.inventoried == Inventoried::All
    }

    /// Whether it is known what the other lacks of all that this side could give: it has said what
    /// it has, or begun to, if there is nothing to compare that with.
    pub(crate) fn is_compared(&self) -> bool {
        let begun = self.inventoried != Inventoried::Coming(Span::all().after);
        self.is_marked() || (self.marked && self.bare && begun)
    }

    /// Whether the other was given all that it is known to lack.
    pub(crate) fn is_given(&self) -> bool {
        self.make_up.is_empty() && self.make_up_pending == 0
    }
}

/// All sessions of this node.
#[derive(Debug)]
pub(crate) struct Sessions {
    me: NodeId,
    sessions: BTreeMap<NodeId, Session>,
    links: BTreeMap<LinkId, NodeId>,
    /// Members that have not been met since this node started, or since it was away, with the time
    /// since when they are known to be there.
    unmet: BTreeMap<NodeId, Mono>,
    met: BTreeSet<NodeId>,
    /// Whether this node was away, and has met nobody since.
    just_back: bool,
    /// Remembered members that this node waits for before it hands out anything.
    awaited: BTreeSet<NodeId>,
    /// The run of each node that said last that it leaves: no session is to be had with it.
    left: BTreeMap<NodeId, u64>,
    /// Last known disk of each node, over restarts.
    pub(crate) disks: Disks,
    /// Rises whenever what may be handed out may have changed.
    epoch: u64,
}

impl Sessions {
    pub(crate) fn new(me: NodeId, awaited: impl IntoIterator<Item = NodeId>, disks: Disks) -> Self {
        Self {
            me,
            sessions: BTreeMap::new(),
            links: BTreeMap::new(),
            unmet: BTreeMap::new(),
            met: BTreeSet::new(),
            just_back: false,
            awaited: awaited.into_iter().filter(|node| *node != me).collect(),
            left: BTreeMap::new(),
            disks,
            epoch: 1,
        }
    }

    /// Rises whenever what may be handed out may have changed.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Starts a session.
    pub(crate) fn start(&mut self, link: LinkId, peer: NodeId, boot: u64) {
        let session = Session {
            link,
            boot,
            marked: false,
            yielded: false,
            yielded_by: false,
            fit: true,
            fit_told: true,
            kept: false,
            leaving: false,
            inventoried: Inventoried::Coming(Span::all().after),
            told: false,
            bare: false,
            make_up: VecDeque::new(),
            make_up_pending: 0,
            compared: None,
            clock_offset: None,
        };
        self.links.insert(link, peer);
        self.sessions.insert(peer, session);
        self.unmet.remove(&peer);
        self.awaited.remove(&peer);
        self.met.insert(peer);
        self.just_back = false;
        self.left.remove(&peer);
        self.epoch += 1;
    }

    /// Ends the session of a connection; whose it was.
    pub(crate) fn end(&mut self, link: LinkId) -> Option<NodeId> {
        let peer = self.links.remove(&link)?;
        self.sessions.remove(&peer);
        for session in self.sessions.values_mut() {
            session.marked = false;
        }
        self.epoch += 1;
        Some(peer)
    }

    /// This node was away, and has not been told what happened meanwhile: whoever was in session
    /// is to be met anew before anything is handed out that it has, too.
    pub(crate) fn was_away(&mut self, now: Mono) {
        self.just_back = true;
        for peer in self.sessions.keys() {
            self.met.remove(peer);
            self.unmet.insert(*peer, now);
        }
        self.epoch += 1;
    }

    /// The run at the other end of this connection leaves, or this one does: they have had their
    /// last session.
    pub(crate) fn part(&mut self, link: LinkId) {
        if let Some(peer) = self.links.get(&link)
            && let Some(session) = self.sessions.get(peer)
        {
            self.left.insert(*peer, session.boot);
        }
    }

    /// The run of a node with which the last session is over.
    pub(crate) fn parted(&self, node: NodeId) -> Option<u64> {
        self.left.get(&node).copied()
    }

    /// Whether a run of a node, on this disk, has had its last session. On another disk runs are
    /// counted anew.
    pub(crate) fn has_parted(&self, node: NodeId, boot: u64, store: u128) -> bool {
        self.parted(node).is_some_and(|last| boot <= last) && self.disks.has(node, store)
    }

    /// The node at the other end of a session's connection.
    pub(crate) fn peer(&self, link: LinkId) -> Option<NodeId> {
        self.links.get(&link).copied()
    }

    /// The session with a node.
    pub(crate) fn with(&self, node: NodeId) -> Option<&Session> {
        self.sessions.get(&node)
    }

    /// The session with a node; what is changed on it may change what may be handed out.
    pub(crate) fn with_mut(&mut self, node: NodeId) -> Option<&mut Session> {
        self.epoch += 1;
        self.sessions.get_mut(&node)
    }

    /// The session with a node, to note what does not touch custody.
    pub(crate) fn progress_mut(&mut self, node: NodeId) -> Option<&mut Session> {
        self.sessions.get_mut(&node)
    }

    /// All sessions, by node.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Session)> {
        self.sessions.iter().map(|(node, session)| (*node, session))
    }

    /// Takes note that all nodes in session are told whether this one is fit; whom that is news to.
    pub(crate) fn take_untold_fit(&mut self, fit: bool) -> Vec<NodeId> {
        let mut news = Vec::new();
        for (node, session) in &mut self.sessions {
            if std::mem::replace(&mut session.fit_told, fit) != fit {
                news.push(*node);
            }
        }
        news
    }

    /// Whether this node is there to store things: itself, or in session.
    pub(crate) fn reaches(&self, node: NodeId) -> bool {
        node == self.me || self.sessions.contains_key(&node)
    }

    /// Whether there is neither a session with this node nor is one awaited by what is asked of
    /// this one. Who is just back waits for nobody: what is asked of it may have lain there unread,
    /// and be forgotten elsewhere (P4).
    pub(crate) fn is_missed(&self, node: NodeId) -> bool {
        let awaited = self.unmet.contains_key(&node) || self.awaited.contains(&node);
        !self.sessions.contains_key(&node) && (self.just_back || !awaited)
    }

    /// A member is known to be there.
    pub(crate) fn appeared(&mut self, node: NodeId, now: Mono) {
        if node != self.me && !self.met.contains(&node) && !self.unmet.contains_key(&node) {
            self.unmet.insert(node, now);
            self.epoch += 1;
        }
    }

    /// A member is down. A node that lost its disk begins to count its runs anew: what was noted
    /// of an earlier one says nothing of it.
    pub(crate) fn vanished(&mut self, node: NodeId) {
        self.left.remove(&node);
        if self.unmet.remove(&node).is_some() {
            self.epoch += 1;
        }
    }

    /// A node is no member any more: nobody waits for it.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.awaited.remove(&node);
        self.met.remove(&node);
        self.vanished(node);
        self.epoch += 1;
    }

    /// Nobody who has been awaited or unmet since before this is waited for any longer.
    pub(crate) fn stop_waiting(&mut self, since: Mono) {
        self.awaited.clear();
        self.unmet.retain(|_, seen| *seen > since);
        self.epoch += 1;
    }

    /// Since when the first member has been there without having been met.
    pub(crate) fn first_unmet(&self) -> Option<Mono> {
        self.unmet.values().min().copied()
    }

    /// Whether some remembered member is waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether anything may be handed out at all.
    pub(crate) fn may_serve_any(&self) -> bool {
        self.awaited.is_empty() && self.sessions.values().all(Session::is_marked)
    }

    /// Whether this node hands out what is held by this list, which is in the slot's order.
    ///
    /// It has the mark of every node in session; it has yielded to no earlier holder in session;
    /// every later holder in session has yielded to it; and no holder is yet to be met.
    pub(crate) fn may_serve(&self, holders: &[NodeId]) -> bool {
        let Some(own) = holders.iter().position(|node| *node == self.me) else { return false };
        self.may_serve_any()
            && holders.iter().enumerate().all(|(at, node)| match self.sessions.get(node) {
                Some(session) if at < own => !session.yielded,
                Some(session) => session.yielded_by,
                None => *node == self.me || !self.unmet.contains_key(node),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn met(me: NodeId, peers: &[NodeId]) -> Sessions {
        let mut sessions = Sessions::new(me, [], Disks::default());
        for peer in peers {
            sessions.start(LinkId(peer.0), *peer, 1);
            let session = sessions.with_mut(*peer).unwrap();
            (session.marked, session.inventoried) = (true, Inventoried::All);
        }
        sessions
    }

    #[test]
    fn the_first_holder_waits_for_the_yields_of_the_later_ones() {
        let mut sessions = met(A, &[B, C]);
        assert!(!sessions.may_serve(&[A, B, C]));
        sessions.with_mut(B).unwrap().yielded_by = true;
        assert!(!sessions.may_serve(&[A, B, C]));
        sessions.with_mut(C).unwrap().yielded_by = true;
        assert!(sessions.may_serve(&[A, B, C]));
    }

    #[test]
    fn a_later_holder_goes_on_until_it_has_yielded() {
        let mut sessions = met(B, &[A]);
        assert!(sessions.may_serve(&[A, B]));
        sessions.with_mut(A).unwrap().yielded = true;
        assert!(!sessions.may_serve(&[A, B]));
        assert!(!sessions.may_serve(&[B, A]), "on another list the other has to yield");
        sessions.end(LinkId(1));
        assert!(sessions.may_serve(&[A, B]));
    }

    #[test]
    fn what_was_handed_over_goes_on_at_the_later_holder_alone() {
        let lists: [&[NodeId]; 2] = [&[A, B, C], &[A, C, B]];
        let mut all = [met(A, &[B, C]), met(B, &[A, C]), met(C, &[A, B])];
        for peer in [B, C] {
            all[0].with_mut(peer).unwrap().yielded_by = true;
        }
        (all[1].with_mut(A).unwrap().yielded, all[2].with_mut(A).unwrap().yielded) = (true, true);
        (all[1].with_mut(C).unwrap().yielded, all[2].with_mut(B).unwrap().yielded) = (true, true);
        (all[1].with_mut(C).unwrap().yielded_by, all[2].with_mut(B).unwrap().yielded_by) =
            (true, true);
        let serve = |all: &[Sessions; 3], list: &[NodeId]| {
            all.each_ref().map(|sessions| sessions.may_serve(list))
        };
        assert_eq!(lists.map(|list| serve(&all, list)), [[true, false, false]; 2]);
        // To one of the two, and then to the other.
        all[0].with_mut(B).unwrap().yielded_by = false;
        all[1].with_mut(A).unwrap().yielded = false;
        assert_eq!(serve(&all, lists[0]), [false, true, false]);
        assert_eq!(serve(&all, lists[1]), [false; 3], "the one that goes on there is not told yet");
        all[0].with_mut(C).unwrap().yielded_by = false;
        all[2].with_mut(A).unwrap().yielded = false;
        assert_eq!(serve(&all, lists[0]), [false, true, false]);
        assert_eq!(serve(&all, lists[1]), [false, false, true]);
    }

    #[test]
    fn all_in_session_are_told_once_whether_this_node_is_fit() {
        let mut sessions = met(A, &[B]);
        assert_eq!(sessions.take_untold_fit(true), [], "that is what a session begins with");
        assert_eq!(sessions.take_untold_fit(false), [B]);
        assert_eq!(sessions.take_untold_fit(false), []);
        sessions.start(LinkId(3), C, 1);
        assert_eq!(sessions.take_untold_fit(false), [C]);
        assert_eq!(sessions.take_untold_fit(true), [B, C]);
    }

    #[test]
    fn nothing_is_handed_out_without_all_marks() {
        let mut sessions = met(B, &[A, C]);
        sessions.end(LinkId(1));
        assert!(!sessions.may_serve(&[A, B]), "a fresh mark of the others comes first");
        sessions.with_mut(C).unwrap().marked = true;
        assert!(sessions.may_serve(&[A, B]));
    }

    #[test]
    fn a_mark_counts_once_all_is_told_that_the_other_has() {
        let mut sessions = met(B, &[A]);
        sessions.with_mut(A).unwrap().inventoried = Inventoried::Coming(Span::all().after);
        assert!(!sessions.may_serve(&[A, B]), "P4: it may be told yet that something is gone");
    }

    #[test]
    fn a_holder_that_is_yet_to_be_met_counts_as_in_session() {
        let mut sessions = met(B, &[]);
        assert!(sessions.may_serve(&[A, B]));
        sessions.appeared(A, Mono(5));
        assert!(!sessions.may_serve(&[A, B]));
        sessions.vanished(A);
        assert!(sessions.may_serve(&[A, B]));
        sessions.appeared(A, Mono(6));
        sessions.stop_waiting(Mono(6));
        assert!(sessions.may_serve(&[A, B]));
    }

    #[test]
    fn who_was_away_waits_for_those_who_were_in_session_until_they_are_met_or_gone() {
        let mut sessions = met(A, &[B, C]);
        sessions.was_away(Mono(5));
        for peer in [B, C] {
            sessions.end(LinkId(peer.0));
        }
        assert!(!sessions.may_serve(&[A, B]), "P4: they went on meanwhile");
        assert!(sessions.may_serve(&[A]), "what nobody else has");
        assert_eq!(sessions.first_unmet(), Some(Mono(5)));
        sessions.vanished(B);
        assert!(sessions.may_serve(&[A, B]));
        assert!(!sessions.may_serve(&[A, C]));
        sessions.stop_waiting(Mono(5));
        assert!(sessions.may_serve(&[A, C]));
    }

    #[test]
    fn a_started_node_waits_for_those_it_remembers() {
        let mut sessions = Sessions::new(B, [A, B], Disks::default());
        assert!(!sessions.may_serve(&[B]));
        sessions.stop_waiting(Mono(1));
        assert!(sessions.may_serve(&[B]));
    }

    #[test]
    fn a_run_that_leaves_has_had_its_last_session() {
        let mut sessions = met(A, &[B]);
        assert_eq!(sessions.parted(B), None);
        sessions.disks = disks::tests::met(B, 1);
        sessions.part(LinkId(2));
        sessions.end(LinkId(2));
        assert_eq!(sessions.parted(B), Some(1));
        assert!(sessions.has_parted(B, 1, 1));
        assert!(!sessions.has_parted(B, 2, 1), "it started again");
        assert!(!sessions.has_parted(B, 1, 7), "on another disk runs are counted anew");
        sessions.vanished(B);
        assert_eq!(sessions.parted(B), None, "another run may have the same number");
    }
}
