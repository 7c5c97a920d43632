//! Rows that a scan has to find: to be removed, or to get another list.
//!
//! What is known in memory went ahead of the disk: messages are gone, were purged, or came under
//! another list, and nobody knows the stamps of their rows. So the partition is read page by page,
//! and what is found is put right. What this file does not do: it decides nothing of what goes; but
//! for old copies that nobody else has, which is seen only by their rows.

use gaggle_wire::Stamp;

use super::Node;
use super::copies::Rows;
use super::loading::{Load, StoredRow, range_after};
use crate::custody::burial::Numbers;
use crate::custody::known::Seen;
use crate::effect::Effects;
use crate::event::ScanEnd;
use crate::ledger::Row;
use crate::ledger::key::{messages, messages_after};
use crate::now::Now;
use crate::queue::Sweep;
use crate::ranges::Ranges;
use crate::session::PartitionId;

impl Node {
    /// Removes rows that a scan has to find, unless one is under way (which then starts anew).
    pub(super) fn sweep(&mut self, id: PartitionId, effects: &mut Effects) {
        let limit = self.config.page_rows;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.sweep == Sweep::Clean {
            partition.sweep = Sweep::Running;
            self.load(Load::Sweep(id), messages(id.0, id.1), limit, effects);
        } else {
            partition.sweep = Sweep::Needed;
        }
    }

    pub(super) fn swept(
        &mut self,
        id: PartitionId,
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let purged = self.table.entry(id.0).map_or(Stamp::ZERO, |entry| entry.purged);
        let (stored, last) = self.stored(rows, end);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        for StoredRow { key, message, .. } in stored {
            let (process, number) = (key.stamp.process, message.label.number);
            if message.accepted <= purged {
                partition.drop_held(process, number);
                partition.remove(key.stamp);
            }
            if !matches!(partition.known.seen(process, number), Seen::Held | Seen::Lost) {
                // Its deliveries may have been counted since the page was read.
                Self::remove_rows(key, Rows::WithCount, effects);
            }
        }
        let limit = self.config.page_rows;
        match (end, last, partition.sweep) {
            (ScanEnd::More, Some(last), _) => {
                self.load(Load::Sweep(id), messages_after(id.0, id.1, last), limit, effects);
            }
            (_, _, Sweep::Needed) => {
                partition.sweep = Sweep::Clean;
                self.sweep(id, effects);
            }
            _ => partition.sweep = Sweep::Clean,
        }
    }

    pub(super) fn read_lists(
        &mut self,
        id: PartitionId,
        numbers: Numbers,
        after: Option<Stamp>,
        effects: &mut Effects,
    ) {
        let limit = self.config.page_rows;
        self.load(Load::Lists(id, numbers), range_after(id, after), limit, effects);
    }

    pub(super) fn lists_read(
        &mut self,
        (id, numbers): (PartitionId, Numbers),
        rows: Vec<Row>,
        end: ScanEnd,
        effects: &mut Effects,
    ) {
        let (stored, last) = self.stored(rows, end);
        for row in &stored {
            let (process, number) = (row.key.stamp.process, row.message.label.number);
            if numbers.iter().any(|(of, n)| *of == process && n.contains(number)) {
                self.rewrite_list(id, row, effects);
            }
        }
        if let (ScanEnd::More, Some(last)) = (end, last) {
            self.read_lists(id, numbers, Some(last), effects);
        }
    }

    pub(super) fn read_orphans(&mut self, id: PartitionId, numbers: Numbers, fx: &mut Effects) {
        let limit = self.config.page_rows;
        self.load(Load::Orphans(id, numbers), messages(id.0, id.1), limit, fx);
    }

    pub(super) fn orphans_read(
        &mut self,
        now: Now,
        (id, numbers): (PartitionId, Numbers),
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let rule = self.rule(now, id.0);
        let (stored, last) = self.stored(rows, end);
        let mut dropped = 0;
        for StoredRow { key, message, .. } in stored {
            let Some(partition) = self.partitions.get(&id) else { return };
            let (process, number) = (key.stamp.process, message.label.number);
            let orphan = numbers.iter().any(|(of, n)| *of == process && n.contains(number))
                && !partition.known.forlorn(process, &Ranges::of(number, number)).is_empty()
                && message.accepted.time < rule.aged_before;
            if orphan {
                self.drop_copy(key, number, effects);
                dropped += 1;
            }
        }
        self.count_more("unconfirmed_dropped", dropped);
        if let (ScanEnd::More, Some(last)) = (end, last) {
            let range = messages_after(id.0, id.1, last);
            self.load(Load::Orphans(id, numbers), range, self.config.page_rows, effects);
        }
    }
}
