//! Queues: created, changed, listed, purged, deleted; and how their entries spread.

use std::time::Duration;

use gaggle_wire::{
    ChangeMode, LIST_MAX, NodeId, Order, QueueId, QueueName, Refusal, Response, SettingsChange,
    Stamp,
};

use super::asking::Question;
use super::requests::not_found;
use super::{Drain, Node};
use crate::calls::TableChange;
use crate::config::Config;
use crate::effect::Effects;
use crate::envelope::Envelope;
use crate::event::Reply;
use crate::ledger::key::rows_of_queue;
use crate::ledger::{Key, Write, record};
use crate::now::Now;
use crate::session::PartitionId;
use crate::table::{Entry, Removal, differences};
use crate::timer::Timer;

impl Node {
    pub(super) fn create_queue(
        &mut self,
        now: Now,
        reply: Reply,
        (name, change): (QueueName, SettingsChange),
        effects: &mut Effects,
    ) {
        let refuse = |refusal| Response::Refused(refusal);
        if name.is_reserved() {
            return effects.answer(reply, refuse(Refusal::ReservedName));
        }
        let settings = match change.create(self.config.queue_defaults) {
            Ok(settings) => settings,
            Err(refusal) => return effects.answer(reply, refuse(refusal)),
        };
        if let Some(present) = self.table.named(&name).first() {
            let differs = differences(&present.settings(), &settings);
            let response = if differs.is_empty() {
                Response::Queue(Box::new(present.describe()))
            } else {
                refuse(Refusal::QueueExists { differs })
            };
            return effects.answer(reply, response);
        }
        if let Some(refusal) = self.table_is_full() {
            return effects.answer(reply, refuse(refusal));
        }
        let mut entry = Entry::new(QueueId(self.stamp(now, effects)), name, settings);
        if settings.order == Order::Strict {
            entry = match self.pin(entry) {
                Ok(entry) => entry,
                Err(refusal) => return effects.answer(reply, refuse(refusal)),
            };
        }
        let response = Response::Queue(Box::new(entry.describe()));
        self.change_table(now, (reply, response), vec![entry], effects);
    }

    /// Why no queue may be created: there are as many as may be, or there have been.
    fn table_is_full(&self) -> Option<Refusal> {
        let Config { queues_max, entries_max, .. } = self.config;
        let limits = [
            ("queues", self.table.count(), queues_max),
            ("queues, deleted ones among them,", self.table.len(), entries_max),
        ];
        let (what, _, limit) = limits.into_iter().find(|(_, count, max)| count >= max)?;
        Some(Refusal::LimitReached { what: what.to_owned(), limit: limit as u64 })
    }

    pub(super) fn set_queue(
        &mut self,
        now: Now,
        reply: Reply,
        (name, change, mode): (&QueueName, SettingsChange, ChangeMode),
        effects: &mut Effects,
    ) {
        let mut entries: Vec<Entry> = self.table.named(name).into_iter().cloned().collect();
        let Some(first) = entries.first() else { return effects.answer(reply, not_found(name)) };
        let before = first.settings();
        let after = match change.apply(before) {
            Ok(after) => after,
            Err(refusal) => return effects.answer(reply, Response::Refused(refusal)),
        };
        let response = Response::QueueSet { before, after };
        if mode == ChangeMode::DryRun {
            return effects.answer(reply, response);
        }
        let stamp = self.stamp(now, effects);
        for entry in &mut entries {
            let gaggle_wire::Settings { partitions, order, .. } = entry.settings();
            entry.set(gaggle_wire::Settings { partitions, order, ..after }, stamp);
        }
        self.change_table(now, (reply, response), entries, effects);
    }

    /// Changes all entries of a name: deletes or purges them.
    pub(super) fn change_named(
        &mut self,
        now: Now,
        reply: Reply,
        (name, change): (&QueueName, fn(&mut Entry, Stamp)),
        effects: &mut Effects,
    ) {
        let mut entries: Vec<Entry> = self.table.named(name).into_iter().cloned().collect();
        if entries.is_empty() {
            return effects.answer(reply, not_found(name));
        }
        let stamp = self.stamp(now, effects);
        for entry in &mut entries {
            change(entry, stamp);
        }
        self.change_table(now, (reply, Response::Done), entries, effects);
    }

