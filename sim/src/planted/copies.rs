//! Bugs in storing, counting and giving copies.

use gaggle_core::effect::Effect;
use gaggle_core::envelope::{Envelope, PartitionInventory};
use gaggle_core::event::Event;
use gaggle_core::ranges::Ranges;
use gaggle_wire::{Label, Response};

use super::border::{Border, Said};

/// The coordinator counts whom it has asked.
pub(super) const CONFIRM_BEFORE_HELD: Border = Border {
    says: |effects| {
        let asked = effects.iter().filter_map(|effect| match effect {
            Effect::SendNow { link, envelope: Envelope::Copy { batch, .. } } => {
                let envelope = Envelope::Held { batch: *batch, exceptions: Vec::new(), commits: 0 };
                Some(Event::Envelope { link: *link, envelope })
            }
            _ => None,
        });
        let heard = asked.collect();
        Said { effects, heard, ..Said::default() }
    },
    ..Border::HONEST
};

/// A host says that it has copies, and writes them afterwards.
pub(super) const HELD_BEFORE_COMMIT: Border = Border {
    says: |effects| {
        let told = |effect| match effect {
            Effect::Send { link, envelope: envelope @ Envelope::Held { .. } } => {
                Effect::SendNow { link, envelope }
            }
            other => other,
        };
        Said { effects: effects.into_iter().map(told).collect(), ..Said::default() }
    },
    ..Border::HONEST
};

/// A coordinator answers, and writes afterwards.
pub(super) const ANSWER_BEFORE_COMMIT: Border = Border {
    says: |effects| {
        let early =
            |effect: &Effect| matches!(effect, Effect::Answer { response: Response::Sent(_), .. });
        let (at_once, effects) = effects.into_iter().partition(early);
        Said { effects, at_once, ..Said::default() }
    },
    ..Border::HONEST
};

/// Contents of neighbours in a batch change places.
pub(super) const CONTENTS_SWAPPED: Border = Border {
    hears: |event| match event {
        Event::Envelope { link, envelope: Envelope::Copy { .. } } => {
            let Event::Envelope { mut envelope, .. } = event else { unreachable!("it matched") };
            if let Envelope::Copy { labels, .. } = &mut envelope {
                swap_contents(labels);
            }
            vec![Event::Envelope { link, envelope }]
        }
        other => vec![other],
    },
    ..Border::HONEST
};

fn swap_contents(labels: &mut [Label]) {
    for pair in labels.chunks_exact_mut(2) {
        let [a, b] = pair else { unreachable!("chunks of two") };
        std::mem::swap(&mut a.crc, &mut b.crc);
        std::mem::swap(&mut a.body_length, &mut b.body_length);
        std::mem::swap(&mut a.head_length, &mut b.head_length);
    }
}

/// What another host does not have is taken to be deleted.
pub(super) const ABSENCE_IS_DELETE: Border = Border {
    hears: |event| match event {
        Event::Envelope { link, envelope: Envelope::Inventory { call, mut partitions, span } } => {
            partitions.iter_mut().for_each(bury_what_is_absent);
            let envelope = Envelope::Inventory { call, partitions, span };
            vec![Event::Envelope { link, envelope }]
        }
        other => vec![other],
    },
    ..Border::HONEST
};

fn bury_what_is_absent(inventory: &mut PartitionInventory) {
    for (_, held, gone) in &mut inventory.processes {
        let last = held.iter().chain(gone.iter()).map(|(_, last)| last).max();
        *gone = Ranges::of(1, last.unwrap_or(0)).without(held);
    }
}
