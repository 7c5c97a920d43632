//! Deletes at their coordinator, tombstones at every holder.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{DeleteResult, NodeId, ProcessId, Receipt, Refusal, Response, Stamp};

use super::Node;
use super::copies::{Rows, lists_of};
use super::ticks::PUSH_AFTER;
use crate::calls::Batch;
use crate::custody::burial::{
    Block, BlockRecord, Joined, NewBurying, Numbers, Standing, Told, merge_numbers,
};
use crate::effect::Effects;
use crate::envelope::{DeliveryRef, Envelope};
use crate::event::Reply;
use crate::ledger::{Key, MessageKey, Write, record};
use crate::now::Now;
use crate::queue::{Lease, Partition};
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::{Stage, rendezvous};
use crate::timer::Timer;

/// Receipts of one partition and list.
#[derive(Debug, Default)]
pub(super) struct Group {
    at: Vec<usize>,
    pub(super) messages: Numbers,
    pub(super) stamps: Vec<Stamp>,
    leases: Vec<DeliveryRef>,
}

/// Tombstones to be taken in.
#[derive(Debug)]
pub(super) struct NewTombstones {
    pub(super) id: PartitionId,
    pub(super) holders: Vec<NodeId>,
    pub(super) messages: Numbers,
    pub(super) stamps: Vec<Stamp>,
    pub(super) leases: Vec<DeliveryRef>,
    pub(super) known: Vec<NodeId>,
}

impl Node {
    pub(super) fn delete_requested(
        &mut self,
        now: Now,
        reply: Reply,
        receipts: &[Receipt],
        effects: &mut Effects,
    ) {
        if self.is_told() {
            effects.answer(reply, Response::Refused(Refusal::Draining));
            return;
        }
        let call = self.desk.batch_number();
        let mut batch = Batch::new(reply, receipts.len());
        let mut groups: BTreeMap<(PartitionId, Vec<NodeId>), Group> = BTreeMap::new();
        for (at, receipt) in receipts.iter().enumerate() {
            let id = (receipt.queue, receipt.partition);
            match self.table.entry(receipt.queue) {
                Some(entry) if entry.is_deleted() => batch.set(at, DeleteResult::Deleted),
                Some(entry) if receipt.partition < entry.settings().partitions => {
                    match self.holders_of(receipt) {
                        Some(holders) => {
                            groups.entry((id, holders)).or_default().add(at, receipt);
                        }
                        None => batch.set(at, DeleteResult::Refused(Refusal::NotReady)),
                    }
                }
                Some(_) => {
                    let why = "the queue has no such partition".to_owned();
                    let refusal = Refusal::BadRequest { why };
                    batch.set(at, DeleteResult::Refused(refusal));
                }
                // This node may have come just now; another one knows.
                None => batch.set(at, DeleteResult::Refused(Refusal::NotReady)),
            }
        }
        self.desk.deletes.insert(call, batch);
        for ((id, holders), group) in groups {
            self.delete_group(now, call, (id, holders, group), effects);
        }
        self.delete_answer(call, effects);
    }

    /// The holders that a receipt names. What only those should have who were removed since is at
    /// another host, whose name nobody that is named knows any more: then all members are told. Who
    /// was removed and is a member again has another disk.
    ///
    /// Nothing if it names only nodes of which this one has not heard yet: then it has come just
    /// now, and its tombstone would find its way to nobody.
    fn holders_of(&self, receipt: &Receipt) -> Option<Vec<NodeId>> {
        let id = (receipt.queue, receipt.partition);
        let removals = self.table.removals();
        let removed = |node: &NodeId| removals.removed_with(*node).next().is_some();
        let mut holders: Vec<NodeId> = receipt.holders.clone();
        if !holders.is_empty() && holders.iter().all(removed) {
            holders.extend(self.members());
        }
        holders.retain(|node| self.may_hold(id, *node));
        if holders.is_empty() && receipt.holders.iter().any(|n| self.stage(*n) != Stage::Removed) {
            return None;
        }
        rendezvous::order(rendezvous::Slot::of(id.0, id.1), &mut holders);
        holders.dedup();
        Some(holders)
    }

