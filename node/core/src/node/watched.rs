//! What a watcher may see of a node: the simulator holds it against what is promised.
//!
//! Nothing in here changes anything, and the node itself does not use it. What this file does not
//! do: invariants that need no other node are in [`Node::check`].

use gaggle_wire::{MessageId, QueueId};

use super::Node;
use crate::custody::known::Seen;

impl Node {
    /// Whether it keeps a tombstone of this message.
    #[must_use]
    pub fn has_tombstone(&self, queue: QueueId, partition: u16, id: MessageId) -> bool {
        let known = self.partitions.get(&(queue, partition)).map(|partition| &partition.known);
        known.is_some_and(|known| known.seen(id.process, id.number) == Seen::Gone)
    }
}
