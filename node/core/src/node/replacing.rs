//! One more holder for what a host held that stays away: found, listed, copied.
//!
//! Whoever hands a message out sees to it; of hosts that can talk to each other that is one. It
//! walks over its rows in key order, a page at a time, and begins a batch where a list is too
//! short. Only what is known to be confirmed is copied (P4).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use gaggle_wire::NodeId;

use super::Node;
use super::loading::{Load, StoredRow, range_after};
use crate::custody::known::Seen;
use crate::custody::replacing::Walk;
use crate::effect::Effects;
use crate::envelope::{CopyException, CopyItem, Envelope};
use crate::event::ScanEnd;
use crate::ledger::Row;
use crate::now::Now;
use crate::queue::{ListId, Rule};
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::rendezvous::{self, Slot};
use crate::timer::Timer;

/// Messages of one list that get the same new holder.
struct Batch {
    list: ListId,
    to: NodeId,
    rows: Vec<StoredRow>,
}

impl Node {
    /// Looks who is away; if somebody has been for long, begins to walk over the rows.
    pub(super) fn look_for_absent(&mut self, now: Now, effects: &mut Effects) {
        let mut nodes: BTreeSet<NodeId> = self.members().collect();
        nodes.extend(self.partitions.values().flat_map(|partition| partition.lists.listed()));
        nodes.remove(&self.config.node);
        self.replacing.look(now.mono, &nodes, |node| self.sessions.with(node).is_some());
        let first = self.partitions.keys().next();
        if let (Walk::Over, false, Some(first)) =
            (self.replacing.walk, self.long_away(now).is_empty(), first)
        {
            self.replacing.walk = Walk::At(*first, None);
        }
        self.replace_on(now, effects);
    }

    /// Goes on, unless something is under way or has yet to be paid for.
    pub(super) fn replace_on(&mut self, now: Now, effects: &mut Effects) {
        let Walk::At(from, after) = self.replacing.walk else { return };
        if self.replacing.is_moving() {
            return;
        }
        let next = self.replacing.pace.next();
        if now.mono < next {
            self.timers.at_latest(Timer::Replace, next);
            return;
        }
        let long_away = self.long_away(now);
        let needs = |(id, partition): &(&PartitionId, &crate::queue::Partition)| {
            let mut served = partition.lists.served();
            served.any(|(nodes, _)| self.one_more(**id, nodes, &long_away).is_some())
        };
        let Some(id) = self.partitions.range(from..).find(needs).map(|(id, _)| *id) else {
            self.replacing.walk = Walk::Over;
            return;
        };
        self.replacing.walk = Walk::Reading;
        let range = range_after(id, after.filter(|_| id == from));
        self.load(Load::Replace(id), range, self.config.page_rows, effects);
    }

    /// Nodes that are made up for: those that have been away for long, and those that leave.
    fn long_away(&self, now: Now) -> BTreeSet<NodeId> {
        let mut away = self.replacing.long_away(now.mono, self.config.replace_after);
        away.extend(self.leaving());
        away
    }

    /// The next host for messages under this list, if too few of it are there.
    pub(super) fn one_more(
        &self,
        id: PartitionId,
        nodes: &[NodeId],
        long_away: &BTreeSet<NodeId>,
    ) -> Option<NodeId> {
        let replicas = usize::from(self.table.live(id.0)?.settings().replicas);
        let there = nodes.iter().filter(|node| !long_away.contains(node)).count();
        let free = |node: &NodeId| !nodes.contains(node) && self.sessions.with(*node).is_some();
        if there >= replicas || !self.sessions.iter().any(|(node, _)| free(&node)) {
            return None;
        }
        self.placement(id).into_iter().find(free)
    }

