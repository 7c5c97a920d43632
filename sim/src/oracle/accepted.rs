//! Stamps of acceptance: which were given, the highest of each process, and when their coordinator
//! had counted enough hosts.
//!
//! What this file does not do: whether a stamp may be is judged in `promises/p08_unique_stamps.rs`.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{ProcessId, Response, Stamp};

use super::Answer;

/// All that are known.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    stamps: BTreeSet<Stamp>,
    highest: BTreeMap<ProcessId, Stamp>,
    counted: BTreeMap<Stamp, u64>,
}

impl Accepted {
    /// A send was accepted at this stamp.
    pub(super) fn learn(&mut self, stamp: Stamp) {
        self.stamps.insert(stamp);
        let highest = self.highest.entry(stamp.process).or_insert(stamp);
        *highest = (*highest).max(stamp);
    }

    /// A node has counted enough hosts of what it accepted at this stamp.
    pub(super) fn counts(&mut self, now: u64, stamp: Stamp) {
        self.counted.insert(stamp, now);
    }

    pub(super) fn has(&self, stamp: Stamp) -> bool {
        self.stamps.contains(&stamp)
    }

    /// The highest of each process up to now.
    pub(super) fn highest(&self) -> BTreeMap<ProcessId, Stamp> {
        self.highest.clone()
    }

    /// When the hosts were counted that an answer speaks of: when it came, if that is not known.
    pub(super) fn counted_at(&self, answer: &Answer<'_>) -> u64 {
        let Response::Sent(sent) = answer.response else { return answer.at };
        self.counted.get(&sent.accepted).map_or(answer.at, |counted| answer.at.min(*counted))
    }
}
