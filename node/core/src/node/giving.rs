//! Handing out: to waiters here, to nodes that took, and by taking from nodes that offer.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{DeliveryLabel, NodeId, Position, QueueId, Receipt, Response};

use super::sending::visibility;
use super::{Drain, Node};
use crate::custody::known::Seen;
use crate::effect::Effects;
use crate::envelope::{Envelope, Heard, LeaseChange, Wanted};
use crate::ledger::{Key, MessageKey, Write, record};
use crate::now::{Mono, Now};
use crate::queue::{Flight, Given, Head, Lease, Reach};
use crate::reception::{Kind, Offered, Taking, WaiterId};
use crate::session::PartitionId;
use crate::timer::Timer;

impl Node {
    /// Serves every queue at which something changed.
    pub(super) fn serve_touched(&mut self, now: Now, effects: &mut Effects) {
        while let Some(queue) = self.reception.pop_touched() {
            self.serve(now, queue, effects);
        }
    }

    /// Serves a queue: waiters here first, unless much older messages are offered elsewhere; then
    /// what is left is offered to nodes that want it.
    fn serve(&mut self, now: Now, queue: QueueId, effects: &mut Effects) {
        if !self.reception.is_wanted(queue) {
            return;
        }
        if self.reception.want_now(queue) {
            self.say_all(&Envelope::Want { queue, wanted: Wanted::Yes }, effects);
        }
        self.fill_windows(queue, effects);
        // Consumers of a node that is to stop are about to leave it.
        while self.run.drain == Drain::No
            && let Some((id, waiter)) = self.reception.next_with_credit(queue)
        {
            let (credit, visibility_ms) = (waiter.credit(), waiter.visibility_ms);
            let own = self.oldest_ready(queue);
            let offer = self.reception.best_offer(queue);
            match (own, offer) {
                (Some(own), Some((_, oldest))) if own <= oldest.saturating_add(MUCH_OLDER) => {
                    if !self.give_here(now, (queue, id), credit, effects) {
                        break;
                    }
                }
                (_, Some((peer, _))) => {
                    let max = credit.min(GIVE_MAX);
                    let taking = Taking { peer, queue, waiter: id, max };
                    let call = self.reception.start_take(taking);
                    self.say(peer, Envelope::Take { call, queue, max, visibility_ms }, effects);
                }
                (Some(_), None) => {
                    if !self.give_here(now, (queue, id), credit, effects) {
                        break;
                    }
                }
                (None, None) => break,
            }
        }
        if let Some(oldest) = self.oldest_ready(queue) {
            for node in self.reception.take_unoffered(queue) {
                self.say(node, Envelope::Offer { queue, oldest }, effects);
            }
        }
        self.fill_windows(queue, effects);
    }

    /// Gives a waiter of this node what is ready here; whether there was anything. What looks ready
    /// may be gone, expired, or beyond the limit of messages in flight.
    fn give_here(
        &mut self,
        now: Now,
        (queue, id): (QueueId, WaiterId),
        credit: u32,
        effects: &mut Effects,
    ) -> bool {
        let visibility_ms = self.reception.waiter(id).and_then(|waiter| waiter.visibility_ms);
        let deliveries = self.hand_out(now, queue, (credit.min(GIVE_MAX), visibility_ms), effects);
        if deliveries.is_empty() {
            return false;
        }
        self.deliver(id, deliveries, effects);
        self.reception.rotate(queue, id);
        true
    }

    /// Answers a waiter with deliveries.
    pub(super) fn deliver(
        &mut self,
        id: WaiterId,
        deliveries: Vec<DeliveryLabel>,
        effects: &mut Effects,
    ) {
        let Some(waiter) = self.reception.waiter_mut(id) else { return };
        let reply = waiter.reply;
        let once = match &mut waiter.kind {
            Kind::Once { .. } => true,
            Kind::Stream(stream) => {
                stream.sent += deliveries.len() as u64;
                stream.untaken.extend(deliveries.iter().map(|delivery| delivery.receipt.clone()));
                false
            }
        };
        if once {
            self.reception.leave(id);
        }
        self.count_more("deliveries_given", deliveries.len() as u64);
        effects.answer(reply, Response::Deliveries { deliveries });
    }

    /// The time of the oldest stamp that is ready here.
    pub(super) fn oldest_ready(&mut self, queue: QueueId) -> Option<u64> {
        let partitions = self.partitions.range_mut((queue, 0)..=(queue, u16::MAX));
        let firsts = partitions.filter_map(|(_, partition)| {
            Some(partition.first_ready(&BTreeMap::new())?.label.stamp.time)
        });
        firsts.min()
    }

