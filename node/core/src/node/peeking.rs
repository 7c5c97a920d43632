//! Peeks: the first ready messages of every custodian, handed out to nobody.
//!
//! Whoever is asked, this node as well as the others, answers when its windows are there to look
//! into: of a queue that nobody has received from nothing was read yet. What this file does not
//! do: it promises no completeness; who does not answer in time is not waited for.

use std::time::Duration;

use gaggle_wire::{DeliveryLabel, NodeId, QueueId, RECEIVE_MAX, Receipt};

use super::Node;
use super::asking::Question;
use crate::effect::Effects;
use crate::envelope::Envelope;
use crate::event::Reply;
use crate::now::Now;
use crate::timer::Timer;

/// Somebody who waits for a look into windows that are being read.
#[derive(Debug)]
pub(super) struct Peek {
    pub(super) asker: NodeId,
    pub(super) call: u64,
    pub(super) queues: Vec<QueueId>,
    pub(super) max: u32,
}

impl Node {
    pub(super) fn peek_requested(
        &mut self,
        now: Now,
        reply: Reply,
        (queues, max): (Vec<QueueId>, u32),
        effects: &mut Effects,
    ) {
        let max = max.clamp(1, u32::try_from(RECEIVE_MAX).expect("it is small"));
        let me = self.config.node;
        let peers: Vec<NodeId> = self.sessions.iter().map(|(node, _)| node).collect();
        let deadline = now.mono.plus(PEEK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Peek { reply, max, found: Vec::new() };
        let call = self.desk.calls.start(peers.iter().copied().chain([me]), deadline, kind);
        for node in peers {
            for queue in &queues {
                self.say(node, Envelope::AskPeek { call, queue: *queue, max }, effects);
            }
        }
        self.peek_asked(now, Peek { asker: me, call, queues, max }, effects);
    }

    /// Answers a peek, now or when the windows are read.
    pub(super) fn peek_asked(&mut self, now: Now, peek: Peek, effects: &mut Effects) {
        for queue in &peek.queues {
            self.fill_windows(*queue, effects);
        }
        let until = now.mono.plus(PEEK_WITHIN);
        self.desk.peeks.retain(|(until, _)| *until > now.mono);
        self.desk.peeks.push((until, peek));
        self.answer_peeks(now, effects);
    }

    /// Answers the peeks whose windows can be looked into.
    pub(super) fn answer_peeks(&mut self, now: Now, effects: &mut Effects) {
        let (waiting, due): (Vec<_>, Vec<_>) = std::mem::take(&mut self.desk.peeks)
            .into_iter()
            .partition(|(_, peek)| peek.queues.iter().any(|queue| self.is_unread(*queue)));
        self.desk.peeks = waiting;
        for (_, Peek { asker, call, queues, max }) in due {
            let mut found = queues.iter().flat_map(|queue| self.peek(*queue, max)).collect();
            first_ones(&mut found, max);
            if asker == self.config.node {
                self.peeked(now, asker, (call, found), effects);
            } else {
                self.say(asker, Envelope::Peeked { call, deliveries: found }, effects);
            }
        }
    }

    /// A node, or this one, says what is ready there.
    pub(super) fn peeked(
        &mut self,
        now: Now,
        node: NodeId,
        (call, deliveries): (u64, Vec<DeliveryLabel>),
        effects: &mut Effects,
    ) {
        if let Some(asked) = self.desk.calls.answer(call, node)
            && let Question::Peek { found, .. } = &mut asked.kind
        {
            found.extend(deliveries);
        }
        self.call_over(now, call, effects);
    }

    /// Whether there is a window of the queue that is empty because it is still being read.
    fn is_unread(&self, queue: QueueId) -> bool {
        let mut partitions = self.partitions.range((queue, 0)..=(queue, u16::MAX));
        partitions
            .any(|(_, partition)| partition.window.is_reading() && partition.window.len() == 0)
    }

    /// The first ready messages here, as if delivered, but without a lease.
    fn peek(&self, queue: QueueId, max: u32) -> Vec<DeliveryLabel> {
        let partitions = self.partitions.range((queue, 0)..=(queue, u16::MAX));
        let mut found: Vec<DeliveryLabel> = partitions
            .flat_map(|(id, partition)| {
                partition.window.iter().take(max as usize).map(|head| DeliveryLabel {
                    receipt: Receipt {
                        queue,
                        partition: id.1,
                        number: head.label.number,
                        stamp: head.label.stamp,
                        holders: partition.holders_named(head),
                        custodian: self.config.node,
                        boot: self.run.boot,
                        delivery: head.deliveries,
                    },
                    label: head.label,
                    accepted: head.accepted,
                    lease_ms: 0,
                    position: partition.agreed().and_then(|a| a.position(&head.label)),
                })
            })
            .collect();
        first_ones(&mut found, max);
        found
    }
}

/// Keeps the oldest ones, as many as asked for and as fit into a frame.
pub(super) fn first_ones(found: &mut Vec<DeliveryLabel>, max: u32) {
    found.sort_by_key(|delivery| delivery.label.stamp);
    found.truncate(max as usize);
    let mut bytes = 0;
    let fits = found.iter().take_while(|delivery| {
        bytes += delivery.label.content_length();
        bytes <= gaggle_wire::frame::BATCH_BYTES
    });
    let keep = fits.count().max(1);
    found.truncate(keep);
}

/// How long a peek waits for windows and for other custodians.
const PEEK_WITHIN: Duration = Duration::from_secs(1);
