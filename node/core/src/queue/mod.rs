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

mod agreed;
mod flight;
mod lists;
mod oldest;
mod window;

use std::collections::BTreeMap;

use gaggle_wire::{Attempt, Label, MessageId, NodeId, Position, ProcessId, Receipt, Stamp};

pub(crate) use agreed::{Agreed, here};
pub(crate) use flight::{Flight, Flights, Given, Lease};
pub(crate) use lists::{ListId, Lists, Told};
pub(crate) use oldest::{First, Oldest};
pub(crate) use window::{Head, Reach, Window};

use crate::custody::known::{Came, Known, Seen};
use crate::envelope::LeaseTold;
use crate::now::Mono;
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::rendezvous::Slot;

/// A partition of a queue, as this node has it.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) known: Known,
    pub(crate) window: Window,
    /// Counts the window's reads.
    pub(crate) reading: u64,
    pub(crate) flights: Flights,
    /// Leases that ended before their time, of which the other holders are to be told.
    ended: BTreeMap<(Stamp, Lease), (ListId, LeaseTold)>,
    /// Leases of other custodians, as they told them.
    told: BTreeMap<Stamp, Heard>,
    pub(crate) lists: Lists,
    pub(crate) release: Release,
    pub(crate) oldest: Oldest,
    /// When the next delayed message may be due, in wall milliseconds.
    pub(crate) next_due: Option<u64>,
    /// Whether rows lie on disk whose messages are not held any more.
    pub(crate) sweep: Sweep,
    /// When other holders are asked again for what was lost here.
    pub(crate) fetch_at: Mono,
    /// Whether this node is one of the home hosts, as of the last refresh.
    home: bool,
    /// When to look for messages that are too old, and whether that is being done.
    pub(crate) look_at: Mono,
    pub(crate) looking: bool,
    /// Whether rows were passed over that may be handed out once they are settled.
    pub(crate) passed_over: bool,
}

/// A lease of another custodian on a message that is neither ready nor in flight here.
#[derive(Clone, Copy, Debug)]
struct Heard {
    number: u64,
    until: Mono,
    lease: Lease,
}

/// What decides, beside sessions, whether a message is handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// What was accepted before this (wall time in nanoseconds) is not sent again any more.
    pub(crate) aged_before: u64,
    /// Whether the queue is content with one copy.
    pub(crate) lone: bool,
    /// Whether this node hands out in the place of one in session that is not fit. Of what that one
    /// was not given, it may have the tombstone.
    pub(crate) instead: bool,
}

/// By what a message becomes one that may be handed out.
#[derive(Debug)]
pub(crate) enum Release {
    /// It is here, and in this node's custody.
    Free,
    /// A round has released it, and this pinned host has the turn.
    Agreed(Box<Agreed>),
    /// A round releases it at another host: this one has no seat.
    Elsewhere,
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

impl Partition {
    pub(crate) fn new(id: PartitionId) -> Self {
        Self {
            known: Known::default(),
            window: Window::default(),
            reading: 0,
            flights: Flights::default(),
            ended: BTreeMap::new(),
            told: BTreeMap::new(),
            lists: Lists::new(Slot::of(id.0, id.1)),
            release: Release::Free,
            oldest: Oldest::default(),
            next_due: None,
            sweep: Sweep::Clean,
            fetch_at: Mono(0),
            home: false,
            look_at: Mono(0),
            looking: false,
            passed_over: false,
        }
    }

    /// Interns a holder list.
    pub(crate) fn list(&mut self, holders: &[NodeId]) -> ListId {
        self.lists.intern(holders)
    }

    /// The nodes of an interned list, in the slot's order.
    pub(crate) fn holders(&self, list: ListId) -> &[NodeId] {
        self.lists.nodes(list)
    }

    /// The nodes that should have this message, as far as is known now.
    pub(crate) fn holders_of(&self, head: &Head) -> &[NodeId] {
        let list = self.lists.of(head.label.stamp.process, head.label.number);
        self.lists.nodes(list.unwrap_or(head.list))
    }

