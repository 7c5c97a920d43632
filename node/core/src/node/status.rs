//! How it is with the node and the cluster, for those who ask.
//!
//! The others are asked when somebody asks, about the queues of one page. Of one that does not
//! answer, what it last told this node stays, with its age; it does not count in the totals, for
//! its queues are served by others now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{
    ArrivalSkew, MemberStatus, NodeId, NodeReport, QueueCounts, QueueId, QueueName, QueueStatus,
    Standing, Status,
};

use super::Node;
use super::asking::Question;
use super::giving::millis;
use super::loading::{Load, range_after};
use crate::effect::Effects;
use crate::envelope::{Envelope, QueueTold};
use crate::event::{Reply, ScanEnd};
use crate::ledger::Row;
use crate::now::{Mono, Now};
use crate::queue::First;
use crate::session::PartitionId;
use crate::space::Space;
use crate::timer::Timer;

/// What a node told of itself and of the queues that it was asked about.
#[derive(Clone, Debug)]
pub(super) struct Told {
    report: NodeReport,
    at: Mono,
    queues: BTreeMap<QueueId, Figures>,
}

#[cfg(test)]
impl Told {
    pub(super) fn queue_count(&self) -> usize {
        self.queues.len()
    }
}

/// What a node told of a queue: its copies, what is in its custody, and when.
#[derive(Clone, Debug)]
struct Figures {
    told: QueueTold,
    at: Mono,
}

impl Figures {
    fn aged(&self, now: Now) -> QueueTold {
        let age_ms = millis(now.mono.since(self.at));
        let mut told = self.told.clone();
        (told.held.age_ms, told.own.age_ms) = (age_ms, age_ms);
        told
    }
}

/// Of which queues it is told: those at a place of the table, by name.
#[derive(Debug)]
pub(super) struct Page {
    names: Vec<QueueName>,
    ids: Vec<QueueId>,
    more: bool,
}

/// Somebody who asked, by which call, and about which queues.
#[derive(Debug)]
pub(super) struct AskedStatus {
    pub(super) asker: NodeId,
    pub(super) call: u64,
    pub(super) queues: Vec<QueueId>,
}

impl Node {
    pub(super) fn status_requested(
        &mut self,
        now: Now,
        reply: Reply,
        (prefix, after): (&str, Option<&QueueName>),
        effects: &mut Effects,
    ) {
        let page = self.page(prefix, after);
        let queues = page.ids.clone();
        let peers: Vec<NodeId> = self.sessions.iter().map(|(node, _)| node).collect();
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Status { reply, page };
        let me = self.config.node;
        let call = self.desk.calls.start(peers.into_iter().chain([me]), deadline, kind);
        self.say_all(&Envelope::AskStatus { call, queues: queues.clone() }, effects);
        self.status_asked(now, AskedStatus { asker: me, call, queues }, effects);
    }

    fn page(&self, prefix: &str, after: Option<&QueueName>) -> Page {
        let mut names: Vec<QueueName> = self
            .table
            .page(prefix, after)
            .take(QUEUES_MAX + 1)
            .map(|entry| entry.name.clone())
            .collect();
        let more = names.len() > QUEUES_MAX;
        names.truncate(QUEUES_MAX);
        let same = names.iter().flat_map(|name| self.table.named(name));
        Page { ids: same.map(|entry| entry.id).collect(), names, more }
    }

    /// Somebody, or this node itself, asks how it is here: that is told when it is known how old
    /// the oldest messages are.
    pub(super) fn status_asked(&mut self, now: Now, asked: AskedStatus, effects: &mut Effects) {
        let mut unknown: Vec<PartitionId> = Vec::new();
        for queue in &asked.queues {
            let partitions = self.partitions.range_mut((*queue, 0)..=(*queue, u16::MAX));
            unknown.extend(partitions.filter_map(|(id, partition)| {
                let serves = partition.serves_any();
                (serves && partition.oldest.start_reading(&partition.known)).then_some(*id)
            }));
        }
        for id in unknown {
            self.desk.oldest_reads += 1;
            self.load(Load::Oldest(id), range_after(id, None), OLDEST_ROWS, effects);
        }
        self.desk.status_asked.push(asked);
        self.tell_status(now, effects);
    }

