//! How far the disk has come: a number that rises with all that others may build upon.
//!
//! It is a row, written together with whatever raises it, and told with each word that says that
//! something is on disk here. So whoever was told of a number knows a disk that is opened at a
//! lower one for what it is: one that was put back to an earlier state.
//!
//! Invariant: a number is told only in a word that waits for its row. What this file does not do:
//! who notices, and what follows, is in `renewing.rs`.

use super::Node;
use crate::effect::{Effect, Effects};
use crate::ledger::{Key, Write, key::meta, record};

/// How far the disk of this node has come.
#[derive(Debug)]
pub(super) struct Commits {
    at_open: u64,
    /// With the effects of all events before this one.
    made: u64,
    /// Whether this event's are told to be one more.
    claimed: bool,
}

impl Commits {
    pub(super) fn opened(at: u64) -> Self {
        Self { at_open: at, made: at, claimed: false }
    }

    /// When the disk was opened.
    pub(super) fn at_open(&self) -> u64 {
        self.at_open
    }

    /// To be told with a word that says that something of this event is on disk.
    pub(super) fn claim(&mut self) -> u64 {
        self.claimed = true;
        self.told()
    }

    /// To be told with any other word that waits.
    pub(super) fn told(&self) -> u64 {
        self.made + u64::from(self.claimed)
    }
}

impl Node {
    /// The effects from here on are those of one event: if they change what others may build upon,
    /// or say so, the number rises with them. Notes of how far others have come do not raise it, or
    /// two nodes would keep each other writing.
    pub(super) fn count_commit(&mut self, from: usize, effects: &mut Effects) {
        let commits = &mut self.run.commits;
        let changes = |effect: &Effect| match effect {
            Effect::Write(Write::Put { key, .. }) => !Key::is_disk(key),
            Effect::Write(_) => true,
            _ => false,
        };
        if std::mem::take(&mut commits.claimed) || effects.as_slice()[from..].iter().any(changes) {
            commits.made += 1;
            let value = record::encode(&commits.made);
            let key = Key::Meta(meta::COMMITS).encode();
            effects.write_before(from, Write::Put { key, value });
        }
    }
}
