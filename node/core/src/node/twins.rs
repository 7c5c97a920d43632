//! Twins: ids that come a second time.
//!
//! A resend is harmless when it is the same message, and refused when another message has its id
//! (`IdClash`). Which it is stands on disk: one id has one stamp, and the stamp finds the row. So
//! the answer waits for a read; resends are rare. The lists of the two merge: whoever deletes the
//! message must know of all its copies (P4).
//!
//! Where no row with that stamp can be read the id may lie there under another one, so the whole
//! partition is read for it. If it is nowhere, it was lost here: nobody's word that it is held goes
//! out, and no other message has its id. A send whose contents are here yet is stored again; of
//! any other this node says that it does not take it, and its copy is fetched from who has it.

use std::time::Duration;

use gaggle_wire::{Label, NodeId, Stamp};

use super::Node;
use super::loading::{Load, StoredRow, range_after};
use crate::custody::known::Seen;
use crate::effect::Effects;
use crate::envelope::{CopyException, Envelope};
use crate::event::ScanEnd;
use crate::ledger::MessageKey;
use crate::ledger::key::messages_between;
use crate::now::Now;
use crate::ranges::Ranges;
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
    /// Of which no row with their stamp can be read.
    missing: Vec<(u32, Label)>,
    looked: Looked,
    holders: Vec<NodeId>,
    exceptions: Vec<(u32, CopyException)>,
    /// Whether some are in flight of which not all of their holders know: these are told before
    /// anything is said, for then they may hand them out (P3).
    untold: bool,
    after: AfterTwins,
}

