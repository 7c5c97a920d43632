//! Twins: ids that come a second time.
//!
//! A resend is harmless when it is the same message, and refused when another message has its id
//! (`IdClash`). Which it is stands on disk: one id has one stamp, and the stamp finds the row. So
//! the answer waits for a read; resends are rare. The lists of the two merge: whoever deletes the
//! message must know of all its copies (P4).

use gaggle_wire::{Label, NodeId};

use super::Node;
use super::loading::{Load, StoredRow};
use crate::custody::known::Seen;
use crate::effect::Effects;
use crate::envelope::{CopyException, Envelope};
use crate::event::ScanEnd;
use crate::ledger::MessageKey;
use crate::ledger::key::messages_between;
use crate::now::Now;
use crate::session::PartitionId;

/// What is said once twins were compared.
#[derive(Debug)]
pub(super) enum AfterTwins {
    /// To a coordinator: held, but for these.
    Held { peer: NodeId, batch: u64, exceptions: Vec<(u32, CopyException)> },
    /// To the send of this node itself.
    Send { batch: u64 },
    /// To a coordinator: the longer list is on disk.
    Relisted { peer: NodeId, batch: u64, version: u32 },
    /// To the send of this node itself.
    SendRelisted { batch: u64, version: u32 },
}

/// Twins that are being compared.
#[derive(Debug)]
pub(super) struct Twins {
    id: PartitionId,
    /// By rising stamp.
    left: Vec<(u32, Label)>,
    holders: Vec<NodeId>,
    exceptions: Vec<(u32, CopyException)>,
    after: AfterTwins,
}

impl Node {
    /// Compares twins with what is on disk, then goes on.
    pub(super) fn compare_twins(
        &mut self,
        now: Now,
        (id, left, holders): (PartitionId, Vec<(u32, Label)>, Vec<NodeId>),
        after: AfterTwins,
        effects: &mut Effects,
    ) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            for (_, label) in &left {
                partition.known.want(label.stamp.process, label.number);
            }
        }
        let twins = Twins { id, left, holders, exceptions: Vec::new(), after };
        self.read_twins(now, twins, effects);
    }

    fn read_twins(&mut self, now: Now, twins: Twins, effects: &mut Effects) {
        let (Some((_, first)), Some((_, last))) = (twins.left.first(), twins.left.last()) else {
            return self.twins_compared(now, twins, effects);
        };
        self.count("resends_seen");
        let (queue, partition) = twins.id;
        let range = messages_between(
            MessageKey { queue, partition, stamp: first.stamp },
            MessageKey { queue, partition, stamp: last.stamp },
        );
        let limit = self.config.page_rows;
        self.load(Load::Twins(Box::new(twins)), range, limit, effects);
    }

    pub(super) fn twins_read(
        &mut self,
        now: Now,
        mut twins: Twins,
        (rows, end): (Vec<StoredRow>, ScanEnd),
        effects: &mut Effects,
    ) {
        let read_up_to = rows.last().map(|row| row.key.stamp);
        while let Some((at, label)) = twins.left.first().copied() {
            let beyond = read_up_to.is_none_or(|up_to| label.stamp > up_to);
            if beyond && end == ScanEnd::More {
                break;
            }
            twins.left.remove(0);
            let row = rows.iter().find(|row| row.key.stamp == label.stamp);
            let same = row.is_some_and(|row| {
                let stored = &row.message.label;
                stored.number == label.number
                    && stored.crc == label.crc
                    && stored.content_length() == label.content_length()
            });
            let seen = self.partitions.get(&twins.id).map_or(Seen::New, |partition| {
                partition.known.seen(label.stamp.process, label.number)
            });
            match (row, seen) {
                (Some(row), Seen::Held) if same => {
                    self.merge_list(twins.id, row, &twins.holders, effects);
                }
                (_, Seen::Held) => twins.exceptions.push((at, CopyException::Clash)),
                // It was deleted while this was read.
                (_, Seen::Gone) => twins.exceptions.push((at, CopyException::Gone)),
                (_, Seen::New | Seen::Lost) => {}
            }
        }
        self.read_twins(now, twins, effects);
    }

    fn twins_compared(&mut self, now: Now, twins: Twins, effects: &mut Effects) {
        let found = twins.exceptions;
        match twins.after {
            AfterTwins::Held { peer, batch, mut exceptions } => {
                exceptions.extend(found);
                let commits = self.run.commits.claim();
                self.say(peer, Envelope::Held { batch, exceptions, commits }, effects);
            }
            AfterTwins::Send { batch } => self.held_here(now, (batch, &found), effects),
            AfterTwins::Relisted { peer, batch, version } => {
                let commits = self.run.commits.claim();
                self.say(peer, Envelope::Relisted { batch, version, commits }, effects);
            }
            AfterTwins::SendRelisted { batch, version } => {
                self.relisted(now, self.config.node, (batch, version), effects);
            }
        }
    }
}
