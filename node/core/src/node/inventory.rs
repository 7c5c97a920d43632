//! What two hosts hold, compared: at the start of a session, and for what stays open.
//!
//! Each side says what it holds and what it knows to be gone, as ranges. What the other lacks and
//! should have is read from disk, page by page, and given to it; what both hold is settled; what
//! one knows to be gone is gone for both. The same comparison, for a few ids, is what a holder
//! asks for when its coordinator does not say that enough hosts have them.

use std::collections::BTreeSet;
use std::time::Duration;

use gaggle_wire::{Attempt, DeliveryLabel, NodeId, ProcessId, Refusal, Response};

use super::Node;
use super::deleting::NewTombstones;
use super::peeking::first_ones;
use super::refilling::nothing;
use super::removing::Dependence;
use super::sending::NewSend;
use super::status::Page;
use crate::calls::{Call, Parked, TableChange};
use crate::custody::burial::{Numbers, merge_numbers};
use crate::effect::Effects;
use crate::envelope::{CopyException, Envelope, LeaseChange, PartitionInventory};
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
    Compare(Numbers),
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
}

/// Of which messages that both have the other is told the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    /// Of those that are settled by it.
    Settled,
    /// Of all.
    All,
}

impl Node {
    /// Tells a node all that this one holds and knows to be gone.
    pub(super) fn send_inventory(&self, peer: NodeId, effects: &mut Effects) {
        let mut partitions = Vec::new();
        let mut ranges = 0;
        for (id, partition) in &self.partitions {
            if partition.known.is_empty() {
                continue;
            }
            let inventory = partition.known.inventory(*id, None);
            ranges += inventory.processes.iter().fold(1, |n, (_, h, g)| n + h.count() + g.count());
            partitions.push(inventory);
            if ranges > INVENTORY_RANGES {
                let partitions = std::mem::take(&mut partitions);
                ranges = 0;
                self.say(peer, Envelope::Inventory { call: 0, partitions, last: false }, effects);
            }
        }
        self.say(peer, Envelope::Inventory { call: 0, partitions, last: true }, effects);
    }

    /// A node asks which of these messages this one knows.
    pub(super) fn asked(
        &self,
        peer: NodeId,
        call: u64,
        (id, messages): (PartitionId, &[(ProcessId, Ranges)]),
        effects: &mut Effects,
    ) {
        let inventory = match self.partitions.get(&id) {
            Some(partition) => partition.known.inventory_with_lost(id, messages),
            None => nothing(id),
        };
        let partitions = vec![inventory];
        self.say(peer, Envelope::Inventory { call, partitions, last: true }, effects);
    }

    /// A node tells what it holds and knows to be gone.
    pub(super) fn inventory_came(
        &mut self,
        now: Now,
        peer: NodeId,
        (call, partitions, last): (u64, Vec<PartitionInventory>, bool),
        effects: &mut Effects,
    ) {
        if call != 0 {
            self.answer_came(now, peer, (call, partitions), effects);
            return;
        }
        for inventory in partitions {
            let id = (inventory.queue, inventory.partition);
            // Lists are told beside it, as both sides begin.
            self.learn(now, peer, (&inventory, Listed::Settled), effects);
            self.give_lacking(peer, id, &inventory, None);
            if let Some(session) = self.sessions.progress_mut(peer) {
                session.inventoried.insert(id);
            }
        }
        if last {
            self.inventory_ended(peer);
        }
        self.make_up(now, peer, effects);
    }

    /// All of a node's inventory is here: what it did not name, it does not have.
    fn inventory_ended(&mut self, peer: NodeId) {
        let Some(session) = self.sessions.progress_mut(peer) else { return };
        session.inventory_complete = true;
        let named = std::mem::take(&mut session.inventoried);
        let others: Vec<PartitionId> =
            self.partitions.keys().filter(|id| !named.contains(id)).copied().collect();
        for id in others {
            self.give_lacking(peer, id, &nothing(id), None);
        }
    }

    /// The answer to an `Ask`.
    fn answer_came(
        &mut self,
        now: Now,
        peer: NodeId,
        (call, partitions): (u64, Vec<PartitionInventory>),
        effects: &mut Effects,
    ) {
        let Some(asked) = self.desk.calls.answer(call, peer) else { return };
        let open = match &mut asked.kind {
            Question::Open(_, numbers) | Question::Compare(numbers) => Some(numbers.clone()),
            Question::Resend(new) => {
                let processes = partitions.iter().flat_map(|inventory| &inventory.processes);
                for (_, held, buried) in processes {
                    new.gone.merge(buried);
                    new.held.entry(peer).or_default().merge(held);
                }
                None
            }
            Question::Lost { found, .. } => {
                for (process, held, _) in partitions.iter().flat_map(|found| &found.processes) {
                    merge_numbers(found, &[(*process, held.clone())]);
                }
                None
            }
            _ => None,
        };
        for inventory in &partitions {
            self.learn(now, peer, (inventory, Listed::All), effects);
            if let Some(numbers) = &open {
                let id = (inventory.queue, inventory.partition);
                self.give_lacking(peer, id, inventory, Some(numbers));
            }
        }
        self.make_up(now, peer, effects);
        self.call_over(now, call, effects);
    }