    /// The first rows of a partition are here.
    pub(super) fn oldest_read(
        &mut self,
        now: Now,
        id: PartitionId,
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let (stored, _) = self.stored(rows, end);
        if let Some(partition) = self.partitions.get_mut(&id) {
            let firsts = stored.into_iter().map(|row| First {
                stamp: row.key.stamp,
                number: row.message.label.number,
                accepted: row.message.accepted,
            });
            partition.oldest.read(&partition.known, firsts);
        }
        self.desk.oldest_reads -= 1;
        self.tell_status(now, effects);
    }

    fn tell_status(&mut self, now: Now, effects: &mut Effects) {
        if self.desk.oldest_reads > 0 {
            return;
        }
        for AskedStatus { asker, call, queues } in std::mem::take(&mut self.desk.status_asked) {
            if asker == self.config.node {
                self.desk.calls.answer(call, asker);
                self.call_over(now, call, effects);
            } else {
                let (report, queues) = (Box::new(self.report(now)), self.counts(now, &queues));
                self.say(asker, Envelope::StatusTold { call, report, queues }, effects);
            }
        }
    }

    /// A node told how it is. Of queues that it was not asked about nothing is kept.
    pub(super) fn status_told(
        &mut self,
        now: Now,
        (peer, call): (NodeId, u64),
        report: NodeReport,
        queues: Vec<QueueTold>,
    ) {
        let members: BTreeSet<NodeId> = self.members().collect();
        let Some(call) = self.desk.calls.answer(call, peer) else { return };
        let Question::Status { page, .. } = &call.kind else { return };
        self.desk.told.retain(|node, _| members.contains(node));
        let at = now.mono;
        let empty = Told { report: report.clone(), at, queues: BTreeMap::new() };
        let told = self.desk.told.entry(peer).or_insert(empty);
        (told.report, told.at) = (report, at);
        for queue in &page.ids {
            told.queues.remove(queue);
        }
        let asked: BTreeSet<QueueId> = page.ids.iter().copied().collect();
        let news = queues.into_iter().filter(|told| asked.contains(&told.queue));
        told.queues.extend(news.map(|told| (told.queue, Figures { told, at })));
    }

    /// A queue is no more, and so is what was told of it.
    pub(super) fn forget_told(&mut self, queue: QueueId) {
        for told in self.desk.told.values_mut() {
            told.queues.remove(&queue);
        }
    }

