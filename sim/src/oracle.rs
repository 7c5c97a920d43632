//! The oracle: what clients know, and what follows from it.
//!
//! It hears every request that a client makes and every answer that a client gets, and nothing
//! else. An outcome is one of three: done, not done, unknown; what is unknown is never assumed
//! either way. From that it says what may not have happened: see the functions by promise.
//!
//! What this file does not do: it does not look into nodes; the world checks those itself.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{
    DeleteResult, DeliveryLabel, Label, ProcessId, QueueId, Receipt, Refusal, Request, Response,
    SendException, Stamp,
};

/// Names a message for ever.
pub type FullName = (QueueId, u16, ProcessId, u64);

/// What is known of one message.
#[derive(Clone, Debug)]
pub struct Fate {
    /// As it was sent.
    pub label: Label,
    /// How often it was sent.
    pub sends: u32,
    /// When its send was confirmed first, and with how many copies.
    pub confirmed: Option<(u64, u8)>,
    /// Its deliveries, in the order in which they came.
    pub deliveries: Vec<Seen>,
    /// Whether anybody asked for its deletion.
    pub delete_asked: bool,
    /// When its deletion was confirmed first.
    pub deleted: Option<u64>,
    /// Whether a queue's own rule may have taken it: purge, retention, deletion of the queue.
    pub excused: bool,
}

/// One delivery as a client saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub at: u64,
    /// How long it was to stay hidden, in nanoseconds.
    pub lease: u64,
    /// Whether its consumer gave it back, or had it taken back.
    pub ended: bool,
    /// Its receipt.
    pub receipt: Receipt,
}

/// What has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Nothing fails: duplicates have an expired lease or a release behind them (P3).
    Calm,
    /// Things fail.
    Storm,
    /// Everything works again since then: what was deleted before stays deleted (P4).
    Healed(u64),
}

/// What clients know.
#[derive(Debug)]
pub struct Oracle {
    pub(crate) weather: Weather,
    /// Whether one copy is enough for a confirm. What two sides of a cut accepted each, and one of
    /// them deleted, comes back from the other when the cut outlasts the resend window: that side
    /// may have confirmed it, so nothing but its tombstone, long dropped, could take it away.
    pub(crate) lone: bool,
    fates: BTreeMap<FullName, Fate>,
    /// Labels of sends under way, and receipts of deletes and releases, by actor and request.
    asked: BTreeMap<(usize, u64), Asked>,
    /// The last accept stamp of each process.
    stamps: BTreeSet<Stamp>,
    violations: Vec<String>,
    duplicates: u64,
}

