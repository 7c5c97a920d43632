//! Copies at a holder: storing them, changing their lists, removing their rows.

use std::collections::BTreeSet;

use gaggle_wire::{Attempt, Label, NodeId, ProcessId, QueueId, Stamp};

use super::Node;
use super::loading::StoredRow;
use super::twins::AfterTwins;
use crate::custody::burial::{Numbers, merge_numbers};
use crate::custody::known::{Came, Seen};
use crate::custody::part::pieces;
use crate::effect::Effects;
use crate::envelope::{CopyException, CopyItem, Envelope};
use crate::ledger::{Key, MessageKey, MessageRecord, Write, record};
use crate::now::Now;
use crate::queue::{First, Head, ListId, Partition, Rule, Told};
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::timer::Timer;

impl Node {
    /// A coordinator wants messages held.
    pub(super) fn copies_came(
        &mut self,
        now: Now,
        peer: NodeId,
        copies: NewCopies,
        effects: &mut Effects,
    ) {
        let NewCopies { batch, id, holders, attempt, items } = copies;
        let takes_none = self.leaves() || self.is_full(self.config.node);
        if takes_none && items.iter().any(|(label, _)| self.is_new(id, label)) {
            return self.say(peer, Envelope::Declined { batch }, effects);
        }
        let came = Came::Sent(attempt);
        let Stored { exceptions, twins } = self.store(now, (id, &holders, came), items, effects);
        let after = AfterTwins::Held { peer, batch, exceptions };
        self.compare_twins(now, (id, twins, holders), after, effects);
    }

    /// Whether nothing is known here of a message.
    fn is_new(&self, id: PartitionId, label: &Label) -> bool {
        let (process, number) = (label.stamp.process, label.number);
        let known = self.partitions.get(&id).map(|partition| &partition.known);
        known.is_none_or(|known| known.seen(process, number) == Seen::New)
    }

    /// Another holder gives what this node lacks; each with its own list. It may be in no session
    /// with one that knows some of it to be gone, so whoever of these can be reached is asked
    /// first.
    pub(super) fn make_up_came(
        &mut self,
        now: Now,
        peer: NodeId,
        (batch, id, items): (u64, PartitionId, Vec<CopyItem>),
        effects: &mut Effects,
    ) {
        let mut exceptions = Vec::new();
        let total = items.len();
        let ids: Vec<_> = items.iter().map(|item| item.label.id()).collect();
        let leases: Vec<_> = items.iter().filter_map(|item| item.lease.clone()).collect();
        if let Some(item) = items.first() {
            self.intern(id, &item.holders);
            self.leases_told(now, id, &leases, effects);
        }
        let mut rest = items.into_iter().enumerate().peekable();
        while let Some((first, item)) = rest.next() {
            let holders = item.holders;
            let mut run = vec![(item.label, item.accepted)];
            while let Some((_, next)) = rest.next_if(|(_, next)| next.holders == holders) {
                run.push((next.label, next.accepted));
            }
            let others = self.others_to_ask(peer, &holders).next().is_some();
            let came = if others { Came::Given } else { Came::Sent(Attempt::First) };
            let stored = self.store(now, (id, &holders, came), run, effects);
            for (at, exception) in stored.exceptions {
                exceptions.push((at + u32::try_from(first).unwrap_or(u32::MAX), exception));
            }
            let mut present: Numbers = Vec::new();
            for (_, label) in stored.twins {
                let number = Ranges::of(label.number, label.number);
                merge_numbers(&mut present, &[(label.stamp.process, number)]);
            }
            if let Some(partition) = self.partitions.get_mut(&id) {
                for (process, numbers) in &present {
                    partition.known.count_on(*process, numbers);
                }
            }
            self.lists_came(id, (&holders, &present), effects);
        }
        self.count_more("copies_made_up", total as u64);
        let commits = self.run.commits.claim();
        self.say(peer, Envelope::Held { batch, exceptions, commits }, effects);
        self.ask_given(now, peer, (id, &ids), effects);
    }