    /// What this node says of itself.
    pub(super) fn report(&self, now: Now) -> NodeReport {
        let (few, left, seconds) = self.under_replicated(now);
        let figures = [
            ("clock_sick", u64::from(self.calendar.is_sick())),
            ("disk_scarce", u64::from(self.run.space >= Space::Scarce)),
            ("receives_waiting", self.reception.count() as u64),
            ("tombstone_blocks", self.burials.count() as u64),
            ("copies_to_refill", self.partitions.values().map(|p| p.known.lost_count()).sum()),
            ("under_replicated", few),
            ("to_be_replaced", left),
            ("to_be_replaced_seconds", seconds),
        ];
        let counters = self.run.counters.iter().map(|(name, count)| (*name, *count));
        NodeReport {
            age_ms: 0,
            boot: self.run.boot,
            ready: self.is_ready(),
            sessions: self.sessions.iter().map(|(node, _)| node).collect(),
            clock_offset_ns: None,
            disk_bytes: self.run.measured.disk_bytes,
            disk_free_bytes: self.run.measured.disk_free_bytes,
            socket_buffer_bytes: self.run.measured.socket_buffer_bytes,
            counters: counters
                .chain(figures)
                .chain(self.run.counted.iter().copied())
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }

    /// Of these queues, as far as this node knows anything of them.
    fn counts(&self, now: Now, queues: &[QueueId]) -> Vec<QueueTold> {
        queues.iter().filter_map(|queue| self.counts_of(now, *queue)).collect()
    }

    pub(super) fn counts_of(&self, now: Now, queue: QueueId) -> Option<QueueTold> {
        let skew = self.run.skews.get(&queue);
        let mut partitions = self.partitions.range((queue, 0)..=(queue, u16::MAX)).peekable();
        if partitions.peek().is_none() && skew.is_none() {
            return None;
        }
        let (mut held, mut own) = (QueueCounts::default(), QueueCounts::default());
        for (_, partition) in partitions {
            let in_flight = partition.flights.len() as u64;
            held.messages += partition.known.held_count();
            held.in_flight += in_flight;
            if !partition.serves_any() {
                continue;
            }
            own.messages += partition.served_count();
            own.in_flight += in_flight;
            let accepted = partition.oldest.accepted(&partition.known);
            let age = accepted.map_or(Duration::ZERO, |stamp| now.wall.since(stamp.time));
            let age = millis(age);
            own.oldest_age_ms = own.oldest_age_ms.max(age);
            held.oldest_age_ms = held.oldest_age_ms.max(age);
        }
        Some(QueueTold { queue, held, own, skew: skew.cloned().unwrap_or_default() })
    }

    /// The cluster, and these queues, as this node and those who answered see them.
    pub(super) fn status(&self, now: Now, page: Page, answered: &BTreeSet<NodeId>) -> Status {
        let members = self.in_view().map(|(node, member)| {
            let mut standing = self.standing(node, member);
            if standing == Standing::Ready && !self.is_here(node, answered) {
                standing = Standing::NotReady;
            }
            MemberStatus {
                node,
                client_address: member.client_address.unwrap_or(member.peer_address),
                peer_address: member.peer_address,
                zone: member.zone.as_str().to_owned(),
                standing,
                report: self.report_of(now, node),
            }
        });
        let members = members.collect();
        let queues = page.names.into_iter();
        let queues = queues.filter_map(|name| self.queue_status(now, name, answered));
        Status { node: self.config.node, members, queues: queues.collect(), more: page.more }
    }

    fn is_here(&self, node: NodeId, answered: &BTreeSet<NodeId>) -> bool {
        node == self.config.node || answered.contains(&node)
    }

    fn report_of(&self, now: Now, node: NodeId) -> Option<NodeReport> {
        let clock_offset_ns = self.sessions.with(node).and_then(|s| s.clock_offset);
        if node == self.config.node {
            return Some(NodeReport { clock_offset_ns, ..self.report(now) });
        }
        let told = self.desk.told.get(&node)?;
        let age_ms = millis(now.mono.since(told.at));
        Some(NodeReport { age_ms, clock_offset_ns, ..told.report.clone() })
    }

    fn queue_status(
        &self,
        now: Now,
        name: QueueName,
        answered: &BTreeSet<NodeId>,
    ) -> Option<QueueStatus> {
        let same: Vec<QueueId> = self.table.named(&name).iter().map(|entry| entry.id).collect();
        let id = *same.first()?;
        let (mut nodes, mut total) = (Vec::new(), QueueCounts::default());
        let mut skew = ArrivalSkew::default();
        for queue in &same {
            let me = self.counts_of(now, *queue).map(|told| (self.config.node, told));
            let others = self.desk.told.iter().filter_map(|(node, told)| {
                told.queues.get(queue).map(|figures| (*node, figures.aged(now)))
            });
            for (node, told) in others.chain(me) {
                nodes.push((node, told.held));
                if self.is_here(node, answered) {
                    add(&mut total, &told.own);
                    skew.merge(&told.skew);
                }
            }
        }
        nodes.sort_by_key(|(node, _)| *node);
        Some(QueueStatus { name, id, nodes, total, skew })
    }
}

/// Adds what is in a node's custody to the total, which is as old as its oldest part.
fn add(total: &mut QueueCounts, own: &QueueCounts) {
    total.messages += own.messages;
    total.in_flight += own.in_flight;
    total.oldest_age_ms = total.oldest_age_ms.max(own.oldest_age_ms);
    total.age_ms = total.age_ms.max(own.age_ms);
}

/// Rows that are read to find the oldest message: one and its count, and some that are no longer
/// held but not yet swept.
const OLDEST_ROWS: usize = 16;
/// Queues of one answer: with a hundred nodes it stays below the largest frame.
const QUEUES_MAX: usize = 500;
/// How long the others have to answer.
const ASK_WITHIN: Duration = Duration::from_millis(500);
