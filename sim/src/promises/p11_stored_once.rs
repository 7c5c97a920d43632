//! P11, stored once: what is sent again inside the resend window is stored once, also when it was
//! delivered and deleted in between.
//!
//! An id clashes only with another message. In fair weather, what is asked for after its delete
//! was confirmed is answered as gone, not as stored anew. What this file does not do: that it is
//! delivered once is P3, that it does not come back is P4.

use gaggle_wire::Refusal;

use crate::judge::Scene;
use crate::oracle::{Fact, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    match fact {
        Fact::Unsent { name, refusal: refusal @ Refusal::IdClash } => {
            Some(format!("{} is refused: {refusal}", show(*name)))
        }
        Fact::Confirmed { name, asked_at, .. } => {
            let deleted = scene.oracle.fate(name)?.deleted?;
            let fair = scene.weather.fair_since().is_some_and(|since| since <= deleted);
            (fair && deleted < *asked_at).then(|| {
                let at = deleted as f64 / 1e9;
                format!("{}, deleted at {at:.6}, is stored again", show(*name))
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::{A, B, History};
    use gaggle_wire::Refusal;

    #[test]
    fn a_clash_with_itself_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).sends(B, 1).refuses_send(B, 1, Refusal::IdClash);
        history.breaks(11);
    }

    #[test]
    fn another_refusal_breaks_nothing() {
        let mut history = History::fair();
        history.sends(A, 1).refuses_send(A, 1, Refusal::Draining);
        history.breaks_nothing();
    }

    #[test]
    fn what_is_stored_again_after_its_delete_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).confirms(A, 1, 2).delivers(A, 1).deletes(A, 1).after_ms(1);
        history.sends(B, 1).confirms(B, 1, 2);
        history.breaks(11);
    }

    #[test]
    fn an_answer_to_what_was_asked_for_before_the_delete_breaks_nothing() {
        let mut history = History::fair();
        history.sends(A, 1).sends(B, 1).confirms(A, 1, 2).delivers(A, 1).deletes(A, 1);
        history.after_ms(1).confirms(B, 1, 2);
        history.breaks_nothing();
    }
}