    /// Takes in what another holder knows: what both hold is at two hosts; what it knows to be
    /// gone is gone.
    fn learn(
        &mut self,
        now: Now,
        peer: NodeId,
        (inventory, listed): (&PartitionInventory, Listed),
        effects: &mut Effects,
    ) {
        let id = (inventory.queue, inventory.partition);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let mut gone: Numbers = Vec::new();
        let (mut common, mut unsettled): (Numbers, bool) = (Vec::new(), false);
        for (process, theirs, buried) in &inventory.processes {
            let Some(known) = partition.known.of(*process) else { continue };
            let mut dead = known.held.intersection(buried);
            dead.merge(&known.lost.intersection(buried));
            if !dead.is_empty() {
                gone.push((*process, dead));
            }
            let both = known.unsettled.intersection(theirs);
            match listed {
                Listed::All => common.push((*process, known.held.intersection(theirs))),
                Listed::Settled => common.push((*process, both.clone())),
            }
            if !both.is_empty() {
                partition.known.settle(*process, &both);
                unsettled = true;
            }
        }
        if unsettled && partition.passed_over {
            partition.close_window();
            self.reception.touch(id.0);
        }
        // Nobody said that these copies are of one send, and so under one list.
        self.tell_lists(id, &common, effects);
        if !gone.is_empty() {
            let listed = [self.config.node, peer];
            let new = NewTombstones {
                id,
                holders: listed.into_iter().collect(),
                messages: gone,
                stamps: Vec::new(),
                leases: Vec::new(),
                known: vec![peer],
            };
            self.bury(now, new, effects);
        }
    }

    /// Notes what a host lacks that should have it and this node holds, of these ids or of all.
    pub(super) fn give_lacking(
        &mut self,
        peer: NodeId,
        id: PartitionId,
        inventory: &PartitionInventory,
        only: Option<&Numbers>,
    ) {
        let Some(partition) = self.partitions.get(&id) else { return };
        if self.table.live(id.0).is_none() || self.stage(peer) != Stage::Stays {
            return;
        }
        let mut lacking: Numbers = Vec::new();
        for (process, mut lacks) in partition.lists.held_for(peer) {
            let named = inventory.processes.iter().find(|(of, ..)| *of == process);
            if let Some(only) = only {
                let asked = only.iter().find(|(of, _)| *of == process);
                lacks = asked.map_or_else(Ranges::default, |(_, asked)| lacks.intersection(asked));
            }
            if let Some(known) = partition.known.of(process) {
                lacks.subtract(&known.lost);
            }
            if let Some((_, theirs, gone)) = named {
                lacks.subtract(theirs);
                lacks.subtract(gone);
            }
            if !lacks.is_empty() {
                lacking.push((process, lacks));
            }
        }
        if !lacking.is_empty()
            && let Some(session) = self.sessions.progress_mut(peer)
        {
            session.make_up.push_back((id, lacking));
        }
    }

    /// Goes on giving a node what it lacks, one read at a time.
    pub(super) fn make_up(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        let Some(session) = self.sessions.progress_mut(peer) else { return };
        if session.make_up_pending == 0
            && let Some((id, lacking)) = session.make_up.pop_front()
        {
            session.make_up_pending += 1;
            self.read_lacking(peer, (id, lacking), None, effects);
        }
        self.pass_custody(now, peer, effects);
    }

    /// A node has the made-up copies on disk (or knows better).
    pub(super) fn made_up(
        &mut self,
        now: Now,
        peer: NodeId,
        exceptions: &[(u32, CopyException)],
        effects: &mut Effects,
    ) {
        self.count_more("make_up_exceptions", exceptions.len() as u64);
        if let Some(session) = self.sessions.progress_mut(peer) {
            session.make_up_pending = session.make_up_pending.saturating_sub(1);
        }
        self.make_up(now, peer, effects);
    }

    /// Asks the other holders about what has been open for some time.
    pub(super) fn ask_open(&mut self, now: Now, effects: &mut Effects) {
        let mut open: Vec<(PartitionId, Numbers, BTreeSet<NodeId>)> = Vec::new();
        for (id, partition) in &mut self.partitions {
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
            let deadline = now.mono.plus(ASK_WITHIN);
            self.timers.at_latest(Timer::Deadlines, deadline);
            let kind = Question::Open(id, messages.clone());
            let call = self.desk.calls.start(nodes.iter().copied(), deadline, kind);
            for node in nodes {
                let (attempt, queue, partition) = (Attempt::First, id.0, id.1);
                let messages = messages.clone();
                let ask = Envelope::Ask { call, attempt, queue, partition, messages };
                self.say(node, ask, effects);
            }
        }
    }

    /// Everybody in session that should have these was asked for them.
    fn asked_all(&mut self, id: PartitionId, messages: &Numbers) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.known.told_all(messages);
        if partition.passed_over {
            partition.close_window();
            self.reception.touch(id.0);
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
            Question::Resend(new) => self.send_on(now, *new, effects),
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
            Question::Compare(_) => {}
            Question::Change { batch, at, change, results } => {
                self.change_results(batch, &at, (change, results), effects);
            }
            Question::Peek { reply, max, mut found } => {
                first_ones(&mut found, max);
                effects.answer(reply, Response::Deliveries { deliveries: found });
            }
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
    /// were sent again meanwhile: then they count for that confirm (P1).
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
        let all =
            partition.lists.listed().into_iter().all(|node| node == me || answered.contains(&node));
        if rule.lone || !all {
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

/// Ranges of one envelope: below a frame by far.
const INVENTORY_RANGES: usize = 20_000;
/// How long the other holders have to answer.
const ASK_WITHIN: Duration = Duration::from_secs(1);
