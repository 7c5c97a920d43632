//! Expiry: messages that reached their age are gone, as if deleted; their custodian says so.
//!
//! Rows lie in the order of their producers' stamps, while ages count from acceptance. But no stamp
//! is further ahead of its acceptance than the drift bound, so all that is too old lies before a
//! stamp that is known. The custodian reads from the first row up to there, a page at a time,
//! whether anybody wants the queue or not, and what it finds behind says when to look again.
//!
//! Bounded: one page per partition and a few per node are read at a time, and the next one is read
//! once what the last one showed is written. What this file does not do: how a deletion travels is
//! in `deleting.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{NodeId, QueueId, Stamp};

use super::Node;
use super::deleting::Group;
use super::loading::{Load, range_after};
use crate::custody::burial::merge_numbers;
use crate::custody::known::Seen;
use crate::effect::Effects;
use crate::event::ScanEnd;
use crate::ledger::Row;
use crate::now::{Mono, Now};
use crate::ranges::Ranges;
use crate::session::PartitionId;

/// A look through the rows of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    id: PartitionId,
    /// The first acceptance that was found to expire later, as wall nanoseconds.
    next: Option<u64>,
    /// Whether something too old was left: in flight, or in another's custody.
    left: bool,
}

impl Node {
    /// What was accepted before this, as wall nanoseconds, is too old for its queue.
    pub(super) fn oldest_allowed(&self, now: Now, queue: QueueId) -> Option<u64> {
        let retention_ms = self.table.live(queue)?.settings().retention_ms;
        Some(now.wall.0.saturating_sub(retention_ms.saturating_mul(1_000_000)))
    }

    /// Looks for what is too old, if it is time to.
    pub(super) fn look_for_expired(&mut self, now: Now, id: PartitionId, effects: &mut Effects) {
        let known = self.table.live(id.0).is_some();
        let busy = self.desk.looks >= LOOKS_MAX;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let due = partition.look_at <= now.mono && !partition.looking;
        if known && due && !busy && partition.serves_any() && !partition.is_strict() {
            let look = Look { id, next: None, left: false };
            self.read_expired(look, None, effects);
        }
    }

    fn read_expired(&mut self, look: Look, after: Option<Stamp>, effects: &mut Effects) {
        if let Some(partition) = self.partitions.get_mut(&look.id) {
            partition.looking = true;
            self.desk.looks += 1;
            let (range, limit) = (range_after(look.id, after), self.config.page_rows);
            self.load(Load::Expired(look), range, limit, effects);
        }
    }

    pub(super) fn expired_read(
        &mut self,
        now: Now,
        mut look: Look,
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let id = look.id;
        self.desk.looks -= 1;
        let (stored, last) = self.stored(rows, end);
        let allowed = self.oldest_allowed(now, id.0);
        let drift = u64::try_from(self.config.drift_max.as_nanos()).unwrap_or(u64::MAX);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.looking = false;
        let Some(allowed) = allowed else { return };
        let mut groups: BTreeMap<Vec<NodeId>, Group> = BTreeMap::new();
        let mut over = end == ScanEnd::Reached;
        for row in stored {
            let (stamp, number) = (row.key.stamp, row.message.label.number);
            let accepted = row.message.accepted.time;
            if stamp.time > allowed.saturating_add(drift) {
                look.found(stamp.time - drift);
                over = true;
                break;
            }
            if partition.known.seen(stamp.process, number) != Seen::Held {
                continue;
            }
            if accepted >= allowed {
                look.found(accepted);
                continue;
            }
            let list = partition.lists.of(stamp.process, number);
            let list = list.filter(|list| partition.serves(*list));
            let Some(list) = list.filter(|_| partition.flights.with(stamp).is_none()) else {
                look.left = true;
                continue;
            };
            let group = groups.entry(partition.holders(list).to_vec()).or_default();
            let numbers = Ranges::of(number, number);
            merge_numbers(&mut group.messages, &[(stamp.process, numbers)]);
            group.stamps.push(stamp);
        }
        for (holders, group) in groups {
            self.count_more("expired", group.stamps.len() as u64);
            // Nobody asked, so nobody is answered: the batch is one that does not exist.
            self.delete_group(now, 0, (id, holders, group), effects);
        }
        match last {
            Some(last) if !over => self.read_expired(look, Some(last), effects),
            _ => self.look_again(now, look),
        }
    }

    fn look_again(&mut self, now: Now, look: Look) {
        let Some(allowed) = self.oldest_allowed(now, look.id.0) else { return };
        let Some(partition) = self.partitions.get_mut(&look.id) else { return };
        let next = look.next.map(|next| Duration::from_nanos(next.saturating_sub(allowed)));
        let left = look.left.then_some(LOOK_AFTER_LEFT);
        let wait = next.into_iter().chain(left).min().unwrap_or(LOOK_MAX);
        // In between somebody may have set another look.
        partition.look_at = now.mono.plus(wait.min(LOOK_MAX));
    }

    /// What is known of when to look is void: the queue's settings or who is custodian changed.
    pub(super) fn look_soon(&mut self, queue: QueueId) {
        for (_, partition) in self.partitions.range_mut((queue, 0)..=(queue, u16::MAX)) {
            partition.look_at = Mono(0);
        }
    }
}

impl Look {
    fn found(&mut self, accepted: u64) {
        self.next = Some(self.next.map_or(accepted, |next| next.min(accepted)));
    }
}

/// Looks that are under way at once on a node.
const LOOKS_MAX: usize = 4;
/// How long what is in flight, or in another's custody, is left alone.
const LOOK_AFTER_LEFT: Duration = Duration::from_secs(5);
/// The longest between two looks: copies that were made up may be older than all that was there.
const LOOK_MAX: Duration = Duration::from_mins(1);
