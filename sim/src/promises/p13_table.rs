//! P13, the table converges: all nodes come to have the same one, a deleted queue does not come
//! back, and data is removed only for a stated reason.
//!
//! A row of a confirmed message may go from a disk when somebody asked for its delete, a rule of
//! its queue takes it, its node has its tombstone, or the copy is damaged: never because something
//! is missing elsewhere; but where others have lost its row, and with it that they ever had one,
//! the last copy goes as one that was never confirmed. What was purged or deleted with its queue
//! does not come again once it is fair; but a purge takes only what was accepted before it, and a
//! send that was not answered by then may be accepted after it, of a message that another send has
//! stored before.
//! What this file does not do: it does not know what the entries say.

use crate::judge::{Scene, Subject};
use crate::options::node_id;
use crate::oracle::{Fact, FullName, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    match fact {
        Fact::Removed { at, name } => removed(scene, *at, name),
        Fact::Queue { id } => {
            let at = scene.oracle.deleted_at(*id)?;
            is_known(scene, at, scene.now)
                .then(|| format!("queue {id}, deleted at {:.6}, is back", at as f64 / 1e9))
        }
        Fact::Delivered(delivered) => {
            let at = scene.oracle.fate(&delivered.name)?.taken?;
            let (name, at_s) = (show(delivered.name), at as f64 / 1e9);
            is_known(scene, at, delivered.at)
                .then(|| format!("{name}, taken with its queue at {at_s:.6}, comes"))
        }
        Fact::Tables(tables) => {
            let mut pairs = tables.iter().zip(tables.iter().skip(1));
            let ((one, _), (other, _)) = pairs.find(|(one, other)| one.1 != other.1)?;
            Some(format!("the tables of {} and {} differ", node_id(*one), node_id(*other)))
        }
        _ => None,
    }
}

fn removed(scene: &Scene<'_>, at: usize, name: &FullName) -> Option<String> {
    let fate = scene.oracle.fate(name)?;
    if fate.confirmed.is_none() || fate.delete_asked.is_some() || fate.excused {
        return None;
    }
    let subject = Subject { name: *name, stamp: fate.label.stamp, custodian: None };
    let witness = (scene.look)(&subject);
    let damaged = witness.losers.contains(&at) || witness.damaged.contains(&at);
    let reason = witness.buriers.contains(&at) || damaged || fate.is_denied(at, &witness);
    (!reason).then(|| format!("{} is removed at {} for no reason", show(*name), node_id(at)))
}

/// Whether what was done then is known everywhere at this time.
fn is_known(scene: &Scene<'_>, then: u64, at: u64) -> bool {
    let fair = scene.weather.fair_since().is_some_and(|since| since + TOLD < at);
    fair && then + TOLD < at
}

/// How long it may take until a change of the table is known in open sessions, and an answer on
/// its way.
const TOLD: u64 = 2_000_000_000 + super::ON_ITS_WAY;

#[cfg(test)]
mod tests {
    use super::super::history::{A, B, History};
    use crate::oracle::Fact;
    use gaggle_wire::{Refusal, Response};

    #[test]
    fn a_row_that_is_removed_without_a_delete_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).removes(1, 1);
        history.breaks(13);
    }

    #[test]
    fn a_row_that_was_never_confirmed_or_is_to_be_deleted_may_go() {
        let mut history = History::fair();
        history.sends(A, 1).removes(1, 1);
        history.sends(A, 2).confirms(A, 2, 2).delivers(A, 2).asks_delete(A, 2).removes(1, 2);
        history.sends(A, 3).confirms(A, 3, 2).buried([1]).removes(1, 3).buried([]);
        history.sends(A, 4).confirms(A, 4, 2).damaged([1]).removes(1, 4);
        history.purges().removes(0, 1);
        history.breaks_nothing();
    }

    #[test]
    fn what_is_sent_to_a_queue_that_was_created_while_its_name_was_deleted_may_go() {
        let none = Response::Refused(Refusal::QueueNotFound { queue: "q".to_owned() });
        for (said, broken) in [(Response::Done, false), (none, true)] {
            let mut history = History::created_in_a_delete(&said);
            history.after_ms(2000).sends(A, 1).confirms(A, 1, 2).removes(1, 1);
            if broken { history.breaks(13) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn the_last_copy_may_go_where_another_lost_its_row_and_does_not_know_it() {
        for (others, knows, broken) in
            [(vec![], false, false), (vec![2], false, true), (vec![], true, true)]
        {
            let mut history = History::fair();
            history.on_disks([0, 1]).sends(A, 1).confirms(A, 1, 2).loses_row(0, 1);
            history.on_disks([1].into_iter().chain(others));
            if knows {
                history.knows_lost(0);
            }
            history.removes(1, 1);
            if broken { history.breaks(13) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_was_purged_and_comes_again_breaks_it() {
        for (ms, broken) in [(1000, false), (3000, true)] {
            let mut history = History::fair();
            history.sends(A, 1).confirms(A, 1, 2).after_ms(1500).purges().after_ms(ms);
            history.delivers(B, 1);
            if broken { history.breaks(13) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_was_sent_twice_may_come_after_a_purge_if_one_send_was_not_answered_before_it() {
        for (answered, broken) in [(true, true), (false, false)] {
            let mut history = History::fair();
            history.sends(A, 1).sends(B, 1).confirms(A, 1, 2);
            if answered {
                history.confirms(B, 1, 2);
            }
            history.after_ms(1500).purges().after_ms(3000).delivers(B, 1);
            if broken { history.breaks(13) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn what_was_sent_after_a_purge_comes() {
        let mut history = History::fair();
        history.purges().sends(A, 1).confirms(A, 1, 2).after_ms(3000).delivers(B, 1);
        history.breaks_nothing();
    }

    #[test]
    fn a_deleted_queue_that_is_described_breaks_it() {
        for (ms, broken) in [(1000, false), (3000, true)] {
            let mut history = History::fair();
            history.deletes_queue().after_ms(ms).describes();
            if broken { history.breaks(13) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn tables_that_differ_break_it() {
        let entry = vec![1_u8];
        for (other, broken) in [(vec![2_u8], true), (entry.clone(), false)] {
            let tables = vec![(0, vec![entry.clone()]), (1, vec![other])];
            let mut history = History::fair();
            history.fact(&Fact::Tables(tables));
            if broken { history.breaks(13) } else { history.breaks_nothing() }
        }
    }
}
