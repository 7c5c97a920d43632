//! The oracle: what clients know.
//!
//! It hears every request that a client makes and every answer that a client gets. An outcome is
//! one of three: done, not done, unknown; what is unknown is never assumed either way. What a
//! client can no longer have, because it stopped the stream or lost the connection on which it
//! came, counts as given back.
//!
//! What this file does not do: it judges nothing; see [`crate::promises`].

mod accepted;
mod doom;
mod facts;
mod fate;
mod lost_rows;
mod put_back;
mod streams;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use gaggle_core::ledger::MessageKey;
use gaggle_wire::{
    DeleteResult, DeliveryLabel, Label, Order, Position, ProcessId, QueueDescription, QueueId,
    QueueName, Receipt, Request, Response, Stamp,
};

use crate::judge::Look;
use crate::options::node_id;

use accepted::Accepted;
pub(crate) use facts::Answer;
pub use facts::{Delivered, Fact};
use facts::{deleted, sent};
pub use fate::{Fate, Seen};
pub use streams::Place;
use streams::Streams;
pub use waits::Wait;
use waits::Waits;

/// Names a message for ever.
pub type FullName = (QueueId, u16, ProcessId, u64);

/// What clients know.
#[derive(Debug, Default)]
pub struct Oracle {
    fates: BTreeMap<FullName, Fate>,
    queues: BTreeMap<QueueId, QueueDescription>,
    /// Names of queues of which a rule may take what is sent: how many purges and deletions are
    /// without an answer, and until when clocks may make one sweep what came behind it.
    doomed: BTreeMap<QueueName, (u32, u64)>,
    asked: BTreeMap<(Place, u64), Asked>,
    streams: Streams,
    waits: Waits,
    /// Messages by the rows they lie in.
    rows: BTreeMap<MessageKey, FullName>,
    /// Queues whose deletion was answered, and when.
    deleted: BTreeMap<QueueId, u64>,
    /// Queues that a deletion by name may have taken, for they were created before it was answered.
    perhaps_deleted: BTreeSet<QueueId>,
    /// The longest lease that anybody may have.
    longest: u64,
    accepted: Accepted,
    /// The newest stamp that came in order of each ordering key.
    newest: BTreeMap<(QueueId, u16, u64), Stamp>,
    /// Since when nothing comes through between a client and a node.
    cuts: BTreeMap<(usize, usize), u64>,
    /// When a disk was lost last.
    disk_lost: Option<u64>,
    duplicates: u64,
}

/// A request that is not answered.
#[derive(Debug)]
struct Asked {
    at: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Send { queue: QueueId, partition: u16, labels: Vec<Label>, heard: BTreeMap<ProcessId, Stamp> },
    Delete(Vec<Receipt>),
    Extend(Vec<Receipt>, u64),
    Take { delete: bool, name: QueueName, ids: Vec<QueueId> },
}

