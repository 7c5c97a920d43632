//! Flights: messages that were handed out, each with its lease.
//!
//! A lease runs on the monotonic clock from the hand-off. It ends by a delete, a release, or its
//! time; then the message is ready again, with its delivery counted. Only the receipt of the
//! present delivery extends or releases (F6, F7): a receipt names custodian, run and delivery.
//!
//! Invariant: a message has at most one lease here. What this file does not do: it does not write
//! counts and does not tell other holders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{NodeId, Receipt, Stamp};

use super::{Head, ListId};
use crate::envelope::LeaseTold;
use crate::now::Mono;

/// Who handed it out, as which delivery: what a receipt has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lease {
    pub(crate) custodian: NodeId,
    pub(crate) boot: u64,
    pub(crate) delivery: u32,
}

impl Lease {
    /// Whether this is the receipt of that delivery.
    pub(crate) fn is_of(&self, receipt: &Receipt) -> bool {
        self.custodian == receipt.custodian
            && self.boot == receipt.boot
            && self.delivery == receipt.delivery
    }

    /// What the other holders are told of it; a lease of no time has ended.
    pub(crate) fn told(self, (number, stamp): (u64, Stamp), remaining: Duration) -> LeaseTold {
        let Self { custodian, boot, delivery } = self;
        let remaining_ms = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
        LeaseTold { number, stamp, remaining_ms, custodian, boot, delivery }
    }

    /// The same of one that runs: what is left of its last millisecond is one.
    pub(crate) fn told_running(self, id: (u64, Stamp), until: Mono, now: Mono) -> LeaseTold {
        self.told(id, until.since(now).max(Duration::from_millis(1)))
    }
}

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) head: Head,
    pub(crate) lease: Lease,
    pub(crate) until: Mono,
    pub(crate) since: Mono,
    pub(crate) given: Given,
}

/// Whether the flight is a delivery or only hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// A consumer has it.
    Delivered,
    /// It was released with a delay.
    Delayed,
}

/// All flights of a partition.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    flights: BTreeMap<Stamp, Flight>,
    ends: BTreeSet<(Mono, Stamp)>,
    /// Leases that the other holders have not been told of, oldest first.
    untold: BTreeSet<(Mono, Stamp)>,
}

impl Flights {
    pub(crate) fn insert(&mut self, flight: Flight) {
        self.untold.insert((flight.since, flight.head.label.stamp));
        self.insert_told(flight);
    }

    /// Takes a flight in that the other holders know of.
    pub(crate) fn insert_told(&mut self, flight: Flight) {
        let stamp = flight.head.label.stamp;
        self.ends.insert((flight.until, stamp));
        let before = self.flights.insert(stamp, flight);
        assert!(before.is_none(), "P3: {stamp} is handed out twice");
    }

    pub(crate) fn remove(&mut self, stamp: Stamp) -> Option<Flight> {
        let flight = self.flights.remove(&stamp)?;
        self.ends.remove(&(flight.until, stamp));
        self.untold.remove(&(flight.since, stamp));
        Some(flight)
    }

    pub(crate) fn with(&self, stamp: Stamp) -> Option<&Flight> {
        self.flights.get(&stamp)
    }

    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    pub(crate) fn stamps(&self) -> impl Iterator<Item = Stamp> + '_ {
        self.flights.keys().copied()
    }

    /// When the first lease ends.
    pub(crate) fn next_end(&self) -> Option<Mono> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Takes a flight out whose lease has ended.
    pub(crate) fn pop_ended(&mut self, now: Mono) -> Option<Flight> {
        let (end, stamp) = *self.ends.first()?;
        if end > now { None } else { self.remove(stamp) }
    }

    /// Its custodian told when a lease ends now.
    pub(crate) fn told(&mut self, stamp: Stamp, until: Mono) {
        if let Some(mut flight) = self.remove(stamp) {
            flight.until = until;
            self.insert_told(flight);
        }
    }

    /// A message has another holder list; whether some of it are yet to be told of its lease.
    pub(crate) fn relist(&mut self, stamp: Stamp, list: ListId) -> bool {
        let Some(flight) = self.flights.get_mut(&stamp) else { return false };
        let longer = std::mem::replace(&mut flight.head.list, list) != list;
        if longer {
            self.untold.insert((flight.since, stamp));
        }
        longer
    }

    /// Changes when a lease ends; the other holders are to be told, as of one that began then.
    pub(crate) fn extend(&mut self, stamp: Stamp, until: Mono, since: Mono) {
        if let Some(mut flight) = self.remove(stamp) {
            flight.until = until;
            flight.since = since;
            self.insert(flight);
        }
    }

    /// Takes note that the leases which began before this are told; which.
    pub(crate) fn take_untold(&mut self, before: Mono) -> Vec<Stamp> {
        let mut told = Vec::new();
        while let Some((since, stamp)) = self.untold.first().copied()
            && since <= before
        {
            self.untold.pop_first();
            told.push(stamp);
        }
        told
    }

    /// Whether some lease has not been told, and since when.
    pub(crate) fn first_untold(&self) -> Option<Mono> {
        self.untold.first().map(|(since, _)| *since)
    }
}
