//! P4, delete is final: what was deleted does not come again.
//!
//! A confirm of a delete is held against the disks: it may not be known to fewer than the queue
//! asks for, nor unknown to a holder that had the message when the delete was asked for, and had
//! been in session with the coordinator for long then. So it is for as long as tombstones are kept
//! for certain: later all may have forgotten what another coordinator had told them. With
//! `at_least` 1 holders of what was sent twice may not know of each other: see below.
//!
//! In fair weather a deleted message may come, and its copies may lie on disks, for as long as its
//! tombstone may take to every host that can be reached, and no longer. In a storm it binds where
//! it can be known: the custodian had the tombstone itself, or was in an undisturbed session for
//! that long with a host that has had it since the delete was confirmed. And at any time it binds
//! at the moment of handing out, if such a host had the tombstone when their session began: that
//! begins with tombstones. Who had one has to have it still: it is kept until all who must know do.
//! To have it is to have it on disk: who only knows of it, its commit still under way, may lose it.
//!
//! What a host has given before it could be told, and says later because its disk hangs, was given
//! all the same: its lease runs since, and is over by then or soon.
//!
//! What nobody has the tombstone of any more, because disks were lost, may come back; so may what
//! lies on a disk that was put back, if nobody could notice or its queue is content with one copy.
//! Known not to hold, both with `at_least` 1, of a message that two sides of a cut accepted: it
//! comes back to the side that deleted it when the cut outlasts the resend window, for then nobody
//! has its tombstone any more; and when the cut is healed the other side may hand it out once more,
//! before it has heard what the first holds. It is excused only where that can be seen.

use gaggle_wire::NodeId;

use crate::judge::{Scene, Subject, Witness};
use crate::options::{node_id, place};
use crate::oracle::{Delivered, Fact, Fate, FullName, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    match fact {
        Fact::Delivered(delivered) => comes(scene, delivered),
        Fact::HandedOut { name, by } => handed_out(scene, *name, *by),
        Fact::Deleted { name, by, asked_at } => deleted(scene, *name, (*by, *asked_at)),
        Fact::Later => {
            let quiet = scene.weather.fair_since()?.max(scene.weather.all_quiet_since());
            scene.oracle.fates().find_map(|(name, fate)| lies(scene, quiet, (name, fate)))
        }
        _ => None,
    }
}

/// Whether a deletion is confirmed that too few disks know of, or not that of a holder which is in
/// session with its coordinator. A host that lost its disk after it was asked may have been counted
/// before.
fn deleted(scene: &Scene<'_>, name: FullName, (by, asked_at): (NodeId, u64)) -> Option<String> {
    let fate = scene.oracle.fate(&name)?;
    let forgotten = fate.delete_asked? + super::KEPT < scene.now;
    if fate.deleted.is_some() || fate.excused || forgotten {
        // Another coordinator may have told all before, and they may have forgotten it since.
        return None;
    }
    let settings = scene.oracle.queue(name.0)?.settings;
    let subject = Subject { name, stamp: fate.label.stamp, custodian: Some(by) };
    let witness = (scene.look)(&subject);
    let lost = fate
        .unburied_by
        .iter()
        .filter(|(at, lost_at)| **lost_at >= asked_at && !witness.buried.contains(at));
    let (there, lost) = (witness.buried.len(), lost.count());
    if there + lost < usize::from(settings.at_least) {
        return Some(format!("{} is deleted, says {by}, and {there} know it", show(name)));
    }
    if is_lone(scene, &name) && fate.sends > 1 {
        return None;
    }
    // Who stands in, or got it as it was sent again, is known to the coordinator of that send, and
    // not yet to the others: a cut may hold that up for as long as a session outlasts it.
    let spread_at = fate.confirmed?.0.max(fate.resent_at.unwrap_or(0));
    let is_new = spread_at + TOLD > asked_at;
    let is_named =
        |at: usize| fate.deliveries.iter().any(|seen| seen.receipt.holders.contains(&node_id(at)));
    let told = |at: &&usize| {
        let since = witness.sessions.get(*at);
        let unburied = witness.holders.contains(*at) && !witness.buried.contains(*at);
        let known = is_named(**at) || !is_new;
        unburied && known && since.is_some_and(|since| since + TOLD < asked_at)
    };
    // Who got it since may have got it while its coordinator told the others.
    let mut holders = fate.asked_of.intersection(&fate.kept_at).filter(told);
    let holder = holders.find(|at| witness.near.contains(*at))?;
    let holder = node_id(*holder);
    Some(format!("{} is deleted, says {by}, and {holder} does not know it", show(name)))
}

