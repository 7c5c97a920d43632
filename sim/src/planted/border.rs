//! The border between the simulator and a node, where a planted bug sits.
//!
//! A bug at the border changes what a node is opened on, what it hears, or what it says; the core
//! is not touched. From outside that looks like a node whose code has the bug.
//!
//! Invariant: without a bug nothing passes through here. What this file does not do: it knows no
//! bug; see the files beside it.

use gaggle_core::Config;
use gaggle_core::effect::Effect;
use gaggle_core::event::Event;
use gaggle_core::ledger::Row;

/// What a bug does at the border.
#[derive(Clone, Copy, Debug)]
pub struct Border {
    /// To what a node is opened on.
    pub(crate) opens: fn(&mut Config, &mut Vec<Row>),
    /// To what it hears: what it hears instead.
    pub(crate) hears: fn(Event) -> Vec<Event>,
    /// To what it says and writes after one event.
    pub(crate) says: fn(Vec<Effect>) -> Said,
}

/// What becomes of the effects of one event.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// What goes its way.
    pub(crate) effects: Vec<Effect>,
    /// What is said at once, whatever is still to be written.
    pub(crate) at_once: Vec<Effect>,
    /// What the node hears next, as if another had said it.
    pub(crate) heard: Vec<Event>,
}

impl Border {
    /// The border at which nothing is changed.
    pub(crate) const HONEST: Self = Self { opens: |_, _| {}, hears: |event| vec![event], says };
}

fn says(effects: Vec<Effect>) -> Said {
    Said { effects, ..Said::default() }
}