/// Where those that are missing were looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// Under their own stamps.
    There,
    /// Under the other stamps up to this one.
    UpTo(Option<Stamp>),
    /// Under all others. Lost copies had come again so often before their own stamps were looked at
    /// once more.
    Everywhere { refills: u64 },
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
                let (process, number) = (label.stamp.process, label.number);
                partition.known.want(process, number);
                if let AfterTwins::Held { .. } | AfterTwins::Relisted { .. } = after {
                    partition.known.count_on(process, &Ranges::of(number, number));
                }
            }
        }
        let (missing, exceptions, looked) = (Vec::new(), Vec::new(), Looked::There);
        let untold = false;
        let twins = Twins { id, left, missing, looked, holders, exceptions, untold, after };
        self.read_twins(now, twins, effects);
    }

    fn read_twins(&mut self, now: Now, mut twins: Twins, effects: &mut Effects) {
        let limit = self.config.page_rows;
        if let (Some((_, first)), Some((_, last))) = (twins.left.first(), twins.left.last()) {
            if twins.looked == Looked::There {
                self.count("resends_seen");
            }
            let (queue, partition) = twins.id;
            let range = messages_between(
                MessageKey { queue, partition, stamp: first.stamp },
                MessageKey { queue, partition, stamp: last.stamp },
            );
            return self.load(Load::Twins(Box::new(twins)), range, limit, effects);
        }
        let refills = self.desk.loads.refills;
        match twins.looked {
            _ if twins.missing.is_empty() => self.twins_compared(now, twins, effects),
            Looked::There => {
                twins.looked = Looked::UpTo(None);
                let range = range_after(twins.id, None);
                self.load(Load::Twins(Box::new(twins)), range, limit, effects);
            }
            Looked::UpTo(after) => {
                let range = range_after(twins.id, after);
                self.load(Load::Twins(Box::new(twins)), range, limit, effects);
            }
            Looked::Everywhere { refills: before } if before == refills => {
                self.twins_compared(now, twins, effects);
            }
            // They may have been read before they were stored again.
            Looked::Everywhere { .. } => self.read_missing(now, twins, effects),
        }
    }

    /// The own stamps of those that are missing are looked at once more.
    fn read_missing(&mut self, now: Now, mut twins: Twins, effects: &mut Effects) {
        twins.left = std::mem::take(&mut twins.missing);
        twins.looked = Looked::Everywhere { refills: self.desk.loads.refills };
        self.read_twins(now, twins, effects);
    }

    pub(super) fn twins_read(
        &mut self,
        now: Now,
        mut twins: Twins,
        (rows, read_up_to, end): (Vec<StoredRow>, Option<Stamp>, ScanEnd),
        effects: &mut Effects,
    ) {
        if twins.left.is_empty() {
            return self.others_read(now, twins, (&rows, read_up_to, end), effects);
        }
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
            match (row, self.seen_twin(twins.id, &label)) {
                (Some(row), Seen::Held) if same => {
                    twins.untold |= self.merge_list(twins.id, row, &twins.holders, effects);
                }
                (Some(_), Seen::Held) => twins.exceptions.push((at, CopyException::Clash)),
                // It was deleted while this was read.
                (_, Seen::Gone) => twins.exceptions.push((at, CopyException::Gone)),
                (None, Seen::Held) | (_, Seen::New | Seen::Lost) => twins.missing.push((at, label)),
            }
        }
        self.read_twins(now, twins, effects);
    }

    /// Rows of a partition were read in which those may be that are missing, under other stamps.
    fn others_read(
        &mut self,
        now: Now,
        mut twins: Twins,
        (rows, read_up_to, end): (&[StoredRow], Option<Stamp>, ScanEnd),
        effects: &mut Effects,
    ) {
        let exceptions = &mut twins.exceptions;
        twins.missing.retain(|(at, label)| {
            let clashes = rows.iter().any(|row| {
                let of = (row.key.stamp.process, row.message.label.number);
                row.key.stamp != label.stamp && of == (label.stamp.process, label.number)
            });
            exceptions.extend(clashes.then_some((*at, CopyException::Clash)));
            !clashes
        });
        match (end, read_up_to) {
            (ScanEnd::More, Some(up_to)) => {
                twins.looked = Looked::UpTo(Some(up_to));
                self.read_twins(now, twins, effects);
            }
            _ => self.read_missing(now, twins, effects),
        }
    }

    fn seen_twin(&self, id: PartitionId, label: &Label) -> Seen {
        let partition = self.partitions.get(&id);
        partition.map_or(Seen::New, |of| of.known.seen(label.stamp.process, label.number))
    }

    fn twins_compared(&mut self, now: Now, twins: Twins, effects: &mut Effects) {
        let (queue, partition) = twins.id;
        for (_, label) in &twins.missing {
            self.lose(MessageKey { queue, partition, stamp: label.stamp }, label.number);
        }
        if twins.untold {
            self.tell_leases(now, None, Duration::ZERO, effects);
        }
        let (found, lost) = (twins.exceptions, !twins.missing.is_empty());
        match twins.after {
            AfterTwins::Held { peer, batch, .. } | AfterTwins::Relisted { peer, batch, .. }
                if lost =>
            {
                self.say(peer, Envelope::Declined { batch }, effects);
            }
            AfterTwins::Send { batch } if lost => self.keep_again(now, batch, &found, effects),
            AfterTwins::SendRelisted { batch, .. } if lost => {
                self.declined(now, self.config.node, batch, effects);
            }
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

    /// Some of a batch was lost here, as its comparison showed: it is stored again, as long as its
    /// client waits for it, for so long its contents are kept.
    fn keep_again(
        &mut self,
        now: Now,
        batch: u64,
        found: &[(u32, CopyException)],
        effects: &mut Effects,
    ) {
        let Some(mut sending) = self.sends.under_way.remove(&batch) else { return };
        for (at, exception) in found {
            sending.except(*at, exception);
        }
        let answered = sending.answered;
        if !answered {
            sending.lost(self.config.node);
            self.keep_here(now, batch, &mut sending, effects);
        }
        self.sends.under_way.insert(batch, sending);
        if answered {
            self.declined(now, self.config.node, batch, effects);
        } else {
            self.judge_send(now, batch, effects);
        }
    }
}
