//! P12, limits hold: what a node keeps in memory stays within its limits, and deletes always work.
//!
//! After every event of a node what it has is held against what its settings allow: ids ahead of
//! delivery, requests that wait, sends under way, rows of one read. What this file does not do:
//! bytes of a process and of a disk are watched with real ones.

use gaggle_wire::Refusal;

use crate::judge::Scene;
use crate::oracle::{Fact, show};

pub(super) fn watch(_: &Scene<'_>, fact: &Fact) -> Option<String> {
    match fact {
        Fact::Undeleted { name, refusal: refusal @ Refusal::LimitReached { .. } } => {
            Some(format!("the delete of {} is refused: {refusal}", show(*name)))
        }
        Fact::Holds { at, holdings, limits } => {
            let pairs = [
                ("ids of a window", holdings.window, limits.window),
                ("waiting receives", holdings.waiters, limits.waiters),
                ("sends under way", holdings.sends, limits.sends),
                ("rows of one read", holdings.page, limits.page),
            ];
            let (what, has, may) = pairs.into_iter().find(|(_, has, may)| has > may)?;
            let node = crate::options::node_id(*at);
            Some(format!("{node} has {has} {what} and may have {may}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gaggle_core::Holdings;
    use gaggle_wire::Refusal;

    use super::super::history::{A, History};
    use crate::oracle::Fact;

    fn limit(what: &str) -> Refusal {
        Refusal::LimitReached { what: what.to_owned(), limit: 1 }
    }

    #[test]
    fn a_delete_that_is_refused_at_a_limit_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 1).refuses_delete(A, 1, limit("deletes"));
        history.breaks(12);
    }

    #[test]
    fn a_send_that_is_refused_at_a_limit_and_a_delete_that_is_unknown_break_nothing() {
        let mut history = History::fair();
        history.sends(A, 1).refuses_send(A, 1, limit("sends under way"));
        history.sends(A, 2).delivers(A, 2).refuses_delete(A, 2, Refusal::OutcomeUnknown);
        history.breaks_nothing();
    }

    #[test]
    fn one_more_than_the_limit_breaks_it() {
        let limits = Holdings { window: 4, waiters: 5, sends: 6, page: 7 };
        let over = [
            Holdings { window: 5, ..limits },
            Holdings { waiters: 6, ..limits },
            Holdings { sends: 7, ..limits },
            Holdings { page: 8, ..limits },
        ];
        for holdings in over {
            let mut history = History::fair();
            history.fact(&Fact::Holds { at: 0, holdings, limits });
            history.breaks(12);
        }
        let mut history = History::fair();
        history.fact(&Fact::Holds { at: 0, holdings: limits, limits });
        history.breaks_nothing();
    }
}
