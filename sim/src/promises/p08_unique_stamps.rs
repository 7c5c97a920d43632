//! P8, unique stamps: no stamp is made twice, and those of a process rise.
//!
//! Clients see stamps of acceptance. Answers may overtake each other, so a stamp has to be above
//! those of the same process only that were heard before it was asked for. What this file does
//! not do: stamps of producers are made by the client's own core.

use crate::judge::Scene;
use crate::oracle::Fact;

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    let Fact::Accepted { stamp, after } = fact else { return None };
    if scene.oracle.was_accepted_at(*stamp) {
        return Some(format!("two sends were accepted at {stamp}"));
    }
    let after = after.filter(|after| after >= stamp)?;
    Some(format!("a send was accepted at {stamp}, asked for after {after} was heard"))
}

#[cfg(test)]
mod tests {
    use super::super::history::{A, B, History};

    #[test]
    fn two_sends_at_one_stamp_break_it() {
        let mut history = History::fair();
        history.sends(A, 1).sends(B, 2).accepted_at(50).confirms(A, 1, 2);
        history.accepted_at(50).confirms(B, 2, 2);
        history.breaks(8);
    }

    #[test]
    fn a_stamp_below_one_that_was_heard_before_it_was_asked_for_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).accepted_at(50).confirms(A, 1, 2);
        history.sends(B, 2).accepted_at(49).confirms(B, 2, 2);
        history.breaks(8);
    }

    #[test]
    fn answers_that_overtake_each_other_break_nothing() {
        let mut history = History::fair();
        history.sends(A, 1).sends(B, 2).accepted_at(50).confirms(A, 1, 2);
        history.accepted_at(49).confirms(B, 2, 2);
        history.breaks_nothing();
    }
}
