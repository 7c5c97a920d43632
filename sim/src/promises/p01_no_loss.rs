//! P1, no loss: a confirmed message comes until it is deleted or a rule of its queue takes it, as
//! long as one host that has it keeps its disk.
//!
//! The confirm is held against the disks: it may not name more copies than there are, nor fewer
//! than the queue asks for; a tombstone in the place of a copy says that it was there. What every
//! host that had it has lost with its disk is excused, see [`crate::oracle::Fate`]; a node that was
//! removed has lost its disk from then on. At the end of a run what no node that is up has on its
//! disk any more, and nobody deleted, is lost. What this file does not do: what lies on a disk and
//! does not come is stranded, which is P10.

use gaggle_wire::NodeId;

use crate::judge::{Scene, Subject};
use crate::oracle::{Fact, FullName, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    match fact {
        Fact::Confirmed { name, copies, by, asked_at, counted_at } => {
            confirmed(scene, name, *copies, (*by, *asked_at, *counted_at))
        }
        Fact::Gone { name } => {
            let fate = scene.oracle.fate(name)?;
            let explained = fate.delete_asked.is_some() || fate.excused;
            (!explained).then(|| format!("{} is gone and nobody deleted it", show(*name)))
        }
        Fact::Over => {
            let mut open = scene.oracle.fates().filter(|(_, fate)| fate.is_open());
            let (name, fate) = open.find(|(name, fate)| !super::is_reachable(scene, name, fate))?;
            let (at, copies) = fate.confirmed?;
            let (name, at, seen) = (show(*name), at as f64 / 1e9, fate.deliveries.len());
            Some(format!("{name}, confirmed at {at:.6} by {copies}, seen {seen} times, is lost"))
        }
        _ => None,
    }
}

fn confirmed(
    scene: &Scene<'_>,
    name: &FullName,
    copies: u8,
    (by, asked_at, counted_at): (NodeId, u64, u64),
) -> Option<String> {
    let fate = scene.oracle.fate(name)?;
    if let Some(queue) = scene.oracle.queue(name.0)
        && copies < queue.settings.at_least
    {
        let wanted = queue.settings.at_least;
        return Some(format!("{} is confirmed by {copies}, not {wanted}", show(*name)));
    }
    // A tombstone in the place of a copy says that it was there; at last it is forgotten.
    let forgotten = fate.delete_asked.is_some_and(|asked| asked + super::KEPT < scene.now);
    if fate.excused || forgotten {
        return None;
    }
    let subject = Subject { name: *name, stamp: fate.label.stamp, custodian: Some(by) };
    let mut witness = (scene.look)(&subject);
    let (mut there, mut had) = (std::mem::take(&mut witness.holders), fate.had_by.clone());
    if fate.delete_asked.is_some() {
        there.append(&mut witness.buried);
        had.extend(fate.unburied_by.keys());
    }
    // Of a disk that is lost after its host has answered, the coordinator hears when they meet. By
    // then it may have counted it: what says so waits for its own commit, which may be slow.
    let unheard = |at: &&usize| {
        let met = witness.sessions.get(*at);
        met.is_none_or(|since| since + super::ON_ITS_WAY > counted_at)
    };
    // Of a single copy that is lost nobody hears; its host may have said before that it holds it,
    // for as long as it was asked by then, however late that is heard.
    let said_before =
        |at: &usize| fate.copy_lost_at.get(at).is_some_and(|lost_at| *lost_at >= asked_at);
    let lost = had.difference(&there).filter(|at| unheard(at) || said_before(at)).count();
    let there = there.len();
    let rots = scene.oracle.lost_disk_since(scene.now.saturating_sub(super::ON_ITS_WAY));
    (there + lost < usize::from(copies) && !rots)
        .then(|| format!("{} is confirmed by {copies} and lies at {there}", show(*name)))
}

#[cfg(test)]
mod tests {
    use super::super::history::{A, History};

    #[test]
    fn a_confirm_of_more_copies_than_there_are_breaks_it() {
        let mut history = History::fair();
        history.on_disks([0]).sends(A, 1).confirms(A, 1, 2);
        history.breaks(1);
        let mut history = History::fair();
        history.on_disks([0, 2]).sends(A, 1).confirms(A, 1, 2);
        history.breaks_nothing();
    }