    /// A page is here: the first batch of it is begun, the rest is read again after that.
    pub(super) fn replace_read(
        &mut self,
        now: Now,
        id: PartitionId,
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let (stored, last) = self.stored(rows, end);
        let (rule, long_away) = (self.rule(now, id.0), self.long_away(now));
        let max = (self.config.replace_rate / BATCHES_PER_SECOND).clamp(1, BATCH_BYTES_MAX);
        let mut plans = BTreeMap::new();
        let mut batch: Option<Batch> = None;
        let (mut bytes, mut passed) = (0, 0);
        let mut next = match end {
            ScanEnd::More => last.map(|last| Walk::At(id, Some(last))),
            ScanEnd::Reached => None,
        };
        for row in stored {
            let size = row.message.label.content_length() as u64;
            let Some((list, to)) = self.planned(id, &row, (now, rule), (&mut plans, &long_away))
            else {
                passed += 1;
                continue;
            };
            let batch = batch.get_or_insert(Batch { list, to, rows: Vec::new() });
            let full = bytes >= max || batch.list != list;
            if full && let Some(before) = batch.rows.last() {
                next = Some(Walk::At(id, Some(before.key.stamp)));
                break;
            }
            bytes += size + ROW_COST;
            batch.rows.push(row);
        }
        let after = (Bound::Excluded(id), Bound::Unbounded);
        let following = self.partitions.range(after).next();
        let following = following.map(|(id, _)| Walk::At(*id, None));
        self.replacing.walk = next.or(following).unwrap_or(Walk::Over);
        let rate = self.config.replace_rate;
        match batch {
            Some(batch) => self.begin_move(now, (id, batch), effects),
            None => self.replacing.pace.pay(now.mono, (passed * ROW_COST, 0), rate),
        }
        self.replace_on(now, effects);
    }

    /// Under which list a message is and who gets it, if it may and has to be copied.
    fn planned(
        &self,
        id: PartitionId,
        row: &StoredRow,
        (now, rule): (Now, Rule),
        (plans, long_away): (&mut BTreeMap<ListId, Option<NodeId>>, &BTreeSet<NodeId>),
    ) -> Option<(ListId, NodeId)> {
        let partition = self.partitions.get(&id)?;
        let (process, number) = (row.key.stamp.process, row.message.label.number);
        let held = partition.known.seen(process, number) == Seen::Held;
        if !held || (partition.known.is_unsettled(process, number) && !rule.lone) {
            return None;
        }
        if self.is_long_expired(now, id.0, row.message.accepted) {
            return None;
        }
        let list = partition.lists.of(process, number).filter(|list| partition.serves(*list))?;
        let plan = plans
            .entry(list)
            .or_insert_with(|| self.one_more(id, partition.holders(list), long_away));
        plan.map(|to| (list, to))
    }

    /// Has the longer list on disk here, and tells it to the other holders in session.
    fn begin_move(&mut self, now: Now, (id, batch): (PartitionId, Batch), effects: &mut Effects) {
        let Batch { list, to, rows } = batch;
        let Some(partition) = self.partitions.get(&id) else { return };
        let present = partition.holders(list).to_vec();
        let mut holders: Vec<NodeId> = present.iter().copied().chain([to]).collect();
        rendezvous::order(Slot::of(id.0, id.1), &mut holders);
        for row in &rows {
            self.merge_list(id, row, &holders, effects);
        }
        self.sends.next += 1;
        let batch = self.sends.next;
        let listing: BTreeSet<NodeId> =
            present.into_iter().filter(|node| self.sessions.with(*node).is_some()).collect();
        let labels: Vec<_> = rows.iter().map(|row| row.message.label).collect();
        let Some(accepted) = rows.first().map(|row| row.message.accepted) else { return };
        let (queue, partition) = id;
        for node in &listing {
            let (labels, holders) = (labels.clone(), holders.clone());
            let relist =
                Envelope::Relist { batch, version: 1, queue, partition, labels, accepted, holders };
            self.say(*node, relist, effects);
        }
        let item = |row: StoredRow| CopyItem {
            label: row.message.label,
            accepted: row.message.accepted,
            holders: holders.clone(),
            lease: None,
        };
        let items = rows.into_iter().map(item).collect();
        self.replacing.start((batch, id, to), items, listing);
        self.move_if_listed(now, effects);
    }

