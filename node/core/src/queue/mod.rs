//! The queue: a partition of it as this node has it, and what is ready, in flight and delayed.
//!
//! A partition's rows lie on disk in the order in which they are handed out; in memory is only a
//! [`Window`] of the first ones, and that only where this node hands out and somebody wants. What
//! was handed out is a [`Flight`] with its lease. Leases of other custodians that were told are
//! kept, so that whoever goes on honours them.
//!
//! Invariants: a message is at most once in window and flights together; what is gone is in
//! neither. What this room does not do: it does not decide who may hand out (sessions do) nor
//! who gets a message (that is the reception's).

mod flight;
mod window;

use std::collections::BTreeMap;

use gaggle_wire::{Label, NodeId, Stamp};

pub(crate) use flight::{Flight, Flights, Given, Lease};
pub(crate) use window::{Head, Reach, Window};

use crate::custody::known::Known;
use crate::envelope::LeaseTold;
use crate::now::Mono;
use crate::session::PartitionId;
use crate::table::rendezvous::{self, Slot};

/// A partition of a queue, as this node has it.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) slot: Slot,
    pub(crate) known: Known,
    /// Rows on disk.
    pub(crate) stored: u64,
    pub(crate) window: Window,
    /// Counts the window's reads.
    pub(crate) reading: u64,
    pub(crate) flights: Flights,
    /// Leases that ended before their time, of which the other holders are to be told.
    ended: Vec<(ListId, LeaseTold)>,
    /// Leases of other custodians, as they told them.
    told: BTreeMap<Stamp, (Mono, Lease)>,
    lists: Lists,
    /// When the next delayed message may be due, in wall milliseconds.
    pub(crate) next_due: Option<u64>,
    /// Whether rows lie on disk whose messages are not held any more.
    pub(crate) sweep: Sweep,
    /// Whether this node is one of the home hosts, as of the last refresh.
    home: bool,
    /// Whether rows were passed over that may be handed out once they are settled.
    pub(crate) passed_over: bool,
}

/// What decides, beside sessions, whether a message is handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// What was accepted before this (wall time in nanoseconds) is not sent again any more.
    pub(crate) aged_before: u64,
    /// Whether the queue is content with one copy.
    pub(crate) lone: bool,
}

/// Whether rows are to be removed that a scan has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// No.
    Clean,
    /// Yes, and no scan is under way.
    Needed,
    /// A scan is under way.
    Running,
}

/// Holder lists of a partition, interned, and whether this node hands out what they hold.
#[derive(Debug, Default)]
struct Lists {
    lists: Vec<Vec<NodeId>>,
    serves: Vec<bool>,
    epoch: u64,
}

/// Names an interned holder list of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListId(u16);

impl Partition {
    pub(crate) fn new(id: PartitionId) -> Self {
        Self {
            slot: Slot::of(id.0, id.1),
            known: Known::default(),
            stored: 0,
            window: Window::default(),
            reading: 0,
            flights: Flights::default(),
            ended: Vec::new(),
            told: BTreeMap::new(),
            lists: Lists::default(),
            next_due: None,
            sweep: Sweep::Clean,
            home: false,
            passed_over: false,
        }
    }