/// Whether a message may not come any more.
fn comes(scene: &Scene<'_>, delivered: &Delivered) -> Option<String> {
    let fate = scene.oracle.fate(&delivered.name).filter(|fate| !fate.revived)?;
    let deleted = fate.deleted?;
    let told = deleted + TOLD < delivered.at;
    let fair = scene.weather.fair_since().is_some_and(|since| since + TOLD < delivered.at);
    let (name, at) = (show(delivered.name), deleted as f64 / 1e9);
    let by = delivered.label.receipt.custodian;
    let forgotten = || forgotten(scene, &delivered.name, fate, &witness(scene, delivered));
    if told && fair && !fate.unburied && !forgotten() {
        return Some(format!("{name}, deleted at {at:.6}, is delivered by {by}"));
    }
    let teller = teller(scene, delivered, fate)?;
    Some(format!(
        "{name}, deleted at {at:.6}, is delivered by {by}, and {} has its tombstone",
        node_id(teller)
    ))
}

/// Whether a message is handed out by a node that began a session with its tombstone.
fn handed_out(scene: &Scene<'_>, name: FullName, by: NodeId) -> Option<String> {
    let fate = scene.oracle.fate(&name).filter(|fate| !fate.revived)?;
    let deleted = fate.deleted?;
    let subject = Subject { name, stamp: fate.label.stamp, custodian: Some(by) };
    let witness = (scene.look)(&subject);
    if is_lone(scene, &name) && fate.sends > 1 {
        return None;
    }
    let begun_after = |at: &usize| witness.sessions.get(at).is_some_and(|since| deleted < *since);
    let mut tellers = fate.buried_at.iter().copied();
    let teller = tellers.find(|at| *at == place(by) || begun_after(at))?;
    let (name, at) = (show(name), deleted as f64 / 1e9);
    let teller = node_id(teller);
    Some(format!("{name}, deleted at {at:.6}, is handed out by {by}, told of it by {teller}"))
}

/// Whether a message lies on a disk for longer than its tombstone may take in sessions that are all
/// undisturbed, as all are since `quiet`. Each is looked at for a moment once that time is over.
fn lies(scene: &Scene<'_>, quiet: u64, (name, fate): (&FullName, &Fate)) -> Option<String> {
    let over = fate.deleted?.max(quiet) + TOLD;
    if scene.now <= over || over + A_MOMENT < scene.now {
        return None;
    }
    let subject = Subject { name: *name, stamp: fate.label.stamp, custodian: None };
    let witness = (scene.look)(&subject);
    if fate.unburied || fate.revived || forgotten(scene, name, fate, &witness) {
        return None;
    }
    // What is damaged is handed out by nobody, and goes once nobody else has it.
    let whole = |at: &usize| !witness.damaged.contains(at) && !witness.buriers.contains(at);
    let keeper = witness.holders.intersection(&witness.up).copied().find(whole)?;
    let (name, at, keeper) = (show(*name), fate.deleted? as f64 / 1e9, node_id(keeper));
    Some(format!("{name}, deleted at {at:.6}, still lies at {keeper}, without tombstone"))
}

/// Whether a message that was sent more than once to a queue which is content with one copy is
/// one whose tombstone nobody has any more.
fn forgotten(scene: &Scene<'_>, name: &FullName, fate: &Fate, witness: &Witness) -> bool {
    is_lone(scene, name) && fate.sends > 1 && witness.buriers.is_empty()
}

/// Whether its queue is content with one copy.
fn is_lone(scene: &Scene<'_>, name: &FullName) -> bool {
    scene.oracle.queue(name.0).is_some_and(|queue| queue.settings.at_least == 1)
}

/// Who had the tombstone and could have told the custodian of it.
fn teller(scene: &Scene<'_>, delivered: &Delivered, fate: &Fate) -> Option<usize> {
    let deleted = fate.deleted?;
    let custodian = place(delivered.label.receipt.custodian);
    if delivered.place.node != custodian {
        // What comes through another node may have been under way for as long as a cut lasted.
        return None;
    }
    let witness = witness(scene, delivered);
    let accepted_twice = is_lone(scene, &delivered.name) && fate.sends > 1;
    let has_it = |at: &usize| !accepted_twice || witness.buriers.contains(at);
    let mut near = fate.buried_at.intersection(&witness.near).copied().filter(has_it);
    near.find(|at| {
        let since = deleted.max(scene.weather.quiet_since(*at, custodian));
        // Of another's tombstone it could not know when it gave the message, and what says so may
        // have waited for its disk since. Its own lies behind that on the same disk.
        if *at == custodian {
            since + super::ON_ITS_WAY < delivered.at
        } else {
            since + TOLD < delivered.given
        }
    })
}

