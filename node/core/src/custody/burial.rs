//! Burial: tombstones, until everybody who must know them does.
//!
//! A delete makes one block of tombstones per partition and holder list: ids as ranges, who must
//! know, who is known to. Every holder keeps its block on disk and answers any copy of those ids
//! with *gone*. The coordinator waits for all holders in session and then tells them about each
//! other in bulk; a holder whose block stays open pushes it itself, also to those that return.
//! A block goes when all its holders have it, but for those that were removed, *and* no client
//! sends one of its ids again any more (resend window), or at its expiry. Who has never been seen
//! here may only have been away since before this node was started: it is waited for.
//!
//! Invariants: a block is dropped for no other reason (P4); an id that is gone is in one block of
//! a node, whose holders are all that anybody has named. What this file does not do: it does
//! not touch rows of messages and does not send.

mod further;
mod joining;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{NodeId, ProcessId};
use serde::{Deserialize, Serialize};

pub(crate) use further::Told;
pub(crate) use joining::Joined;

use crate::now::{Mono, Wall};
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::rendezvous::{self, Slot};

/// Messages by process.
pub(crate) type Numbers = Vec<(ProcessId, Ranges)>;

/// The last number that a block can have: at a million blocks a second it is not reached in a
/// hundred thousand years, and the numbers behind it still count up.
pub(crate) const BLOCK_MAX: u64 = u64::MAX >> 1;

/// A block as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockRecord {
    pub(crate) messages: Numbers,
    pub(crate) holders: Vec<NodeId>,
    /// Wall time in milliseconds after which every copy has expired anyway.
    pub(crate) expires_ms: u64,
}

/// A block of tombstones that this node keeps.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) partition: PartitionId,
    pub(crate) record: BlockRecord,
    /// Who is known to have it on disk.
    known: BTreeSet<NodeId>,
    since: Mono,
    /// When it was last pushed to those that lack it.
    pushed: Mono,
}

impl Block {
    /// Whether all who must know it are known to have it on disk.
    fn is_told(&self, is_removed: impl Fn(NodeId) -> bool) -> bool {
        let mut holders = self.record.holders.iter();
        holders.all(|node| self.known.contains(node) || is_removed(*node))
    }
}

/// A delete at its coordinator.
#[derive(Debug)]
pub(crate) struct Burying {
    /// Whom to answer, and which receipts of it.
    pub(crate) call: Option<u64>,
    pub(crate) at: Vec<usize>,
    /// Those of them that are older than the present delivery, as some holder says.
    pub(crate) older: BTreeSet<usize>,
    /// What the holders were told.
    told: Told,
    /// Blocks of this node that it covers.
    pub(crate) blocks: Vec<u64>,
    /// Holders in session that have not answered.
    waiting: BTreeSet<NodeId>,
    buried: BTreeSet<NodeId>,
    /// How many nodes it takes.
    confirms: u8,
    pub(crate) deadline: Mono,
}

/// How a delete stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Somebody in session has not answered.
    Waiting,
    /// Everybody in session has it, and that is enough.
    Done,
    /// Everybody in session has it; too few.
    TooFew,
}

/// All tombstones of this node, and deletes under way.
#[derive(Debug, Default)]
pub(crate) struct Burials {
    blocks: BTreeMap<u64, Block>,
    next_block: u64,
    next_batch: u64,
    /// Deletes that this node coordinates, by batch.
    under_way: BTreeMap<u64, Burying>,
    /// Blocks that were pushed to a node, by batch.
    pushes: BTreeMap<u64, (NodeId, Vec<u64>)>,
    /// Blocks by who told them as which batch.
    told: BTreeMap<(NodeId, u64), Vec<u64>>,
    /// What to tell each holder in bulk: batches and who has them.
    news: BTreeMap<NodeId, Vec<(u64, Vec<NodeId>)>>,
}

/// Tombstones that are to be told to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) batch: u64,
    pub(crate) partition: PartitionId,
    pub(crate) holders: Vec<NodeId>,
    pub(crate) messages: Numbers,
    pub(crate) known: Vec<NodeId>,
}

impl Burials {
    /// Takes a block in that was read at open.
    pub(crate) fn read(&mut self, partition: PartitionId, number: u64, record: BlockRecord) {
        let (known, since) = (BTreeSet::new(), Mono(0));
        self.blocks.insert(number, Block { partition, record, known, since, pushed: since });
        assert!(number <= BLOCK_MAX, "who reads rows refuses others");
        self.next_block = self.next_block.max(number + 1);
    }