    /// Hands out up to `max` messages, oldest first, partition by partition in runs.
    pub(super) fn hand_out(
        &mut self,
        now: Now,
        queue: QueueId,
        (max, visibility_ms): (u32, Option<u64>),
        effects: &mut Effects,
    ) -> Vec<DeliveryLabel> {
        if self.is_told() {
            // Nobody would hear of these leases any more.
            return Vec::new();
        }
        let Some(entry) = self.table.live(queue) else { return Vec::new() };
        let settings = entry.settings();
        let lease = visibility(visibility_ms.unwrap_or(settings.visibility_timeout_ms));
        let lease = lease.max(LEASE_MIN);
        let rule = self.rule(now, queue);
        let oldest_allowed = self.oldest_allowed(now, queue).unwrap_or(0);
        let partitions = || self.partitions.range((queue, 0)..=(queue, u16::MAX));
        let in_flight = partitions().map(|(_, partition)| partition.flights.len()).sum();
        let room = self.config.in_flight_max.saturating_sub(in_flight);
        let max = max.min(u32::try_from(room).unwrap_or(u32::MAX));
        self.end_turns(now, queue);
        let partitions = self.partitions.range_mut((queue, 0)..=(queue, u16::MAX));
        let mut firsts: Vec<(gaggle_wire::Stamp, PartitionId)> = partitions
            .filter_map(|(id, partition)| {
                Some((partition.first_ready(&BTreeMap::new())?.label.stamp, *id))
            })
            .collect();
        firsts.sort_unstable();
        let (mut deliveries, mut bytes) = (Vec::new(), 0);
        for (_, id) in firsts {
            // How many of each key go out together.
            let mut group = BTreeMap::new();
            while (deliveries.len() as u32) < max {
                let partition = self.partitions.get_mut(&id).expect("it was listed");
                let Some(next) = partition.first_ready(&group) else { break };
                let (length, stamp) = (next.label.content_length(), next.label.stamp);
                if bytes > 0 && bytes + length > gaggle_wire::frame::BATCH_BYTES {
                    return deliveries;
                }
                let head = partition.window.remove(stamp).expect("it was looked at");
                let seen = partition.known.seen(head.label.stamp.process, head.label.number);
                if seen != Seen::Held {
                    continue;
                }
                if !partition.may_hand_out(&head, rule) {
                    // It has grown old without being known to be anywhere else.
                    partition.passed_over = true;
                    continue;
                }
                if head.accepted.time < oldest_allowed && !partition.is_strict() {
                    // It is expired; the next look at the partition buries it.
                    partition.window.arrive(head, usize::MAX);
                    partition.look_at = Mono(0);
                    self.timers.at_latest(Timer::Partition(id.0, id.1), now.mono);
                    break;
                }
                bytes += length;
                let key = head.label.key;
                let given = self.give(now, id, (head, lease), effects);
                if matches!(given.position, Some(Position::InOrder { .. })) {
                    *group.entry(key).or_default() += 1;
                }
                deliveries.push(given);
            }
        }
        deliveries
    }

    /// Puts a message in flight.
    fn give(
        &mut self,
        now: Now,
        id: PartitionId,
        (mut head, lease_for): (Head, Duration),
        effects: &mut Effects,
    ) -> DeliveryLabel {
        let (me, boot) = (self.config.node, self.run.boot);
        // Another node may have told of any count.
        head.deliveries = head.deliveries.saturating_add(1);
        let delivery = head.deliveries;
        let stamp = head.label.stamp;
        if delivery > 1 {
            self.count_delivery(id, &head, effects);
        }
        let partition = self.partitions.get_mut(&id).expect("the caller has it");
        let until = now.mono.plus(lease_for);
        let receipt = Receipt {
            queue: id.0,
            partition: id.1,
            number: head.label.number,
            stamp,
            holders: partition.holders_named(&head),
            custodian: me,
            boot,
            delivery,
        };
        let label = DeliveryLabel {
            receipt,
            label: head.label,
            accepted: head.accepted,
            lease_ms: millis(lease_for),
            position: partition.agreed().and_then(|agreed| agreed.position(&head.label)),
        };
        let lease = Lease { custodian: me, boot, delivery };
        let (since, given) = (now.mono, Given::Delivered);
        partition.take_off(Flight { head, lease, until, since, given });
        self.timers.at_latest(Timer::Partition(id.0, id.1), until);
        self.timers.at_latest(Timer::Bulk, now.mono.plus(self.config.tell_leases_after));
        label
    }