    /// Makes a change of the table, and answers once enough nodes have it on disk.
    fn change_table(
        &mut self,
        now: Now,
        (reply, response): (Reply, Response),
        entries: Vec<Entry>,
        effects: &mut Effects,
    ) {
        if self.run.drain != Drain::No {
            return effects.answer(reply, Response::Refused(Refusal::Draining));
        }
        let settings = entries[0].settings();
        let reachable = self.sessions.iter().count() + 1;
        if reachable < usize::from(settings.at_least) {
            let reachable = u8::try_from(reachable).unwrap_or(u8::MAX);
            let refusal = Refusal::NotEnoughHosts { wanted: settings.confirms, reachable };
            return effects.answer(reply, Response::Refused(refusal));
        }
        let confirms = if reachable < usize::from(settings.confirms) {
            settings.at_least
        } else {
            settings.confirms
        };
        let peers: Vec<NodeId> = self.sessions.iter().map(|(node, _)| node).collect();
        let change = TableChange { reply, response, confirms };
        let news = TableNews { entries, removals: Vec::new() };
        self.spread_change(now, (peers, change), news, effects);
    }

    /// Tells everybody in session what has changed; these nodes have to have it on disk before that
    /// is answered.
    pub(super) fn spread_change(
        &mut self,
        now: Now,
        (peers, change): (Vec<NodeId>, TableChange),
        news: TableNews,
        effects: &mut Effects,
    ) {
        let deadline = now.mono.plus(CONFIRM_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Table(Box::new(change));
        let call = self.desk.calls.start(peers, deadline, kind);
        let TableNews { entries, removals } = news.clone();
        self.say_all(&Envelope::Table { call, entries, removals }, effects);
        self.take_in(now, None, &news, effects);
        self.call_over(now, call, effects);
    }

    /// The whole table, in parts that fit an envelope.
    pub(super) fn all_news(&self) -> Vec<TableNews> {
        let removals: Vec<_> = self.table.removals().iter().copied().collect();
        let entries: Vec<_> = self.table.entries().cloned().collect();
        let removed = removals.chunks(TABLE_CHUNK);
        let removed = removed.map(|r| TableNews { removals: r.to_vec(), ..TableNews::default() });
        let queues = entries.chunks(TABLE_CHUNK);
        let queues = queues.map(|e| TableNews { entries: e.to_vec(), ..TableNews::default() });
        removed.chain(queues).collect()
    }

    pub(super) fn list_queues(
        &self,
        reply: Reply,
        (prefix, after): (&str, Option<&QueueName>),
        effects: &mut Effects,
    ) {
        let page = self.table.page(prefix, after);
        let mut queues: Vec<_> = page.take(LIST_MAX + 1).map(Entry::describe).collect();
        let more = queues.len() > LIST_MAX;
        queues.truncate(LIST_MAX);
        effects.answer(reply, Response::Queues { queues, more });
    }

    pub(super) fn describe_queue(&self, reply: Reply, name: &QueueName, effects: &mut Effects) {
        let response = match self.table.named(name).first() {
            Some(entry) => Response::Queue(Box::new(entry.describe())),
            None => not_found(name),
        };
        effects.answer(reply, response);
    }

    pub(super) fn table_envelope(
        &mut self,
        now: Now,
        peer: NodeId,
        envelope: Envelope,
        effects: &mut Effects,
    ) {
        match envelope {
            Envelope::Table { call, entries, removals } => {
                self.take_in(now, Some(peer), &TableNews { entries, removals }, effects);
                if call != 0 && !self.run.renewed {
                    self.say(peer, Envelope::TableHeld { call }, effects);
                }
            }
            Envelope::TableHeld { call } => {
                self.desk.calls.answer(call, peer);
                self.call_over(now, call, effects);
            }
            Envelope::AskQueue { call, name } => {
                let entries = self.table.named(&name).into_iter().cloned().collect();
                self.say(peer, Envelope::KnownQueue { call, entries }, effects);
            }
            Envelope::KnownQueue { call, entries } => {
                let removals = Vec::new();
                self.take_in(now, Some(peer), &TableNews { entries, removals }, effects);
                self.desk.calls.answer(call, peer);
                if self.is_known_now(call) {
                    // Whoever else is slow to say so is not waited for.
                    self.desk.calls.suffices(call);
                }
                self.call_over(now, call, effects);
            }
            _ => unreachable!("the caller sorts envelopes"),
        }
    }

    /// Merges entries, writes down what changed, passes it on, and does what follows from it.
    fn take_in(&mut self, now: Now, from: Option<NodeId>, news: &TableNews, effects: &mut Effects) {
        let removals = self.take_in_removals(&news.removals, effects);
        let entries = self.take_in_entries(now, &news.entries, effects);
        if from.is_some() && !(entries.is_empty() && removals.is_empty()) {
            // Whoever has no session with its origin learns of it from here.
            for (node, session) in self.sessions.iter() {
                if Some(node) != from {
                    let (entries, removals) = (entries.clone(), removals.clone());
                    effects.send(session.link, Envelope::Table { call: 0, entries, removals });
                }
            }
        }
        self.removals_changed(now, &removals, effects);
    }

    fn take_in_entries(
        &mut self,
        now: Now,
        entries: &[Entry],
        effects: &mut Effects,
    ) -> Vec<Entry> {
        let mut changed = Vec::new();
        for entry in entries {
            let purged = self.table.entry(entry.id).map(|entry| entry.purged);
            let Some(merged) = self.table.merge(entry).cloned() else { continue };
            let key = Key::Queue(merged.id).encode();
            effects.write(Write::Put { key, value: record::encode(&merged) });
            if merged.is_deleted() {
                self.drop_queue(merged.id, effects);
            } else if purged.is_some_and(|purged| purged < merged.purged) {
                self.drop_purged(merged.id, effects);
            }
            let twins = self.table.named(&merged.name);
            if twins.iter().any(|entry| entry.id == merged.id) {
                for twin in twins.iter().filter(|entry| entry.id != merged.id) {
                    self.reception.join(twin.id, merged.id);
                }
            }
            self.begin_rounds(now, merged.id);
            self.reception.touch(merged.id);
            self.look_soon(merged.id);
            changed.push(merged);
        }
        changed
    }

    fn drop_queue(&mut self, queue: QueueId, effects: &mut Effects) {
        let ids: Vec<PartitionId> =
            self.partitions.range((queue, 0)..=(queue, u16::MAX)).map(|(id, _)| *id).collect();
        for id in ids {
            self.partitions.remove(&id);
        }
        self.burials.drop_queue(queue);
        self.forget_told(queue);
        self.run.skews.remove(&queue);
        self.refuse_waiters(queue, effects);
        for (from, to) in rows_of_queue(queue) {
            effects.write(Write::DeleteRange { from, to });
        }
        self.count("queues_dropped");
    }

    /// A queue was purged: its windows are read again, its rows swept.
    fn drop_purged(&mut self, queue: QueueId, effects: &mut Effects) {
        let ids: Vec<PartitionId> =
            self.partitions.range((queue, 0)..=(queue, u16::MAX)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(partition) = self.partitions.get_mut(&id) {
                partition.close_window();
            }
            self.sweep(id, effects);
        }
    }
}

/// What there is to be told of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct TableNews {
    pub(super) entries: Vec<Entry>,
    pub(super) removals: Vec<Removal>,
}

/// Entries of one envelope: a few hundred bytes each.
const TABLE_CHUNK: usize = 1000;
/// How long the others have to store a table entry.
const CONFIRM_WITHIN: Duration = Duration::from_secs(10);