    /// After all blocks were read: this node has them. Who else does is found out again, and as
    /// nobody knows how long ago their deletes were, the resend window begins anew.
    pub(crate) fn reopened(&mut self, me: NodeId, now: Mono) {
        for block in self.blocks.values_mut() {
            block.known.insert(me);
            (block.since, block.pushed) = (now, now);
        }
    }

    /// Messages that are gone already are told of again, maybe with more holders, or as known to
    /// more nodes: lists and knowledge merge. Blocks that are covered whole, and those whose
    /// record is another one now.
    pub(crate) fn merge(
        &mut self,
        partition: PartitionId,
        messages: &[(ProcessId, Ranges)],
        (holders, known): (&[NodeId], &BTreeSet<NodeId>),
    ) -> (Vec<u64>, Vec<(u64, BlockRecord)>) {
        let (mut covered, mut changed) = (Vec::new(), Vec::new());
        let told = |process: &ProcessId| messages.iter().find(|(of, _)| of == process);
        for (number, block) in &mut self.blocks {
            if block.partition != partition {
                continue;
            }
            let mut left = block.record.messages.iter().map(|(process, numbers)| {
                let rest = told(process).map(|(_, told)| numbers.without(told));
                (numbers, rest.unwrap_or_else(|| numbers.clone()))
            });
            let whole = left.clone().all(|(_, rest)| rest.is_empty());
            if !left.any(|(numbers, rest)| rest != *numbers) {
                continue;
            }
            if whole {
                block.known.extend(known.iter().copied());
                covered.push(*number);
            }
            let more = holders.iter().filter(|node| !block.record.holders.contains(node));
            let more: Vec<NodeId> = more.copied().collect();
            if !more.is_empty() {
                block.record.holders.extend(more);
                rendezvous::order(Slot::of(partition.0, partition.1), &mut block.record.holders);
                changed.push((*number, block.record.clone()));
            }
        }
        (covered, changed)
    }

    /// Takes a new block in; its number, under which its record is to be written.
    pub(crate) fn add(
        &mut self,
        partition: PartitionId,
        record: BlockRecord,
        known: impl IntoIterator<Item = NodeId>,
        now: Mono,
    ) -> u64 {
        let number = self.next_block;
        self.next_block += 1;
        let known = known.into_iter().collect();
        self.blocks.insert(number, Block { partition, record, known, since: now, pushed: now });
        number
    }

    /// A number for a batch that is about to be sent.
    pub(crate) fn batch(&mut self) -> u64 {
        self.next_batch += 1;
        self.next_batch
    }

    /// A node told of this block as that batch of its own.
    pub(crate) fn told_by(&mut self, node: NodeId, batch: u64, blocks: Vec<u64>) {
        self.told.insert((node, batch), blocks);
    }

    /// Starts a delete that these holders in session have to answer.
    pub(crate) fn start(
        &mut self,
        batch: u64,
        waiting: impl IntoIterator<Item = NodeId>,
        burying: NewBurying,
    ) {
        let NewBurying { call, at, told, blocks, here, confirms, deadline } = burying;
        let waiting = waiting.into_iter().collect();
        let buried = here.into_iter().collect();
        let older = BTreeSet::new();
        let burying =
            Burying { call, at, older, told, blocks, waiting, buried, confirms, deadline };
        self.under_way.insert(batch, burying);
    }

    /// A node has this batch on disk; how the delete stands, if it is one.
    pub(crate) fn buried_by(&mut self, node: NodeId, batch: u64) -> Option<Standing> {
        if let Some((_, blocks)) = self.pushes.remove(&batch) {
            for block in blocks {
                if let Some(block) = self.blocks.get_mut(&block) {
                    block.known.insert(node);
                }
            }
            return None;
        }
        let burying = self.under_way.get_mut(&batch)?;
        burying.waiting.remove(&node);
        burying.buried.insert(node);
        Some(burying.standing())
    }

    /// Some receipts of a delete, by position in it, are older than the present delivery.
    pub(crate) fn note_older(&mut self, batch: u64, older: &[u32]) {
        if let Some(burying) = self.under_way.get_mut(&batch) {
            let at = older.iter().filter_map(|older| burying.at.get(*older as usize));
            burying.older.extend(at);
        }
    }