impl Oracle {
    /// A client asks for something.
    pub(crate) fn asks(&mut self, now: u64, place: Place, number: u64, request: &Request) {
        let what = match request {
            Request::Send { queue, partition, labels, .. } => {
                let excused = self.is_doomed(now, *queue);
                for label in labels {
                    let name = (*queue, *partition, label.stamp.process, label.number);
                    let fate = self.fates.entry(name).or_insert_with(|| Fate::new(*label));
                    fate.resent_at = fate.resent_at.max((fate.sends > 0).then_some(now));
                    (fate.sends, fate.unheard) = (fate.sends + 1, fate.unheard + 1);
                    fate.excused |= excused;
                    let key =
                        MessageKey { queue: *queue, partition: *partition, stamp: label.stamp };
                    self.rows.insert(key, name);
                }
                let (queue, partition, labels) = (*queue, *partition, labels.clone());
                What::Send { queue, partition, labels, heard: self.accepted.highest() }
            }
            Request::Delete { receipts } => {
                self.each(receipts, |fate, _| fate.asked_to_delete(now));
                What::Delete(receipts.clone())
            }
            Request::Release { receipts, delay_ms } => {
                let until = now.saturating_add(nanos(*delay_ms)).saturating_add(ON_ITS_WAY);
                self.each(receipts, |fate, receipt| {
                    fate.given_back(receipt);
                    fate.delayed(receipt, until);
                });
                return;
            }
            Request::Extend { receipts, visibility_ms } => {
                let lease = nanos(*visibility_ms);
                self.longest = self.longest.max(lease);
                let until = now.saturating_add(lease);
                self.each(receipts, |fate, receipt| fate.extend_asked(receipt, until));
                What::Extend(receipts.clone(), lease)
            }
            Request::SetQueue { change, .. } => {
                self.longest = self.longest.max(nanos(change.visibility_timeout_ms.unwrap_or(0)));
                return;
            }
            Request::Receive { queue, visibility_ms, .. } => {
                self.longest = self.longest.max(nanos(visibility_ms.unwrap_or(0)));
                self.waits.begin(now, (place, number), queue, None);
                return;
            }
            Request::Consume { queue, visibility_ms, credit } => {
                self.longest = self.longest.max(nanos(visibility_ms.unwrap_or(0)));
                self.waits.begin(now, (place, number), queue, Some(*credit));
                self.streams.begin(place, number);
                return;
            }
            Request::Credit { consumer, limit, taken } => {
                self.waits.credit(now, (place, *consumer), *limit);
                self.streams.taken(now, place, *consumer, *taken);
                return;
            }
            Request::StopConsume { consumer, taken } => {
                self.waits.end((place, *consumer));
                let back = self.streams.stop(place, *consumer, *taken);
                self.each(&back, Fate::given_back);
                return;
            }
            Request::PurgeQueue { name } => self.take(name, false),
            Request::DeleteQueue { name } => self.take(name, true),
            _ => return,
        };
        self.asked.insert((place, number), Asked { at: now, what });
    }

    /// A custodian gives a message: its lease begins.
    pub(crate) fn gives(&mut self, now: u64, label: &DeliveryLabel) {
        if let Some(fate) = self.fates.get_mut(&name_of(&label.receipt)) {
            let run = (label.receipt.custodian, label.receipt.boot);
            fate.given.insert(run, (label.receipt.clone(), now));
        }
    }

    /// A node hands messages to a client, be that dead: they are hidden, whoever sees it.
    pub(crate) fn handed(&mut self, now: u64, response: &Response) {
        let Response::Deliveries { deliveries } = response else { return };
        // What was only looked at has no lease.
        let leased = deliveries.iter().filter(|delivery| delivery.lease_ms > 0);
        for DeliveryLabel { receipt, lease_ms, .. } in leased {
            if let Some(fate) = self.fates.get_mut(&name_of(receipt)) {
                fate.under_way = Some((receipt.clone(), now.saturating_add(nanos(*lease_ms))));
            }
        }
    }

