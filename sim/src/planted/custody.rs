//! Bugs in sessions: marks, yields, leases, wants.

use gaggle_core::effect::Effect;
use gaggle_core::envelope::{Envelope, Span, Wanted};
use gaggle_core::event::Event;

use super::border::{Border, Said};

/// A node hands out as soon as a session is up, before it has the other's tombstones and knows what
/// the other knows to be gone.
pub(super) const BEFORE_THE_MARKS: Border = Border {
    hears: |event| match event {
        Event::LinkUp { link, .. } => {
            let nothing =
                Envelope::Inventory { call: 0, partitions: Vec::new(), span: Span::all() };
            let said = [Envelope::Mark, nothing];
            let said = said.into_iter().map(|envelope| Event::Envelope { link, envelope });
            [event].into_iter().chain(said).collect()
        }
        other => vec![other],
    },
    ..Border::HONEST
};

/// A node yields, and has not given the other the copies that it lacks.
pub(super) const YIELD_WITHOUT_GIVING: Border = Border {
    says: |effects| {
        let given = effects.iter().filter_map(|effect| match effect {
            Effect::Send { link, envelope: Envelope::MakeUp { batch, .. } } => {
                let envelope = Envelope::Held { batch: *batch, exceptions: Vec::new(), commits: 0 };
                Some(Event::Envelope { link: *link, envelope })
            }
            _ => None,
        });
        let heard = given.collect();
        let said = without(effects, |envelope| matches!(envelope, Envelope::MakeUp { .. }));
        Said { heard, ..said }
    },
    ..Border::HONEST
};

/// Custody goes over without the leases that run.
pub(super) const LEASES_NOT_TOLD: Border = Border {
    says: |effects| without(effects, |envelope| matches!(envelope, Envelope::Leases { .. })),
    ..Border::HONEST
};

/// What is wanted is told when a consumer comes, and not again in the next session.
pub(super) const WANT_TOLD_ONCE: Border = Border {
    says: |effects| {
        let begins = |effect: &Effect| {
            matches!(effect, Effect::Send { envelope: Envelope::Inventory { call: 0, .. }, .. })
        };
        if !effects.iter().any(begins) {
            return Said { effects, ..Said::default() };
        }
        without(effects, |envelope| matches!(envelope, Envelope::Want { wanted: Wanted::Yes, .. }))
    },
    ..Border::HONEST
};

/// Leaves out what is said of this kind.
pub(super) fn without(effects: Vec<Effect>, unsaid: impl Fn(&Envelope) -> bool) -> Said {
    let kept = |effect: &Effect| match effect {
        Effect::Send { envelope, .. } | Effect::SendNow { envelope, .. } => !unsaid(envelope),
        _ => true,
    };
    Said { effects: effects.into_iter().filter(kept).collect(), ..Said::default() }
}
