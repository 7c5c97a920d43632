//! Truth: what applications are told by their client, held against what went over the wire.
//!
//! An application hears one of three of every send: done, not done, unknown. *Done* is true after
//! a confirm of the id that was told (P1). *Not done* is true when the message can never appear
//! (P2). Whatever number of ids a message had, it appears under one (P11), and an id names one
//! message and one stamp (P8). Every send and every settlement has one result, by its deadline.
//! And within one run of a stream nothing is delivered twice under one receipt (P3).
//!
//! What this file does not do: it judges no nodes; see [`crate::promises`].

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gaggle_client_core::{Confirmed, Failure, Settled};
use gaggle_wire::{Label, NodeId, QueueId, Receipt};

use crate::judge::Judge;
use crate::options::node_id;
use crate::oracle::{Fate, FullName, Seen, name_of, show};
use crate::promises::Violation;

/// What applications asked for and were told.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    sends: BTreeMap<Asker, Shipped>,
    /// Which send a content is of: no two are alike.
    contents: BTreeMap<Bytes, Asker>,
    /// Under which ids it has travelled.
    travelled: BTreeMap<FullName, Asker>,
    settles: BTreeMap<Asker, Settling>,
    /// What came in the present run of each stream.
    given: BTreeMap<(usize, u64), (u64, BTreeSet<Proof>)>,
    /// How often work was begun on each message.
    begun: BTreeMap<FullName, u32>,
}

/// An actor and its ticket.
pub(crate) type Asker = (usize, u64);

/// An actor, its stream, and a run of that.
pub(crate) type Run = (usize, u64, u64);

/// What names a delivery: the message, by whom it was handed out, in which of its runs, and the
/// how-manieth time.
type Proof = (FullName, NodeId, u64, u32);

#[derive(Debug)]
struct Shipped {
    at: u64,
    due: u64,
    names: Vec<FullName>,
    told: Option<Told>,
    /// When it was told.
    told_at: u64,
}

/// How a send came out for its application.
#[derive(Clone, Copy, Debug)]
pub struct SendResult {
    /// What it was told.
    pub told: Told,
    /// How long it took, in nanoseconds.
    pub took: u64,
}

/// What an application was told of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is safe.
    Done,
    /// It is not there and never will be.
    NotDone,
    /// It may be there.
    Unknown,
}

#[derive(Debug)]
struct Settling {
    due: u64,
    receipt: Receipt,
}

impl Truth {
    /// A node has lost its disk: it counts its runs from the first again.
    pub(crate) fn disk_lost(&mut self, at: usize) {
        for (_, given) in self.given.values_mut() {
            given.retain(|(_, by, ..)| *by != node_id(at));
        }
    }
}

impl Judge {
    /// An application sends a message, and wants to hear of it by then.
    pub(crate) fn ships(&mut self, asker: Asker, content: &Bytes, (at, due): (u64, u64)) {
        self.truth.contents.insert(content.clone(), asker);
        let shipped = Shipped { at, due, names: Vec::new(), told: None, told_at: 0 };
        self.truth.sends.insert(asker, shipped);
    }

    /// The results that an application has had of its sends.
    #[must_use]
    pub fn results(&self, actor: usize) -> Vec<SendResult> {
        let sends = self.truth.sends.range((actor, 0)..=(actor, u64::MAX));
        let results = sends.filter_map(|(_, shipped)| {
            let told = shipped.told?;
            Some(SendResult { told, took: shipped.told_at.saturating_sub(shipped.at) })
        });
        results.collect()
    }