    /// Stores messages of one partition under one list.
    pub(super) fn store(
        &mut self,
        now: Now,
        (id, holders, came): (PartitionId, &[NodeId], Came),
        items: Vec<(Label, Stamp)>,
        effects: &mut Effects,
    ) -> Stored {
        let (queue, number) = id;
        let entry = self.table.entry(queue);
        let deleted = entry.is_some_and(crate::table::Entry::is_deleted);
        let purged = entry.map_or(Stamp::ZERO, |entry| entry.purged);
        // Where one copy is enough and nobody else should have one, nobody has to say so.
        let enough = entry.is_some_and(|entry| entry.settings().confirms == 1);
        let alone = enough && holders.len() == 1;
        let rule = self.rule(now, queue);
        let list = self.intern(id, holders);
        let partition = self.partitions.get_mut(&id).expect("a list was interned in it");
        let (mut exceptions, mut twins, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let mut settled = Ranges::default();
        let (mut process, mut refilled, mut again) = (None, 0, Vec::new());
        for (at, (label, accepted)) in items.into_iter().enumerate() {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let id = label.id();
            let seen = partition.known.seen(id.process, id.number);
            if let Some(except) = exception(deleted || seen == Seen::Gone, accepted, purged) {
                if except == CopyException::Gone {
                    gone.push((id.process, Ranges::of(id.number, id.number)));
                }
                exceptions.push((at, except));
                continue;
            }
            if seen == Seen::Held {
                twins.push((at, label));
                continue;
            }
            let key = MessageKey { queue, partition: number, stamp: label.stamp };
            let list = match seen {
                Seen::Lost => partition.list_again(holders, id),
                Seen::New | Seen::Held | Seen::Gone => list,
            };
            let holders = partition.holders(list).to_vec();
            let record = MessageRecord { label, accepted, holders };
            effects.write(Write::PutMessage { key, header: record.encode(&key), label });
            partition.hold(list, &label, came);
            partition.oldest.came(First { stamp: label.stamp, number: label.number, accepted });
            settled.insert(id.number);
            process = Some(id.process);
            refilled += u64::from(seen == Seen::Lost);
            let head = Head { label, accepted, list, deliveries: 0 };
            if let Some(due) = due_ms(&head) {
                let key = Key::Due(queue, number, due, label.stamp).encode();
                effects.write(Write::Put { key, value: record::encode(&label.number) });
                partition.next_due = Some(partition.next_due.map_or(due, |next| next.min(due)));
                let after = std::time::Duration::from_millis(label.delay_ms);
                let timer = Timer::Partition(queue, number);
                self.timers.at_latest(timer, now.mono.plus(after));
            } else if partition.flights.with(label.stamp).is_some() {
                // It was handed out before its copy here was lost: its lease runs on.
            } else if seen == Seen::Lost {
                // Its row may say how often it was delivered; leases that were told count there.
                again.push(key);
            } else if let Some(told) = partition.told_lease(label.stamp, now.mono) {
                partition.honour(head, told, now.mono);
                self.timers.at_latest(Timer::Partition(queue, number), told.0);
            } else if partition.may_hand_out(&head, rule) {
                partition.window.arrive(head, self.config.window_max);
            } else {
                partition.passed_over |= partition.hands_out_of(list);
            }
        }
        if let (true, Some(process)) = (alone, process) {
            partition.known.settle(process, &settled);
        }
        for key in again {
            self.read_arrival(key, effects);
        }
        self.reception.touch(queue);
        self.refilled(now, (queue, number), refilled);
        self.gone_listed((queue, number), gone, holders, effects);
        Stored { exceptions, twins }
    }

    /// Two nodes speak of a message under different lists: its holders are all that either names.
    /// Whether some of them are yet to be told that it is in flight.
    pub(super) fn merge_list(
        &mut self,
        id: PartitionId,
        row: &StoredRow,
        holders: &[NodeId],
        effects: &mut Effects,
    ) -> bool {
        let StoredRow { key, message, .. } = row;
        let numbers = Ranges::of(message.label.number, message.label.number);
        let Some(partition) = self.partitions.get_mut(&id) else { return false };
        partition.lists.merge(holders, &[(key.stamp.process, numbers)]);
        self.rewrite_list(id, row, effects)
    }

    /// Has the list of a message as it is known now in its row. Whether some of its holders are yet
    /// to be told that it is in flight.
    pub(super) fn rewrite_list(
        &mut self,
        id: PartitionId,
        row: &StoredRow,
        effects: &mut Effects,
    ) -> bool {
        let StoredRow { key, message, .. } = row;
        let Some(partition) = self.partitions.get(&id) else { return false };
        let list = partition.lists.of(key.stamp.process, message.label.number);
        let Some(holders) = list.map(|list| partition.holders(list).to_vec()) else { return false };
        let list = self.intern(id, &holders);
        let partition = self.partitions.get_mut(&id).expect("a list was interned in it");
        let untold = partition.relist(key.stamp, list);
        if holders != message.holders {
            let record = MessageRecord { holders, ..message.clone() };
            effects.write(Write::PutHeader { key: *key, header: record.encode(key) });
        }
        untold
    }

    /// Tells nodes under which lists messages are here that they have as well.
    pub(super) fn tell_lists(&self, id: PartitionId, messages: &Numbers, effects: &mut Effects) {
        let Some(partition) = self.partitions.get(&id) else { return };
        for (nodes, messages) in partition.lists.told(Told::These(messages)) {
            for piece in pieces(messages, self.config.inventory_part) {
                for node in &nodes {
                    self.say(*node, lists_of(id, (nodes.clone(), piece.clone())), effects);
                }
            }
        }
    }

    /// Another node names holders of messages.
    pub(super) fn lists_came(
        &mut self,
        id: PartitionId,
        (holders, messages): (&[NodeId], &Numbers),
        effects: &mut Effects,
    ) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let moved = partition.lists.merge(holders, messages);
        let gone = messages.iter().filter_map(|(process, numbers)| {
            let gone = partition.known.of(*process)?.gone.intersection(numbers);
            (!gone.is_empty()).then_some((*process, gone))
        });
        let gone = gone.collect();
        self.gone_listed(id, gone, holders, effects);
        if !moved.is_empty() {
            self.read_lists(id, moved, None, effects);
        }
    }

