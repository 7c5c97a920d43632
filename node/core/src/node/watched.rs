//! What a watcher may see of a node: the simulator holds it against what is promised.
//!
//! Nothing in here changes anything, and the node itself does not use it. What this file does not
//! do: invariants that need no other node are in [`Node::check`].

use gaggle_wire::{MessageId, QueueId};

use super::Node;
use crate::custody::burial::BlockRecord;
use crate::custody::known::Seen;
use crate::envelope::PeerHello;
use crate::ledger::record;
use crate::session::PartitionId;

/// How much a node has in memory of what is bounded, or may have (P12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Messages that are ready ahead of delivery, in the partition with the most.
    pub window: usize,
    /// Receives and streams that wait.
    pub waiters: usize,
    /// Sends under way.
    pub sends: usize,
    /// Rows that are read at once.
    pub page: usize,
}

impl Node {
    /// Whether it keeps a tombstone of this message, on disk or about to be.
    #[must_use]
    pub fn has_tombstone(&self, queue: QueueId, partition: u16, id: MessageId) -> bool {
        self.seen((queue, partition), id) == Seen::Gone
    }

    /// Whether the value of a row of tombstones names this message.
    #[must_use]
    pub fn is_tombstone_of(value: &[u8], id: MessageId) -> bool {
        let block: Option<BlockRecord> = record::decode(value).ok();
        block.is_some_and(|block| {
            let mut of = block.messages.iter().filter(|(process, _)| *process == id.process);
            of.any(|(_, numbers)| numbers.contains(id.number))
        })
    }

    /// Whether it knows that its copy of this message is damaged or missing.
    #[must_use]
    pub fn has_lost(&self, queue: QueueId, partition: u16, id: MessageId) -> bool {
        self.seen((queue, partition), id) == Seen::Lost
    }

    /// Whether it knows this queue and not that it was deleted.
    #[must_use]
    pub fn has_queue(&self, queue: QueueId) -> bool {
        self.table.live(queue).is_some()
    }

    fn seen(&self, partition: PartitionId, id: MessageId) -> Seen {
        let known = self.partitions.get(&partition).map(|partition| &partition.known);
        known.map_or(Seen::New, |known| known.seen(id.process, id.number))
    }

    /// Whether it knows that the disk of the node that says this was put back to an earlier state.
    #[must_use]
    pub fn knows_put_back(&self, hello: &PeerHello) -> bool {
        self.sessions.disks.is_outdated(hello)
    }

    /// What it has in memory now. Pages are not kept: what is read is seen where it is asked for.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        let windows = self.partitions.values().map(|partition| partition.window.len());
        Holdings {
            window: windows.max().unwrap_or(0),
            waiters: self.reception.count(),
            sends: self.sends.under_way.len(),
            page: 0,
        }
    }

    /// What its settings allow it to have.
    #[must_use]
    pub fn limits(&self) -> Holdings {
        Holdings {
            window: self.config.window_max,
            waiters: self.config.waiting_max,
            sends: self.config.waiting_max,
            page: self.config.page_rows,
        }
    }

    /// What it has counted under this name in this run.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.run.counters.get(name).copied().unwrap_or_default()
    }

    /// How far a stamp from elsewhere may lie ahead of its wall clock.
    #[must_use]
    pub fn drift_max(&self) -> std::time::Duration {
        self.config.drift_max
    }
}
