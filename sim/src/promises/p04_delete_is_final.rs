//! P4, delete is final: what was deleted does not come again.
//!
//! In fair weather a deleted message may come for as long as its tombstone may take to every host
//! that can be reached, and no longer. In a storm it binds where it can be known: the custodian
//! had the tombstone itself, or was in an undisturbed session for that long with a host that has
//! had it since the delete was confirmed.
//!
//! What nobody has the tombstone of any more, because disks were lost, may come back. Known not to
//! hold: with `at_least` 1 a message that two sides of a cut accepted comes back to
//! the side that deleted it when the cut outlasts the resend window, for then nobody has its
//! tombstone any more. It is excused only where that can be seen.

use crate::judge::{Scene, Subject};
use crate::options::place;
use crate::oracle::{Delivered, Fact, Fate, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    let Fact::Delivered(delivered) = fact else { return None };
    let fate = scene.oracle.fate(&delivered.name)?;
    let deleted = fate.deleted?;
    let told = deleted + TOLD < delivered.at;
    let fair = scene.weather.fair_since().is_some_and(|since| since + TOLD < delivered.at);
    let (name, at) = (show(delivered.name), deleted as f64 / 1e9);
    let by = delivered.label.receipt.custodian;
    if told && fair && !fate.unburied && !forgotten(scene, delivered, fate) {
        return Some(format!("{name}, deleted at {at:.6}, is delivered by {by}"));
    }
    let teller = teller(scene, delivered, fate)?;
    Some(format!(
        "{name}, deleted at {at:.6}, is delivered by {by}, and {} has its tombstone",
        crate::options::node_id(teller)
    ))
}

/// Whether a message that was sent more than once to a queue which is content with one copy is
/// one whose tombstone nobody has any more.
fn forgotten(scene: &Scene<'_>, delivered: &Delivered, fate: &Fate) -> bool {
    let queue = scene.oracle.queue(delivered.name.0);
    let lone = queue.is_some_and(|queue| queue.settings.at_least == 1);
    lone && fate.sends > 1 && witness(scene, delivered).buriers.is_empty()
}

/// Who has the tombstone and could have told the custodian of it.
fn teller(scene: &Scene<'_>, delivered: &Delivered, fate: &Fate) -> Option<usize> {
    let deleted = fate.deleted?;
    let custodian = place(delivered.label.receipt.custodian);
    if delivered.place.node != custodian {
        // What comes through another node may have been under way for as long as a cut lasted.
        return None;
    }
    let witness = witness(scene, delivered);
    let had_it = fate.buried_at.intersection(&witness.buriers);
    let mut near = had_it.copied().filter(|at| witness.near.contains(at));
    near.find(|at| {
        let since = deleted.max(scene.weather.quiet_since(*at, custodian));
        let within = if *at == custodian { super::ON_ITS_WAY } else { TOLD };
        since + within < delivered.at
    })
}

fn witness(scene: &Scene<'_>, delivered: &Delivered) -> crate::judge::Witness {
    let receipt = &delivered.label.receipt;
    let custodian = Some(receipt.custodian);
    (scene.look)(&Subject { name: delivered.name, stamp: receipt.stamp, custodian })
}

/// How long a tombstone may take in a session that is open, and a delivery on its way.
const TOLD: u64 = 2_000_000_000 + super::ON_ITS_WAY;

#[cfg(test)]
mod tests {
    use super::super::history::{A, B, History};

    /// A message that was deleted so long ago.
    fn deleted(history: &mut History, ms: u64) -> &mut History {
        history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).deletes(A, 1).after_ms(ms)
    }

    #[test]
    fn a_delivery_long_after_the_delete_breaks_it() {
        let mut history = History::fair();
        deleted(&mut history, 30_000).delivers(B, 1);
        history.breaks(4);
    }

    #[test]
    fn what_was_handed_out_before_the_delete_and_comes_after_breaks_nothing() {
        let mut history = History::fair();
        history.buried([0]).near([0]);
        deleted(&mut history, 30_000).restarts().held_for_ms(30_000).disturbed().delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn a_delivery_before_its_tombstone_could_be_told_breaks_nothing() {
        let mut history = History::fair();
        deleted(&mut history, 2300).restarts().disturbed().delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn a_delete_whose_outcome_is_unknown_binds_nobody() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).asks_delete(A, 1);
        history.after_ms(30_000).delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn in_a_storm_it_binds_who_could_have_been_told() {
        for (near, broken) in [(vec![0, 2], true), (vec![0], false)] {
            let mut history = History::fair();
            history.buried([2]).near(near);
            deleted(&mut history, 3000).disturbed().restarts().delivers(B, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn in_a_storm_a_session_that_was_disturbed_since_has_told_nothing() {
        let mut history = History::fair();
        history.buried([2]).near([0, 2]);
        deleted(&mut history, 3000).disturbed().restarts().troubles(0, 2).delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn in_a_storm_who_has_the_tombstone_itself_is_bound_at_once() {
        let mut history = History::fair();
        history.buried([0]).near([0]);
        deleted(&mut history, 500).disturbed().restarts().delivers(B, 1);
        history.breaks(4);
    }

    #[test]
    fn what_nobody_has_the_tombstone_of_because_a_disk_was_lost_may_come_back() {
        for (buried, broken) in [(vec![0], false), (vec![0, 2], true)] {
            let mut history = History::fair();
            history.buried(buried);
            deleted(&mut history, 100).loses_disk(0).recovers().after_ms(30_000).delivers(B, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_forgotten_tombstone_excuses_only_a_queue_that_is_content_with_one_copy() {
        for (at_least, broken) in [(1, false), (2, true)] {
            let mut history = History::of_queue(at_least);
            history.sends(B, 1);
            deleted(&mut history, 30_000).delivers(B, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }
}