    /// Holders were named of messages that are gone here: they must know that, too.
    pub(super) fn gone_listed(
        &mut self,
        id: PartitionId,
        gone: Vec<(ProcessId, Ranges)>,
        holders: &[NodeId],
        effects: &mut Effects,
    ) {
        if gone.is_empty() {
            return;
        }
        let mut messages: Numbers = Vec::new();
        merge_numbers(&mut messages, &gone);
        self.merge_tombstones(id, &messages, (holders, &BTreeSet::new()), effects);
    }

    /// Interns a holder list in a partition, which is made if it is not there, and knows whether
    /// this node hands out what it holds.
    pub(super) fn intern(&mut self, id: PartitionId, holders: &[NodeId]) -> ListId {
        let (epoch, me) = (self.sessions.epoch(), self.config.node);
        let partition = self.partitions.entry(id).or_insert_with(|| Partition::new(id));
        let list = partition.list(holders);
        if partition.is_fresh(epoch) {
            return list;
        }
        let homes = self.homes(id);
        let partition = self.partitions.get_mut(&id).expect("it was made above");
        if partition.refresh(epoch, |list| self.sessions.may_serve(list), || homes.contains(&me)) {
            partition.close_window();
            self.reception.touch(id.0);
        }
        list
    }

    /// What decides, beside sessions, whether a message of this queue is handed out.
    pub(super) fn rule(&self, now: Now, queue: QueueId) -> Rule {
        let window = u64::try_from(self.config.resend_window.as_nanos()).unwrap_or(u64::MAX);
        Rule {
            aged_before: now.wall.0.saturating_sub(window),
            instead: self.sessions.iter().any(|(_, peer)| peer.yielded_by && !peer.fit),
            lone: self.table.live(queue).is_some_and(|entry| entry.settings().at_least == 1),
        }
    }

