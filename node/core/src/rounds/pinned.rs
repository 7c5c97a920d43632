//! The pinned hosts of a strict partition: who votes, and how that changes.
//!
//! Delivery in order needs a majority, and a majority needs a set that everybody agrees on. It is
//! a set of nodes *with their stores*: a node with another store has forgotten what it promised,
//! so it is another host and has no seat. The set changes by a round, one seat at a time, so that
//! any majority before the change meets any majority after it.
//!
//! A new host knows nothing of what was there before it came, so its report would be empty where
//! that of its predecessor was not. [`Told`] counts who has told it everything: it reports once
//! that is a majority of the former set, each knowing of the change. Then any majority of reports
//! covers what any majority held.
//!
//! Invariants: two majorities of one set, and of two sets one change apart, share a host. What
//! this file does not do: it does not choose who comes and who goes.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::NodeId;
use serde::{Deserialize, Serialize};

/// A node with its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seat {
    /// Which node.
    pub node: NodeId,
    /// The name of its store.
    pub store: u128,
}

/// The hosts that vote, by node: a node has one seat at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned(BTreeMap<NodeId, u128>);

impl Pinned {
    /// A set of these hosts. Of two with one node the last counts.
    pub fn new(seats: impl IntoIterator<Item = Seat>) -> Self {
        Self(seats.into_iter().map(|seat| (seat.node, seat.store)).collect())
    }

    /// Its hosts, by node.
    pub fn seats(&self) -> impl Iterator<Item = Seat> {
        self.0.iter().map(|(node, store)| Seat { node: *node, store: *store })
    }

    /// Whether a host on this node votes.
    #[must_use]
    pub fn has_node(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }

    /// Whether this host votes.
    #[must_use]
    pub fn has(&self, seat: Seat) -> bool {
        self.0.get(&seat.node) == Some(&seat.store)
    }

    /// How many are more than half.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// Whether more than half of them are among these.
    #[must_use]
    pub fn is_majority(&self, hosts: &BTreeSet<Seat>) -> bool {
        !self.0.is_empty()
            && self.seats().filter(|seat| hosts.contains(seat)).count() >= self.majority()
    }

    /// The set with `new` in the place of `gone`: nothing if `gone` has no seat, or if the node
    /// of `new` has another one.
    #[must_use]
    pub fn swapped(&self, gone: Seat, new: Seat) -> Option<Self> {
        let mut hosts = self.0.clone();
        let had_seat = self.has(gone) && hosts.remove(&gone.node).is_some();
        let is_new = hosts.insert(new.node, new.store).is_none();
        (had_seat && is_new && gone != new).then_some(Self(hosts))
    }

    /// Whether this set may follow `former`: one seat was given to another host.
    #[must_use]
    pub fn follows(&self, former: &Self) -> bool {
        let kept = self.seats().filter(|seat| former.has(*seat)).count();
        self.0.len() == former.0.len() && kept + 1 == former.0.len()
    }
}

/// The pinned hosts, and what they came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Who votes.
    pub pinned: Pinned,
    /// Who voted before the last change; the same set if there was none.
    pub former: Pinned,
    /// The round of the last change; 0 if there was none.
    pub changed: u64,
}

impl Hosts {
    /// The hosts with which a partition begins.
    #[must_use]
    pub fn first(pinned: Pinned) -> Self {
        Self { former: pinned.clone(), pinned, changed: 0 }
    }
}

/// Who has told this host everything since the last change. Durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Who was told: with another store it means nothing.
    pub seat: Seat,
    /// The round of the change.
    pub changed: u64,
    /// What those of the former set held, when they knew of the change, has been told by these.
    pub by: BTreeSet<Seat>,
}

impl Told {
    /// What was written down of what `me` was told. What a former store was told is void.
    pub(crate) fn open(me: Seat, told: Option<Self>) -> Self {
        let nothing = || Self { seat: me, changed: 0, by: BTreeSet::new() };
        told.filter(|told| told.seat == me).unwrap_or_else(nothing)
    }

