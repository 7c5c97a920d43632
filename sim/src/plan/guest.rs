//! Guests: what others than the clients of a plan ask of its queue.
//!
//! Operators purge the queue, change its settings, and delete it and create it anew; a client sends
//! again what is stored or gone already; another one's clock is ahead. None of it is a fault, and
//! nothing comes twice for it.
//!
//! What this file does not do: it asks nothing; see `storm.rs`.

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::draw::Draw;
use super::{Class, Deed};

/// What a guest asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Errand {
    /// Everything in the queue is dropped.
    Purge,
    /// The queue is deleted.
    Delete,
    /// The queue is created, as it was at the beginning.
    Create,
    /// Its visibility timeout becomes so many milliseconds.
    Set(u64),
    /// A node is removed from the cluster, or its removal goes on.
    Remove(u64),
    /// The same, and what only it has may be lost.
    RemoveAnyway(u64),
    /// A node that leaves is to stay.
    Keep(u64),
    /// A message that was sent not long ago, and deleted if there is one, is sent again.
    SendAgain,
    /// A message is sent whose stamp is ahead of all clocks by so many milliseconds.
    SendAhead(u64),
}

impl Draw {
    /// Guests come at any time.
    pub(super) fn guests(&mut self) {
        for _ in 0..self.rng.random_range(1..=8) {
            // A purge by a clock that is wrong takes what comes for as long as it is wrong.
            let purges = !self.has(Class::Clocks);
            let errand = match self.rng.random_range(0..9) {
                0 if purges => Errand::Purge,
                8 => Errand::Set(self.within((1500, 5000))),
                0..=4 => Errand::SendAgain,
                _ => Errand::SendAhead(self.within((100, 2000))),
            };
            let (at, node) = (self.within((0, self.plan.storm_ms)), self.node());
            self.add(at, Deed::Guest { node, errand });
            if matches!(errand, Errand::SendAhead(_)) && self.has(Class::Crashes) {
                // It is ahead of its own clock when it dies.
                let dies = at + self.within((10, 100));
                self.add(dies, Deed::Crash { node });
                let down = self.within((1, 100));
                self.add(dies + down, Deed::Start { node });
            }
        }
    }

    /// The queue goes and comes again.
    pub(super) fn renewals(&mut self) {
        for _ in 0..self.rng.random_range(1..=2) {
            let (at, node) = (self.within((0, self.plan.storm_ms)), self.node());
            self.add(at, Deed::Guest { node, errand: Errand::Delete });
            let (at, node) = (at + self.within((20, 1500)), self.node());
            self.add(at, Deed::Guest { node, errand: Errand::Create });
        }
    }

    /// A node is removed: asked for again and again, at one node or another. Some operators change
    /// their mind, and some cannot wait; the node may come back with an empty disk.
    pub(super) fn removals(&mut self) {
        if self.plan.founders < 3 {
            return;
        }
        let victim = self.node();
        let anyway = !self.plan.calm && self.rng.random_bool(0.2);
        let mut at = self.within((0, self.plan.storm_ms));
        for _ in 0..self.within((2, 30)) {
            let errand = if self.rng.random_bool(0.02) {
                Errand::Keep(victim)
            } else if anyway {
                Errand::RemoveAnyway(victim)
            } else {
                Errand::Remove(victim)
            };
            let Some(node) = self.other(victim) else { return };
            self.add(at, Deed::Guest { node, errand });
            at += self.within((50, 600));
        }
        self.plan.storm_ms = self.plan.storm_ms.max(at + 1);
        let back = self.within((0, 4000));
        self.add(at.saturating_sub(back), Deed::Start { node: victim });
    }

    /// All who receive move to one node: what others hold has to come there.
    pub(super) fn lone(&mut self) {
        let node = self.node();
        self.plan.consumers.iter_mut().for_each(|consumer| consumer.node = Some(node));
    }
}