    /// A client sends messages under these labels.
    pub(crate) fn travels<'a>(
        &mut self,
        actor: usize,
        (queue, partition): (QueueId, u16),
        messages: impl Iterator<Item = (&'a Label, &'a Bytes)>,
    ) {
        let mut wrong = Vec::new();
        for (label, content) in messages {
            let name = (queue, partition, label.stamp.process, label.number);
            let asker = self.truth.contents.get(content).copied();
            let asker = asker.filter(|(of, _)| *of == actor).expect("an application sent it");
            if *self.truth.travelled.entry(name).or_insert(asker) != asker {
                wrong.push((8, format!("{} is two messages", show(name))));
            }
            if self.oracle.fate(&name).is_some_and(|fate| fate.label != *label) {
                wrong.push((8, format!("{} has two stamps", show(name))));
            }
            let shipped = self.truth.sends.get_mut(&asker).expect("it was sent");
            if !shipped.names.contains(&name) {
                shipped.names.push(name);
            }
            if shipped.told.is_some() {
                wrong.push((11, format!("{} is sent after its result", show(name))));
            }
        }
        for (promise, text) in wrong {
            self.violate(promise, text);
        }
    }

    /// An application hears what became of a send.
    pub(crate) fn told_sent(
        &mut self,
        now: u64,
        asker: Asker,
        result: &Result<Confirmed, Failure>,
    ) {
        let Some(shipped) = self.truth.sends.get_mut(&asker) else {
            return self.violate(11, format!("a result of what was not sent, to {asker:?}"));
        };
        let told = match result {
            Ok(_) => Told::Done,
            Err(Failure::Unknown { .. }) => Told::Unknown,
            Err(Failure::Refused(_) | Failure::TimedOut | Failure::Closed) => Told::NotDone,
        };
        let (before, due) = (shipped.told.replace(told), shipped.due);
        shipped.told_at = now;
        let names = shipped.names.clone();
        if let Some(before) = before {
            self.violate(11, format!("{asker:?} is told {before:?} and then {told:?}"));
        }
        in_time(now, due, &(asker, result));
        match result {
            Ok(confirmed) => self.check_done(&names, confirmed),
            Err(_) if told == Told::NotDone => {
                for name in names {
                    self.check_not_done(name);
                }
            }
            Err(_) => {}
        }
    }

    fn check_done(&mut self, names: &[FullName], confirmed: &Confirmed) {
        let of = |name: &&FullName| (name.2, name.3) == (confirmed.id.process, confirmed.id.number);
        let name = names.iter().copied().filter(|name| of(&name)).find(|name| {
            let fate = self.oracle.fate(name);
            fate.is_some_and(|fate| fate.label.stamp == confirmed.stamp)
        });
        let Some(fate) = name.and_then(|name| self.oracle.fate(&name)) else {
            return self.violate(1, format!("told done, but never sent: {confirmed:?}"));
        };
        let copies = fate.confirmed.map(|(_, copies)| copies);
        let gone = confirmed.copies == 0 && (fate.delete_asked.is_some() || fate.excused);
        if copies.is_none() && !gone {
            self.violate(1, format!("told done, but not confirmed: {confirmed:?}"));
        }
    }

    fn check_not_done(&mut self, name: FullName) {
        let seen = |fate: &Fate| fate.confirmed.is_some() || !fate.deliveries.is_empty();
        if self.oracle.fate(&name).is_some_and(seen) {
            self.violate(2, format!("{} is told not done, but it was", show(name)));
        }
    }

    /// A message appears somewhere: in a delivery, or in a confirm.
    pub(crate) fn appears(&mut self, name: FullName) {
        let Some(asker) = self.truth.travelled.get(&name) else { return };
        let shipped = &self.truth.sends[asker];
        let mut wrong = Vec::new();
        if shipped.told == Some(Told::NotDone) {
            wrong.push((2, format!("{} was told not done, and appears", show(name))));
        }
        for other in shipped.names.iter().filter(|other| **other != name) {
            let fate = self.oracle.fate(other);
            if fate.is_some_and(|fate| fate.confirmed.is_some() || !fate.deliveries.is_empty()) {
                wrong.push((11, format!("{} appears as {} too", show(name), show(*other))));
            }
        }
        for (promise, text) in wrong {
            self.violate(promise, text);
        }
    }

    /// An application settles a delivery, and wants to hear of it by then.
    pub(crate) fn settles(&mut self, asker: Asker, receipt: &Receipt, due: u64) {
        self.truth.settles.insert(asker, Settling { due, receipt: receipt.clone() });
    }

    /// An application hears what became of a settlement.
    pub(crate) fn told_settled(
        &mut self,
        now: u64,
        asker: Asker,
        result: &Result<Settled, Failure>,
    ) {
        let Some(Settling { due, receipt }) = self.truth.settles.remove(&asker) else {
            return self.violate(4, format!("{asker:?} is told twice, or of nothing"));
        };
        in_time(now, due, &(asker, result));
        let deleted = matches!(result, Ok(Settled::Deleted | Settled::DeletedByOlderReceipt));
        let name = name_of(&receipt);
        if deleted && self.oracle.fate(&name).is_none_or(|fate| fate.deleted.is_none()) {
            self.violate(4, format!("{} is told deleted, but no node said so", show(name)));
        }
    }

    /// A delivery comes to an application.
    pub(crate) fn given(&mut self, now: u64, (actor, stream, run): Run, receipt: &Receipt) {
        let present = self.truth.given.entry((actor, stream)).or_default();
        if present.0 != run {
            *present = (run, BTreeSet::new());
        }
        let (name, which) = (name_of(receipt), receipt.delivery);
        if present.1.insert((name, receipt.custodian, receipt.boot, which)) {
            return;
        }
        // What goes back uncounted comes again as the same delivery.
        let same = |seen: &&Seen| seen.receipt == *receipt && !seen.ended;
        let runs = |seen: &&Seen| seen.until > now + LATE_MAX;
        let seen = self.oracle.fate(&name).map_or(&[][..], |fate| fate.deliveries.as_slice());
        if seen.iter().filter(same).filter(runs).count() > 1 {
            self.violate(3, format!("delivery {which} of {} comes twice in a run", show(name)));
        }
    }

    /// An application begins to work on a delivery.
    pub(crate) fn begins(&mut self, receipt: &Receipt) {
        *self.truth.begun.entry(name_of(receipt)).or_default() += 1;
    }

    /// How many messages were worked on more than once.
    #[must_use]
    pub fn worked_again(&self) -> usize {
        self.truth.begun.values().filter(|times| **times > 1).count()
    }

    /// A client has died: its application hears nothing any more.
    pub(crate) fn died(&mut self, actor: usize) {
        for (_, shipped) in self.truth.sends.range_mut((actor, 0)..=(actor, u64::MAX)) {
            shipped.told.get_or_insert(Told::Unknown);
        }
        self.truth.settles.retain(|(of, _), _| *of != actor);
    }

    /// A client stands still for so long, and hears of everything later.
    pub(crate) fn paused(&mut self, actor: usize, nanos: u64) {
        for (_, shipped) in self.truth.sends.range_mut((actor, 0)..=(actor, u64::MAX)) {
            shipped.due += nanos;
        }
        for (_, settling) in self.truth.settles.range_mut((actor, 0)..=(actor, u64::MAX)) {
            settling.due += nanos;
        }
    }

    /// At the end of a run, everything has its result.
    pub(crate) fn check_told(&self, now: u64) {
        let sends = self.truth.sends.iter();
        let open = sends.filter(|(_, shipped)| shipped.told.is_none());
        let open = open.map(|(asker, shipped)| (*asker, shipped.due));
        let settles = self.truth.settles.iter().map(|(asker, settling)| (*asker, settling.due));
        let late = open.chain(settles).find(|(_, due)| due + LATE_MAX < now);
        assert!(late.is_none(), "L2: {late:?} is told nothing, at {now}");
    }

    fn violate(&mut self, promise: u8, text: String) {
        self.violations.push(Violation { promise, text });
    }
}

/// L2: a result comes by its deadline.
fn in_time(now: u64, due: u64, told: &dyn std::fmt::Debug) {
    assert!(now <= due + LATE_MAX, "L2: {told:?}, {} ms late", now.saturating_sub(due) / 1_000_000);
}

/// How late a result may come: timers are exact in here, clocks drift a little.
const LATE_MAX: u64 = 50_000_000;

#[cfg(test)]
mod tests;