    #[test]
    fn a_tombstone_in_the_place_of_a_copy_counts_and_nothing_in_its_place_does_not() {
        for (buried, ms, broken) in
            [(vec![2], 0, false), (vec![0], 0, true), (vec![], 3400, true), (vec![], 3600, false)]
        {
            let mut history = History::fair();
            history.on_disks([0, 2]).sends(A, 1).delivers(A, 1).asks_delete(A, 1).after_ms(ms);
            history.on_disks([0]).buried(buried).confirms(A, 1, 2);
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn who_lost_its_disk_after_it_answered_counts_until_the_coordinator_meets_it() {
        for (met, broken) in [(false, false), (true, true)] {
            let mut history = History::fair();
            history.on_disks([0, 2]).sends(A, 1).loses_disk(2).on_disks([0]);
            if met {
                history.meets([2]);
            }
            history.after_ms(1000).confirms(A, 1, 2);
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn who_lost_its_disk_after_it_was_counted_counts_however_late_the_confirm_is_handed_over() {
        for (counted, broken) in [(true, false), (false, true)] {
            let mut history = History::fair();
            history.on_disks([0, 2]).sends(A, 1);
            if counted {
                history.counts();
            }
            history.loses_disk(2).on_disks([0]).after_ms(500).meets([2]);
            history.after_ms(1000).confirms(A, 1, 2);
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn who_lost_its_disk_and_was_met_before_it_was_counted_does_not_count() {
        let mut history = History::fair();
        history.on_disks([0, 2]).sends(A, 1).loses_disk(2).on_disks([0]).meets([2]);
        history.after_ms(1000).counts().after_ms(1000).confirms(A, 1, 2);
        history.breaks(1);
    }

    #[test]
    fn a_row_that_was_lost_counts_however_late_that_is_heard_if_its_host_was_asked_before() {
        for (asked_before, broken) in [(true, false), (false, true)] {
            let mut history = History::fair();
            history.on_disks([0, 2]).meets([2]).after_ms(1000).sends(A, 1);
            history.loses_row(2, 1).on_disks([0]).after_ms(1000);
            if !asked_before {
                history.sends(A, 1).after_ms(1000);
            }
            history.confirms(A, 1, 2);
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn who_lost_its_disk_and_never_had_a_copy_on_it_does_not_count() {
        for (had, broken) in [(false, true), (true, false)] {
            let mut history = History::fair();
            history.on_disks(if had { vec![0, 2] } else { vec![0] }).sends(A, 1).loses_disk(2);
            history.after_ms(1000).confirms(A, 1, 2);
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_confirm_of_fewer_copies_than_the_queue_asks_for_breaks_it() {
        let mut history = History::fair();
        history.on_disks([0]).sends(A, 1).confirms(A, 1, 1);
        history.breaks(1);
    }

    #[test]
    fn an_answer_that_it_is_gone_breaks_it_unless_somebody_asked_for_that() {
        let mut history = History::fair();
        history.sends(A, 1).hears_gone(A, 1);
        history.breaks(1);
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).asks_delete(A, 1);
        history.sends(A, 1).hears_gone(A, 1);
        history.breaks_nothing();
    }

    #[test]
    fn what_was_confirmed_and_lies_nowhere_is_lost_at_the_end() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).on_disks([]).ends();
        history.breaks(1);
        let mut history = History::fair();
        history.sends(A, 1).ends();
        history.breaks_nothing();
    }

    #[test]
    fn what_was_confirmed_and_is_damaged_wherever_it_lies_is_lost_at_the_end() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).damaged([0, 1, 2]).ends();
        history.breaks(1);
    }

    #[test]
    fn what_every_host_lost_with_its_disk_is_excused_and_not_before() {
        for (lost, broken) in [(vec![0], true), (vec![0, 2], false)] {
            let mut history = History::fair();
            history.on_disks([0, 2]).sends(A, 1).confirms(A, 1, 2);
            for at in lost {
                history.loses_disk(at);
            }
            history.on_disks([]).ends();
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_a_removed_node_has_does_not_count_once_the_others_have_lost_theirs() {
        for (struck, lost, broken) in
            [(false, vec![0], true), (true, vec![], true), (true, vec![0], false)]
        {
            let mut history = History::fair();
            history.on_disks([0, 2]).sends(A, 1).confirms(A, 1, 2);
            if struck {
                history.strikes(2);
            }
            for at in lost {
                history.loses_disk(at);
            }
            history.on_disks([]).ends();
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_lies_on_a_disk_that_was_put_back_is_lost_with_the_other_holders() {
        for (put_back, broken) in [(true, false), (false, true)] {
            let mut history = History::fair();
            history.on_disks([0, 2]).sends(A, 1).confirms(A, 1, 2);
            if put_back {
                history.puts_back(0, true);
            }
            history.loses_disk(2).on_disks([]).ends();
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_disk_that_was_put_back_is_lost_and_what_others_have_only_if_nobody_could_notice() {
        for (put_back, noticed, broken) in
            [(vec![0], true, true), (vec![0], false, false), (vec![0, 2], true, false)]
        {
            let mut history = History::fair();
            history.on_disks([0, 2]).sends(A, 1).confirms(A, 1, 2);
            for at in put_back {
                history.puts_back(at, false);
            }
            if !noticed {
                history.unnoticed(0);
            }
            history.on_disks([]).ends();
            if broken { history.breaks(1) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_copy_that_was_taken_over_counts_when_the_first_hosts_lose_their_disks() {
        let mut history = History::fair();
        history.on_disks([0, 2]).sends(A, 1).confirms(A, 1, 2).on_disks([0, 1, 2]);
        history.loses_disk(0).loses_disk(2).on_disks([]).ends();
        history.breaks(1);
    }
}
