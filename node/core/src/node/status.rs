//! How it is with the node and the cluster, for those who ask.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{
    MemberStatus, NodeId, NodeReport, QueueCounts, QueueId, QueueStatus, Standing, Status,
};

use super::Node;
use super::giving::millis;
use super::inventory::{Question, Told};
use crate::effect::Effects;
use crate::envelope::Envelope;
use crate::event::Reply;
use crate::now::Now;
use crate::timer::Timer;

impl Node {
    pub(super) fn status_requested(&mut self, now: Now, reply: Reply, effects: &mut Effects) {
        let peers: Vec<NodeId> = self.sessions.iter().map(|(node, _)| node).collect();
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Status { reply, told: BTreeMap::new() };
        let call = self.desk.calls.start(peers, deadline, kind);
        self.say_all(&Envelope::AskStatus { call }, effects);
        self.call_over(now, call, effects);
    }

    /// What this node says of itself.
    pub(super) fn report(&self) -> NodeReport {
        NodeReport {
            age_ms: 0,
            boot: self.run.boot,
            ready: self.is_ready(),
            sessions: self.sessions.iter().map(|(node, _)| node).collect(),
            clock_offset_ns: None,
            disk_bytes: self.run.measured.disk_bytes,
            socket_buffer_bytes: self.run.measured.socket_buffer_bytes,
            counters: self
                .run
                .counters
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .chain([("tombstone_blocks".to_owned(), self.burials.count() as u64)])
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
            let first = partition.window.first().map(|head| now.wall.since(head.accepted.time));
            let age = millis(first.unwrap_or(Duration::ZERO));
            own.oldest_age_ms = own.oldest_age_ms.max(age);
            held.oldest_age_ms = held.oldest_age_ms.max(age);
        }
        counts.into_iter().map(|(queue, (held, own))| (queue, held, own)).collect()
    }

    /// The cluster as this node and those who answered see it.
    pub(super) fn status(&self, now: Now, told: &BTreeMap<NodeId, Told>) -> Status {
        let me = self.config.node;
        let own = Told { report: self.report(), queues: self.counts(now) };
        let view = self.membership.view();
        let members = view.iter().map(|(node, member)| {
            let report = if node == me { Some(&own) } else { told.get(&node) };
            let report = report.map(|told| NodeReport {
                clock_offset_ns: self.sessions.with(node).and_then(|s| s.clock_offset),
                ..told.report.clone()
            });
            let mut standing = self.standing(node, member);
            if standing == Standing::Ready && report.is_none() {
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
        let everyone: Vec<(NodeId, &Told)> =
            told.iter().map(|(node, told)| (*node, told)).chain([(me, &own)]).collect();
        let queues = self.table.page(None).map(|entry| {
            let mut status = QueueStatus {
                name: entry.name.clone(),
                id: entry.id,
                nodes: Vec::new(),
                total: QueueCounts::default(),
            };
            for same in self.table.named(&entry.name) {
                for (node, told) in &everyone {
                    let found = told.queues.iter().find(|(queue, ..)| *queue == same.id);
                    if let Some((_, held, own)) = found {
                        status.nodes.push((*node, *held));
                        status.total.messages += own.messages;
                        status.total.in_flight += own.in_flight;
                        let oldest = own.oldest_age_ms;
                        status.total.oldest_age_ms = status.total.oldest_age_ms.max(oldest);
                    }
                }
            }
            status.nodes.sort_by_key(|(node, _)| *node);
            status
        });
        Status { node: me, members: members.collect(), queues: queues.collect() }
    }
}

/// How long the others have to answer.
const ASK_WITHIN: Duration = Duration::from_millis(500);