    /// Sends the copies of a batch once every holder in session has its longer list.
    fn move_if_listed(&mut self, now: Now, effects: &mut Effects) {
        let Some(begun) = self.replacing.take_ready() else { return };
        let (batch, to, (queue, partition)) = (begun.batch, begun.to, begun.id);
        let held = self.partitions.get(&begun.id);
        // What was deleted meanwhile stays behind.
        begun.items.retain(|CopyItem { label, .. }| {
            let known = held.map(|partition| &partition.known);
            known.is_some_and(|known| known.seen(label.stamp.process, label.number) == Seen::Held)
        });
        let mut items = begun.items.clone();
        for CopyItem { label, lease, .. } in &mut items {
            let id = (label.number, label.stamp);
            *lease = held.and_then(|partition| partition.lease_of(id, now.mono));
        }
        self.say(to, Envelope::MakeUp { batch, queue, partition, items }, effects);
    }

    /// A holder has the longer list of a batch on disk.
    pub(super) fn move_listed(
        &mut self,
        now: Now,
        (peer, batch): (NodeId, u64),
        effects: &mut Effects,
    ) {
        self.replacing.listed_by(peer, batch);
        self.move_if_listed(now, effects);
    }

    /// The new holder has a batch on disk, or knows better.
    pub(super) fn moved(
        &mut self,
        now: Now,
        peer: NodeId,
        (batch, exceptions): (u64, &[(u32, CopyException)]),
        effects: &mut Effects,
    ) {
        let Some(moved) = self.replacing.held_by(peer, batch) else { return };
        let (mut bytes, mut copies) = (0, 0);
        for (at, item) in (0..).zip(&moved.items) {
            bytes += item.label.content_length() as u64 + ROW_COST;
            if exceptions.iter().any(|(excepted, _)| *excepted == at) {
                continue;
            }
            copies += 1;
            let (process, number) = (item.label.stamp.process, item.label.number);
            let known = self.partitions.get(&moved.id).map(|partition| &partition.known);
            if known.is_some_and(|known| !known.is_unsettled(process, number)) {
                let key = (moved.id.0, moved.id.1, process);
                let news = self.sends.settled.entry(peer).or_default().entry(key).or_default();
                news.insert(number);
            }
        }
        self.count_more("copies_replaced", copies);
        self.timers.at_latest(Timer::Bulk, now.mono);
        self.replacing.pace.pay(now.mono, (bytes, copies), self.config.replace_rate);
        self.replace_on(now, effects);
    }

    /// A session ended: what was on its way there is given up, and the walk goes on.
    pub(super) fn move_lost(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        self.replacing.lost(peer);
        self.move_if_listed(now, effects);
        self.replace_on(now, effects);
    }

    /// Messages in this node's custody that fewer hosts in session have than they should; those
    /// of them for which there is another host; and the seconds until these are copied.
    pub(super) fn under_replicated(&self, now: Now) -> (u64, u64, u64) {
        let (mut few, mut left) = (0, 0);
        for (id, partition) in &self.partitions {
            let Some(entry) = self.table.live(id.0) else { continue };
            let replicas = usize::from(entry.settings().replicas);
            for (nodes, held) in partition.lists.served() {
                let away: BTreeSet<NodeId> =
                    nodes.iter().copied().filter(|node| !self.sessions.reaches(*node)).collect();
                if nodes.len() - away.len() < replicas {
                    let messages: u64 = held.values().map(Ranges::size).sum();
                    few += messages;
                    if self.one_more(*id, nodes, &away).is_some() {
                        left += messages;
                    }
                }
            }
        }
        if left == 0 {
            return (few, 0, 0);
        }
        let wait = self.replacing.patience(now.mono, self.config.replace_after);
        let time = wait + self.replacing.pace.estimate(left, self.config.replace_rate);
        (few, left, time.as_secs() + 1)
    }
}

/// A batch is a quarter of what may be copied in a second, so that the rate is even.
const BATCHES_PER_SECOND: u64 = 4;
/// And never more than this, so that no foreground copy waits long behind it.
const BATCH_BYTES_MAX: u64 = 256 * 1024;
/// What a row costs beside its content: labels, lists, the pages that are read.
const ROW_COST: u64 = 128;
