//! Questions to other nodes: what they ask about, piece by piece, and what their answers end in.
//!
//! What stays open here for a second is asked about, what differs is, what was lost, and what is
//! sent again. A question names as many messages as there is room for, and so does its answer; who
//! asks goes on behind the place that the answer came to. A node has answered when nothing is left.
//!
//! Invariant: only who was asked about all has answered. What this file does not do: what answers
//! say is taken in by `inventory.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use gaggle_wire::{DeliveryLabel, MessageId, NodeId, Refusal, Response};

use super::Node;
use super::forgetting::Deleted;
use super::peeking::first_ones;
use super::removing::Dependence;
use super::sending::NewSend;
use super::status::Page;
use crate::calls::{Call, Parked, TableChange};
use crate::custody::burial::{Numbers, merge_numbers};
use crate::custody::part::Room;
use crate::effect::Effects;
use crate::envelope::{Envelope, LeaseChange, Lost};
use crate::event::Reply;
use crate::now::Now;
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::Stage;
use crate::timer::Timer;

/// Why other nodes were asked something.
#[derive(Debug)]
pub(super) enum Question {
    /// Does anybody know this queue?
    Queue(Box<Parked>),
    /// A table entry is to be on disk at several nodes.
    Table(Box<TableChange>),
    /// Are these ids known? Then they are sent.
    Resend(Box<NewSend>),
    /// Who has what stays open here?
    Open(PartitionId, Numbers),
    /// Does another holder have these, too?
    Compare(PartitionId, Numbers),
    /// Who has what was lost here?
    Lost { id: PartitionId, messages: Numbers, found: Numbers },
    /// Leases are to be changed at their custodian.
    Change { batch: u64, at: Vec<usize>, change: LeaseChange, results: Vec<Result<u64, Refusal>> },
    /// What is ready elsewhere?
    Peek { reply: Reply, max: u32, found: Vec<DeliveryLabel> },
    /// How are the others?
    Status { reply: Reply, page: Page },
    /// What depends on a node that is to be removed?
    Dependence(Dependence),
    /// Which deleted queues live with nobody any more?
    Deleted(Deleted),
}

/// In which words messages are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Who has them?
    Ask(Lost),
    /// Who has them and would give them?
    Fetch,
}

impl Question {
    /// The messages that it is about, if it is about any, and the words for it.
    pub(super) fn messages(&self) -> Option<(PartitionId, Numbers, Words)> {
        let (counts, lacks) = (Words::Ask(Lost::Counts), Words::Ask(Lost::Lacks));
        match self {
            Self::Open(id, numbers) => Some((*id, numbers.clone(), counts)),
            Self::Compare(id, numbers) => Some((*id, numbers.clone(), lacks)),
            Self::Resend(new) => Some((new.id, new.numbers(), counts)),
            Self::Lost { id, messages, .. } => Some((*id, messages.clone(), Words::Fetch)),
            Self::Queue(_)
            | Self::Table(_)
            | Self::Change { .. }
            | Self::Peek { .. }
            | Self::Status { .. }
            | Self::Dependence(_)
            | Self::Deleted(_) => None,
        }
    }
}

impl Node {
    /// Asks a node about as many of these messages as one question has room for.
    pub(super) fn ask_about(
        &self,
        node: NodeId,
        call: u64,
        (id, mut messages, words): (PartitionId, Numbers, Words),
        effects: &mut Effects,
    ) {
        Room::new(self.config.inventory_part).cut(&mut messages);
        let (queue, partition) = id;
        let question = match words {
            Words::Ask(lost) => Envelope::Ask { call, lost, queue, partition, messages },
            Words::Fetch => Envelope::Fetch { call, queue, partition, messages },
        };
        self.say(node, question, effects);
    }

    /// Asks the other holders about what has been open for some time.
    pub(super) fn ask_open(&mut self, now: Now, effects: &mut Effects) {
        let mut open: Vec<(PartitionId, Numbers, BTreeSet<NodeId>)> = Vec::new();
        let under_way = self.desk.calls.kinds(now.mono).filter_map(|kind| match kind {
            Question::Open(id, _) => Some(*id),
            _ => None,
        });
        let under_way: BTreeSet<PartitionId> = under_way.collect();
        for (id, partition) in &mut self.partitions {
            if under_way.contains(id) {
                continue;
            }
            let numbers = partition.known.open();
            if !numbers.is_empty() {
                let mut listed = partition.lists.listed();
                listed.retain(|node| self.sessions.with(*node).is_some());
                open.push((*id, numbers, listed));
            }
        }
        for (id, messages, nodes) in open {
            if nodes.is_empty() {
                self.asked_all(id, &messages);
                continue;
            }
            self.ask_these(now, nodes, (id, messages), effects);
        }
    }

    fn ask_these(
        &mut self,
        now: Now,
        nodes: BTreeSet<NodeId>,
        (id, messages): (PartitionId, Numbers),
        effects: &mut Effects,
    ) {
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Open(id, messages.clone());
        let call = self.desk.calls.start(nodes.iter().copied(), deadline, kind);
        for node in nodes {
            let asked = (id, messages.clone(), Words::Ask(Lost::Counts));
            self.ask_about(node, call, asked, effects);
        }
    }

