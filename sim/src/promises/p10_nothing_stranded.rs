//! P10, nothing is stranded: a consumer waiting at any node gets a ready message held anywhere
//! reachable, at once.
//!
//! It is judged in fair weather, once every lease that nobody saw has run out: no message may have
//! been ready, and no consumer of its queue waiting, both for longer than a moment. At the end of a
//! run, when somebody has waited at every node for long, nothing may be left that lies on a disk;
//! and only then what a disk has lost the row of, for its node does not know of that until a scrub
//! finds it. What this file does not do: what lies nowhere any more is lost, which is P1.

use gaggle_wire::{Order, Settings};

use crate::judge::{Scene, Subject};
use crate::oracle::{Fact, Fate, FullName, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    match fact {
        Fact::Later => kept_waiting(scene),
        Fact::Over => {
            let mut open = scene.oracle.fates().filter(|(_, fate)| fate.is_open());
            let (name, fate) = open.find(|(name, fate)| super::is_reachable(scene, name, fate))?;
            let (at, seen) = (fate.confirmed?.0 as f64 / 1e9, fate.deliveries.len());
            Some(format!("{}, confirmed at {at:.6}, seen {seen} times, does not come", show(*name)))
        }
        _ => None,
    }
}

/// A message that is ready while somebody waits.
fn kept_waiting(scene: &Scene<'_>) -> Option<String> {
    let fair = scene.weather.fair_since()?;
    let seen = fair.saturating_add(scene.oracle.longest_lease());
    let long = |since: u64| since.saturating_add(AT_ONCE) < scene.now;
    if !long(seen) {
        return None;
    }
    scene.oracle.waiting().filter(|(_, wait)| long(wait.since)).find_map(|(place, wait)| {
        let (name, since) = scene.oracle.fates().find_map(|(name, fate)| {
            let queue = scene.oracle.queue(name.0).filter(|queue| queue.name == wait.queue)?;
            let delay = queue.settings.delay_ms.saturating_mul(1_000_000);
            let since = fate.ready_since(delay)?;
            let since = since.saturating_add(release(&queue.settings));
            if !long(since) || scene.oracle.before(name, fate).any(|(_, other)| !other.is_gone()) {
                return None;
            }
            let known = fate.row_lost_by.is_empty();
            let here = known && !is_leaving(scene, place.node, name, fate);
            (here && super::is_reachable(scene, name, fate)).then_some((*name, since))
        })?;
        Some(format!(
            "{} is ready since {:.6}, and client {} waits at {} since {:.6}",
            show(name),
            since as f64 / 1e9,
            place.actor,
            crate::options::node_id(place.node),
            wait.since as f64 / 1e9
        ))
    })
}

/// How long a strict queue may take to release a message: its window, and the time that another
/// host takes to go on where one has stopped.
fn release(settings: &Settings) -> u64 {
    match settings.order {
        Order::BestEffort => 0,
        Order::Strict => settings.window_ms * 1_000_000 + TAKEOVER,
    }
}

/// Whether a node is being stopped. Who waits there has been told so, and gets what it hands over
/// elsewhere.
fn is_leaving(scene: &Scene<'_>, node: usize, name: &FullName, fate: &Fate) -> bool {
    let subject = Subject { name: *name, stamp: fate.label.stamp, custodian: None };
    (scene.look)(&subject).leaving.contains(&node)
}

/// As long as two turns, and the time that a session takes to be found dead.
const TAKEOVER: u64 = 4_500_000_000;
/// What "at once" is, commits and two words between nodes included.
const AT_ONCE: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::super::history::{A, B, History, LEASE_MS};

    /// A message that is confirmed, and nobody who waited before.
    fn ready() -> History {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).after_ms(2 * LEASE_MS);
        history
    }

    #[test]
    fn a_ready_message_and_a_waiting_consumer_for_long_break_it() {
        let mut history = ready();
        history.consumes(B).after_ms(1100).looks();
        history.breaks(10);
    }

    #[test]
    fn a_consumer_that_began_just_now_or_has_no_credit_breaks_nothing() {
        let mut history = ready();
        history.consumes(B).after_ms(900).looks();
        history.breaks_nothing();
        let mut history = ready();
        history.consumes(B).sends(A, 2).delivers_many(B, 100, 2).after_ms(1100).looks();
        history.breaks_nothing();
    }

    #[test]
    fn a_message_in_flight_breaks_nothing_before_its_lease_is_over() {
        for (ms, broken) in [(LEASE_MS, false), (LEASE_MS + 1100, true)] {
            let mut history = ready();
            history.delivers(A, 1).consumes(B).after_ms(ms).looks();
            if broken { history.breaks(10) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_message_that_was_handed_to_who_is_dead_breaks_nothing_before_its_lease_is_over() {
        for (ms, broken) in [(LEASE_MS, false), (LEASE_MS + 1100, true)] {
            let mut history = ready();
            history.hands(1).consumes(B).after_ms(ms).looks();
            if broken { history.breaks(10) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_only_a_node_has_that_is_down_is_not_reachable() {
        let mut history = ready();
        history.on_disks([1]).up([0, 2]).consumes(B).after_ms(1100).looks();
        history.breaks_nothing();
    }

    #[test]
    fn what_is_damaged_wherever_it_lies_is_not_reachable() {
        for (damaged, broken) in [(vec![0, 1, 2], false), (vec![0, 1], true)] {
            let mut history = ready();
            history.damaged(damaged).consumes(B).after_ms(1100).looks();
            if broken { history.breaks(10) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_a_disk_has_lost_the_row_of_comes_when_a_scrub_has_found_that() {
        let mut history = ready();
        history.loses_row(2, 1).consumes(B).after_ms(1100).looks();
        history.breaks_nothing();
        history.ends();
        history.breaks(10);
    }

    #[test]
    fn who_waits_at_a_node_that_is_being_stopped_is_to_go_elsewhere() {
        for (leaving, broken) in [(0, false), (1, true)] {
            let mut history = ready();
            history.leaves(leaving).consumes(B).after_ms(1100).looks();
            if broken { history.breaks(10) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn after_a_fault_it_is_judged_once_unseen_leases_are_over() {
        let mut history = ready();
        history.consumes(B).disturbed().after_ms(60_000).looks();
        history.breaks_nothing();
    }

    #[test]
    fn what_lies_on_a_disk_and_has_not_come_at_the_end_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).ends();
        history.breaks(10);
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).deletes(A, 1).ends();
        history.breaks_nothing();
    }
}