    /// How a delete stands.
    pub(crate) fn standing(&self, batch: u64) -> Option<Standing> {
        self.under_way.get(&batch).map(Burying::standing)
    }

    /// Ends a delete: notes who has its block and has them told of each other.
    pub(crate) fn finish(&mut self, batch: u64) -> Option<Burying> {
        let burying = self.under_way.remove(&batch)?;
        let known: Vec<NodeId> = burying.buried.iter().copied().collect();
        for block in &burying.blocks {
            if let Some(block) = self.blocks.get_mut(block) {
                block.known.extend(known.iter().copied());
            }
        }
        for node in &known {
            self.news.entry(*node).or_default().push((batch, known.clone()));
        }
        Some(burying)
    }

    /// Deletes that nobody waits for any more, after a session ended or their time is up.
    pub(crate) fn lost(&mut self, node: NodeId) -> Vec<u64> {
        self.pushes.retain(|_, (to, _)| *to != node);
        self.told.retain(|(by, _), _| *by != node);
        self.news.remove(&node);
        let mut over = Vec::new();
        for (batch, burying) in &mut self.under_way {
            if burying.waiting.remove(&node) && burying.waiting.is_empty() {
                over.push(*batch);
            }
        }
        over
    }

    /// Deletes whose time is up.
    pub(crate) fn overdue(&self, now: Mono) -> Vec<u64> {
        let due = self.under_way.iter().filter(|(_, burying)| burying.deadline <= now);
        due.map(|(batch, _)| *batch).collect()
    }