    /// Interns a holder list.
    pub(crate) fn list(&mut self, holders: &[NodeId]) -> ListId {
        let mut sorted = holders.to_vec();
        rendezvous::order(self.slot, &mut sorted);
        let at = self.lists.lists.iter().position(|list| *list == sorted).unwrap_or_else(|| {
            self.lists.lists.push(sorted);
            self.lists.epoch = 0;
            self.lists.lists.len() - 1
        });
        ListId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    /// The nodes of an interned list, in the slot's order.
    pub(crate) fn holders(&self, list: ListId) -> &[NodeId] {
        &self.lists.lists[usize::from(list.0)]
    }

    /// All nodes that are on any list here.
    pub(crate) fn listed(&self) -> std::collections::BTreeSet<NodeId> {
        self.lists.lists.iter().flatten().copied().collect()
    }

    /// Whether this node hands out what is held by this list, as of the last refresh.
    pub(crate) fn serves(&self, list: ListId) -> bool {
        self.lists.serves.get(usize::from(list.0)).copied().unwrap_or(false)
    }

    /// Whether this node hands out anything here.
    pub(crate) fn serves_any(&self) -> bool {
        self.lists.serves.iter().any(|serves| *serves)
    }

    /// Whether it was looked at since sessions changed last.
    pub(crate) fn is_fresh(&self, epoch: u64) -> bool {
        self.lists.epoch == epoch
    }

    /// Looks again at what may be handed out, if sessions changed; whether that changed.
    pub(crate) fn refresh(
        &mut self,
        epoch: u64,
        may_serve: impl Fn(&[NodeId]) -> bool,
        is_home: impl FnOnce() -> bool,
    ) -> bool {
        if self.lists.epoch == epoch {
            return false;
        }
        self.lists.epoch = epoch;
        self.home = is_home();
        let serves: Vec<bool> = self.lists.lists.iter().map(|list| may_serve(list)).collect();
        // A list that was not there before and is not served changes nothing.
        let before = self.lists.serves.iter().chain(std::iter::repeat(&false));
        let changed = serves.iter().zip(before).any(|(now, before)| now != before);
        self.lists.serves = serves;
        changed
    }

    /// Whether this message may be handed out here. A copy that may never have been confirmed,
    /// or that lies at a stand-in, waits until another host is known to have it: else it could
    /// be one that was deleted everywhere else long ago (P4).
    pub(crate) fn may_hand_out(&self, head: &Head, rule: Rule) -> bool {
        let doubtful = !self.home || head.accepted.time < rule.aged_before;
        self.serves(head.list)
            && (!doubtful
                || rule.lone
                || !self.known.is_unsettled(head.label.stamp.process, head.label.number))
    }

    /// A delivery came back before its lease was over.
    pub(crate) fn lease_ended(&mut self, flight: &Flight) {
        let Lease { custodian, boot, delivery } = flight.lease;
        let Label { number, stamp, .. } = flight.head.label;
        let told = LeaseTold { number, stamp, remaining_ms: 0, custodian, boot, delivery };
        self.ended.push((flight.head.list, told));
    }

    /// Leases that ended before their time and were not told of.
    pub(crate) fn take_ended(&mut self) -> Vec<(ListId, LeaseTold)> {
        std::mem::take(&mut self.ended)
    }

    /// Another custodian told of a lease (or of its end). It hides the message here as well, be it
    /// ready or in flight already; a message that only it had hidden is given back.
    pub(crate) fn lease_told(&mut self, told: &LeaseTold, now: Mono) -> Option<Head> {
        let until = now.plus(std::time::Duration::from_millis(told.remaining_ms));
        let LeaseTold { stamp, custodian, boot, delivery, .. } = *told;
        let lease = Lease { custodian, boot, delivery };
        let hidden = self.flights.with(stamp).map(|flight| flight.lease == lease);
        if told.remaining_ms == 0 {
            if self.told.get(&stamp).is_some_and(|(_, present)| *present == lease) {
                self.told.remove(&stamp);
            }
            let ended = hidden == Some(true);
            return if ended { self.flights.remove(stamp).map(|flight| flight.head) } else { None };
        }
        if hidden == Some(true) {
            self.flights.told(stamp, until);
        } else if let Some(head) = self.window.remove(stamp) {
            self.honour(head, (until, lease), now);
        } else if self.told.len() < TOLD_MAX || self.told.contains_key(&stamp) {
            self.told.insert(stamp, (until, lease));
        }
        None
    }

    /// Keeps a message hidden for as long as the lease of another custodian runs.
    pub(crate) fn honour(&mut self, mut head: Head, (until, lease): (Mono, Lease), now: Mono) {
        head.deliveries = head.deliveries.max(lease.delivery);
        let flight = Flight { head, lease, until, since: now, given: Given::Delivered };
        self.flights.insert_told(flight);
    }

    /// Takes a flight out whose lease has ended, and that no other lease keeps hidden.
    pub(crate) fn pop_ended(&mut self, now: Mono) -> Option<Flight> {
        loop {
            let flight = self.flights.pop_ended(now)?;
            let stamp = flight.head.label.stamp;
            match self.told.remove(&stamp) {
                Some((until, lease)) if until > now => {
                    self.honour(flight.head, (until, lease), now);
                }
                _ => return Some(flight),
            }
        }
    }

    /// The lease of another custodian on this message, if it still runs.
    pub(crate) fn told_lease(&self, stamp: Stamp, now: Mono) -> Option<(Mono, Lease)> {
        self.told.get(&stamp).copied().filter(|(until, _)| *until > now)
    }

    /// Forgets what others told of leases that have run out.
    pub(crate) fn forget_told(&mut self, now: Mono) {
        if !self.told.is_empty() {
            self.told.retain(|_, (until, _)| *until > now);
        }
    }

    /// A message is gone or was dropped: it is neither ready nor in flight any more.
    pub(crate) fn remove(&mut self, stamp: Stamp) -> Option<Head> {
        self.told.remove(&stamp);
        let ready = self.window.remove(stamp);
        ready.or_else(|| self.flights.remove(stamp).map(|flight| flight.head))
    }

    /// A message has another holder list.
    pub(crate) fn relist(&mut self, stamp: Stamp, list: ListId) {
        self.window.relist(stamp, list);
        self.flights.relist(stamp, list);
    }

    /// Nothing is handed out here any more: what is in the window is left to the disk. Flights
    /// stay until their leases end.
    pub(crate) fn close_window(&mut self) {
        self.window = Window::default();
        self.reading += 1;
        self.passed_over = false;
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn check(&self) {
        self.known.check();
        for stamp in self.flights.stamps() {
            assert!(!self.window.contains(stamp), "P3: {stamp} is ready and in flight");
        }
    }
}

/// Leases of other custodians that are kept per partition: as many as one of them may have.
const TOLD_MAX: usize = 120_000;

#[cfg(test)]
mod tests;