    /// Writes down how often a message was delivered. A first delivery is written when its lease
    /// ends: most are deleted before, and if it were forgotten, the next one would have the same
    /// receipt.
    pub(super) fn count_delivery(&mut self, id: PartitionId, head: &Head, effects: &mut Effects) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let (stamp, number) = (head.label.stamp, head.label.number);
        if matches!(partition.known.seen(stamp.process, number), Seen::Held | Seen::Lost) {
            partition.known.count_row(stamp.process, number);
            let key = MessageKey { queue: id.0, partition: id.1, stamp };
            let (key, value) = (Key::Deliveries(key).encode(), record::encode(&head.deliveries));
            effects.write(Write::Put { key, value });
        }
    }

    /// Reads ahead where this node hands out and the window runs low.
    pub(super) fn fill_windows(&mut self, queue: QueueId, effects: &mut Effects) {
        let low = self.config.window_max / 2;
        let ids: Vec<PartitionId> = self
            .partitions
            .range((queue, 0)..=(queue, u16::MAX))
            .filter(|(_, partition)| {
                let window = &partition.window;
                partition.hands_out()
                    && !window.is_reading()
                    && window.reach() != Reach::End
                    && window.len() < low.max(1)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.read_window(id, effects);
        }
    }

    /// Another node takes.
    pub(super) fn taken_by(
        &mut self,
        now: Now,
        peer: NodeId,
        (call, queue, max, visibility_ms): (u64, QueueId, u32, Option<u64>),
        effects: &mut Effects,
    ) {
        let deliveries = self.hand_out(now, queue, (max.min(GIVE_MAX), visibility_ms), effects);
        // What is ready and was not given is beyond the limit in flight, or expired: not an offer,
        // or the two would ask each other without end.
        let more = self.oldest_ready(queue).filter(|_| !deliveries.is_empty());
        let offered = if more.is_some() { Offered::Yes } else { Offered::No };
        self.reception.note_offer(queue, peer, offered);
        self.say(peer, Envelope::Grant { call, queue, deliveries, more }, effects);
        self.fill_windows(queue, effects);
    }

    /// Another node grants what was taken.
    pub(super) fn granted(
        &mut self,
        peer: NodeId,
        (call, deliveries): (u64, Vec<DeliveryLabel>),
        (queue, more): (QueueId, Option<u64>),
        effects: &mut Effects,
    ) {
        let taking = self.reception.end_take(call);
        if let Some(oldest) = more {
            self.reception.offered_by(queue, peer, oldest);
        }
        if deliveries.is_empty() {
            return;
        }
        let waiter = taking.map(|taking| taking.waiter).filter(|id| {
            self.reception
                .waiter(*id)
                .is_some_and(|waiter| waiter.credit() as usize >= deliveries.len())
        });
        match waiter {
            Some(id) => {
                self.deliver(id, deliveries, effects);
                self.reception.rotate(queue, id);
            }
            None => {
                self.count_more("grants_given_back", deliveries.len() as u64);
                let receipts = deliveries.into_iter().map(|delivery| delivery.receipt).collect();
                self.say(peer, Envelope::GrantBack { receipts, heard: Heard::No }, effects);
            }
        }
    }

    /// Deliveries that nobody took. Of whom a client may have heard, the next delivery must have
    /// another receipt: the client may still release it (F6).
    pub(super) fn given_back(
        &mut self,
        now: Now,
        (receipts, heard): (&[Receipt], Heard),
        effects: &mut Effects,
    ) {
        for receipt in receipts {
            if heard == Heard::Perhaps {
                // Whose receipt is stale has nothing to give back.
                let _ = self.change_lease(now, LeaseChange::Release(0), receipt, effects);
                continue;
            }
            let id = (receipt.queue, receipt.partition);
            let Some(partition) = self.partitions.get_mut(&id) else { continue };
            let present = partition.flights.with(receipt.stamp);
            if !present.is_some_and(|flight| flight.lease.is_of(receipt)) {
                continue;
            }
            let mut flight = partition.flights.remove(receipt.stamp).expect("it was looked at");
            partition.lease_ended(&flight);
            flight.head.deliveries = flight.head.deliveries.saturating_sub(1);
            self.ready_again(now, id, flight.head, effects);
        }
    }

    /// A message is not in flight any more and not deleted.
    pub(super) fn ready_again(
        &mut self,
        now: Now,
        id: PartitionId,
        head: Head,
        effects: &mut Effects,
    ) {
        let rule = self.rule(now, id.0);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let (stamp, number) = (head.label.stamp, head.label.number);
        let behind = partition.end_group(&head);
        if partition.known.seen(stamp.process, number) == Seen::Held {
            if partition.may_hand_out(&head, rule) {
                partition.window.arrive(head, self.config.window_max);
            } else {
                partition.passed_over |= partition.hands_out_of(head.list);
            }
        }
        for flight in behind {
            if let Some(partition) = self.partitions.get_mut(&id) {
                partition.lease_ended(&flight);
            }
            self.count_delivery(id, &flight.head, effects);
            self.ready_again(now, id, flight.head, effects);
        }
        self.timers.at_latest(Timer::Bulk, now.mono.plus(self.config.tell_leases_after));
        self.reception.touch(id.0);
    }
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Messages of one answer, at most; see `gaggle_wire::RECEIVE_MAX`.
const GIVE_MAX: u32 = 1000;
/// How much older what is offered elsewhere must be to come before what is ready here: 1 s, in
/// nanoseconds.
const MUCH_OLDER: u64 = 1_000_000_000;
/// The shortest lease. Without one, a consumer that streams and hides nothing would be given the
/// same message again and again within one moment, and the node would do nothing else.
const LEASE_MIN: Duration = Duration::from_millis(100);
