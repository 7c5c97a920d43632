//! Bugs in what is remembered: over a restart, and for those who were away.

use gaggle_core::effect::Effect;
use gaggle_core::envelope::Envelope;
use gaggle_core::event::Event;
use gaggle_core::ledger::key::meta;
use gaggle_core::ledger::{Key, Row};

use super::border::{Border, Said};
use super::custody::without;

/// Tombstones are in memory alone.
pub(super) const TOMBSTONES_FORGOTTEN: Border = Border {
    opens: |_, rows| rows.retain(|row| !matches!(parsed(row), Key::Tombstones(..))),
    ..Border::HONEST
};

/// A process id that is the same in every run, and no ceiling.
pub(super) const STAMPS_ISSUED_AGAIN: Border = Border {
    opens: |config, rows| {
        config.seed = config.node.0;
        rows.retain(|row| parsed(row) != Key::Meta(meta::CEILING));
    },
    ..Border::HONEST
};

/// Nobody looks how far a disk has come, and nobody listens to who does.
pub(crate) const PUT_BACK_UNNOTICED: Border = Border {
    hears: |event| match event {
        Event::LinkUp { link, mut hello } => {
            hello.commits = u64::MAX;
            vec![Event::LinkUp { link, hello }]
        }
        Event::Envelope { envelope: Envelope::PutBack, .. } => Vec::new(),
        other => vec![other],
    },
    ..Border::HONEST
};

/// What was changed in the table while a node was away is not told to it when it returns.
pub(super) const TABLE_NOT_TOLD: Border = Border {
    says: |effects| {
        let marks =
            |effect: &Effect| matches!(effect, Effect::Send { envelope: Envelope::Mark, .. });
        if !effects.iter().any(marks) {
            return Said { effects, ..Said::default() };
        }
        without(effects, |envelope| matches!(envelope, Envelope::Table { .. }))
    },
    ..Border::HONEST
};

/// A host that returns is not told what was deleted while it was away.
pub(super) const RETURNER_NOT_TOLD: Border = Border {
    says: |effects| {
        let mut said = without(
            effects,
            |envelope| matches!(envelope, Envelope::Tombstones { stamps, .. } if stamps.is_empty()),
        );
        for effect in &mut said.effects {
            if let Effect::Send { envelope: Envelope::Inventory { partitions, .. }, .. } = effect {
                let processes = partitions.iter_mut().flat_map(|p| &mut p.processes);
                processes.for_each(|(_, _, gone)| *gone = Default::default());
            }
        }
        said
    },
    ..Border::HONEST
};

fn parsed(row: &Row) -> Key {
    Key::parse(&row.key).expect("it was written by a node")
}
