//! Members that are removed from the cluster, as its other nodes do it.
//!
//! A removal is asked for again and again until it is done. First the node *leaves*: all members
//! know it, nothing new is placed there, and who hands out what it holds makes up for it. Then it
//! is asked how many messages still depend on it; once there are none, it is *removed*. A node that
//! is away can only be removed if what nobody else is known to hold may be lost: then the others
//! are asked whether they have made up for it as far as they can.
//!
//! Who was removed counts as no member: no session begins with it, nobody waits for it, and holder
//! lists are read as if it were not in them. The same node may join again with another disk, and is
//! a new host then. What this file does not do: what a node does that leaves itself is in
//! `leaving.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use gaggle_wire::{Loss, NodeId, Refusal, Response};

use super::Node;
use super::asking::Question;
use super::tables::TableNews;
use crate::calls::TableChange;
use crate::effect::{Effect, Effects};
use crate::envelope::Envelope;
use crate::event::{LinkId, Reply};
use crate::ledger::{Key, Write, record};
use crate::membership::Member;
use crate::now::Now;
use crate::queue::Told;
use crate::ranges::Ranges;
use crate::table::{Removal, Stage};
use crate::timer::Timer;

/// A removal that waits for word of what depends on the node.
#[derive(Debug)]
pub(super) struct Dependence {
    pub(super) reply: Reply,
    pub(super) node: NodeId,
    pub(super) store: u128,
    /// How many messages do.
    pub(super) messages: u64,
    /// How many nodes were asked.
    pub(super) asked: usize,
}

impl Node {
    /// How far the removal of a node with the disk that it was met with last is.
    pub(super) fn stage(&self, node: NodeId) -> Stage {
        let removals = self.table.removals();
        if removals.len() == 0 {
            return Stage::Stays;
        }
        if node == self.config.node {
            return removals.stage(node, self.run.store);
        }
        match self.sessions.disks.store(node) {
            Some(store) => removals.stage(node, store),
            None if removals.removed_with(node).next().is_some() => Stage::Removed,
            None => Stage::Stays,
        }
    }

    /// Who was removed, and is not back with another disk.
    pub(super) fn removed(&self) -> BTreeSet<NodeId> {
        let named = self.table.removals().iter().map(|removal| removal.node);
        named.filter(|node| self.stage(*node) == Stage::Removed).collect()
    }

    /// All members, down or not. Who was met is one before gossip knows of it: a node that joins
    /// is in session with the others first, and what it is asked for then concerns them.
    pub(super) fn members(&self) -> impl Iterator<Item = NodeId> {
        let view = self.membership.view();
        let met = self.sessions.disks.nodes().filter(|node| view.member(*node).is_none());
        let members = view.iter().map(|(node, _)| node).chain(met);
        members.filter(|node| self.stage(*node) != Stage::Removed)
    }

    /// The members that gossip knows of, and how they look from here.
    pub(super) fn in_view(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        let members = self.membership.view().iter();
        members.filter(|(node, _)| self.stage(*node) != Stage::Removed)
    }

    /// Whether a node is a member.
    pub(super) fn is_member(&self, node: NodeId) -> bool {
        let known = self.membership.view().member(node).is_some()
            || self.sessions.disks.store(node).is_some();
        known && self.stage(node) != Stage::Removed
    }

    pub(super) fn removal_requested(
        &mut self,
        now: Now,
        reply: Reply,
        (node, loss): (NodeId, Loss),
        effects: &mut Effects,
    ) {
        let begun = match self.may_remove(node, loss) {
            Ok(Some(begun)) => begun,
            Ok(None) => return effects.answer(reply, Response::Done),
            Err(refusal) => return effects.answer(reply, Response::Refused(refusal)),
        };
        if begun.stage != Stage::Leaves {
            let answer = (reply, Response::Leaving { left: None });
            return self.change_removal(now, answer, (begun, Stage::Leaves), effects);
        }
        let asked = match loss {
            Loss::Refused => self.others_than(self.config.node),
            Loss::Accepted => self.others_than(node),
        };
        let (messages, asked_count) = (self.depending_on(node), asked.len());
        let dependence =
            Dependence { reply, node, store: begun.store, messages, asked: asked_count };
        self.ask_dependence(now, asked, dependence, effects);
    }

