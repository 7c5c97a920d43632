//! The oracle: what clients know.
//!
//! It hears every request that a client makes and every answer that a client gets. An outcome is
//! one of three: done, not done, unknown; what is unknown is never assumed either way. What a
//! client can no longer have, because it stopped the stream or lost the connection on which it
//! came, counts as given back.
//!
//! What this file does not do: it judges nothing; see [`crate::promises`].

mod fate;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{
    DeleteResult, DeliveryLabel, Label, ProcessId, QueueDescription, QueueId, QueueName, Receipt,
    Refusal, Request, Response, SendException, SentBatch, Stamp,
};

use crate::judge::Look;

pub use fate::{Fate, Seen};
pub use streams::Place;
use streams::Streams;

/// Names a message for ever.
pub type FullName = (QueueId, u16, ProcessId, u64);

/// What an answer tells.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A node accepted a send, after a client had heard that stamp of the same node's.
    Accepted {
        /// The stamp of its acceptance.
        stamp: Stamp,
        /// The highest one of the same process that had been heard when it was asked for.
        after: Option<Stamp>,
    },
    /// A message is stored, at so many nodes.
    Confirmed {
        /// Which.
        name: FullName,
        /// At how many nodes.
        copies: u8,
        /// When it was asked for.
        asked_at: u64,
    },
    /// A message that was sent is gone already.
    Gone {
        /// Which.
        name: FullName,
    },
    /// A message was not stored, or that is unknown.
    Unsent {
        /// Which.
        name: FullName,
        /// Why.
        refusal: Refusal,
    },
    /// A message came.
    Delivered(Delivered),
    /// A message is deleted.
    Deleted {
        /// Which.
        name: FullName,
    },
    /// A message was not deleted, or that is unknown.
    Undeleted {
        /// Which.
        name: FullName,
        /// Why.
        refusal: Refusal,
    },
    /// The run is over, and everything was to be consumed.
    Over,
}

/// A delivery as it came to a client.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// Who asked where.
    pub place: Place,
    /// Which message.
    pub name: FullName,
    /// The delivery.
    pub label: DeliveryLabel,
    /// Whether it crossed the end of its stream: its node has given it back.
    pub crossed: bool,
}

/// What clients know.
#[derive(Debug, Default)]
pub struct Oracle {
    fates: BTreeMap<FullName, Fate>,
    queues: BTreeMap<QueueId, QueueDescription>,
    /// Queues of which a rule may take messages at any time.
    doomed: BTreeSet<QueueId>,
    asked: BTreeMap<(Place, u64), Asked>,
    streams: Streams,
    /// Every stamp at which a send was accepted, and the highest of each process.
    accepted: BTreeSet<Stamp>,
    highest: BTreeMap<ProcessId, Stamp>,
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
    Take(QueueName),
}

impl Oracle {
    /// A client asks for something.
    pub(crate) fn asks(&mut self, now: u64, place: Place, number: u64, request: &Request) {
        let what = match request {
            Request::Send { queue, partition, labels, .. } => {
                let excused = self.doomed.contains(queue);
                for label in labels {
                    let name = (*queue, *partition, label.stamp.process, label.number);
                    let fate = self.fates.entry(name).or_insert_with(|| Fate::new(*label));
                    fate.sends += 1;
                    fate.excused |= excused;
                }
                let (queue, partition, labels) = (*queue, *partition, labels.clone());
                What::Send { queue, partition, labels, heard: self.highest.clone() }
            }
            Request::Delete { receipts } => {
                self.each(receipts, |fate, _| fate.delete_asked = true);
                What::Delete(receipts.clone())
            }
            Request::Release { receipts, .. } => {
                self.each(receipts, Fate::given_back);
                return;
            }
            Request::Extend { receipts, visibility_ms } => {
                let until = now.saturating_add(visibility_ms.saturating_mul(1_000_000));
                self.each(receipts, |fate, receipt| fate.extend_asked(receipt, until));
                What::Extend(receipts.clone(), until)
            }
            Request::Consume { .. } => {
                self.streams.begin(place, number);
                return;
            }
            Request::Credit { consumer, taken, .. } => {
                self.streams.taken(now, place, *consumer, *taken);
                return;
            }
            Request::StopConsume { consumer, taken } => {
                let back = self.streams.stop(place, *consumer, *taken);
                self.each(&back, Fate::given_back);
                return;
            }
            Request::PurgeQueue { name } | Request::DeleteQueue { name } => {
                self.take(name);
                What::Take(name.clone())
            }
            _ => return,
        };
        self.asked.insert((place, number), Asked { at: now, what });
    }