fn witness(scene: &Scene<'_>, delivered: &Delivered) -> Witness {
    let receipt = &delivered.label.receipt;
    let custodian = Some(receipt.custodian);
    (scene.look)(&Subject { name: delivered.name, stamp: receipt.stamp, custodian })
}

/// How long a tombstone may take in a session that is open, and a delivery on its way.
const TOLD: u64 = 2_000_000_000 + super::ON_ITS_WAY;
/// More than passes between two looks.
const A_MOMENT: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::super::history::{A, B, History};

    /// A message that was deleted so long ago.
    fn deleted(history: &mut History, ms: u64) -> &mut History {
        history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).deletes(A, 1).after_ms(ms)
    }

    #[test]
    fn a_delete_that_too_few_disks_know_of_when_it_is_confirmed_breaks_it() {
        for (on_disk, at_least, broken) in
            [(vec![0], 2, true), (vec![0, 2], 2, false), (vec![], 1, true), (vec![0], 1, false)]
        {
            let mut history = History::of_queue(at_least);
            history.buried(on_disk).about_to_bury([0, 1, 2]);
            deleted(&mut history, 0);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn who_lost_its_tombstone_after_it_was_asked_for_counts_and_before_not() {
        for (lost_first, broken) in [(true, true), (false, false)] {
            let mut history = History::fair();
            history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).buried([0, 2]);
            if lost_first {
                history.loses_disk(2).after_ms(1).asks_delete(A, 1);
            } else {
                history.asks_delete(A, 1).after_ms(1).loses_disk(2);
            }
            history.buried([0]).hears_deleted(A);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_delete_that_was_asked_for_long_ago_may_be_forgotten_when_it_is_confirmed() {
        for (ms, broken) in [(3400, true), (3600, false)] {
            let mut history = History::fair();
            history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).asks_delete(A, 1);
            history.after_ms(ms).buried([]).hears_deleted(A);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_delete_that_a_holder_near_its_coordinator_does_not_know_of_breaks_it() {
        for (met_for, near, broken) in
            [(2450, true, true), (2300, true, false), (2450, false, false)]
        {
            let mut history = History::fair();
            history.buried([0, 2]).meets([1]).near(if near { vec![0, 1] } else { vec![0] });
            history.after_ms(met_for);
            deleted(&mut history, 0);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
        let mut history = History::of_queue(1);
        history.sends(B, 1).buried([0, 2]).meets([1]).near([0, 1]).after_ms(2450);
        deleted(&mut history, 0).breaks_nothing();
    }

    /// Of the three that have it 2 does not know of the delete, and no receipt names it.
    fn unnamed() -> History {
        let mut history = History::fair();
        history.buried([0, 1]).meets([2]).near([0, 2]).after_ms(3000).sends(A, 1);
        history
    }

    #[test]
    fn a_holder_that_no_receipt_names_need_not_be_known_of_while_that_is_new() {
        for (resent, ms, broken) in
            [(false, 2300, false), (false, 2450, true), (true, 2300, false), (true, 2450, true)]
        {
            let mut history = unnamed();
            history.confirms(A, 1, 2);
            if resent {
                history.after_ms(1000).sends(B, 1);
            }
            history.after_ms(ms);
            history.delivers(A, 1).deletes(A, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_delivery_long_after_the_delete_breaks_it() {
        let mut history = History::fair();
        deleted(&mut history, 30_000).delivers(B, 1);
        history.breaks(4);
    }

    #[test]
    fn what_was_handed_out_before_the_delete_and_comes_after_breaks_nothing() {
        let mut history = History::of_queue(1);
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
            let mut history = History::of_queue(1);
            history.buried([2]).near(near);
            deleted(&mut history, 3000).disturbed().restarts().delivers(B, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn in_a_storm_a_session_that_was_disturbed_since_has_told_nothing() {
        let mut history = History::of_queue(1);
        history.buried([2]).near([0, 2]);
        deleted(&mut history, 3000).disturbed().restarts().troubles(0, 2).delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn in_a_storm_who_has_lost_its_disk_since_has_not_known_all_along() {
        for (lost, broken) in [(false, true), (true, false)] {
            let mut history = History::of_queue(1);
            history.buried([2]).near([0, 2]);
            deleted(&mut history, 3000);
            if lost {
                history.loses_disk(2);
            }
            history.disturbed().restarts().delivers(B, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn in_a_storm_who_has_the_tombstone_itself_is_bound_at_once() {
        let mut history = History::of_queue(1);
        history.buried([0]).near([0]);
        deleted(&mut history, 500).disturbed().restarts().delivers(B, 1);
        history.breaks(4);
    }

    #[test]
    fn in_a_storm_what_waits_for_a_disk_counts_as_given_when_its_lease_began() {
        for (told_by, given, waited, broken) in [
            (2, 2300, 3000, false),
            (2, 2450, 0, true),
            (2, 2450, 3000, true),
            (0, 300, 3000, true),
        ] {
            let mut history = History::of_queue(1);
            history.buried([told_by]).near([0, 2]);
            deleted(&mut history, given).disturbed().restarts().gives(1);
            // Another one gives it meanwhile, which says nothing of this one.
            history.after_ms(waited).by(1).gives(1).by(0).delivers(B, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn in_a_storm_only_a_tombstone_that_was_on_disk_at_the_confirm_binds() {
        for (on_disk, broken) in [(true, true), (false, false)] {
            let begin = || {
                let mut history = History::of_queue(1);
                history.buried([1]).about_to_bury([0]);
                if on_disk {
                    history.buried([0, 1]);
                }
                deleted(&mut history, 500).disturbed().restarts().near([0]).meets([]);
                history
            };
            let (mut comes, mut handed_out) = (begin(), begin());
            comes.delivers(B, 1);
            handed_out.hands_out(1);
            for history in [comes, handed_out] {
                if broken { history.breaks(4) } else { history.breaks_nothing() }
            }
        }
    }

    #[test]
    fn who_was_down_at_the_confirm_with_the_tombstone_on_disk_is_bound_as_it_is_back() {
        for (on_disk, broken) in [(vec![0, 1], true), (vec![1], false)] {
            let mut history = History::of_queue(1);
            history.up([1, 2]).buried(on_disk).by(1);
            deleted(&mut history, 500).disturbed().up([0, 1, 2]).by(0).hands_out(1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_nobody_has_the_tombstone_of_because_a_disk_was_lost_may_come_back() {
        for (buried, broken) in [(vec![0], false), (vec![0, 2], true)] {
            let mut history = History::of_queue(1);
            history.buried(buried);
            deleted(&mut history, 100).loses_disk(0).recovers().after_ms(30_000).delivers(B, 1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_lies_on_a_disk_that_was_put_back_may_come_only_if_nobody_could_notice() {
        for (at_least, noticed, broken) in [(2, true, true), (2, false, false), (1, true, false)] {
            let mut history = History::of_queue(at_least);
            deleted(&mut history, 100).puts_back(0, true);
            if !noticed {
                history.unnoticed(0);
            }
            history.recovers().after_ms(30_000).delivers(B, 1);
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

    #[test]
    fn a_copy_that_lies_anywhere_long_after_the_delete_breaks_it() {
        for (ms, buried, broken) in
            [(2300, vec![1], false), (2450, vec![1], true), (2450, vec![0, 1, 2], false)]
        {
            let mut history = History::of_queue(1);
            history.buried(buried);
            deleted(&mut history, ms).looks();
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
        let mut history = History::fair();
        deleted(&mut history, 2450).on_disks([1]).up([0, 2]).looks();
        history.breaks_nothing();
        let mut history = History::fair();
        deleted(&mut history, 1000).troubles(1, 2).after_ms(1450).looks();
        history.breaks_nothing();
    }

    #[test]
    fn who_began_a_session_with_the_tombstone_hands_nothing_out() {
        for (after, broken) in [(1, true), (0, false)] {
            let mut history = History::of_queue(1);
            history.buried([2]);
            deleted(&mut history, 0).disturbed().after_ms(after).meets([2]).hands_out(1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
        let mut history = History::of_queue(1);
        history.buried([2]);
        deleted(&mut history, 3000).disturbed().hands_out(1);
        history.breaks_nothing();
    }

    #[test]
    fn who_dropped_its_tombstone_before_all_had_it_could_have_told_and_who_lost_its_disk_not() {
        for (lost, broken) in [(false, true), (true, false)] {
            let mut history = History::of_queue(1);
            history.buried([2]);
            deleted(&mut history, 0).disturbed();
            if lost {
                history.loses_disk(2);
            }
            history.buried([]).after_ms(1).meets([2]).hands_out(1);
            if broken { history.breaks(4) } else { history.breaks_nothing() }
        }
    }
}
