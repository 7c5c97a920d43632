//! How it is with the node and the cluster, for those who ask.
//!
//! The others are asked when somebody asks. Of one that does not answer, what it last told this
//! node stays, with its age; it does not count in the totals, for its queues are served by
//! others now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{
    MemberStatus, NodeId, NodeReport, QueueCounts, QueueId, QueueStatus, Standing, Status,
};

use super::Node;
use super::giving::millis;
use super::inventory::Question;
use super::loading::{Load, range_after};
use crate::effect::Effects;
use crate::envelope::Envelope;
use crate::event::{Reply, ScanEnd};
use crate::ledger::Row;
use crate::now::{Mono, Now};
use crate::queue::First;
use crate::session::PartitionId;
use crate::timer::Timer;

/// What a node told of itself and of its queues: its copies, and what is in its custody.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) report: NodeReport,
    pub(super) queues: Vec<(QueueId, QueueCounts, QueueCounts)>,
    pub(super) at: Mono,
}

impl Told {
    /// The same, with its age in all figures.
    fn aged(&self, now: Now) -> Self {
        let age_ms = millis(now.mono.since(self.at));
        let queues = self.queues.iter().map(|(queue, held, own)| {
            (*queue, QueueCounts { age_ms, ..*held }, QueueCounts { age_ms, ..*own })
        });
        let report = NodeReport { age_ms, ..self.report.clone() };
        Self { report, queues: queues.collect(), at: self.at }
    }
}

impl Node {
    pub(super) fn status_requested(&mut self, now: Now, reply: Reply, effects: &mut Effects) {
        let peers: Vec<NodeId> = self.sessions.iter().map(|(node, _)| node).collect();
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Status { reply };
        let me = self.config.node;
        let call = self.desk.calls.start(peers.into_iter().chain([me]), deadline, kind);
        self.say_all(&Envelope::AskStatus { call }, effects);
        self.status_asked(now, (me, call), effects);
    }

    /// Somebody, or this node itself, asks how it is here: that is told when it is known how old
    /// the oldest messages are.
    pub(super) fn status_asked(&mut self, now: Now, asker: (NodeId, u64), effects: &mut Effects) {
        let unknown = self.partitions.iter_mut().filter_map(|(id, partition)| {
            let reads = partition.serves_any() && partition.oldest.start_reading(&partition.known);
            reads.then_some(*id)
        });
        for id in unknown.collect::<Vec<PartitionId>>() {
            self.desk.oldest_reads += 1;
            self.load(Load::Oldest(id), range_after(id, None), OLDEST_ROWS, effects);
        }
        self.desk.status_asked.push(asker);
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
        for (asker, call) in std::mem::take(&mut self.desk.status_asked) {
            if asker == self.config.node {
                self.desk.calls.answer(call, asker);
                self.call_over(now, call, effects);
            } else {
                let (report, queues) = (Box::new(self.report(now)), self.counts(now));
                self.say(asker, Envelope::StatusTold { call, report, queues }, effects);
            }
        }
    }

    /// A node told how it is.
    pub(super) fn status_told(&mut self, peer: NodeId, call: u64, told: Told) {
        self.desk.calls.answer(call, peer);
        let members: BTreeSet<NodeId> = self.members().map(|(node, _)| node).collect();
        self.desk.told.retain(|node, _| members.contains(node));
        self.desk.told.insert(peer, told);
    }

    /// What this node says of itself.
    pub(super) fn report(&self, now: Now) -> NodeReport {
        let (few, left, seconds) = self.under_replicated(now);
        let figures = [
            ("clock_sick", u64::from(self.calendar.is_sick())),
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
            socket_buffer_bytes: self.run.measured.socket_buffer_bytes,
            counters: counters
                .chain(figures)
                .chain(self.run.counted.iter().copied())
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }

    /// Of every queue that this node holds anything of: its copies, and what is in its custody.
    pub(super) fn counts(&self, now: Now) -> Vec<(QueueId, QueueCounts, QueueCounts)> {
        let mut counts: BTreeMap<QueueId, (QueueCounts, QueueCounts)> = BTreeMap::new();
        for (id, partition) in &self.partitions {
            let (held, own) = counts.entry(id.0).or_default();
            let in_flight = partition.flights.len() as u64;
            held.messages += partition.known.held_count();
            held.in_flight += in_flight;
            if !partition.serves_any() {
                continue;
            }
            own.messages += partition.known.held_count();
            own.in_flight += in_flight;
            let accepted = partition.oldest.accepted(&partition.known);
            let age = accepted.map_or(Duration::ZERO, |stamp| now.wall.since(stamp.time));
            let age = millis(age);
            own.oldest_age_ms = own.oldest_age_ms.max(age);
            held.oldest_age_ms = held.oldest_age_ms.max(age);
        }
        counts.into_iter().map(|(queue, (held, own))| (queue, held, own)).collect()
    }

    /// The cluster as this node and those who answered see it.
    pub(super) fn status(&self, now: Now, answered: &BTreeSet<NodeId>) -> Status {
        let me = self.config.node;
        let own = Told { report: self.report(now), queues: self.counts(now), at: now.mono };
        let told = self.desk.told.iter().map(|(node, told)| (*node, told.aged(now)));
        let told: BTreeMap<NodeId, Told> = told.chain([(me, own)]).collect();
        let is_here = |node: NodeId| node == me || answered.contains(&node);
        let members = self.members().map(|(node, member)| {
            let report = told.get(&node).map(|told| NodeReport {
                clock_offset_ns: self.sessions.with(node).and_then(|s| s.clock_offset),
                ..told.report.clone()
            });
            let mut standing = self.standing(node, member);
            if standing == Standing::Ready && !is_here(node) {
                standing = Standing::NotReady;
            }
            MemberStatus {
                node,
                client_address: member.client_address.unwrap_or(member.peer_address),
                peer_address: member.peer_address,
                zone: member.zone.as_str().to_owned(),
                standing,
                report,
            }
        });
        let queues = self.table.page(None).map(|entry| {
            let mut status = QueueStatus {
                name: entry.name.clone(),
                id: entry.id,
                nodes: Vec::new(),
                total: QueueCounts::default(),
            };
            for same in self.table.named(&entry.name) {
                for (node, told) in &told {
                    let found = told.queues.iter().find(|(queue, ..)| *queue == same.id);
                    let Some((_, held, own)) = found else { continue };
                    status.nodes.push((*node, *held));
                    if is_here(*node) {
                        add(&mut status.total, own);
                    }
                }
            }
            status.nodes.sort_by_key(|(node, _)| *node);
            status
        });
        Status { node: me, members: members.collect(), queues: queues.collect() }
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
/// How long the others have to answer.
const ASK_WITHIN: Duration = Duration::from_millis(500);