    /// A client gets an answer: what follows from it.
    pub(crate) fn hears(&mut self, place: Place, number: u64, response: &Response) -> Vec<Fact> {
        if let Response::Deliveries { deliveries } = response {
            // What was only looked at has no lease.
            let leased = deliveries.iter().filter(|delivery| delivery.lease_ms > 0);
            return leased.map(|label| self.delivery(place, number, label)).collect();
        }
        if let Response::Queue(queue) = response {
            self.queues.insert(queue.id, (**queue).clone());
        }
        let Some(Asked { at, what }) = self.asked.remove(&(place, number)) else {
            return Vec::new();
        };
        match (what, response) {
            (What::Send { queue, partition, labels, heard }, response) => {
                let name = |label: &Label| (queue, partition, label.stamp.process, label.number);
                let names: Vec<FullName> = labels.iter().map(name).collect();
                sent(at, &names, &heard, response)
            }
            (What::Delete(receipts), Response::Deleted(results)) => receipts
                .iter()
                .zip(results)
                .map(|(receipt, result)| deleted(receipt, result))
                .collect(),
            (What::Delete(receipts), Response::Refused(refusal)) => {
                let refused = DeleteResult::Refused(refusal.clone());
                receipts.iter().map(|receipt| deleted(receipt, &refused)).collect()
            }
            (What::Extend(receipts, until), Response::Extended(results)) => {
                for (receipt, result) in receipts.iter().zip(results) {
                    let extended = result.is_ok().then_some(until);
                    self.each(std::slice::from_ref(receipt), |f, r| f.extended(r, extended));
                }
                Vec::new()
            }
            (What::Take(name), _) => {
                // What was sent while it was under way may be taken as well.
                self.take(&name);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// A client has lost its connection to a node, or closed it: no outcome will be heard of
    /// there, and what it had not taken goes back.
    pub(crate) fn lost(&mut self, now: u64, place: Place) {
        self.asked.retain(|(of, _), _| *of != place);
        let back = self.streams.lost(now, place);
        self.each(&back, Fate::given_back);
    }

    /// A node loses what is on its disk: what nobody else has is excused.
    pub(crate) fn disk_lost(&mut self, now: u64, at: usize, look: Look<'_>) {
        self.disk_lost = Some(now);
        for (name, fate) in &mut self.fates {
            if fate.confirmed.is_some() {
                fate.kept_at.extend(look(&fate.subject(*name)).holders);
                fate.kept_at.remove(&at);
                fate.excused |= fate.kept_at.is_empty();
            }
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
            Fact::Accepted { stamp, .. } => {
                self.accepted.insert(*stamp);
                let highest = self.highest.entry(stamp.process).or_insert(*stamp);
                *highest = (*highest).max(*stamp);
            }
            Fact::Confirmed { name, copies, .. } => {
                if let Some(fate) = self.fates.get_mut(name) {
                    fate.confirmed.get_or_insert((now, *copies));
                    let witness = look(&fate.subject(*name));
                    fate.kept_at.extend(witness.holders);
                    // All of them were lost while the word was on its way.
                    fate.excused |= fate.kept_at.is_empty() && witness.buriers.is_empty();
                }
            }
            Fact::Deleted { name } => {
                if let Some(fate) = self.fates.get_mut(name)
                    && fate.deleted.is_none()
                {
                    fate.deleted = Some(now);
                    fate.buried_at = look(&fate.subject(*name)).buriers;
                }
            }
            Fact::Delivered(delivered) => self.came(now, delivered),
            Fact::Gone { .. } | Fact::Unsent { .. } | Fact::Undeleted { .. } | Fact::Over => {}
        }
    }

    fn delivery(&mut self, place: Place, number: u64, label: &DeliveryLabel) -> Fact {
        let crossed = self.streams.came(place, number, &label.receipt);
        let name = name_of(&label.receipt);
        Fact::Delivered(Delivered { place, name, label: label.clone(), crossed })
    }

    fn came(&mut self, now: u64, delivered: &Delivered) {
        let Some(fate) = self.fates.get_mut(&delivered.name) else { return };
        if !fate.deliveries.is_empty() {
            self.duplicates += 1;
        }
        fate.deliveries.push(Seen::new(now, delivered));
    }

    /// A rule of the queue may take its messages from now on: purge, retention, deletion.
    pub fn excuse(&mut self, queue: QueueId) {
        for (name, fate) in &mut self.fates {
            fate.excused |= name.0 == queue;
        }
    }

    fn take(&mut self, name: &QueueName) {
        let of_name = self.queues.values().filter(|queue| queue.name == *name);
        for id in of_name.map(|queue| queue.id).collect::<Vec<_>>() {
            self.excuse(id);
        }
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

    /// Whether a send was accepted at this stamp.
    #[must_use]
    pub fn was_accepted_at(&self, stamp: Stamp) -> bool {
        self.accepted.contains(&stamp)
    }

    /// A message that is still to be consumed.
    #[must_use]
    pub fn first_open(&self) -> Option<String> {
        let open = self.fates.iter().find(|(_, fate)| fate.is_open());
        open.map(|(name, fate)| format!("{} {fate:?}", show(*name)))
    }

    /// Deliveries beyond the first of a message.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

fn sent(
    asked_at: u64,
    names: &[FullName],
    heard: &BTreeMap<ProcessId, Stamp>,
    response: &Response,
) -> Vec<Fact> {
    let unsent =
        |name: &FullName, refusal: &Refusal| Fact::Unsent { name: *name, refusal: refusal.clone() };
    match response {
        Response::Sent(SentBatch { accepted, copies, exceptions }) => {
            let after = heard.get(&accepted.process).copied();
            let mut facts = vec![Fact::Accepted { stamp: *accepted, after }];
            for (at, name) in names.iter().enumerate() {
                let exception = exceptions.iter().find(|(of, _)| *of as usize == at);
                facts.push(match exception {
                    None => Fact::Confirmed { name: *name, copies: *copies, asked_at },
                    Some((_, SendException::Gone)) => Fact::Gone { name: *name },
                    Some((_, SendException::Refused(refusal))) => unsent(name, refusal),
                });
            }
            facts
        }
        Response::Refused(refusal) => names.iter().map(|name| unsent(name, refusal)).collect(),
        _ => Vec::new(),
    }
}

fn deleted(receipt: &Receipt, result: &DeleteResult) -> Fact {
    let name = name_of(receipt);
    match result {
        DeleteResult::Deleted | DeleteResult::DeletedByOlderReceipt => Fact::Deleted { name },
        DeleteResult::Refused(refusal) => Fact::Undeleted { name, refusal: refusal.clone() },
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
