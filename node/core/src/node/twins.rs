//! Twins: ids that come a second time.
//!
//! A resend is harmless when it is the same message, and refused when another message has its id
//! (`IdClash`). Which it is stands on disk: one id has one stamp, and the stamp finds the row. So
//! the answer waits for a read; resends are rare.

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
}

/// Twins that are being compared.
#[derive(Debug)]
pub(super) struct Twins {
    id: PartitionId,
    /// By rising stamp.
    left: Vec<(u32, Label)>,
    clashes: Vec<u32>,
    after: AfterTwins,
}

impl Node {
    /// Compares twins with what is on disk, then goes on.
    pub(super) fn compare_twins(
        &mut self,
        now: Now,
        (id, left): (PartitionId, Vec<(u32, Label)>),
        after: AfterTwins,
        effects: &mut Effects,
    ) {
        let twins = Twins { id, left, clashes: Vec::new(), after };
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
            // What was deleted while this was read has no row and is no clash.
            if !same && seen == Seen::Held {
                twins.clashes.push(at);
            }
        }
        self.read_twins(now, twins, effects);
    }

    fn twins_compared(&mut self, now: Now, twins: Twins, effects: &mut Effects) {
        let clashes = twins.clashes.into_iter().map(|at| (at, CopyException::Clash));
        match twins.after {
            AfterTwins::Held { peer, batch, mut exceptions } => {
                exceptions.extend(clashes);
                self.say(peer, Envelope::Held { batch, exceptions }, effects);
            }
            AfterTwins::Send { batch } => {
                let clashes: Vec<(u32, CopyException)> = clashes.collect();
                self.held_here(now, (batch, &clashes), effects);
            }
        }
    }
}