    /// What `me` was told when the hosts changed just now: a host of the former set knows its own.
    pub(crate) fn at_change(me: Seat, hosts: &Hosts) -> Self {
        let by = Some(me).filter(|me| hosts.former.has(*me)).into_iter().collect();
        Self { seat: me, changed: hosts.changed, by }
    }

    /// Whether its host knows enough to report.
    pub(crate) fn is_enough(&self, hosts: &Hosts) -> bool {
        hosts.former.has(self.seat) || self.is_of_majority(hosts)
    }

    /// Whether it covers a majority of the former set, and so is all that anybody new needs. Also
    /// a host that has long been there gets this far: it may be the only one that the new host
    /// and the others are both in session with.
    pub(crate) fn is_all(&self, hosts: &Hosts) -> bool {
        hosts.changed == 0 || self.is_of_majority(hosts)
    }

    fn is_of_majority(&self, hosts: &Hosts) -> bool {
        self.changed == hosts.changed && hosts.former.is_majority(&self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(node: u64, store: u128) -> Seat {
        Seat { node: NodeId(node), store }
    }

    fn three() -> Pinned {
        Pinned::new([seat(1, 10), seat(2, 20), seat(3, 30)])
    }

    #[test]
    fn a_node_with_another_store_has_no_seat_and_counts_for_no_majority() {
        assert!(three().has(seat(2, 20)) && !three().has(seat(2, 21)));
        assert!(three().is_majority(&[seat(1, 10), seat(3, 30)].into()));
        assert!(!three().is_majority(&[seat(1, 10), seat(2, 21), seat(4, 40)].into()));
        assert!(!Pinned::default().is_majority(&BTreeSet::new()), "nobody is not a majority");
    }

    #[test]
    fn one_seat_changes_at_a_time() {
        let wiped = three().swapped(seat(2, 20), seat(2, 21)).unwrap();
        assert_eq!(wiped, Pinned::new([seat(1, 10), seat(2, 21), seat(3, 30)]));
        let other = three().swapped(seat(2, 20), seat(4, 40)).unwrap();
        assert!(wiped.follows(&three()) && other.follows(&three()));
        assert!(!three().follows(&three()), "nothing changed");
        assert!(!Pinned::new([seat(1, 10), seat(4, 40), seat(5, 50)]).follows(&three()));
        assert!(!Pinned::new([seat(1, 10), seat(2, 20)]).follows(&three()));
        assert_eq!(three().swapped(seat(2, 21), seat(4, 40)), None, "who goes has no seat");
        assert_eq!(three().swapped(seat(2, 20), seat(3, 31)), None, "who comes has one");
        assert_eq!(three().swapped(seat(2, 20), seat(2, 20)), None, "nothing would change");
    }

    #[test]
    fn a_new_host_reports_once_a_majority_of_the_former_set_has_told_it_everything() {
        let pinned = three().swapped(seat(2, 20), seat(4, 40)).unwrap();
        let hosts = Hosts { pinned, former: three(), changed: 7 };
        let mut told = Told::at_change(seat(4, 40), &hosts);
        assert_eq!(told, Told { seat: seat(4, 40), changed: 7, by: BTreeSet::new() });
        told.by.insert(seat(1, 10));
        told.by.insert(seat(4, 40));
        assert!(!told.is_enough(&hosts), "one of the former set");
        assert!(!Told::at_change(seat(1, 10), &hosts).is_all(&hosts), "it knows its own alone");
        told.by.insert(seat(3, 30));
        assert!(told.is_enough(&hosts));
        assert!(
            !told.is_enough(&Hosts { changed: 9, ..hosts.clone() }),
            "there was another change"
        );
        assert!(Told::open(seat(4, 40), Some(told.clone())).is_enough(&hosts));
        assert!(!Told::open(seat(4, 41), Some(told)).is_enough(&hosts), "its store is another one");
        assert!(Told::at_change(seat(1, 10), &hosts).is_enough(&hosts));
        assert!(!Told::at_change(seat(1, 11), &hosts).is_enough(&hosts));
    }
}
