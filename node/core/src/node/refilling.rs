//! Copies that were lost here: dropped, fetched from the other holders, or given up by all.
//!
//! A copy is lost when its row is damaged or has vanished. It is never handed out or given away;
//! its list is remembered, and whoever is on it is asked for a copy. When all of them have
//! answered twice and none had one, the message is lost: that is counted, and nobody looks for it
//! any more. A row whose content alone is damaged stays until then: a node that starts anew in
//! between must not deny that it had the message, or others would drop theirs (P1).

use std::collections::BTreeSet;
use std::time::Duration;

use gaggle_wire::{NodeId, Receipt};

use super::Node;
use super::asking::{Question, Words};
use super::inventory::Listed;
use super::loading::Load;
use crate::custody::burial::Numbers;
use crate::effect::Effects;
use crate::envelope::{Heard, Lost, PartitionInventory};
use crate::event::{Missed, Reply};
use crate::ledger::key::messages_between;
use crate::ledger::{MessageKey, MessageRecord, Row};
use crate::now::{Mono, Now};
use crate::queue::Told;
use crate::ranges::Ranges;
use crate::reception::WaiterId;
use crate::session::PartitionId;
use crate::timer::Timer;

impl Node {
    /// The content of a message could not be read back whole. That may be late word of a copy
    /// which is here again, so its row is read once more.
    pub(super) fn doubt(&mut self, key: MessageKey, missed: Option<Missed>, effects: &mut Effects) {
        if let Some(Missed { reply: Some(Reply { client, request, .. }), .. }) = missed {
            self.reception.missed(WaiterId { client, request }, key);
        }
        let missed = missed.map(|missed| missed.receipt);
        self.read_doubted(Doubt { key, missed, refills: self.desk.loads.refills }, effects);
    }

    fn read_doubted(&mut self, doubt: Doubt, effects: &mut Effects) {
        let row = messages_between(doubt.key, doubt.key);
        self.load(Load::Doubted(doubt), row, 1, effects);
    }

    /// The row of a message whose content could not be read. It may have been deleted meanwhile.
    pub(super) fn doubted_read(
        &mut self,
        now: Now,
        doubt: Doubt,
        (rows, damaged): (&[Row], &[MessageKey]),
        effects: &mut Effects,
    ) {
        let Doubt { key, missed, refills } = &doubt;
        let row = rows.first();
        if row.is_none() || damaged.contains(key) {
            if *refills != self.desk.loads.refills {
                // It may have been read before it was stored again.
                self.read_doubted(Doubt { refills: self.desk.loads.refills, ..doubt }, effects);
                return;
            }
            self.count_more("bodies_lost", row.map_or(0, |_| 1));
            let message = row.and_then(|row| MessageRecord::decode(key, &row.value).ok());
            let read = message.map(|message| message.label.number);
            match read.or_else(|| missed.as_ref().map(|receipt| receipt.number)) {
                // What is gone by now is not held, and so not lost.
                Some(number) => self.lose(*key, number),
                // Which one it was is found by the scrub.
                None => self.count_more("rows_damaged", row.map_or(0, |_| 1)),
            }
        }
        if let Some(receipt) = missed {
            self.given_back(now, (std::slice::from_ref(receipt), Heard::No), effects);
        }
    }

    /// The copy here is no copy any more. What is known of its deliveries stays: once it is here
    /// again, none of them may be repeated (F6).
    pub(super) fn lose(&mut self, key: MessageKey, number: u64) {
        let Some(partition) = self.partitions.get_mut(&(key.queue, key.partition)) else { return };
        let numbers = Ranges::of(number, number);
        if partition.known.lose(key.stamp.process, &numbers).is_empty() {
            return;
        }
        partition.window.remove(key.stamp);
        partition.fetch_at = Mono(0);
        self.count("copies_lost");
    }