    /// As many of them as a receipt can name: a delete reaches the others through these.
    pub(crate) fn holders_named(&self, head: &Head) -> Vec<NodeId> {
        self.holders_of(head).iter().take(Receipt::HOLDERS_MAX).copied().collect()
    }

    /// Takes a new message in, under this list.
    pub(crate) fn hold(&mut self, list: ListId, label: &Label, came: Came) {
        let id = label.id();
        let was_here = self.known.seen(id.process, id.number) == Seen::Lost;
        self.known.hold(id.process, id.number);
        match came {
            Came::Accepted(Attempt::First) | Came::Sent(Attempt::First) => {}
            Came::Accepted(Attempt::Again) | Came::Sent(Attempt::Again) => {
                self.known.repeat(id.process, id.number);
            }
            Came::Given => self.known.give(id.process, id.number),
        }
        if let (Came::Accepted(_), false) = (came, was_here) {
            self.known.accept(id.process, id.number);
        }
        self.lists.hold(list, id.process, id.number);
        if let Release::Agreed(agreed) = &mut self.release {
            agreed.came(label, &mut self.known);
        }
    }

    /// These messages are gone; how many of them have rows here.
    pub(crate) fn bury(&mut self, process: ProcessId, numbers: &Ranges) -> u64 {
        self.lists.drop_held(process, numbers);
        self.known.bury(process, numbers).size()
    }

    /// This message was dropped.
    pub(crate) fn drop_held(&mut self, process: ProcessId, number: u64) {
        self.drop_all(process, &Ranges::of(number, number));
    }

    /// These messages were dropped.
    pub(crate) fn drop_all(&mut self, process: ProcessId, numbers: &Ranges) {
        self.lists.drop_held(process, numbers);
        self.known.drop_held(process, numbers);
    }

    /// Under which list a message that was lost here is to be stored again: its holders are all
    /// that either names.
    pub(crate) fn list_again(&mut self, holders: &[NodeId], id: MessageId) -> ListId {
        let number = [(id.process, Ranges::of(id.number, id.number))];
        self.lists.merge(holders, &number);
        self.lists.of(id.process, id.number).unwrap_or_else(|| self.lists.intern(holders))
    }

    /// Whether what is held by this list is in this node's custody, as of the last refresh.
    pub(crate) fn serves(&self, list: ListId) -> bool {
        self.lists.serves(list)
    }

    /// Whether this node hands out what is held by this list.
    pub(crate) fn hands_out_of(&self, list: ListId) -> bool {
        match &self.release {
            Release::Free => self.serves(list),
            Release::Agreed(agreed) => agreed.serving,
            Release::Elsewhere => false,
        }
    }

    /// Whether this node hands out anything here, be it released or not.
    pub(crate) fn hands_out(&self) -> bool {
        match &self.release {
            Release::Free => self.serves_any(),
            Release::Agreed(agreed) => agreed.serving,
            Release::Elsewhere => false,
        }
    }

    /// What was agreed on, at a pinned host of a strict queue.
    pub(crate) fn agreed(&self) -> Option<&Agreed> {
        match &self.release {
            Release::Agreed(agreed) => Some(agreed),
            Release::Free | Release::Elsewhere => None,
        }
    }

    /// Whether it is one of a strict queue.
    pub(crate) fn is_strict(&self) -> bool {
        !matches!(self.release, Release::Free)
    }

    /// The first message that may be handed out, when so many of each key are handed out with it.
    pub(crate) fn first_ready(&mut self, with: &BTreeMap<u64, usize>) -> Option<&Head> {
        let Release::Agreed(agreed) = &mut self.release else { return self.window.first() };
        let known = &self.known;
        self.window.iter().find(|head| {
            let before = with.get(&head.label.key).copied().unwrap_or(0);
            agreed.is_next(&head.label, before, known)
        })
    }

