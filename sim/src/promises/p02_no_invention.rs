//! P2, no invention: what is delivered was sent, byte for byte, into this incarnation of this
//! queue.
//!
//! A label carries length and checksum of its content. The delay is left out: a queue's own one
//! takes the place of none. What this file does not do: contents are not in the simulator.

use gaggle_wire::Label;

use crate::judge::Scene;
use crate::oracle::{Fact, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    let Fact::Delivered(delivered) = fact else { return None };
    let name = show(delivered.name);
    let Some(fate) = scene.oracle.fate(&delivered.name) else {
        return Some(format!("{name} was never sent"));
    };
    let came = delivered.label.label;
    let sent = Label { delay_ms: came.delay_ms, ..fate.label };
    (sent != came).then(|| format!("{name} differs from what was sent"))
}

#[cfg(test)]
mod tests {
    use super::super::history::{A, History};

    #[test]
    fn a_delivery_of_what_was_never_sent_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).delivers(A, 2);
        history.breaks(2);
    }

    #[test]
    fn a_delivery_with_another_checksum_breaks_it() {
        let mut history = History::fair();
        history.sends(A, 1).delivers_changed(A, 1, |label| label.crc ^= 1);
        history.breaks(2);
    }

    #[test]
    fn a_delivery_of_what_was_not_confirmed_or_is_delayed_breaks_nothing() {
        let mut history = History::fair();
        history.sends(A, 1).delivers_changed(A, 1, |label| label.delay_ms = 1000);
        history.breaks_nothing();
    }
}
