//! Blocks that have the same to say become one.
//!
//! Every delete makes a block, and every block is looked at once a second until it goes. Once all
//! holders know it there is nothing more to tell: it waits for the resend window to pass. So blocks
//! of one partition and list that came within some seconds of each other are joined then.
//!
//! Invariants: a joined block says what its parts said, and goes no sooner than any of them would
//! have (P4). What this file does not do: it joins nothing that somebody still lacks.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::NodeId;

use super::{Block, BlockRecord, Burials, merge_numbers};
use crate::now::Mono;
use crate::session::PartitionId;

/// Blocks that became one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) partition: PartitionId,
    /// The number of the one, and its record as it is now.
    pub(crate) block: u64,
    pub(crate) record: BlockRecord,
    /// The numbers of the others.
    pub(crate) gone: Vec<u64>,
}

impl Burials {
    /// Joins all that can be joined.
    pub(crate) fn join(&mut self, now: Mono) -> Vec<Joined> {
        let mut alike: BTreeMap<(PartitionId, &[NodeId], u64), Vec<u64>> = BTreeMap::new();
        for (number, block) in &self.blocks {
            if block.is_known_to_all() && now.since(block.since) >= REST {
                let bucket = block.since.0 / BUCKET;
                let key = (block.partition, &block.record.holders[..], bucket);
                alike.entry(key).or_default().push(*number);
            }
        }
        let groups: Vec<Vec<u64>> = alike.into_values().filter(|group| group.len() > 1).collect();
        let joined: Vec<Joined> =
            groups.into_iter().filter_map(|group| self.unite(group)).collect();
        if !joined.is_empty() {
            self.forget_told();
        }
        joined
    }

    fn unite(&mut self, numbers: Vec<u64>) -> Option<Joined> {
        let (first, gone) = numbers.split_first()?;
        let parts: Vec<Block> = gone.iter().filter_map(|part| self.blocks.remove(part)).collect();
        let block = self.blocks.get_mut(first)?;
        for part in parts {
            merge_numbers(&mut block.record.messages, &part.record.messages);
            block.record.expires_ms = block.record.expires_ms.max(part.record.expires_ms);
            block.since = block.since.max(part.since);
            block.known.retain(|node| part.known.contains(node));
        }
        let (partition, record) = (block.partition, block.record.clone());
        Some(Joined { partition, block: *first, record, gone: gone.to_vec() })
    }
}

impl Block {
    fn is_known_to_all(&self) -> bool {
        self.record.holders.iter().all(|node| self.known.contains(node))
    }
}

/// How long a block is left alone: news of it may still be on their way.
const REST: Duration = Duration::from_secs(3);
/// Blocks that came within so many nanoseconds may become one: far less than the resend window.
const BUCKET: u64 = 10_000_000_000;