    /// A batch has more holders now.
    pub(super) fn relist_came(
        &mut self,
        now: Now,
        peer: NodeId,
        relist: Relisting,
        effects: &mut Effects,
    ) {
        let Relisting { batch, version, id, labels, holders } = relist;
        let after = AfterTwins::Relisted { peer, batch, version };
        self.relist(now, (id, labels, holders), after, effects);
    }

    /// Merges a longer list into that of messages which are here.
    pub(super) fn relist(
        &mut self,
        now: Now,
        (id, labels, holders): (PartitionId, Vec<Label>, Vec<NodeId>),
        after: AfterTwins,
        effects: &mut Effects,
    ) {
        let (mut held, mut gone) = (Vec::new(), Vec::new());
        for (at, label) in labels.into_iter().enumerate() {
            let process = label.stamp.process;
            let seen = self.partitions.get(&id).map(|p| p.known.seen(process, label.number));
            match seen {
                // What was lost is said not to be here.
                Some(Seen::Held | Seen::Lost) => {
                    held.push((u32::try_from(at).unwrap_or(u32::MAX), label));
                }
                Some(Seen::Gone) => gone.push((process, Ranges::of(label.number, label.number))),
                Some(Seen::New) | None => {}
            }
        }
        self.gone_listed(id, gone, &holders, effects);
        self.compare_twins(now, (id, held, holders), after, effects);
    }

    /// Drops a copy without a word to anybody.
    pub(super) fn drop_copy(&mut self, key: MessageKey, number: u64, effects: &mut Effects) {
        if let Some(partition) = self.partitions.get_mut(&(key.queue, key.partition)) {
            partition.drop_held(key.stamp.process, number);
            partition.remove(key.stamp);
        }
        // Its deliveries may have been counted since its row was read.
        Self::remove_rows(key, Rows::WithCount, effects);
    }

    /// Removes the rows of a message.
    pub(super) fn remove_rows(key: MessageKey, rows: Rows, effects: &mut Effects) {
        effects.write(Write::Delete { key: key.encode() });
        if rows == Rows::WithCount {
            effects.write(Write::Delete { key: Key::Deliveries(key).encode() });
        }
    }
}

/// Why a copy is not to be stored, if it is not.
fn exception(gone: bool, accepted: Stamp, purged: Stamp) -> Option<CopyException> {
    if gone {
        return Some(CopyException::Gone);
    }
    (accepted <= purged).then_some(CopyException::Purged(purged))
}

pub(super) fn lists_of((queue, partition): PartitionId, list: (Vec<NodeId>, Numbers)) -> Envelope {
    let (holders, messages) = list;
    Envelope::Listed { queue, partition, holders, messages }
}

/// What became of messages that were to be stored.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// Those that were not stored, by position.
    pub(super) exceptions: Vec<(u32, CopyException)>,
    /// Those whose id is here already, by position: whether they are the same is on disk.
    pub(super) twins: Vec<(u32, Label)>,
}

/// Which rows a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// The message alone.
    Message,
    /// Also one that counts its deliveries.
    WithCount,
}

/// Messages that a coordinator wants held.
#[derive(Debug)]
pub(super) struct NewCopies {
    pub(super) batch: u64,
    pub(super) id: PartitionId,
    pub(super) holders: Vec<NodeId>,
    pub(super) attempt: Attempt,
    pub(super) items: Vec<(Label, Stamp)>,
}

/// Messages whose list became longer.
#[derive(Debug)]
pub(super) struct Relisting {
    pub(super) batch: u64,
    pub(super) version: u32,
    pub(super) id: PartitionId,
    pub(super) labels: Vec<Label>,
    pub(super) holders: Vec<NodeId>,
}

/// When a delayed message is due, in wall milliseconds; `None` for one without delay.
pub(super) fn due_ms(head: &Head) -> Option<u64> {
    let delay = head.label.delay_ms;
    (delay > 0).then(|| (head.accepted.time / 1_000_000).saturating_add(delay))
}
