//! Making up: what another holder lacks is read from disk, page by page, and given to it.

use std::time::Duration;

use gaggle_wire::{NodeId, QueueId, Stamp};

use super::Node;
use super::deleting::EXPIRY_SLACK_MS;
use super::loading::{Load, StoredRow, range_after};
use crate::custody::burial::Numbers;
use crate::custody::known::Seen;
use crate::effect::Effects;
use crate::envelope::{CopyItem, Envelope};
use crate::event::ScanEnd;
use crate::ledger::{MessageRecord, Row};
use crate::now::Now;
use crate::ranges::Ranges;
use crate::session::PartitionId;

impl Node {
    pub(super) fn read_lacking(
        &mut self,
        peer: NodeId,
        (id, lacking): (PartitionId, Numbers),
        after: Option<Stamp>,
        effects: &mut Effects,
    ) {
        let Some(session) = self.sessions.with(peer) else { return };
        let link = session.link;
        let range = range_after(id, after);
        let limit = self.config.page_rows;
        self.load(Load::Lacking { peer, link, id, lacking }, range, limit, effects);
    }

    pub(super) fn lacking_read(
        &mut self,
        now: Now,
        (peer, id, lacking): (NodeId, PartitionId, Numbers),
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let rule = self.rule(now, id.0);
        let (stored, last) = self.stored(rows, end);
        let (mut batches, mut items, mut bytes) = (Vec::new(), Vec::new(), 0);
        for StoredRow { key, message, .. } in stored {
            let Some(partition) = self.partitions.get(&id) else { break };
            let MessageRecord { label, accepted, .. } = message;
            let process = key.stamp.process;
            let lacks = lacking.iter().any(|(of, n)| *of == process && n.contains(label.number));
            let held = partition.known.seen(process, label.number) == Seen::Held;
            let doubtful = accepted.time < rule.aged_before
                && partition.known.is_unsettled(process, label.number)
                && !rule.lone;
            let list = partition.lists.of(process, label.number);
            let holders = list.map_or(&[][..], |list| partition.holders(list)).to_vec();
            if !lacks || !held || !holders.contains(&peer) {
                continue;
            }
            if self.is_long_expired(now, id.0, accepted) {
                // This host was away for longer than a message lives.
                self.drop_copy(key, label.number, effects);
                self.count("expired_while_away");
                continue;
            }
            if doubtful {
                // Once another host is known to have it, it is given after all.
                let number = Ranges::of(label.number, label.number);
                let partition = self.partitions.get_mut(&id).expect("it was looked at");
                partition.known.lacking_somewhere(&[(process, number)]);
                continue;
            }
            bytes += label.content_length();
            let lease = partition.lease_of((label.number, label.stamp), now.mono);
            items.push(CopyItem { label, accepted, holders, lease });
            if bytes >= gaggle_wire::frame::BATCH_BYTES {
                batches.push(std::mem::take(&mut items));
                bytes = 0;
            }
        }
        if !items.is_empty() {
            batches.push(items);
        }
        let Some(session) = self.sessions.progress_mut(peer) else { return };
        // The other may have said once too often that it has a batch.
        session.make_up_pending = session.make_up_pending.saturating_sub(1);
        session.make_up_pending += u32::try_from(batches.len()).unwrap_or(u32::MAX);
        if let (ScanEnd::More, Some(last)) = (end, last) {
            session.make_up_pending += 1;
            self.read_lacking(peer, (id, lacking), Some(last), effects);
        }
        for items in batches {
            let envelope = Envelope::MakeUp { batch: MAKE_UP, queue: id.0, partition: id.1, items };
            self.say(peer, envelope, effects);
        }
        self.make_up(now, peer, effects);
    }

    /// Whether a message expired so long ago that its tombstone may have been dropped, if there was
    /// one: nobody gives such a copy to anybody (F5).
    pub(super) fn is_long_expired(&self, now: Now, queue: QueueId, accepted: Stamp) -> bool {
        let Some(entry) = self.table.live(queue) else { return false };
        let limit = entry.settings().retention_ms.saturating_add(EXPIRY_SLACK_MS);
        now.wall.since(accepted.time) > Duration::from_millis(limit)
    }
}

/// The number of batches of made-up copies: below those of sends, which start at 1.
pub(super) const MAKE_UP: u64 = 0;