    /// Asks the other holders for what was lost here.
    pub(super) fn fetch_lost(&mut self, now: Now, effects: &mut Effects) {
        let mut asks: Vec<(PartitionId, Numbers, BTreeSet<NodeId>)> = Vec::new();
        for (id, partition) in &mut self.partitions {
            if now.mono < partition.fetch_at || !partition.known.has_lost() {
                continue;
            }
            partition.fetch_at = now.mono.plus(FETCH_EVERY);
            let lost = partition.known.lost();
            let mut nodes = partition.lists.nodes_of(&lost);
            nodes.retain(|node| self.sessions.with(*node).is_some());
            asks.push((*id, lost, nodes));
        }
        for (id, messages, nodes) in asks {
            self.tell_lists(id, &messages, effects);
            let deadline = now.mono.plus(ANSWER_WITHIN);
            self.timers.at_latest(Timer::Deadlines, deadline);
            let kind = Question::Lost { id, messages: messages.clone(), found: Vec::new() };
            let call = self.desk.calls.start(nodes.iter().copied(), deadline, kind);
            for node in nodes {
                self.ask_about(node, call, (id, messages.clone(), Words::Fetch), effects);
            }
            self.call_over(now, call, effects);
        }
    }

    /// Another holder has lost its copies of these: it is told what is here, and given it. As it
    /// had them, they are at two hosts: else old ones would be doubtful here, and not be given.
    pub(super) fn fetched(
        &mut self,
        now: Now,
        peer: NodeId,
        (call, id, messages): (u64, PartitionId, &Numbers),
        effects: &mut Effects,
    ) {
        let told = self.asked(peer, call, (id, messages, Lost::Lacks), effects);
        let had = told.iter().map(|(process, had)| (*process, had.clone(), Ranges::default()));
        let processes = had.collect();
        let had = PartitionInventory { processes, ..PartitionInventory::nothing(id) };
        self.learn(now, peer, (&had, Listed::Settled), effects);
        self.give_lacking(peer, id, &PartitionInventory::nothing(id), &told);
        self.make_up(now, peer, effects);
    }

    /// Copies were stored, of which so many were lost and are here again. The rest is on its way:
    /// it is not asked for meanwhile.
    pub(super) fn refilled(&mut self, now: Now, id: PartitionId, copies: u64) {
        self.desk.loads.stored += 1;
        if let (Some(partition), 1..) = (self.partitions.get_mut(&id), copies) {
            partition.fetch_at = now.mono.plus(FETCH_EVERY);
            self.desk.loads.refills += 1;
            self.count_more("copies_refilled", copies);
        }
    }

    /// The other holders have answered, or had the time to. What nobody has any more is lost.
    pub(super) fn lost_everywhere(
        &mut self,
        id: PartitionId,
        (messages, found): (&Numbers, &Numbers),
        answered: &BTreeSet<NodeId>,
        effects: &mut Effects,
    ) {
        let me = self.config.node;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let mut given_up = 0;
        for (nodes, numbers) in partition.lists.told(Told::These(messages)) {
            if !nodes.iter().all(|node| *node == me || answered.contains(node)) {
                continue;
            }
            for (process, numbers) in numbers {
                let found = found.iter().find(|(of, _)| *of == process).map(|(_, found)| found);
                let nowhere = partition.known.sought_in_vain(process, (&numbers, found));
                given_up += nowhere.size();
                partition.drop_all(process, &nowhere);
            }
        }
        self.count_more("lost_everywhere", given_up);
        if given_up > 0 {
            self.sweep(id, effects);
        }
    }
}

/// A message whose content could not be read.
#[derive(Debug)]
pub(super) struct Doubt {
    key: MessageKey,
    /// The delivery that went without it.
    missed: Option<Receipt>,
    /// How often lost copies had come again when its row was asked for.
    refills: u64,
}

/// How long after the last copy came those who have what was lost here are asked again.
const FETCH_EVERY: Duration = Duration::from_secs(10);
/// How long they have to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
