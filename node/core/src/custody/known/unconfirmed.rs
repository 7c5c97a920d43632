//! What this node accepted and no confirm counts on: only its coordinator can know that.
//!
//! Where a host that should have a copy has lost its disk, nobody can say any more whether the copy
//! here was counted with its: it counts as confirmed (P1). But the coordinator knows that its own
//! send was not confirmed, and who else would count on its copy has to ask for it. Such a copy is
//! none that a lost disk makes good: it may have been sent again by another node, confirmed,
//! deleted, and the tombstone forgotten, all while this node was cut off (P4).
//!
//! Invariant: what is unconfirmed is unsettled. What this file does not do: it is not on disk. A
//! node that starts anew counts all it has among what others may count on.

use gaggle_wire::ProcessId;

use super::Known;
use crate::ranges::Ranges;

impl Known {
    /// This node has accepted a message that was taken in just now.
    pub(crate) fn accept(&mut self, process: ProcessId, number: u64) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.unconfirmed.insert(number);
        }
    }

    /// Somebody may count on the copies of these: a confirm, or who gave its own to this node.
    pub(crate) fn count_on(&mut self, process: ProcessId, numbers: &Ranges) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.unconfirmed.subtract(numbers);
        }
    }

    /// A host that should have these has lost its disk: what it may have been counted with is
    /// settled.
    pub(crate) fn trust(&mut self, process: ProcessId, numbers: &Ranges) {
        let Some(known) = self.processes.get(&process) else { return };
        let counted = numbers.without(&known.unconfirmed);
        self.settle(process, &counted);
    }
}