    pub(super) fn keep_requested(
        &mut self,
        now: Now,
        reply: Reply,
        node: NodeId,
        effects: &mut Effects,
    ) {
        if !self.is_member(node) {
            return effects.answer(reply, Response::Refused(Refusal::NodeNotFound { node }));
        }
        let Some(store) = self.store_of(node) else {
            return effects.answer(reply, Response::Refused(Refusal::NotReady));
        };
        // This node may not have heard yet that it leaves: it is said in any case.
        let (stage, changed) = (Stage::Stays, gaggle_wire::Stamp::ZERO);
        let known = self.table.removals().of(node, store).copied();
        let removal = known.unwrap_or(Removal { node, store, stage, changed });
        self.change_removal(now, (reply, Response::Done), (removal, Stage::Stays), effects);
    }

    /// What is known of the removal of a node that may go on; nothing if it is done.
    fn may_remove(&self, node: NodeId, loss: Loss) -> Result<Option<Removal>, Refusal> {
        if self.stage(node) == Stage::Removed {
            return Ok(None);
        }
        if !self.is_member(node) {
            return Err(Refusal::NodeNotFound { node });
        }
        if node == self.config.node {
            // It has to be told of it, and others have to know.
            return Err(Refusal::Draining);
        }
        let away = self.members().find(|node| !self.sessions.reaches(*node));
        if let (Some(node), Loss::Refused) = (away, loss) {
            return Err(Refusal::NodeAway { node });
        }
        let stay = |other: &NodeId| *other != node && self.stage(*other) == Stage::Stays;
        let staying = self.members().filter(stay).count();
        let queues = self.table.page("", None).map(|entry| entry.settings().confirms);
        let wanted = if loss == Loss::Accepted { 1 } else { queues.max().unwrap_or(1) };
        if staying < usize::from(wanted) {
            let reachable = u8::try_from(staying).unwrap_or(u8::MAX);
            return Err(Refusal::NotEnoughHosts { wanted, reachable });
        }
        let Some(store) = self.store_of(node) else {
            let why = format!("this node has never met node {node}: ask another one");
            return Err(Refusal::BadRequest { why });
        };
        let removals = self.table.removals();
        if let Some(removal) = removals.of(node, store) {
            return Ok(Some(*removal));
        }
        if removals.len() >= REMOVALS_MAX {
            let (what, limit) = ("removals of nodes".to_owned(), REMOVALS_MAX as u64);
            return Err(Refusal::LimitReached { what, limit });
        }
        let changed = gaggle_wire::Stamp::ZERO;
        Ok(Some(Removal { node, store, stage: Stage::Stays, changed }))
    }

    fn store_of(&self, node: NodeId) -> Option<u128> {
        if node == self.config.node {
            Some(self.run.store)
        } else {
            self.sessions.disks.store(node)
        }
    }

    /// The nodes in session, but for this one.
    fn others_than(&self, node: NodeId) -> Vec<NodeId> {
        self.sessions.iter().map(|(other, _)| other).filter(|other| *other != node).collect()
    }

    /// Changes how far a removal is, and answers once all who are told have it on disk.
    fn change_removal(
        &mut self,
        now: Now,
        (reply, response): (Reply, Response),
        (removal, stage): (Removal, Stage),
        effects: &mut Effects,
    ) {
        let peers = match stage {
            // It ends when it hears of it.
            Stage::Removed => self.others_than(removal.node),
            Stage::Stays | Stage::Leaves => self.others_than(self.config.node),
        };
        let confirms = u8::try_from(peers.len() + 1).unwrap_or(u8::MAX);
        let stamp = self.stamp(now, effects);
        let changed = crate::table::above(removal.changed, stamp);
        let removals = vec![Removal { stage, changed, ..removal }];
        let change = TableChange { reply, response, confirms };
        let news = TableNews { entries: Vec::new(), removals };
        self.spread_change(now, (peers, change), news, effects);
    }

    /// Asks nodes how many messages depend on one that leaves.
    fn ask_dependence(
        &mut self,
        now: Now,
        asked: Vec<NodeId>,
        dependence: Dependence,
        effects: &mut Effects,
    ) {
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let node = dependence.node;
        let kind = Question::Dependence(dependence);
        let call = self.desk.calls.start(asked.iter().copied(), deadline, kind);
        for other in asked {
            self.say(other, Envelope::AskDependence { call, node }, effects);
        }
        self.call_over(now, call, effects);
    }

    /// A node asks how many messages depend on one that leaves.
    pub(super) fn dependence_asked(
        &self,
        peer: NodeId,
        (call, node): (u64, NodeId),
        effects: &mut Effects,
    ) {
        let messages = if node == self.config.node { self.left() } else { self.depending_on(node) };
        self.say(peer, Envelope::Dependence { call, messages }, effects);
    }