    pub(super) fn delete_group(
        &mut self,
        now: Now,
        call: u64,
        (id, mut holders, group): (PartitionId, Vec<NodeId>, Group),
        effects: &mut Effects,
    ) {
        self.add_listed(id, &mut holders, &group.messages);
        let me = self.config.node;
        let confirms = self.table.live(id.0).map_or(1, |entry| {
            let settings = entry.settings();
            let reachable = holders.iter().filter(|node| self.sessions.reaches(**node)).count();
            if reachable < usize::from(settings.confirms) {
                settings.at_least
            } else {
                settings.confirms
            }
        });
        let in_session: Vec<NodeId> =
            holders.iter().copied().filter(|node| self.sessions.with(*node).is_some()).collect();
        let keeps = holders.contains(&me) || in_session.len() < usize::from(confirms);
        let batch = self.burials.batch();
        let Group { at, messages, stamps, leases } = group;
        let told = Told { partition: id, holders, messages, stamps, leases };
        self.tell_delete(batch, &told, &in_session, effects);
        let (mut blocks, mut older) = (Vec::new(), Vec::new());
        if keeps {
            let Told { partition: id, holders, messages, stamps, leases } = told.clone();
            let new = NewTombstones { id, holders, messages, stamps, leases, known: vec![me] };
            (blocks, older) = self.bury(now, new, effects);
        }
        let deadline = now.mono.plus(DELETE_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let (call, here) = (Some(call), keeps.then_some(me));
        let new = NewBurying { call, at, told, blocks, here, confirms, deadline };
        self.burials.start(batch, in_session, new);
        self.burials.note_older(batch, &older);
        self.judge_delete(now, batch, effects);
    }

    /// Tells holders in session of a delete.
    fn tell_delete(&self, batch: u64, told: &Told, nodes: &[NodeId], effects: &mut Effects) {
        let (queue, partition) = told.partition;
        for session in nodes.iter().filter_map(|node| self.sessions.with(*node)) {
            let envelope = Envelope::Tombstones {
                batch,
                queue,
                partition,
                holders: told.holders.clone(),
                messages: told.messages.clone(),
                stamps: told.stamps.clone(),
                leases: told.leases.clone(),
                // This leaves before it is on disk here: this node is not to be named.
                known: Vec::new(),
            };
            effects.send_now(session.link, envelope);
        }
    }

    /// A node names holders of messages, before it says that it has the tombstones of those of them
    /// that are being deleted: who has not been told of these is told as well.
    pub(super) fn further_listed(
        &mut self,
        peer: NodeId,
        id: PartitionId,
        list: (&[NodeId], &Numbers),
        effects: &mut Effects,
    ) {
        for (batch, mut further) in self.burials.further(peer, id, list) {
            further.remove(&self.config.node);
            let reached = further.iter().filter(|node| self.sessions.with(**node).is_some());
            let reached: Vec<NodeId> = reached.copied().collect();
            if let Some(told) = self.burials.tell_further(batch, &further, &reached) {
                self.tell_delete(batch, &told, &reached, effects);
            }
        }
    }

    /// Whether a node that a client names may be a holder: as a member, or by a list here, whose
    /// nodes somebody has met, be they away since before this node was started.
    fn may_hold(&self, id: PartitionId, node: NodeId) -> bool {
        let lists = || self.partitions.get(&id).map(|partition| partition.lists.listed());
        let listed = || lists().is_some_and(|listed| listed.contains(&node));
        self.is_member(node) || (self.stage(node) != Stage::Removed && listed())
    }

    /// A list that grew after the delivery names more nodes than the receipt.
    fn add_listed(&self, id: PartitionId, holders: &mut Vec<NodeId>, messages: &Numbers) {
        let Some(partition) = self.partitions.get(&id) else { return };
        if partition.lists.are_many() {
            let listed = partition.lists.nodes_of(messages).into_iter();
            holders.extend(listed.filter(|node| self.stage(*node) != Stage::Removed));
            rendezvous::order(rendezvous::Slot::of(id.0, id.1), holders);
            holders.dedup();
        }
    }

    pub(super) fn buried(
        &mut self,
        now: Now,
        peer: NodeId,
        (batch, older): (u64, &[u32]),
        effects: &mut Effects,
    ) {
        self.burials.note_older(batch, older);
        if self.burials.buried_by(peer, batch).is_some() {
            self.judge_delete(now, batch, effects);
        }
    }

    /// The coordinator of deletes tells who has them. Whom it could not reach, perhaps the
    /// custodian, this node may, and passes them on at once.
    pub(super) fn buried_at(
        &mut self,
        now: Now,
        peer: NodeId,
        batches: &[(u64, Vec<NodeId>)],
        effects: &mut Effects,
    ) {
        let reached = |node| self.sessions.with(node).is_some();
        let lacking = self.burials.learn(peer, batches, reached);
        for node in &lacking {
            self.push_tombstones(now, *node, PUSH_AFTER, effects);
        }
        if !lacking.is_empty() {
            self.burials.hurried(now.mono);
        }
    }

    fn judge_delete(&mut self, now: Now, batch: u64, effects: &mut Effects) {
        if !matches!(self.burials.standing(batch), None | Some(Standing::Waiting)) {
            self.delete_over(now, batch, effects);
        }
    }

    /// Nobody is waited for any more: a delete is done, or its outcome unknown.
    pub(super) fn delete_over(&mut self, now: Now, batch: u64, effects: &mut Effects) {
        let standing = self.burials.standing(batch);
        let Some(burying) = self.burials.finish(batch) else { return };
        self.timers.at_latest(Timer::Bulk, now.mono.plus(BULK_AFTER));
        let Some(call) = burying.call else { return };
        if let Some(batch) = self.desk.deletes.get_mut(&call) {
            for at in burying.at {
                let result = match standing {
                    Some(Standing::Done) if burying.older.contains(&at) => {
                        DeleteResult::DeletedByOlderReceipt
                    }
                    Some(Standing::Done) => DeleteResult::Deleted,
                    _ => DeleteResult::Refused(Refusal::OutcomeUnknown),
                };
                batch.set(at, result);
            }
        }
        self.delete_answer(call, effects);
        self.drained(now, effects);
    }

    fn delete_answer(&mut self, call: u64, effects: &mut Effects) {
        let Some(batch) = self.desk.deletes.get_mut(&call) else { return };
        if let Some(results) = batch.take() {
            effects.answer(batch.reply, Response::Deleted(results));
            self.desk.deletes.remove(&call);
        }
    }

    pub(super) fn deletes_overdue(&mut self, now: Now, effects: &mut Effects) {
        for batch in self.burials.overdue(now.mono) {
            self.delete_over(now, batch, effects);
        }
    }

    pub(super) fn tombstones_came(
        &mut self,
        now: Now,
        peer: NodeId,
        (batch, new): (u64, NewTombstones),
        effects: &mut Effects,
    ) {
        let known_queue = self.table.entry(new.id.0).is_none_or(|entry| !entry.is_deleted());
        let mut older = Vec::new();
        if known_queue {
            let (id, named) = (new.id, new.holders.clone());
            let (blocks, later) = self.bury(now, new, effects);
            older = later;
            for BlockRecord { holders, messages, .. } in self.burials.longer(&blocks, &named) {
                let stays = |node: &NodeId| self.stage(*node) != Stage::Removed;
                let holders = holders.iter().copied().filter(stays).collect();
                self.say(peer, lists_of(id, (holders, messages.clone())), effects);
            }
            if !blocks.is_empty() {
                self.burials.told_by(peer, batch, blocks);
            }
        }
        let commits = self.run.commits.claim();
        self.say(peer, Envelope::Buried { batch, older, commits }, effects);
    }

    /// Takes tombstones in: their messages are gone here from now on. The blocks that they cover;
    /// and the stamps, by position, that are in flight by a later delivery.
    pub(super) fn bury(
        &mut self,
        now: Now,
        new: NewTombstones,
        effects: &mut Effects,
    ) -> (Vec<u64>, Vec<u32>) {
        let NewTombstones { id, mut holders, messages, stamps, leases, known } = new;
        let known: BTreeSet<NodeId> = known.into_iter().chain([self.config.node]).collect();
        let partition = self.partitions.entry(id).or_insert_with(|| Partition::new(id));
        // A list that grew after the delivery names more nodes than the receipt.
        holders.extend(partition.lists.nodes_of(&messages));
        holders.sort_unstable();
        holders.dedup();
        let (mut fresh, mut old): (Numbers, Numbers) = (Vec::new(), Vec::new());
        let (mut held, mut rows) = (0, Rows::Message);
        for (process, numbers) in &messages {
            let gone = partition.known.of(*process).map(|of| numbers.intersection(&of.gone));
            let gone = gone.unwrap_or_default();
            // What is gone already may lie there with its count until a sweep finds it.
            if partition.known.is_counted(*process, numbers) || !gone.is_empty() {
                rows = Rows::WithCount;
            }
            let rest = numbers.without(&gone);
            held += partition.bury(*process, numbers);
            if !rest.is_empty() {
                fresh.push((*process, rest));
            }
            if !gone.is_empty() {
                old.push((*process, gone));
            }
        }
        if partition.is_strict() {
            // What was behind them may be next.
            self.reception.touch(id.0);
        }
        let mut older = Vec::new();
        for (at, stamp) in stamps.iter().enumerate() {
            if let (Some(flight), Some(of)) = (partition.flights.with(*stamp), leases.get(at))
                && flight.lease.delivery > of.delivery
            {
                older.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
            partition.remove(*stamp);
            if held > 0 {
                let key = MessageKey { queue: id.0, partition: id.1, stamp: *stamp };
                Self::remove_rows(key, rows, effects);
            }
        }
        // With stamps come only the ids of those stamps: all rows are found.
        if stamps.is_empty() && held > 0 {
            partition.window.drop_gone(&partition.known);
            self.sweep(id, effects);
        }
        self.reception.touch(id.0);
        rendezvous::order(rendezvous::Slot::of(id.0, id.1), &mut holders);
        let mut blocks = Vec::new();
        if !old.is_empty() {
            blocks = self.merge_tombstones(id, &messages, (&holders, &known), effects);
        }
        if !fresh.is_empty() {
            blocks.push(self.add_block(now, id, (fresh, holders, known), effects));
        }
        (blocks, older)
    }

    /// More is known of messages that are gone; the blocks that are covered whole.
    pub(super) fn merge_tombstones(
        &mut self,
        id: PartitionId,
        messages: &[(ProcessId, Ranges)],
        (holders, known): (&[NodeId], &BTreeSet<NodeId>),
        effects: &mut Effects,
    ) -> Vec<u64> {
        let (covered, changed) = self.burials.merge(id, messages, (holders, known));
        for (block, record) in changed {
            let key = Key::Tombstones(id.0, id.1, block).encode();
            effects.write(Write::Put { key, value: record::encode(&record) });
        }
        covered
    }

    fn add_block(
        &mut self,
        now: Now,
        id: PartitionId,
        (messages, holders, known): (Numbers, Vec<NodeId>, BTreeSet<NodeId>),
        effects: &mut Effects,
    ) -> u64 {
        let live = self.table.live(id.0);
        let retention =
            live.map_or(gaggle_wire::RETENTION_MAX_MS, |entry| entry.settings().retention_ms);
        let wall_ms = now.wall.0 / 1_000_000;
        let expires_ms = wall_ms.saturating_add(retention).saturating_add(EXPIRY_SLACK_MS);
        let record = BlockRecord { messages, holders, expires_ms };
        let value = record::encode(&record);
        let block = self.burials.add(id, record, known, now.mono);
        effects.write(Write::Put { key: Key::Tombstones(id.0, id.1, block).encode(), value });
        block
    }

    /// Makes one block of tombstones of those that have the same to say.
    pub(super) fn join_tombstones(&mut self, now: Now, effects: &mut Effects) {
        for Joined { partition: id, block, record, gone } in self.burials.join(now.mono) {
            let key = |block| Key::Tombstones(id.0, id.1, block).encode();
            effects.write(Write::Put { key: key(block), value: record::encode(&record) });
            for part in gone {
                effects.write(Write::Delete { key: key(part) });
            }
        }
    }

    /// Drops the tombstones that have done their duty.
    pub(super) fn collect_tombstones(&mut self, now: Now, effects: &mut Effects) {
        let removed = self.removed();
        let is_removed = |node| removed.contains(&node);
        let window = self.config.resend_window;
        let partitions = &self.partitions;
        let is_needed = |block: &Block| {
            let agreed = partitions.get(&block.partition).and_then(Partition::agreed);
            agreed.is_some_and(|agreed| agreed.rounds.knows_any(&block.record.messages))
        };
        let now = (now.mono, now.wall);
        for (number, block) in self.burials.collect(now, window, is_removed, is_needed) {
            let Block { partition: id, record, .. } = block;
            effects.write(Write::Delete { key: Key::Tombstones(id.0, id.1, number).encode() });
            if let Some(partition) = self.partitions.get_mut(&id) {
                for (process, numbers) in &record.messages {
                    partition.known.forget_gone(*process, numbers);
                }
            }
        }
    }
}

impl Group {
    fn add(&mut self, at: usize, receipt: &Receipt) {
        self.at.push(at);
        let process: ProcessId = receipt.stamp.process;
        let numbers = Ranges::of(receipt.number, receipt.number);
        merge_numbers(&mut self.messages, &[(process, numbers)]);
        self.stamps.push(receipt.stamp);
        let Receipt { custodian, boot, delivery, .. } = *receipt;
        self.leases.push(DeliveryRef { custodian, boot, delivery });
    }
}

impl From<Lease> for DeliveryRef {
    fn from(lease: Lease) -> Self {
        let Lease { custodian, boot, delivery } = lease;
        Self { custodian, boot, delivery }
    }
}

/// How long a client is kept waiting for a delete.
const DELETE_WITHIN: Duration = Duration::from_secs(10);
/// See `BULK_AFTER` of sends.
const BULK_AFTER: Duration = Duration::from_millis(100);
/// How much longer than its queue's retention a tombstone is kept: clocks differ.
pub(super) const EXPIRY_SLACK_MS: u64 = 3600 * 1000;
