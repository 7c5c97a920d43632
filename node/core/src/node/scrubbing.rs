//! The check of all rows that goes on in the background.
//!
//! What a scan passes is noted; what is held and was not passed has no row any more, or a damaged
//! one. Rows that cannot be parsed go: nothing else would ever find them again. So do those that
//! count deliveries and whose message is not here any more, as their own rows do not say which one
//! it was: once no message of its process is counted, such a row is nobody's. Until then it stays,
//! as it may be that of a message that was lost and comes again (F6).
//!
//! Invariant: what was stored while a page was read is not removed for what the page shows.

use std::ops::Bound;

use gaggle_wire::Stamp;

use super::Node;
use super::copies::Rows;
use super::loading::{Load, range_after};
use crate::custody::scrub::Stand;
use crate::effect::Effects;
use crate::event::ScanEnd;
use crate::ledger::{Key, MessageKey, MessageRecord, Row, Write};
use crate::now::Now;
use crate::session::PartitionId;
use crate::timer::Timer;

impl Node {
    /// Goes on with the scrub, if it has been paid for.
    pub(super) fn scrub_on(&mut self, now: Now, effects: &mut Effects) {
        let next = self.scrub.pace.next();
        if now.mono < next {
            self.timers.at_latest(Timer::Scrub, next);
            return;
        }
        match self.scrub.stand {
            Stand::Reading => {}
            Stand::Behind(id, stamp) => self.read_scrub(id, Some(stamp), effects),
            Stand::Rest => {
                self.scrub.began = now.mono;
                let first = self.partitions.keys().next().copied();
                self.scrub_partition(now, first, effects);
            }
            Stand::Before(id) => {
                let first = self.partitions.range(id..).next().map(|(id, _)| *id);
                self.scrub_partition(now, first, effects);
            }
        }
    }

    /// Begins with a partition, or ends the pass.
    fn scrub_partition(&mut self, now: Now, id: Option<PartitionId>, effects: &mut Effects) {
        let partition = id.and_then(|id| self.partitions.get_mut(&id).map(|found| (id, found)));
        if let Some((id, partition)) = partition {
            partition.known.begin_scrub();
            self.read_scrub(id, None, effects);
            return;
        }
        self.count("scrubs");
        self.scrub.stand = Stand::Rest;
        let again = self.scrub.began.plus(self.config.scrub_every).max(now.mono);
        self.timers.at_latest(Timer::Scrub, again);
    }

    fn read_scrub(&mut self, id: PartitionId, after: Option<Stamp>, effects: &mut Effects) {
        self.scrub.stand = Stand::Reading;
        self.scrub.stored = self.desk.loads.stored;
        let limit = self.config.page_rows;
        self.load(Load::Scrub(id), range_after(id, after), limit, effects);
    }

    /// A page is here; what is behind its headers is looked at by the caller.
    pub(super) fn scrub_read(
        &mut self,
        now: Now,
        id: PartitionId,
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let (mut bytes, mut last, mut message) = (0, None, None);
        for row in &rows {
            bytes += ROW_COST;
            match Key::parse(&row.key) {
                Some(Key::Message(key)) => {
                    bytes += self.scrub_message(key, row, effects);
                    (last, message) = (Some(key.stamp), Some(key));
                }
                Some(Key::Deliveries(key)) => {
                    if message != Some(key) {
                        self.scrub_count(key, effects);
                    }
                    last = Some(key.stamp);
                }
                _ => {}
            }
        }
        self.scrub.pace.pay(now.mono, (bytes, 0), self.config.scrub_rate);
        self.scrub.stand = match (end, last) {
            (ScanEnd::More, Some(last)) => Stand::Behind(id, last),
            _ => {
                self.scrub_ended(id);
                let after = (Bound::Excluded(id), Bound::Unbounded);
                let next = self.partitions.range(after).next();
                next.map_or(Stand::Before(END), |(id, _)| Stand::Before(*id))
            }
        };
        self.scrub_on(now, effects);
    }

    /// The row of a message was read; how much content it has.
    fn scrub_message(&mut self, key: MessageKey, row: &Row, effects: &mut Effects) -> u64 {
        let partition = self.partitions.get_mut(&(key.queue, key.partition));
        match (MessageRecord::decode(&key, &row.value), partition) {
            (Ok(message), partition) => {
                if let Some(partition) = partition {
                    partition.known.scrubbed(key.stamp.process, message.label.number);
                }
                message.label.content_length() as u64
            }
            // It may have been stored again since: the next pass will see.
            (Err(_), _) if self.scrub.stored != self.desk.loads.stored => 0,
            (Err(_), partition) => {
                let number = partition.and_then(|partition| partition.number_at(key.stamp));
                self.count("rows_damaged");
                if let Some(number) = number {
                    self.lose(key, number);
                }
                // Its count stays: it may be here again.
                Self::remove_rows(key, Rows::Message, effects);
                0
            }
        }
    }

    /// A row was read that counts deliveries of a message which has none.
    fn scrub_count(&mut self, key: MessageKey, effects: &mut Effects) {
        let partition = self.partitions.get(&(key.queue, key.partition));
        if partition.is_none_or(|partition| !partition.known.counts_any(key.stamp.process)) {
            effects.write(Write::Delete { key: Key::Deliveries(key).encode() });
        }
    }

    /// All rows of a partition were read.
    fn scrub_ended(&mut self, id: PartitionId) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let mut missing = 0;
        for (process, numbers) in partition.known.end_scrub() {
            missing += partition.known.lose(process, &numbers).size();
        }
        if missing > 0 {
            partition.window.drop_gone(&partition.known);
            partition.fetch_at = crate::now::Mono(0);
            self.count_more("copies_lost", missing);
        }
    }
}

/// Behind every partition.
const END: PartitionId = (gaggle_wire::QueueId(Stamp::MAX), u16::MAX);
/// What a row costs beside its content.
const ROW_COST: u64 = 128;