    /// A client gets an answer: what follows from it.
    pub(crate) fn hears(&mut self, now: u64, answer: &Answer<'_>) -> Vec<Fact> {
        let Answer { place, number, response, .. } = *answer;
        if let Response::Deliveries { deliveries } = response {
            // What was only looked at has no lease.
            self.waits.came(now, (place, number), deliveries.len() as u64);
            let leased = deliveries.iter().filter(|delivery| delivery.lease_ms > 0);
            return leased.map(|label| self.delivery(answer, label)).collect();
        }
        if let Response::Refused(_) = response {
            self.waits.end((place, number));
        }
        if let Response::Queue(queue) = response {
            self.longest = self.longest.max(nanos(queue.settings.visibility_timeout_ms));
            self.queues.insert(queue.id, (**queue).clone());
            return vec![Fact::Queue { id: queue.id }];
        }
        let Some(Asked { at, what }) = self.asked.remove(&(place, number)) else {
            return Vec::new();
        };
        match (what, response) {
            (What::Send { queue, partition, labels, heard }, response) => {
                let name = |label: &Label| (queue, partition, label.stamp.process, label.number);
                let names: Vec<FullName> = labels.iter().map(name).collect();
                for name in &names {
                    if let Some(fate) = self.fates.get_mut(name) {
                        fate.unheard -= 1;
                    }
                }
                let counted = self.accepted.counted_at(answer);
                sent((at, counted, node_id(place.node)), &names, &heard, response)
            }
            (What::Delete(receipts), Response::Deleted(results)) => receipts
                .iter()
                .zip(results)
                .map(|(receipt, result)| deleted((at, node_id(place.node)), receipt, result))
                .collect(),
            (What::Delete(receipts), Response::Refused(refusal)) => {
                let refused = DeleteResult::Refused(refusal.clone());
                let by = node_id(place.node);
                receipts.iter().map(|receipt| deleted((at, by), receipt, &refused)).collect()
            }
            (What::Extend(receipts, lease), Response::Extended(results)) => {
                let span = (at.saturating_add(lease), answer.at.saturating_add(lease));
                for (receipt, _) in
                    receipts.iter().zip(results).filter(|(_, result)| result.is_ok())
                {
                    let by = node_id(place.node);
                    self.each(std::slice::from_ref(receipt), |f, r| f.extended(r, span, by));
                }
                Vec::new()
            }
            (What::Take { delete, name, ids }, response) => {
                self.taken((at, now), (&name, &ids), delete, response);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// A client has lost its connection to a node, or closed it: no outcome will be heard of
    /// there, and what it had not taken goes back.
    pub(crate) fn lost(&mut self, now: u64, place: Place) {
        self.asked.retain(|(of, _), _| *of != place);
        self.waits.lost(place);
        let cut = self.cuts.get(&(place.actor, place.node));
        let back = self.streams.lost(cut.copied().unwrap_or(now), place);
        self.each(&back, Fate::given_back);
    }

    /// A client is cut from a node, which hears nothing of what is said from now on.
    pub(crate) fn cut(&mut self, now: u64, (actor, node): (usize, usize)) {
        self.cuts.entry((actor, node)).or_insert(now);
    }

    /// The cut is healed.
    pub(crate) fn healed(&mut self, (actor, node): (usize, usize)) {
        self.cuts.remove(&(actor, node));
    }

    /// A node loses what is on its disk: what nobody else has is excused.
    pub(crate) fn disk_lost(&mut self, now: u64, at: usize, look: Look<'_>) {
        self.disk_lost = Some(now);
        for (name, fate) in &mut self.fates {
            fate.lost_at((now, at), look(&fate.subject(*name)));
        }
    }

    /// Whether a disk was lost at this time or later.
    #[must_use]
    pub fn lost_disk_since(&self, then: u64) -> bool {
        self.disk_lost.is_some_and(|at| at >= then)
    }

    /// Takes down what was learned, once it is judged.
    pub(crate) fn learn(&mut self, now: u64, fact: &Fact, look: Look<'_>) {
        match fact {
            Fact::Accepted { stamp, .. } => self.accepted.learn(*stamp),
            Fact::Confirmed { name, copies, .. } => {
                if let Some(fate) = self.fates.get_mut(name) {
                    fate.confirmed.get_or_insert((now, *copies));
                    let witness = look(&fate.subject(*name));
                    fate.kept_at.extend(witness.holders.difference(&witness.damaged));
                    // All of them were lost while the word was on its way.
                    fate.excused |= fate.kept_at.is_empty() && witness.buriers.is_empty();
                }
            }
            Fact::Deleted { name, .. } => {
                if let Some(fate) = self.fates.get_mut(name)
                    && fate.deleted.is_none()
                {
                    fate.deleted = Some(now);
                    fate.buried_at = look(&fate.subject(*name)).buried;
                }
            }
            Fact::Delivered(delivered) => self.came(delivered),
            Fact::Removed { at, name } => self.removed(*at, name, look),
            _ => {}
        }
    }

    /// A node has counted enough hosts of what it accepted.
    pub(crate) fn counts(&mut self, now: u64, accepted: Stamp) {
        self.accepted.counts(now, accepted);
    }

    /// What came before a message in its ordering key, if its queue is a strict one.
    pub(crate) fn before(
        &self,
        (queue, partition, ..): &FullName,
        fate: &Fate,
    ) -> impl Iterator<Item = (&FullName, &Fate)> {
        let entry = self.queues.get(queue).filter(|q| q.settings.order == Order::Strict);
        let name = |process, number| (*queue, *partition, ProcessId(process), number);
        let within = name(0, 0)..=name(u64::MAX, u64::MAX);
        let of_partition = entry.into_iter().flat_map(move |_| self.fates.range(within.clone()));
        let Label { key, stamp, .. } = fate.label;
        of_partition.filter(move |(_, other)| other.label.key == key && other.label.stamp < stamp)
    }

    /// The newest stamp that came in order of an ordering key.
    pub(crate) fn newest(&self, (queue, partition, ..): FullName, key: u64) -> Option<Stamp> {
        self.newest.get(&(queue, partition, key)).copied()
    }

    fn delivery(&mut self, answer: &Answer<'_>, label: &DeliveryLabel) -> Fact {
        let Answer { place, number, at, .. } = *answer;
        let crossed = self.streams.came(place, number, &label.receipt);
        let name = name_of(&label.receipt);
        let run = (label.receipt.custodian, label.receipt.boot);
        let given = self.fates.get(&name).and_then(|fate| fate.given.get(&run));
        let given = given.filter(|(receipt, _)| *receipt == label.receipt);
        let given = given.map_or(at, |(_, given)| at.min(*given));
        Fact::Delivered(Delivered { at, given, place, name, label: label.clone(), crossed })
    }

    fn came(&mut self, delivered: &Delivered) {
        // What a purge takes is on its way all the same.
        let doomed = self.is_doomed(delivered.given, delivered.name.0);
        let Some(fate) = self.fates.get_mut(&delivered.name) else { return };
        if !fate.deliveries.is_empty() {
            self.duplicates += 1;
        }
        if !matches!(delivered.label.position, Some(Position::Late { .. })) {
            let (queue, partition, ..) = delivered.name;
            let key = (queue, partition, fate.label.key);
            let newest = self.newest.entry(key).or_insert(Stamp::ZERO);
            *newest = fate.label.stamp.max(*newest);
        }
        let mut seen = Seen::new(delivered);
        seen.ended |= doomed;
        fate.deliveries.push(seen);
        let came = |(receipt, _): &mut (Receipt, u64)| *receipt == delivered.label.receipt;
        fate.under_way.take_if(came);
    }

    fn each(&mut self, receipts: &[Receipt], mut change: impl FnMut(&mut Fate, &Receipt)) {
        for receipt in receipts {
            if let Some(fate) = self.fates.get_mut(&name_of(receipt)) {
                change(fate, receipt);
            }
        }
    }

    /// What is known of a message.
    #[must_use]
    pub fn fate(&self, name: &FullName) -> Option<&Fate> {
        self.fates.get(name)
    }

    /// All messages that were sent.
    pub fn fates(&self) -> impl Iterator<Item = (&FullName, &Fate)> {
        self.fates.iter()
    }

    /// The settings of a queue, as they were last told.
    #[must_use]
    pub fn queue(&self, id: QueueId) -> Option<&QueueDescription> {
        self.queues.get(&id)
    }

    /// The queue of this name that was created last.
    #[must_use]
    pub fn latest(&self, name: &QueueName) -> Option<QueueId> {
        let of_name = self.queues.values().filter(|queue| queue.name == *name);
        of_name.map(|queue| queue.id).max()
    }

    /// Copies of each message of the queue that has the fewest.
    #[must_use]
    pub fn fewest_replicas(&self) -> Option<usize> {
        self.queues.values().map(|queue| usize::from(queue.settings.replicas)).min()
    }

    /// Whether a send was accepted at this stamp.
    #[must_use]
    pub fn was_accepted_at(&self, stamp: Stamp) -> bool {
        self.accepted.has(stamp)
    }

    /// The message that lies in this row.
    #[must_use]
    pub fn in_row(&self, key: MessageKey) -> Option<FullName> {
        self.rows.get(&key).copied()
    }

    /// When the deletion of a queue was answered.
    #[must_use]
    pub fn deleted_at(&self, id: QueueId) -> Option<u64> {
        self.deleted.get(&id).copied()
    }

    /// Those who wait for messages and could be given some.
    pub fn waiting(&self) -> impl Iterator<Item = (Place, &Wait)> {
        self.waits.open()
    }

    /// The longest lease that anybody may have, in nanoseconds.
    #[must_use]
    pub fn longest_lease(&self) -> u64 {
        self.longest
    }

    /// Deliveries beyond the first of a message.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

/// The message that a receipt is of.
#[must_use]
pub fn name_of(receipt: &Receipt) -> FullName {
    (receipt.queue, receipt.partition, receipt.stamp.process, receipt.number)
}

/// A message, for whoever has to find it in a report.
#[must_use]
pub fn show((queue, partition, process, number): FullName) -> String {
    format!(
        "message {number} of {process} in partition {partition} of {}",
        queue.0.time % 1_000_000
    )
}

fn nanos(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// How long what a client says may be on its way.
const ON_ITS_WAY: u64 = 400_000_000;