    /// Messages in this node's custody that another host can and has yet to be given, because one
    /// of theirs leaves; and those that are lost here and that one may still have.
    fn depending_on(&self, node: NodeId) -> u64 {
        let leaving = self.leaving().collect();
        let mut messages = u64::from(self.replacing.is_moving());
        for (id, partition) in &self.partitions {
            let lost = partition.known.lost();
            for (_, numbers) in
                partition.lists.told(Told::These(&lost)).iter().filter(|(n, _)| n.contains(&node))
            {
                messages += numbers.iter().map(|(_, numbers)| numbers.size()).sum::<u64>();
            }
            for (nodes, held) in partition.lists.served().filter(|(n, _)| n.contains(&node)) {
                if self.one_more(*id, nodes, &leaving).is_some() {
                    messages += held.values().map(Ranges::size).sum::<u64>();
                }
            }
        }
        messages
    }

    /// Members that leave, this node maybe among them.
    pub(super) fn leaving(&self) -> impl Iterator<Item = NodeId> {
        self.members().filter(|node| self.stage(*node) == Stage::Leaves)
    }

    /// All who were asked have said what depends on a node, or had the time to.
    pub(super) fn dependence_told(
        &mut self,
        now: Now,
        (dependence, answered): (Dependence, usize),
        effects: &mut Effects,
    ) {
        let Dependence { reply, node, store, messages, asked } = dependence;
        // Of one whose session has ended meanwhile nobody knows.
        let all = answered == asked;
        let removal = self.table.removals().of(node, store).copied();
        let leaves = removal.filter(|removal| removal.stage == Stage::Leaves);
        match leaves {
            Some(removal) if all && messages == 0 => {
                let done = (reply, Response::Done);
                self.change_removal(now, done, (removal, Stage::Removed), effects);
            }
            _ => {
                let left = all.then_some(messages);
                effects.answer(reply, Response::Leaving { left });
            }
        }
    }

    /// Takes in how far removals are, and does what follows; those that are news.
    pub(super) fn take_in_removals(
        &mut self,
        removals: &[Removal],
        effects: &mut Effects,
    ) -> Vec<Removal> {
        let mut changed = Vec::new();
        for removal in removals {
            let Some(merged) = self.table.merge_removal(removal) else { continue };
            let key = Key::Removal(merged.node, merged.store).encode();
            effects.write(Write::Put { key, value: record::encode(&merged) });
            changed.push(merged);
        }
        changed
    }

    /// Does what follows from how far removals are now. After it this node may be none any more.
    pub(super) fn removals_changed(
        &mut self,
        now: Now,
        changed: &[Removal],
        effects: &mut Effects,
    ) {
        for removal in changed {
            if removal.node == self.config.node && removal.store == self.run.store {
                self.own_removal(now, removal.stage, effects);
            } else if self.stage(removal.node) == Stage::Removed {
                self.strike(now, removal.node, effects);
            }
        }
    }

    /// Goes on without a node that was removed.
    fn strike(&mut self, now: Now, node: NodeId, effects: &mut Effects) {
        self.count("nodes_removed");
        effects.write(Write::Delete { key: Key::Member(node).encode() });
        self.run.members_written.remove(&node);
        // Its connection is left to it: it still has to hear why.
        if let Some(link) = self.sessions.with(node).map(|session| session.link) {
            self.session_ended(now, link, effects);
        }
        self.sessions.forget(node);
        self.forget_disk(node);
        self.trust_copies(node, effects);
        let mut out = Vec::new();
        self.membership.remove(node, &mut out);
        self.membership_said(now, out, effects);
        self.view_changed(now, effects);
    }

    /// Who was removed with this disk is told so, and that is all it hears.
    pub(super) fn turn_away(
        &mut self,
        (node, store): (NodeId, u128),
        link: LinkId,
        effects: &mut Effects,
    ) {
        self.count("removed_turned_away");
        let removals = self.table.removals().of(node, store).copied().into_iter().collect();
        let told = Envelope::Table { call: 0, entries: Vec::new(), removals };
        effects.push(Effect::SendNow { link, envelope: told });
    }
}

/// Removals that are remembered, at most: more disks than a cluster has in its life.
const REMOVALS_MAX: usize = 10_000;
/// How long nodes have to say what depends on one that leaves.
const ASK_WITHIN: Duration = Duration::from_secs(2);