    /// Takes out the flights that are given back with one that ended: those behind it in its
    /// delivery group.
    pub(crate) fn end_group(&mut self, head: &Head) -> Vec<Flight> {
        let in_order = |head: &Head| {
            let position = self.agreed().and_then(|agreed| agreed.position(&head.label));
            matches!(position, Some(Position::InOrder { .. }))
        };
        if !in_order(head) {
            return Vec::new();
        }
        let is_behind = |stamp: &Stamp| {
            let flight = self.flights.with(*stamp);
            let of_key = |flight: &&Flight| flight.head.label.key == head.label.key;
            let behind = flight.filter(of_key).filter(|_| *stamp > head.label.stamp);
            behind.is_some_and(|flight| in_order(&flight.head))
        };
        let behind: Vec<Stamp> = self.flights.stamps().filter(is_behind).collect();
        let ended = behind.into_iter().filter_map(|stamp| self.flights.remove(stamp));
        ended.collect()
    }

    /// Whether anything here is in this node's custody.
    pub(crate) fn serves_any(&self) -> bool {
        self.lists.serves_any()
    }

    /// How many messages here are in this node's custody: of what it holds, those under lists that
    /// it serves.
    pub(crate) fn served_count(&self) -> u64 {
        self.lists.served().flat_map(|(_, held)| held.values()).map(Ranges::size).sum()
    }

    /// Whether it was looked at since sessions changed last.
    pub(crate) fn is_fresh(&self, epoch: u64) -> bool {
        self.lists.is_fresh(epoch)
    }

    /// Looks again at what may be handed out, if sessions changed; whether that changed.
    pub(crate) fn refresh(
        &mut self,
        epoch: u64,
        may_serve: impl Fn(&[NodeId]) -> bool,
        is_home: impl FnOnce() -> bool,
    ) -> bool {
        if self.lists.is_fresh(epoch) {
            return false;
        }
        self.home = is_home();
        self.lists.refresh(epoch, may_serve)
    }

    /// Whether this message may be handed out here. A copy that may never have been confirmed, or
    /// that lies at a stand-in, waits until another host is known to have it, and until an unfit
    /// one has been asked: else it could be one that was deleted everywhere else long ago (P4). One
    /// that came again waits for the word of all, be it that one copy is enough; so does one that
    /// one of several holders gave.
    pub(crate) fn may_hand_out(&self, head: &Head, rule: Rule) -> bool {
        let Label { stamp: Stamp { process, .. }, number, .. } = head.label;
        let repeated = self.known.is_repeated(process, number);
        let unasked = self.known.is_lacking(process, number);
        let doubtful = !self.home || repeated || head.accepted.time < rule.aged_before;
        let in_doubt = self.known.is_unsettled(process, number) || (rule.instead && unasked);
        let believed = !doubtful || rule.lone || !in_doubt;
        let given = self.known.is_given(process, number);
        self.hands_out_of(head.list) && believed && !(repeated && unasked) && !given
    }

    /// A delivery came back before its lease was over.
    pub(crate) fn lease_ended(&mut self, flight: &Flight) {
        let Label { number, stamp, .. } = flight.head.label;
        let told = flight.lease.told((number, stamp), std::time::Duration::ZERO);
        self.ended.insert((stamp, flight.lease), (flight.head.list, told));
    }

    /// A message is handed out. Where the same delivery came back uncounted a moment ago, its end
    /// is not told any more: it would end this one at the other holders.
    pub(crate) fn take_off(&mut self, flight: Flight) {
        self.ended.remove(&(flight.head.label.stamp, flight.lease));
        self.flights.insert(flight);
    }

    /// Leases that ended before their time and were not told of.
    pub(crate) fn take_ended(&mut self) -> Vec<(ListId, LeaseTold)> {
        std::mem::take(&mut self.ended).into_values().collect()
    }

