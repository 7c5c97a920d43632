//! P5, strict order: what comes of an ordering key of a strict queue comes in the order of stamps.
//!
//! A message that comes for the first time is newer than all that has come of its key, to whom and
//! from where that may be. What comes again is no part of it, nor is what is flagged as late.

use crate::judge::Scene;
use crate::oracle::{Delivered, Fact, show};
use gaggle_wire::{Order, Position};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    let Fact::Delivered(Delivered { name, label, .. }) = fact else { return None };
    let strict = scene.oracle.queue(name.0)?.settings.order == Order::Strict;
    let is_first = scene.oracle.fate(name).is_some_and(|fate| fate.deliveries.is_empty());
    let late = matches!(label.position, Some(Position::Late { .. }));
    if !strict || !is_first || late {
        return None;
    }
    let newest = scene.oracle.newest(*name, label.label.key)?;
    let stamp = label.label.stamp;
    let by = label.receipt.custodian;
    (stamp < newest).then(|| format!("{} of {stamp} comes from {by} after {newest}", show(*name)))
}

#[cfg(test)]
mod tests {
    use super::super::history::{A, History};

    #[test]
    fn an_older_message_of_a_key_that_comes_after_a_newer_one_breaks_it() {
        for (strict, order, broken) in
            [(true, [2, 1], true), (true, [1, 2], false), (false, [2, 1], false)]
        {
            let mut history = History::fair();
            if strict {
                history.strict();
            }
            history.sends(A, 1).confirms(A, 1, 2).sends(A, 2).confirms(A, 2, 2);
            for number in order {
                history.delivers(A, number);
            }
            if broken { history.breaks(5) } else { history.breaks_nothing() }
        }
    }
}