#[derive(Debug)]
enum Asked {
    Send(QueueId, u16, Vec<Label>),
    Delete(Vec<Receipt>),
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self {
            weather: Weather::Calm,
            lone: false,
            fates: BTreeMap::new(),
            asked: BTreeMap::new(),
            stamps: BTreeSet::new(),
            violations: Vec::new(),
            duplicates: 0,
        }
    }

    /// A client asks for something.
    pub(crate) fn asks(&mut self, actor: usize, number: u64, request: &Request) {
        let asked = match request {
            Request::Send { queue, partition, labels, .. } => {
                for label in labels {
                    let name = (*queue, *partition, label.stamp.process, label.number);
                    self.fates.entry(name).or_insert_with(|| Fate::new(*label)).sends += 1;
                }
                Asked::Send(*queue, *partition, labels.clone())
            }
            Request::Delete { receipts } => {
                for receipt in receipts {
                    if let Some(fate) = self.fates.get_mut(&name_of(receipt)) {
                        fate.delete_asked = true;
                    }
                }
                Asked::Delete(receipts.clone())
            }
            Request::Release { receipts, .. } => {
                for receipt in receipts {
                    self.lease_ended(receipt);
                }
                return;
            }
            _ => return,
        };
        self.asked.insert((actor, number), asked);
    }

    /// A client gets an answer.
    pub(crate) fn hears(&mut self, now: u64, actor: usize, number: u64, response: &Response) {
        match response {
            Response::Deliveries { deliveries } => {
                for delivery in deliveries.iter().filter(|delivery| delivery.lease_ms > 0) {
                    self.delivered(now, delivery);
                }
                return;
            }
            Response::Sent(batch) => {
                if !self.stamps.insert(batch.accepted) {
                    self.violate(format!("P8: two sends were accepted at {}", batch.accepted));
                }
                let Some(Asked::Send(queue, partition, labels)) =
                    self.asked.remove(&(actor, number))
                else {
                    return;
                };
                for (at, label) in labels.iter().enumerate() {
                    let name = (queue, partition, label.stamp.process, label.number);
                    let except = batch.exceptions.iter().find(|(of, _)| *of as usize == at);
                    self.confirmed(now, name, except.map(|(_, e)| e), batch.copies);
                }
            }
            Response::Deleted(results) => {
                let Some(Asked::Delete(receipts)) = self.asked.remove(&(actor, number)) else {
                    return;
                };
                for (receipt, result) in receipts.iter().zip(results) {
                    let done = !matches!(result, DeleteResult::Refused(_));
                    if let (true, Some(fate)) = (done, self.fates.get_mut(&name_of(receipt))) {
                        fate.deleted.get_or_insert(now);
                    }
                }
            }
            _ => {}
        }
        self.asked.remove(&(actor, number));
    }

    fn confirmed(&mut self, now: u64, name: FullName, e: Option<&SendException>, copies: u8) {
        let fate = self.fates.get_mut(&name).expect("it was asked for");
        match e {
            None => {
                fate.confirmed.get_or_insert((now, copies));
            }
            Some(SendException::Gone) if fate.delete_asked || fate.excused => {}
            Some(SendException::Gone) => {
                self.violate(format!("P1: {} is gone and nobody deleted it", show(name)));
            }
            Some(SendException::Refused(refusal)) => {
                let text = format!("P11: {} is refused: {refusal}", show(name));
                if *refusal == Refusal::IdClash {
                    self.violate(text);
                }
            }
        }
    }

    fn delivered(&mut self, now: u64, delivery: &DeliveryLabel) {
        let name = name_of(&delivery.receipt);
        let Some(fate) = self.fates.get_mut(&name) else {
            self.violate(format!("P2: {} was never sent", show(name)));
            return;
        };
        let sent = Label { delay_ms: delivery.label.delay_ms, ..fate.label };
        let mut found = Vec::new();
        if sent != delivery.label {
            found.push(format!("P2: {} differs from what was sent", show(name)));
        }
        let again = fate.deliveries.last().map(|last| {
            let receipt = &last.receipt;
            format!(
                "{} was delivered at {:.6} by {} as {} and is delivered by {} as {}",
                show(name),
                last.at as f64 / 1e9,
                receipt.custodian,
                receipt.delivery,
                delivery.receipt.custodian,
                delivery.receipt.delivery
            )
        });
        if let Some(again) = again {
            self.duplicates += 1;
            let explained = |seen: &Seen| seen.ended || seen.at + seen.lease <= now + SLACK;
            if self.weather == Weather::Calm && !fate.deliveries.iter().all(explained) {
                found.push(format!("P3: {again}"));
            }
        }
        match (self.weather, fate.deleted) {
            (Weather::Calm, Some(at)) if at + TOLD < now => {
                found.push(format!("P4: {} is delivered after its delete", show(name)));
            }
            (Weather::Healed(_), _) if self.lone && fate.sends > 1 => {}
            (Weather::Healed(since), Some(at)) if at < since && now > since.max(at + TOLD) => {
                let why = format!(
                    "P4: {}, deleted at {:.6}, is delivered by {} after all is well",
                    show(name),
                    at as f64 / 1e9,
                    delivery.receipt.custodian
                );
                found.push(why);
            }
            _ => {}
        }
        fate.deliveries.push(Seen {
            at: now,
            lease: delivery.lease_ms * 1_000_000,
            ended: false,
            receipt: delivery.receipt.clone(),
        });
        for violation in found {
            self.violate(violation);
        }
    }

    /// A delivery was given back, or its client went away.
    pub(crate) fn lease_ended(&mut self, receipt: &Receipt) {
        if let Some(fate) = self.fates.get_mut(&name_of(receipt)) {
            let of = |seen: &&mut Seen| seen.receipt == *receipt;
            // What goes back uncounted is delivered again under the same receipt: the last one
            // ended.
            if let Some(seen) = fate.deliveries.iter_mut().rev().find(of) {
                seen.ended = true;
            }
        }
    }

    /// A rule of the queue may take these from now on.
    pub fn excuse(&mut self, queue: QueueId) {
        for (name, fate) in &mut self.fates {
            if name.0 == queue {
                fate.excused = true;
            }
        }
    }

    /// P1, at the end of a run in which everything was to be consumed: what was confirmed came out.
    pub(crate) fn settle(&mut self) {
        let lost: Vec<String> = self
            .fates
            .iter()
            .filter(|(_, fate)| fate.confirmed.is_some() && !fate.delete_asked && !fate.excused)
            .map(|(name, fate)| {
                let (at, copies) = fate.confirmed.expect("it was filtered");
                let name = show(*name);
                let at = at as f64 / 1e9;
                let seen = fate.deliveries.len();
                format!("P1: {name}, confirmed at {at:.6} by {copies}, seen {seen} times, is lost")
            })
            .collect();
        self.violations.extend(lost);
    }

    fn violate(&mut self, what: String) {
        self.violations.push(what);
    }

    /// What went against a promise.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// All messages that were sent.
    pub fn fates(&self) -> impl Iterator<Item = (&FullName, &Fate)> {
        self.fates.iter()
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

impl Fate {
    fn new(label: Label) -> Self {
        Self {
            label,
            sends: 0,
            confirmed: None,
            deliveries: Vec::new(),
            delete_asked: false,
            deleted: None,
            excused: false,
        }
    }

    /// Whether it is certainly still to be consumed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.confirmed.is_some() && !self.delete_asked && !self.excused
    }
}

fn name_of(receipt: &Receipt) -> FullName {
    (receipt.queue, receipt.partition, receipt.stamp.process, receipt.number)
}

fn show((queue, partition, process, number): FullName) -> String {
    format!(
        "message {number} of {process} in partition {partition} of {}",
        queue.0.time % 1_000_000
    )
}

/// How long a tombstone may take in sessions that are open (P4), and the delivery on its way.
const TOLD: u64 = 2_000_000_000 + SLACK;
/// How long a delivery or an answer may be on its way, commits included.
const SLACK: u64 = 400_000_000;