    /// Another custodian told of a lease (or of its end). It hides the message here as well, be it
    /// ready or in flight already; a message that only it had hidden is given back.
    pub(crate) fn lease_told(&mut self, told: &LeaseTold, now: Mono) -> Option<Head> {
        let until = now.plus(std::time::Duration::from_millis(told.remaining_ms));
        let LeaseTold { number, stamp, custodian, boot, delivery, .. } = *told;
        let lease = Lease { custodian, boot, delivery };
        let hidden = self.flights.with(stamp).map(|flight| flight.lease == lease);
        if told.remaining_ms == 0 {
            if self.told.get(&stamp).is_some_and(|told| told.lease == lease) {
                self.told.remove(&stamp);
            }
            if hidden != Some(true) {
                return None;
            }
            let flight = self.flights.remove(stamp).expect("it was looked at");
            return self.unless_told(flight, now).map(|flight| flight.head);
        }
        if hidden == Some(true) {
            self.flights.told(stamp, until);
        } else if let Some(head) = self.window.remove(stamp) {
            self.honour(head, (until, lease), now);
        } else if self.told.len() < TOLD_MAX || self.told.contains_key(&stamp) {
            self.told.insert(stamp, Heard { number, until, lease });
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
            let ended = self.unless_told(flight, now);
            if ended.is_some() {
                return ended;
            }
        }
    }

    /// A flight that is over, unless another custodian's lease keeps the message hidden.
    fn unless_told(&mut self, flight: Flight, now: Mono) -> Option<Flight> {
        match self.told.remove(&flight.head.label.stamp) {
            Some(Heard { until, lease, .. }) if until > now => {
                self.honour(flight.head, (until, lease), now);
                None
            }
            _ => Some(flight),
        }
    }

    /// The lease of another custodian on this message, if it still runs.
    pub(crate) fn told_lease(&self, stamp: Stamp, now: Mono) -> Option<(Mono, Lease)> {
        let told = self.told.get(&stamp).filter(|told| told.until > now)?;
        Some((told.until, told.lease))
    }

    /// The lease that a message is under, whoever gave it.
    pub(crate) fn lease_of(&self, id: (u64, Stamp), now: Mono) -> Option<LeaseTold> {
        let own = self.flights.with(id.1).map(|flight| (flight.until, flight.lease));
        let (until, lease) = own.or_else(|| self.told_lease(id.1, now))?;
        Some(lease.told_running(id, until, now))
    }

    /// Leases of other custodians whose messages were not read here since they were told: a host
    /// that comes back has to hear of them as well.
    pub(crate) fn leases_heard(&self, now: Mono) -> Vec<(ListId, LeaseTold)> {
        let running = self.told.iter().filter(|(_, told)| told.until > now);
        let heard = running.filter_map(|(stamp, Heard { number, until, lease })| {
            let list = self.lists.of(stamp.process, *number)?;
            Some((list, lease.told_running((*number, *stamp), *until, now)))
        });
        heard.collect()
    }

    /// Forgets what others told of leases that have run out.
    pub(crate) fn forget_told(&mut self, now: Mono) {
        if !self.told.is_empty() {
            self.told.retain(|_, told| told.until > now);
        }
    }

    /// A message is gone or was dropped: it is neither ready nor in flight any more.
    pub(crate) fn remove(&mut self, stamp: Stamp) -> Option<Head> {
        self.told.remove(&stamp);
        let ready = self.window.remove(stamp);
        ready.or_else(|| self.flights.remove(stamp).map(|flight| flight.head))
    }

    /// The number of a message that is ready or in flight.
    pub(crate) fn number_at(&self, stamp: Stamp) -> Option<u64> {
        let ready = self.window.head(stamp);
        let head = ready.or_else(|| self.flights.with(stamp).map(|flight| &flight.head));
        head.map(|head| head.label.number)
    }

    /// A message has another holder list; whether it is in flight, and some of that list are yet to
    /// be told so.
    pub(crate) fn relist(&mut self, stamp: Stamp, list: ListId) -> bool {
        self.window.relist(stamp, list);
        self.flights.relist(stamp, list)
    }

    /// Nothing is handed out here any more: what is in the window is left to the disk. Flights
    /// stay until their leases end.
    pub(crate) fn close_window(&mut self) {
        self.window = Window::default();
        self.reading += 1;
        self.passed_over = false;
        self.look_at = Mono(0);
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
