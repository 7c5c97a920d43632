//! What a disk that is put back to an earlier state excuses.
//!
//! Its host has lost what it got since, and what it has is no evidence of anything: for what is
//! promised of hosts that keep their disks it has lost all, but for what only it should have. What
//! was deleted must not come from it all the same, as soon as somebody has noticed. So the rest is
//! excused only if nobody could: what was deleted and lies there may come, and what others counted
//! on there may be lost. In a queue that is content with one copy, what no other host has may be
//! what it confirmed, so there what was deleted may come in any case.

use gaggle_core::ledger::MessageKey;

use super::{Fate, FullName, Oracle};
use crate::judge::{Look, Witness};

/// Whether a message lies on a disk.
type Keeps<'a> = &'a dyn Fn(MessageKey) -> bool;

impl Oracle {
    /// The disk of a node is put back to a state in which it has these messages.
    pub(crate) fn disk_put_back(
        &mut self,
        now: u64,
        at: usize,
        (keeps, look): (Keeps<'_>, Look<'_>),
    ) {
        self.disk_lost = Some(now);
        for (name, fate) in &mut self.fates {
            let settings = self.queues.get(&name.0).map(|queue| queue.settings);
            let alone = settings.is_some_and(|settings| settings.replicas == 1);
            let lone = settings.is_some_and(|settings| settings.at_least == 1);
            let witness = look(&fate.subject(*name));
            let kept = keeps(row(name, fate));
            let stays = alone && kept;
            fate.revived |= lone && kept && fate.deleted.is_some();
            fate.put_back_at((now, at), witness, (stays, lone));
        }
    }

    /// Nobody could notice it before its node gave something.
    pub(crate) fn unnoticed(&mut self, at: usize, keeps: Keeps<'_>) {
        for (name, fate) in &mut self.fates {
            let kept = keeps(row(name, fate));
            fate.revived |= kept && fate.deleted.is_some();
            fate.excused |= !kept && fate.put_back.contains(&at);
        }
    }
}

impl Fate {
    /// A node that may have it or its tombstone is put back to when it had less.
    fn put_back_at(
        &mut self,
        (now, at): (u64, usize),
        mut witness: Witness,
        (stays, lone): (bool, bool),
    ) {
        if witness.holders.contains(&at) {
            self.put_back.insert(at);
        }
        if stays {
            self.lost_by.insert(at);
        } else {
            self.lost_copy(at, &witness);
        }
        self.lost_tombstone((now, at), &mut witness);
        let buried = !witness.buried.is_disjoint(&witness.up);
        self.unburied |= lone && self.deleted.is_some() && !buried;
    }
}

fn row((queue, partition, ..): &FullName, fate: &Fate) -> MessageKey {
    MessageKey { queue: *queue, partition: *partition, stamp: fate.label.stamp }
}
