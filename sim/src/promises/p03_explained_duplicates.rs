//! P3, explained duplicates: without faults, ended leases and releases every message comes once.
//!
//! A second delivery is judged against every earlier one. An earlier one explains nothing when it
//! still hides its message, and either nothing has failed since it came, or both are of one run
//! of one custodian that gave the first to a client of its own: it knows its own leases in any
//! weather, but not what another holder extended behind a cut. Unless it has lost its copy, which
//! comes anew from another holder.
//!
//! What this file does not do: a delivery that crossed the end of its stream is none.

use crate::judge::Scene;
use crate::options::{node_id, place};
use crate::oracle::{Delivered, Fact, Fate, FullName, Seen, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    let Fact::Delivered(delivered) = fact else { return None };
    if delivered.crossed {
        return None;
    }
    let fate = scene.oracle.fate(&delivered.name)?;
    let first = fate.deliveries.iter().find(|seen| contradicts(scene, fate, seen, delivered))?;
    Some(format!(
        "{} was delivered at {:.6} by {} as {} and is delivered by {} as {}",
        show(delivered.name),
        first.at as f64 / 1e9,
        first.receipt.custodian,
        first.receipt.delivery,
        delivered.label.receipt.custodian,
        delivered.label.receipt.delivery
    ))
}

fn contradicts(scene: &Scene<'_>, fate: &Fate, seen: &Seen, delivered: &Delivered) -> bool {
    let comes = Seen::new(delivered);
    // What comes now may have been handed out before, and was on its way for longer.
    let (first, second) = if seen.at <= comes.at { (seen, &comes) } else { (&comes, seen) };
    let fair = scene.weather.fair_since().is_some_and(|since| since <= first.at);
    let until = if fair { first.until } else { first.until_there };
    let over_by = second.at + super::ON_ITS_WAY;
    if first.ended || until <= over_by || goes_back(scene, &delivered.name, fate, over_by) {
        return false;
    }
    let (was, is) = (&first.receipt, &second.receipt);
    let one_run = (was.custodian, was.boot) == (is.custodian, is.boot);
    if one_run && is.delivery < was.delivery {
        return false;
    }
    let forgot = fate.lost_by.contains(&place(was.custodian));
    fair || one_run && !forgot && node_id(first.place.node) == was.custodian
}

/// Whether a message of a strict queue was given back with an earlier one of its key, whose own
/// delivery had ended by then: they are one delivery group.
fn goes_back(scene: &Scene<'_>, name: &FullName, fate: &Fate, over_by: u64) -> bool {
    let ended = |other: &Fate| other.deliveries.iter().any(|s| s.ended || s.until <= over_by);
    scene.oracle.before(name, fate).any(|(_, other)| ended(other))
}

#[cfg(test)]
mod tests {
    use super::super::history::{A, B, History, LEASE_MS};

    #[test]
    fn a_second_delivery_within_the_lease_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).after_ms(100).delivers(B, 1);
        history.breaks(3);
    }

    #[test]
    fn a_second_delivery_after_the_lease_or_a_release_breaks_nothing() {
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).after_ms(LEASE_MS).delivers(B, 1);
        history.breaks_nothing();
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).releases(A, 1).delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn what_was_extended_is_hidden_for_longer() {
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).extends(A, 1, 3 * LEASE_MS);
        history.after_ms(2 * LEASE_MS).delivers(B, 1);
        history.breaks(3);
    }

    #[test]
    fn a_fault_between_the_two_explains_a_delivery_by_another_custodian() {
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).disturbed().by(1).delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn one_run_of_a_custodian_breaks_it_in_a_storm_too() {
        let mut history = History::fair();
        history.disturbed().sends(A, 1).delivers(A, 1).delivers(B, 1);
        history.breaks(3);
        let mut history = History::fair();
        history.disturbed().sends(A, 1).delivers(A, 1).restarts().delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn what_another_holder_extends_in_a_storm_does_not_bind_the_custodian() {
        for (by, broken) in [(0, true), (1, false)] {
            let mut history = History::fair();
            history.disturbed().sends(A, 1).delivers(A, 1).by(by).extends(A, 1, 3 * LEASE_MS);
            history.by(0).after_ms(2 * LEASE_MS).delivers(B, 1);
            if broken { history.breaks(3) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_a_client_lost_with_its_connection_and_had_not_taken_may_come_again() {
        for (taken, broken) in [(0, false), (1, true)] {
            let mut history = History::fair();
            history.consumes(A).sends(A, 1).delivers(A, 1).takes(A, taken).after_ms(200);
            history.loses_connection(A).delivers(B, 1);
            if broken { history.breaks(3) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn the_end_of_an_older_connection_gives_nothing_back_that_came_on_the_present_one() {
        let mut history = History::fair();
        history.consumes(A).reconnects().consumes(A).sends(A, 1).delivers(A, 1);
        history.loses_older_connection(A).delivers(B, 1);
        history.breaks(3);
    }

    #[test]
    fn in_a_storm_who_has_lost_its_disk_knows_no_leases() {
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).loses_disk(0).delivers(B, 1);
        history.breaks_nothing();
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).loses_disk(1).delivers(B, 1);
        history.breaks(3);
    }

    #[test]
    fn a_lease_runs_from_when_it_was_handed_out_however_late_that_comes() {
        for (held, broken) in [(LEASE_MS - 300, false), (100, true)] {
            let mut history = History::fair();
            history.sends(A, 1).after_ms(LEASE_MS).held_for_ms(held).delivers(A, 1);
            history.after_ms(500).delivers(B, 1);
            if broken { history.breaks(3) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_lease_runs_from_when_its_custodian_gave_it_however_late_its_node_handed_it_over() {
        for (commit, broken) in [(600, false), (0, true)] {
            let mut history = History::fair();
            history.sends(A, 1).gives(1).after_ms(commit).delivers(A, 1);
            history.after_ms(LEASE_MS - 500).delivers(B, 1);
            if broken { history.breaks(3) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_was_handed_out_before_and_comes_after_is_held_against_the_other() {
        for (held, broken) in [(LEASE_MS, false), (LEASE_MS - 500, true)] {
            let mut history = History::fair();
            history.sends(A, 1).after_ms(LEASE_MS).delivers(A, 1);
            history.held_for_ms(held).delivers(B, 1);
            if broken { history.breaks(3) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_delivery_that_crosses_the_end_of_its_stream_was_given_back() {
        let mut history = History::fair();
        history.consumes(A).sends(A, 1).stops(A, 0).delivers(B, 1).delivers(A, 1);
        history.breaks_nothing();
    }

    #[test]
    fn what_was_said_into_a_cut_to_have_been_taken_was_not_heard() {
        for (cut, broken) in [(true, false), (false, true)] {
            let mut history = History::fair();
            history.consumes(A).sends(A, 1).delivers(A, 1);
            if cut {
                history.cut(A);
            }
            history.takes(A, 1).after_ms(200).loses_connection(A).delivers(B, 1);
            if broken { history.breaks(3) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_a_purge_took_in_flight_may_be_sent_again_and_come() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).purges().sends(A, 1).delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn what_a_purge_takes_on_its_way_may_be_sent_again_and_come() {
        for (purged, broken) in [(true, false), (false, true)] {
            let mut history = History::fair();
            history.sends(A, 1).confirms(A, 1, 2);
            if purged {
                history.asks_purge();
            }
            history.delivers(A, 1).sends(A, 1).delivers(B, 1);
            if broken { history.breaks(3) } else { history.breaks_nothing() }
        }
    }
}
