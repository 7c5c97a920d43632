//! Building a round from the reports of a majority.
//!
//! What a majority of the pinned hosts held when it was asked is in the reports, and so a message
//! that was confirmed by a majority in time is never left out (P6). Each entry is judged by the
//! log: released, late, or taken out because it went unread for too long. The sequencer releases
//! only what it holds itself, for it hands out next; what it lacks it waits for.
//!
//! What is to be taken out of what was released before comes as a wish: this room knows neither
//! ages nor deliveries.
//!
//! Invariant: the order of what is released is the order of stamps. What this file does not do:
//! it does not ask and does not propose.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{LateBy, Stamp};

use super::log::{Judgement, Log, Verdict};
use super::{Entry, Pinned, Round, Seat, Why};

/// Whether a message is on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// It is.
    Held,
    /// It is, and has gone unread for longer than it may.
    Expired,
    /// It was, or was to be: it has moved or is gone, by a tombstone that is known here.
    Gone,
    /// Nothing is known of it.
    Missing,
}

/// What a host would have the next round do besides releasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Taken out, if it was released. The caller sees to it that none is in flight, that what is
    /// lost is at no listed host, and that what has expired is held here.
    pub out: Vec<(Entry, Why)>,
    /// A seat is given to another host.
    pub swap: Option<Swap>,
    /// A round that does nothing but move the watermark is worth proposing.
    pub advance: bool,
}

/// One pinned host for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Who goes.
    pub gone: Seat,
    /// Who comes; it is in session.
    pub new: Seat,
    /// Pinned hosts whose stores do not exist any more: nobody waits for their reports.
    pub void: BTreeSet<Seat>,
}

/// What a round is built of.
pub(crate) struct Building<'a> {
    pub(crate) log: &'a Log,
    pub(crate) late_by: LateBy,
    pub(crate) here: &'a dyn Fn(&Entry) -> Here,
    pub(crate) wishes: &'a Wishes,
}

impl Building<'_> {
    /// The round that follows from these reports; nothing as long as something is missing here
    /// that would be released.
    pub(crate) fn round(
        &self,
        up_to: Stamp,
        reports: &BTreeMap<Seat, Vec<Entry>>,
    ) -> Option<Round> {
        let n = self.log.last() + 1;
        let (released, late, out) = (Vec::new(), Vec::new(), self.taken_out());
        let mut round = Round { n, up_to, released, late, out, change: None };
        let mut reported = BTreeMap::new();
        for entry in reports.values().flatten() {
            reported.entry((entry.stamp, entry.name)).or_insert(entry);
        }
        for entry in reported.into_values().filter(|entry| entry.stamp <= up_to) {
            let here = (self.here)(entry);
            match (self.log.judge(entry, self.late_by), here) {
                (Judgement::Settled, _) | (_, Here::Gone) => {}
                (Judgement::Late, Here::Held | Here::Missing) => round.late.push(entry.clone()),
                (Judgement::Late, Here::Expired) if self.log.verdict(entry.name).is_some() => {
                    round.late.push(entry.clone());
                }
                (_, Here::Expired) => round.out.push((entry.clone(), Why::Expired)),
                (Judgement::Release, Here::Held) => round.released.push(entry.clone()),
                (Judgement::Release, Here::Missing) => return None,
            }
        }
        round.change = self.change(reports);
        Some(round)
    }

    fn taken_out(&self) -> Vec<(Entry, Why)> {
        let released = |entry: &Entry| self.log.verdict(entry.name) == Some(Verdict::Released);
        let stays = |entry: &Entry| released(entry) && (self.here)(entry) != Here::Gone;
        self.wishes.out.iter().filter(|(entry, _)| stays(entry)).cloned().collect()
    }

    /// The pinned hosts with one seat given away, once whoever came last has reported: so it has
    /// been told everything, and counts in full for the next one to come.
    fn change(&self, reports: &BTreeMap<Seat, Vec<Entry>>) -> Option<Pinned> {
        let swap = self.wishes.swap.as_ref()?;
        let hosts = self.log.hosts();
        let counts = |seat: &Seat| {
            hosts.former.has(*seat) || swap.void.contains(seat) || reports.contains_key(seat)
        };
        let pinned = hosts.pinned.swapped(swap.gone, swap.new)?;
        hosts.pinned.seats().all(|seat| counts(&seat)).then_some(pinned)
    }
}
