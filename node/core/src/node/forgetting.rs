//! Deleted queues are forgotten once no member has them alive any more.
//!
//! That a queue was deleted is kept for as long as somebody might not know it and bring the queue
//! back (P13). Once per resend window a node asks all members about what was deleted a window ago
//! or longer; what they all, in session at the same time, do not have alive goes from the table
//! and the disk. Each node forgets for itself. Nothing of the queue is on its way to it then:
//! whoever says that a queue does not live says so behind all it ever said of it in that session.
//!
//! Invariant: with a member away nothing is forgotten. What this file does not do: it keeps no copy
//! of a disk that is put back from bringing back a queue that was forgotten since.

use std::collections::BTreeSet;
use std::time::Duration;

use gaggle_wire::{NodeId, QueueId};

use super::Node;
use super::asking::Question;
use crate::effect::Effects;
use crate::envelope::Envelope;
use crate::ledger::{Key, Write};
use crate::now::Now;
use crate::timer::Timer;

/// Queues that were deleted a while ago, and may be forgotten if nobody asked has them alive.
#[derive(Debug)]
pub(super) struct Deleted {
    queues: BTreeSet<QueueId>,
    asked: BTreeSet<NodeId>,
}

impl Node {
    /// Asks all members about queues that were deleted a while ago. To be called once per resend
    /// window.
    pub(super) fn ask_deleted(&mut self, now: Now, effects: &mut Effects) {
        let queues: Vec<QueueId> = self.table.long_deleted().take(QUEUES_MAX).collect();
        self.table.grow_old();
        let asked = self.others();
        if queues.is_empty() || !asked.iter().all(|node| self.sessions.reaches(*node)) {
            return;
        }
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let deleted = Deleted { queues: queues.iter().copied().collect(), asked: asked.clone() };
        let kind = Question::Deleted(deleted);
        let call = self.desk.calls.start(asked.iter().copied(), deadline, kind);
        for node in asked {
            self.say(node, Envelope::AskDeleted { call, queues: queues.clone() }, effects);
        }
        self.call_over(now, call, effects);
    }

    /// A node asks which of these are alive here.
    pub(super) fn deleted_asked(
        &self,
        peer: NodeId,
        (call, queues): (u64, Vec<QueueId>),
        effects: &mut Effects,
    ) {
        let alive = queues.into_iter().filter(|queue| self.table.live(*queue).is_some()).collect();
        self.say(peer, Envelope::Alive { call, queues: alive }, effects);
    }

    /// A node told which are alive there.
    pub(super) fn alive_told(&mut self, peer: NodeId, call: u64, alive: &[QueueId]) {
        if let Some(call) = self.desk.calls.answer(call, peer)
            && let Question::Deleted(deleted) = &mut call.kind
        {
            for queue in alive {
                deleted.queues.remove(queue);
            }
        }
    }

    /// Whoever was asked has answered, or had the time to: these are alive with none of them.
    pub(super) fn forget_deleted(
        &mut self,
        Deleted { queues, asked }: Deleted,
        answered: &BTreeSet<NodeId>,
        effects: &mut Effects,
    ) {
        // Some may have gone since, and others come.
        if !asked.union(&self.others()).all(|node| answered.contains(node)) {
            return;
        }
        for queue in queues {
            if self.table.forget(queue) {
                effects.write(Write::Delete { key: Key::Queue(queue).encode() });
                self.count("queues_forgotten");
            }
        }
    }

    /// All members but this one.
    fn others(&self) -> BTreeSet<NodeId> {
        self.members().filter(|node| *node != self.config.node).collect()
    }
}

/// Queues that are asked about at once: an envelope of some 200 KiB.
const QUEUES_MAX: usize = 10_000;
/// How long the others have to answer.
const ASK_WITHIN: Duration = Duration::from_secs(10);
