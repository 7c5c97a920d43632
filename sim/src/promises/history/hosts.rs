//! What the world sees of hosts in a history: who is up, what lies on which disk, and what is lost.
//!
//! What this file does not do: what clients ask and hear is in `history.rs`.

use super::{History, PRODUCER, queue};

impl History {
    pub(crate) fn leaves(&mut self, node: usize) -> &mut Self {
        self.witness.leaving.insert(node);
        self
    }

    pub(crate) fn up(&mut self, at: impl IntoIterator<Item = usize>) -> &mut Self {
        self.witness.up = at.into_iter().collect();
        self
    }

    pub(crate) fn on_disks(&mut self, at: impl IntoIterator<Item = usize>) -> &mut Self {
        self.witness.holders = at.into_iter().collect();
        self
    }

    /// On these disks it is damaged.
    pub(crate) fn damaged(&mut self, at: impl IntoIterator<Item = usize>) -> &mut Self {
        self.witness.damaged = at.into_iter().collect();
        self
    }

    /// These have its tombstone on disk, and those of them that are up know of it.
    pub(crate) fn buried(&mut self, at: impl IntoIterator<Item = usize>) -> &mut Self {
        self.buried_said = true;
        self.witness.buried = at.into_iter().collect();
        self.witness.buriers = &self.witness.buried & &self.witness.up;
        self
    }

    /// These know that it is gone: what is to be on their disks as well is not yet.
    pub(crate) fn about_to_bury(&mut self, at: impl IntoIterator<Item = usize>) -> &mut Self {
        self.witness.buriers.extend(at);
        self
    }

    pub(crate) fn near(&mut self, at: impl IntoIterator<Item = usize>) -> &mut Self {
        self.witness.near = at.into_iter().collect();
        self
    }

    /// These are in session with the custodian from now on.
    pub(crate) fn meets(&mut self, at: impl IntoIterator<Item = usize>) -> &mut Self {
        self.witness.sessions = at.into_iter().map(|at| (at, self.now)).collect();
        self
    }

    pub(crate) fn loses_disk(&mut self, at: usize) -> &mut Self {
        let witness = self.witness.clone();
        self.judge.disk_lost(self.now, at, &|_| witness.clone());
        self.witness.holders.remove(&at);
        self
    }

    /// A disk loses the row of a message.
    pub(crate) fn loses_row(&mut self, at: usize, number: u64) -> &mut Self {
        let name = (queue(), 0, PRODUCER, number);
        let stamp = self.judge.oracle.fate(&name).expect("it was sent").label.stamp;
        let key = gaggle_core::ledger::MessageKey { queue: name.0, partition: name.1, stamp };
        let witness = self.witness.clone();
        self.judge.rows_lost(self.now, at, &[key], &|_| witness.clone());
        self
    }

    /// A node knows that it has lost what it had.
    pub(crate) fn knows_lost(&mut self, at: usize) {
        self.witness.losers.insert(at);
    }

    /// A node is removed from the cluster. Its process has not heard of it yet.
    pub(crate) fn strikes(&mut self, at: usize) -> &mut Self {
        self.witness.struck.insert(at);
        let witness = self.witness.clone();
        self.judge.removed(self.now, (at, false), &|_| witness.clone());
        self
    }

    /// A disk is put back to a state in which it has all messages, or none.
    pub(crate) fn puts_back(&mut self, at: usize, has_all: bool) -> &mut Self {
        let witness = self.witness.clone();
        self.judge.disk_put_back(self.now, at, (&|_| has_all, &|_| witness.clone()));
        if !has_all {
            self.witness.holders.remove(&at);
        }
        self
    }

    /// And nobody can notice it.
    pub(crate) fn unnoticed(&mut self, at: usize) -> &mut Self {
        let has = self.witness.holders.contains(&at);
        self.judge.oracle.unnoticed(at, &|_| has);
        self
    }

    /// What the wall clocks of the nodes say.
    pub(crate) fn walls(&mut self, walls: [u64; 3]) -> &mut Self {
        self.witness.walls = walls.to_vec();
        self
    }
}