    /// Who can be asked about messages under this list that one of its nodes gave.
    pub(super) fn others_to_ask<'a>(
        &'a self,
        giver: NodeId,
        holders: &'a [NodeId],
    ) -> impl Iterator<Item = NodeId> + 'a {
        let others = holders.iter().copied().filter(move |node| *node != giver);
        others.filter(|node| self.sessions.with(*node).is_some())
    }

    /// Another holder gave these: the others are asked about them at once, for what is given waits
    /// for their word (P4).
    pub(super) fn ask_given(
        &mut self,
        now: Now,
        giver: NodeId,
        (id, given): (PartitionId, &[MessageId]),
        effects: &mut Effects,
    ) {
        let Some(partition) = self.partitions.get(&id) else { return };
        let mut messages = Numbers::new();
        for MessageId { process, number } in given {
            if partition.known.is_given(*process, *number) {
                merge_numbers(&mut messages, &[(*process, Ranges::of(*number, *number))]);
            }
        }
        let listed: Vec<NodeId> = partition.lists.listed().into_iter().collect();
        let nodes: BTreeSet<NodeId> = self.others_to_ask(giver, &listed).collect();
        if !messages.is_empty() && !nodes.is_empty() {
            self.ask_these(now, nodes, (id, messages), effects);
        }
    }

    /// Everybody in session that should have these was asked for them.
    fn asked_all(&mut self, id: PartitionId, messages: &Numbers) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.known.told_all(messages);
            self.reconsider(id);
        }
    }

    /// Ends a call if nobody is waited for any more.
    pub(super) fn call_over(&mut self, now: Now, call: u64, effects: &mut Effects) {
        if let Some(call) = self.desk.calls.finish(call) {
            self.conclude(now, call, effects);
        }
    }

    /// Calls whose time is up are ended with what there is.
    pub(super) fn calls_overdue(&mut self, now: Now, effects: &mut Effects) {
        for call in self.desk.calls.overdue(now.mono) {
            self.conclude(now, call, effects);
        }
    }

    fn conclude(&mut self, now: Now, call: Call<Question>, effects: &mut Effects) {
        match call.kind {
            Question::Queue(parked) => self.request_again(now, *parked, effects),
            Question::Table(change) => {
                let (reply, response) = change.outcome(call.answered.len() + 1);
                effects.answer(reply, response);
            }
            Question::Resend(mut new) => {
                new.silent = call.waiting;
                self.send_on(now, *new, effects);
            }
            Question::Open(id, numbers) => {
                if call.waiting.is_empty() {
                    self.asked_all(id, &numbers);
                } else if let Some(partition) = self.partitions.get_mut(&id) {
                    partition.known.lacking_somewhere(&numbers);
                }
                self.drop_orphans(now, (id, numbers), &call.answered, effects);
            }
            Question::Lost { id, messages, found } => {
                self.lost_everywhere(id, (&messages, &found), &call.answered, effects);
            }
            Question::Compare(..) => {}
            Question::Change { batch, at, change, results } => {
                self.change_results(batch, &at, (change, results), effects);
            }
            Question::Peek { reply, max, mut found } => {
                first_ones(&mut found, max);
                effects.answer(reply, Response::Deliveries { deliveries: found });
            }
            Question::Deleted(deleted) => self.forget_deleted(deleted, &call.answered, effects),
            Question::Dependence(dependence) => {
                self.dependence_told(now, (dependence, call.answered.len()), effects);
            }
            Question::Status { reply, page } => {
                let status = self.status(now, page, &call.answered);
                effects.answer(reply, Response::Status(Box::new(status)));
            }
        }
    }

    /// Old copies that no other host has, although all that should have one were asked: they
    /// were never confirmed, and may have been deleted everywhere else. They go (P4), unless they
    /// were sent again meanwhile: then they count for that confirm (P1). A host that waits for one
    /// that is away may run on a disk that was put back, which that one would know: what it lacks
    /// others may have been counted with, so its word counts once it is fit, or is to leave (P1).
    fn drop_orphans(
        &mut self,
        now: Now,
        (id, numbers): (PartitionId, Numbers),
        answered: &BTreeSet<NodeId>,
        effects: &mut Effects,
    ) {
        let me = self.config.node;
        let rule = self.rule(now, id.0);
        let Some(partition) = self.partitions.get(&id) else { return };
        let is_believed = |node| {
            let fit = self.sessions.with(node).is_some_and(|session| session.fit);
            answered.contains(&node) && (fit || self.stage(node) == Stage::Leaves)
        };
        let listed = partition.lists.listed();
        if rule.lone || !listed.into_iter().all(|node| node == me || is_believed(node)) {
            return;
        }
        let mut orphans: Numbers = Vec::new();
        for (process, numbers) in numbers {
            let forlorn = partition.known.forlorn(process, &numbers);
            if !forlorn.is_empty() {
                orphans.push((process, forlorn));
            }
        }
        if !orphans.is_empty() {
            self.read_orphans(id, orphans, effects);
        }
    }
}

/// How long the other holders have to answer.
pub(super) const ASK_WITHIN: Duration = Duration::from_secs(1);
