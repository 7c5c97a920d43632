//! Extends and releases: to the custodian, wherever it is.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{NodeId, Receipt, Refusal, Response, VISIBILITY_MAX_MS};

use super::Node;
use super::asking::Question;
use super::sending::visibility;
use crate::calls::Batch;
use crate::effect::Effects;
use crate::envelope::{Envelope, LeaseChange, LeaseTold};
use crate::event::Reply;
use crate::now::Now;
use crate::queue::{Flight, Given, Partition};
use crate::session::PartitionId;
use crate::table::rendezvous::{self, Slot};
use crate::timer::Timer;

impl Node {
    pub(super) fn change_requested(
        &mut self,
        now: Now,
        reply: Reply,
        (change, receipts): (LeaseChange, Vec<Receipt>),
        effects: &mut Effects,
    ) {
        let (LeaseChange::Extend(ms) | LeaseChange::Release(ms)) = change;
        if ms > VISIBILITY_MAX_MS {
            let why = "a message is hidden for at most 12 hours".to_owned();
            effects.answer(reply, Response::Refused(Refusal::BadRequest { why }));
            return;
        }
        let number = self.desk.batch_number();
        let mut batch = Batch::new(reply, receipts.len());
        let mut elsewhere: BTreeMap<NodeId, (Vec<usize>, Vec<Receipt>)> = BTreeMap::new();
        for (at, receipt) in receipts.into_iter().enumerate() {
            match self.custodian_of(&receipt) {
                Some(node) if node != self.config.node => {
                    let (positions, receipts) = elsewhere.entry(node).or_default();
                    positions.push(at);
                    receipts.push(receipt);
                }
                _ => batch.set(at, self.change_lease(now, change, &receipt, effects)),
            }
        }
        self.desk.changes.insert(number, batch);
        let deadline = now.mono.plus(CHANGE_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        for (node, (at, receipts)) in elsewhere {
            let kind = Question::Change { batch: number, at, change, results: Vec::new() };
            let call = self.desk.calls.start([node], deadline, kind);
            self.say(node, Envelope::Change { call, change, receipts }, effects);
        }
        self.change_answer(number, change, effects);
    }

    /// Who knows this delivery: its custodian, or whoever goes on for it.
    fn custodian_of(&self, receipt: &Receipt) -> Option<NodeId> {
        if self.sessions.reaches(receipt.custodian) {
            return Some(receipt.custodian);
        }
        let mut holders = receipt.holders.clone();
        rendezvous::order(Slot::of(receipt.queue, receipt.partition), &mut holders);
        holders.into_iter().find(|node| self.sessions.reaches(*node))
    }

    /// Changes the lease of a delivery in this node's custody; for how long it stays hidden.
    pub(super) fn change_lease(
        &mut self,
        now: Now,
        change: LeaseChange,
        receipt: &Receipt,
        effects: &mut Effects,
    ) -> Result<u64, Refusal> {
        let id = (receipt.queue, receipt.partition);
        let partition = self.partitions.get_mut(&id).ok_or(Refusal::StaleReceipt)?;
        let present = partition.flights.with(receipt.stamp).ok_or(Refusal::StaleReceipt)?;
        if !present.lease.is_of(receipt) || present.given != Given::Delivered {
            return Err(Refusal::StaleReceipt);
        }
        // Who hands it out by now hears of it at once: to its knowledge the lease ends before (P3).
        let age = self.config.tell_leases_after;
        let (since, told_at) = if partition.serves(present.head.list) {
            (now.mono, now.mono.plus(age))
        } else {
            (now.mono.minus(age), now.mono)
        };
        match change {
            LeaseChange::Extend(ms) => {
                let until = now.mono.plus(visibility(ms));
                partition.flights.extend(receipt.stamp, until, since);
                self.timers.at_latest(Timer::Partition(id.0, id.1), until);
                self.timers.at_latest(Timer::Bulk, told_at);
                Ok(ms)
            }
            LeaseChange::Release(0) => {
                let flight = partition.flights.remove(receipt.stamp).expect("it was looked at");
                partition.lease_ended(&flight);
                self.count_delivery(id, &flight.head, effects);
                self.ready_again(now, id, flight.head, effects);
                Ok(0)
            }
            LeaseChange::Release(ms) => {
                let flight = partition.flights.remove(receipt.stamp).expect("it was looked at");
                let until = now.mono.plus(visibility(ms));
                let given = Given::Delayed;
                partition.flights.insert(Flight { until, since, given, ..flight });
                self.timers.at_latest(Timer::Partition(id.0, id.1), until);
                self.timers.at_latest(Timer::Bulk, told_at);
                Ok(ms)
            }
        }
    }

    pub(super) fn change_asked(
        &mut self,
        now: Now,
        peer: NodeId,
        (call, change, receipts): (u64, LeaseChange, &[Receipt]),
        effects: &mut Effects,
    ) {
        let results = receipts.iter().map(|r| self.change_lease(now, change, r, effects)).collect();
        self.say(peer, Envelope::Changed { call, results }, effects);
    }

    /// Another custodian told of its leases, be the messages here yet or not. Of its own this node
    /// knows better.
    pub(super) fn leases_told(
        &mut self,
        now: Now,
        id: PartitionId,
        leases: &[LeaseTold],
        effects: &mut Effects,
    ) {
        let own = (self.config.node, self.run.boot);
        for lease in leases.iter().filter(|lease| (lease.custodian, lease.boot) != own) {
            let partition = self.partitions.entry(id).or_insert_with(|| Partition::new(id));
            if let Some(head) = partition.lease_told(lease, now.mono) {
                self.ready_again(now, id, head, effects);
            }
        }
        self.arm(now, id);
    }

    /// Notes results that came from elsewhere; what did not come is unknown.
    pub(super) fn change_results(
        &mut self,
        batch: u64,
        at: &[usize],
        (change, results): (LeaseChange, Vec<Result<u64, Refusal>>),
        effects: &mut Effects,
    ) {
        let mut results = results.into_iter();
        if let Some(batch) = self.desk.changes.get_mut(&batch) {
            for at in at {
                batch.set(*at, results.next().unwrap_or(Err(Refusal::OutcomeUnknown)));
            }
        }
        self.change_answer(batch, change, effects);
    }

    fn change_answer(&mut self, number: u64, change: LeaseChange, effects: &mut Effects) {
        let Some(batch) = self.desk.changes.get_mut(&number) else { return };
        let Some(results) = batch.take() else { return };
        let response = match change {
            LeaseChange::Extend(_) => Response::Extended(results),
            LeaseChange::Release(_) => {
                Response::Released(results.into_iter().map(|result| result.map(|_| ())).collect())
            }
        };
        effects.answer(batch.reply, response);
        self.desk.changes.remove(&number);
    }
}

/// How long a custodian has to answer.
const CHANGE_WITHIN: Duration = Duration::from_secs(3);