    /// When the first delete's time is up.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.under_way.values().map(|burying| burying.deadline).min()
    }

    /// A node tells who has batches that it told before; which holders lack some of them, that
    /// this node reaches and the other may not.
    pub(crate) fn learn(
        &mut self,
        from: NodeId,
        batches: &[(u64, Vec<NodeId>)],
        reached: impl Fn(NodeId) -> bool,
    ) -> BTreeSet<NodeId> {
        let mut lacking = BTreeSet::new();
        for (batch, known) in batches {
            for block in self.told.remove(&(from, *batch)).unwrap_or_default() {
                if let Some(block) = self.blocks.get_mut(&block) {
                    block.known.extend(known.iter().copied());
                    let holders = block.record.holders.iter().copied();
                    let lack = holders.filter(|n| !block.known.contains(n) && reached(*n));
                    let lack: Vec<NodeId> = lack.collect();
                    if !lack.is_empty() {
                        block.pushed = Mono(0);
                        lacking.extend(lack);
                    }
                }
            }
        }
        lacking
    }

    /// What was to be told to others at once has been.
    pub(crate) fn hurried(&mut self, now: Mono) {
        for block in self.blocks.values_mut().filter(|block| block.pushed == Mono(0)) {
            block.pushed = now;
        }
    }

    /// What is to be told in bulk, by node.
    pub(crate) fn take_news(&mut self) -> BTreeMap<NodeId, Vec<(u64, Vec<NodeId>)>> {
        std::mem::take(&mut self.news)
    }

    /// A node has another disk: it has nothing of what it had.
    pub(crate) fn forget_node(&mut self, node: NodeId) {
        for block in self.blocks.values_mut() {
            block.known.remove(&node);
        }
    }

    /// What this node must know and is not known to, in blocks that are older than `age`.
    pub(crate) fn open_for(&mut self, node: NodeId, now: Mono, age: Duration) -> Vec<Push> {
        let mut pushes: Vec<(Push, Vec<u64>)> = Vec::new();
        for (number, block) in &self.blocks {
            let open = block.record.holders.contains(&node) && !block.known.contains(&node);
            if !open || now.since(block.pushed) < age {
                continue;
            }
            let record = &block.record;
            let same = |(push, blocks): &&mut (Push, Vec<u64>)| {
                push.partition == block.partition
                    && push.holders == record.holders
                    && push.known.iter().eq(&block.known)
                    && blocks.len() < PUSH_BLOCKS_MAX
            };
            if let Some((push, blocks)) = pushes.iter_mut().rev().take(PUSH_LOOK_BACK).find(same) {
                merge_numbers(&mut push.messages, &record.messages);
                blocks.push(*number);
            } else {
                let push = Push {
                    batch: 0,
                    partition: block.partition,
                    holders: record.holders.clone(),
                    messages: record.messages.clone(),
                    known: block.known.iter().copied().collect(),
                };
                pushes.push((push, vec![*number]));
            }
        }
        let number = |(mut push, blocks): (Push, Vec<u64>)| {
            push.batch = self.batch();
            self.pushes.insert(push.batch, (node, blocks));
            push
        };
        pushes.into_iter().map(number).collect()
    }

    /// All that was older than `age` has been told to everybody in session.
    pub(crate) fn pushed(&mut self, now: Mono, age: Duration) {
        for block in self.blocks.values_mut() {
            if now.since(block.pushed) >= age {
                block.pushed = now;
            }
        }
    }

    /// Drops the blocks that have done their duty, and what they say of numbers.
    pub(crate) fn collect(
        &mut self,
        now: (Mono, Wall),
        resend_window: Duration,
        is_removed: impl Fn(NodeId) -> bool,
        is_needed: impl Fn(&Block) -> bool,
    ) -> Vec<(u64, Block)> {
        let done = |block: &Block| {
            let old = now.0.since(block.since) > resend_window;
            (old && block.is_told(&is_removed) && !is_needed(block))
                || now.1.0 / 1_000_000 > block.record.expires_ms
        };
        let numbers: Vec<u64> = self
            .blocks
            .iter()
            .filter(|(_, block)| done(block))
            .map(|(number, _)| *number)
            .collect();
        let taken: Vec<(u64, Block)> = numbers
            .into_iter()
            .filter_map(|number| Some((number, self.blocks.remove(&number)?)))
            .collect();
        if !taken.is_empty() {
            self.forget_told();
        }
        taken
    }

    /// Forgets of which batches the blocks were that are not there any more.
    fn forget_told(&mut self) {
        let kept = |block: &u64| self.blocks.contains_key(block);
        self.told.retain(|_, blocks| blocks.iter().any(kept));
    }

    /// Messages of a partition that are gone, and not all who must know that are known to.
    pub(crate) fn untold(
        &self,
        partition: PartitionId,
        is_removed: impl Fn(NodeId) -> bool,
    ) -> Numbers {
        let mut untold = Numbers::new();
        let blocks = self.blocks.values().filter(|block| block.partition == partition);
        for block in blocks.filter(|block| !block.is_told(&is_removed)) {
            merge_numbers(&mut untold, &block.record.messages);
        }
        untold
    }

    /// A queue is deleted: its blocks have no more use.
    pub(crate) fn drop_queue(&mut self, queue: gaggle_wire::QueueId) {
        self.blocks.retain(|_, block| block.partition.0 != queue);
    }

    /// How many blocks are kept that one of these holders is not known to have.
    pub(crate) fn open_count(&self, counts: impl Fn(NodeId) -> bool) -> u64 {
        let lacks = |block: &&Block| {
            let mut holders = block.record.holders.iter();
            holders.any(|node| counts(*node) && !block.known.contains(node))
        };
        self.blocks.values().filter(lacks).count() as u64
    }

    /// How many blocks are kept.
    pub(crate) fn count(&self) -> usize {
        self.blocks.len()
    }
}

/// What a delete starts with.
#[derive(Debug)]
pub(crate) struct NewBurying {
    pub(crate) call: Option<u64>,
    pub(crate) at: Vec<usize>,
    pub(crate) told: Told,
    /// Blocks of this node that it covers.
    pub(crate) blocks: Vec<u64>,
    /// This node, if it keeps the block itself.
    pub(crate) here: Option<NodeId>,
    pub(crate) confirms: u8,
    pub(crate) deadline: Mono,
}

impl Burying {
    fn standing(&self) -> Standing {
        if !self.waiting.is_empty() {
            Standing::Waiting
        } else if self.buried.len() >= usize::from(self.confirms) {
            Standing::Done
        } else {
            Standing::TooFew
        }
    }
}

/// Adds numbers by process.
pub(crate) fn merge_numbers(into: &mut Numbers, more: &[(ProcessId, Ranges)]) {
    for (process, numbers) in more {
        match into.iter_mut().find(|(present, _)| present == process) {
            Some((_, present)) => present.merge(numbers),
            None => into.push((*process, numbers.clone())),
        }
    }
}

/// Blocks that go into one push: their ranges together stay far below a frame.
const PUSH_BLOCKS_MAX: usize = 1000;
/// How many of the latest pushes are looked at for one to join: as many as partitions are usual.
const PUSH_LOOK_BACK: usize = 16;

#[cfg(test)]
mod tests;
