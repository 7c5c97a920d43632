//! Reading rows: windows, what is due, what others lack, what is to be removed.
//!
//! Every read is a page; what follows is asked for when the page is here. So nothing is ever read
//! whole, and a partition's backlog costs no memory.

use std::collections::BTreeMap;

use gaggle_wire::{NodeId, Stamp};

use super::Node;
use super::copies::due_ms;
use super::expiring::Look;
use super::refilling::Doubt;
use super::twins::Twins;
use crate::custody::burial::Numbers;
use crate::custody::known::Seen;
use crate::effect::{Contents, Effect, Effects};
use crate::event::{LinkId, LoadId, ScanEnd};
use crate::ledger::key::{due_before, messages, messages_after};
use crate::ledger::{Key, MessageKey, MessageRecord, Row, Write, record};
use crate::now::Now;
use crate::queue::{Given, Head, Reach, Rule};
use crate::session::PartitionId;
use crate::timer::Timer;

/// Reads that are under way.
#[derive(Debug, Default)]
pub(super) struct Loads {
    under_way: BTreeMap<LoadId, Load>,
    next: u64,
    /// How often copies that were lost came again: what was read before may tell of the lost ones.
    pub(super) refills: u64,
    /// How often messages were stored: what was read before may not show them.
    pub(super) stored: u64,
}

#[derive(Debug)]
pub(super) enum Load {
    /// The next messages of a window, and which of its reads this is: the window may have been
    /// closed since, and begun anew.
    Window(PartitionId, u64),
    /// Delayed messages that are due.
    Due(PartitionId),
    /// A message that was due, or was lost and is here again.
    Arrival(PartitionId),
    /// Messages that a node lacks.
    Lacking { peer: NodeId, link: LinkId, id: PartitionId, lacking: Numbers },
    /// Rows whose messages are not held, or were purged.
    Sweep(PartitionId),
    /// Messages that came under another list.
    Lists(PartitionId, Numbers),
    /// Old copies that nobody else has.
    Orphans(PartitionId, Numbers),
    /// The row of a message whose content could not be read.
    Doubted(Doubt),
    /// Rows that are read to see whether they are whole.
    Scrub(PartitionId),
    /// Messages that may need one more holder.
    Replace(PartitionId),
    /// Messages that may be too old.
    Expired(Look),
    /// The first messages, to see how old they are.
    Oldest(PartitionId),
    /// Messages whose ids came again.
    Twins(Box<Twins>),
}

/// What a read found.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) rows: Vec<Row>,
    pub(super) end: ScanEnd,
    /// The messages among them whose contents are not whole, if that was checked.
    pub(super) damaged: Vec<MessageKey>,
}

/// A message row with its count of deliveries.
#[derive(Debug)]
pub(super) struct StoredRow {
    pub(super) key: MessageKey,
    pub(super) message: MessageRecord,
    pub(super) deliveries: u32,
}

impl Node {
    pub(super) fn load(
        &mut self,
        load: Load,
        (from, to): (Vec<u8>, Vec<u8>),
        limit: usize,
        effects: &mut Effects,
    ) {
        let contents = match load {
            Load::Scrub(_) | Load::Doubted(_) => Contents::Checked,
            _ => Contents::LeftAlone,
        };
        self.desk.loads.next += 1;
        let number = LoadId(self.desk.loads.next);
        self.desk.loads.under_way.insert(number, load);
        effects.push(Effect::Load { load: number, from, to, limit, contents });
    }

    pub(super) fn read_window(&mut self, id: PartitionId, effects: &mut Effects) {
        let limit = self.config.page_rows;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let range = match partition.window.start_reading() {
            None => messages(id.0, id.1),
            Some(after) => messages_after(id.0, id.1, after),
        };
        partition.reading += 1;
        let reading = partition.reading;
        self.load(Load::Window(id, reading), range, limit, effects);
    }

    /// Something of a partition is settled: reads its window anew if rows were passed over that may
    /// be handed out now.
    pub(super) fn reconsider(&mut self, id: PartitionId) {
        if let Some(partition) = self.partitions.get_mut(&id)
            && partition.passed_over
        {
            partition.close_window();
            self.reception.touch(id.0);
        }
    }

    /// What was asked for is here.
    pub(super) fn loaded(&mut self, now: Now, load: LoadId, found: Loaded, effects: &mut Effects) {
        let Some(kind) = self.desk.loads.under_way.remove(&load) else { return };
        let Loaded { rows, end, damaged } = found;
        match kind {
            Load::Window(id, reading) => {
                let partition = self.partitions.get(&id);
                if partition.is_some_and(|partition| partition.reading == reading) {
                    self.window_read(now, id, (rows, end), effects);
                }
            }
            Load::Due(id) => self.due_read(now, id, (rows, end), effects),
            Load::Arrival(id) => self.arrival_read(now, id, rows),
            Load::Lacking { peer, link, id, lacking } => {
                // Of an ended session nothing is left to do.
                if self.sessions.peer(link) == Some(peer) {
                    self.lacking_read(now, (peer, id, lacking), (rows, end), effects);
                }
            }
            Load::Expired(look) => self.expired_read(now, look, (rows, end), effects),
            Load::Oldest(id) => self.oldest_read(now, id, (rows, end), effects),
            Load::Sweep(id) => self.swept(id, (rows, end), effects),
            Load::Doubted(doubt) => self.doubted_read(now, doubt, (&rows, &damaged), effects),
            Load::Scrub(id) => {
                self.scrub_read(now, id, (rows, end), effects);
                for key in damaged {
                    self.doubt(key, None, effects);
                }
            }
            Load::Replace(id) => self.replace_read(now, id, (rows, end), effects),
            Load::Twins(twins) => {
                let (rows, last) = self.stored(rows, end);
                self.twins_read(now, *twins, (rows, last, end), effects);
            }
            Load::Lists(id, numbers) => self.lists_read((id, numbers), rows, end, effects),
            Load::Orphans(id, numbers) => {
                self.orphans_read(now, (id, numbers), (rows, end), effects);
            }
        }
    }

    /// The messages of a page with their counts, and the last stamp in it. A page that may end
    /// between a message and its count leaves the message to the next page.
    pub(super) fn stored(
        &mut self,
        rows: Vec<Row>,
        end: ScanEnd,
    ) -> (Vec<StoredRow>, Option<Stamp>) {
        let mut stored: Vec<StoredRow> = Vec::with_capacity(rows.len());
        let mut last = None;
        let torn = end == ScanEnd::More && rows.len() > 1;
        let whole = match rows.last() {
            Some(row) if torn && MessageKey::is_message(&row.key) => rows.len() - 1,
            _ => rows.len(),
        };
        for row in rows.into_iter().take(whole) {
            match Key::parse(&row.key) {
                Some(Key::Message(key)) => {
                    last = Some(key.stamp);
                    match MessageRecord::decode(&key, &row.value) {
                        Ok(message) => stored.push(StoredRow { key, message, deliveries: 0 }),
                        Err(_) => self.count("rows_damaged"),
                    }
                }
                Some(Key::Deliveries(key)) => {
                    last = Some(key.stamp);
                    if let Some(message) = stored.last_mut()
                        && message.key == key
                    {
                        message.deliveries = record::decode(&row.value).unwrap_or(1);
                    }
                }
                _ => self.count("rows_damaged"),
            }
        }
        (stored, last)
    }

    fn window_read(
        &mut self,
        now: Now,
        id: PartitionId,
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let (stored, last) = self.stored(rows, end);
        let rule = self.rule(now, id.0);
        let considered = stored.into_iter().filter_map(|row| self.consider(now, (id, rule), row));
        let heads: Vec<Head> = considered.collect();
        let reach = match (end, last) {
            (ScanEnd::More, Some(last)) => Reach::Until(last),
            _ => Reach::End,
        };
        let max = self.config.window_max;
        if let Some(partition) = self.partitions.get_mut(&id)
            && partition.window.is_reading()
        {
            partition.window.read(heads, reach, max);
            self.reception.touch(id.0);
            self.arm(now, id);
            self.answer_peeks(now, effects);
        }
    }

    /// What a row means for the window: a head that is ready, or nothing.
    fn consider(
        &mut self,
        now: Now,
        (id, rule): (PartitionId, Rule),
        stored: StoredRow,
    ) -> Option<Head> {
        let StoredRow { key, message, deliveries } = stored;
        let purged = self.table.entry(id.0)?.purged;
        let list = self.intern(id, &message.holders);
        let partition = self.partitions.get_mut(&id)?;
        let (label, accepted) = (message.label, message.accepted);
        let head = Head { label, accepted, list, deliveries };
        let seen = partition.known.seen(key.stamp.process, label.number);
        if seen != Seen::Held || accepted <= purged || partition.flights.with(key.stamp).is_some() {
            return None;
        }
        if let Some(due) = due_ms(&head)
            && due > now.wall.0 / 1_000_000
        {
            partition.next_due = Some(partition.next_due.map_or(due, |next| next.min(due)));
            return None;
        }
        if !partition.may_hand_out(&head, rule) {
            partition.passed_over = true;
            return None;
        }
        if let Some(told) = partition.told_lease(key.stamp, now.mono)
            && !partition.window.contains(key.stamp)
        {
            partition.honour(head, told, now.mono);
            return None;
        }
        Some(head)
    }

    /// Something of a partition is due: leases that ended, messages whose delay is over.
    pub(super) fn partition_due(&mut self, now: Now, id: PartitionId, effects: &mut Effects) {
        let mut ended = Vec::new();
        if let Some(partition) = self.partitions.get_mut(&id) {
            while let Some(flight) = partition.pop_ended(now.mono) {
                ended.push(flight);
            }
        }
        let expired = ended.iter().filter(|flight| flight.given == Given::Delivered).count();
        self.count_more("leases_expired", expired as u64);
        for flight in ended {
            self.count_delivery(id, &flight.head, effects);
            self.ready_again(now, id, flight.head, effects);
        }
        self.look_for_expired(now, id, effects);
        self.read_due(now, id, effects);
        self.arm(now, id);
    }

    fn read_due(&mut self, now: Now, id: PartitionId, effects: &mut Effects) {
        let wall_ms = now.wall.0 / 1_000_000;
        let limit = self.config.page_rows;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if !partition.serves_any() || partition.next_due.is_none_or(|due| due > wall_ms) {
            return;
        }
        // The first row beyond what is due says when to look again.
        partition.next_due = None;
        let (from, _) = due_before(id.0, id.1, 0);
        let (_, to) = due_before(id.0, id.1, u64::MAX);
        self.load(Load::Due(id), (from, to), limit, effects);
    }

    fn due_read(
        &mut self,
        now: Now,
        id: PartitionId,
        (rows, end): (Vec<Row>, ScanEnd),
        effects: &mut Effects,
    ) {
        let wall_ms = now.wall.0 / 1_000_000;
        let mut next = None;
        for row in rows {
            let Some(Key::Due(_, _, due, stamp)) = Key::parse(&row.key) else { continue };
            if due > wall_ms {
                next = Some(due);
                break;
            }
            effects.write(Write::Delete { key: row.key });
            self.read_arrival(MessageKey { queue: id.0, partition: id.1, stamp }, effects);
        }
        if next.is_none() && end == ScanEnd::More {
            next = Some(wall_ms);
        }
        if let (Some(next), Some(partition)) = (next, self.partitions.get_mut(&id)) {
            partition.next_due = Some(partition.next_due.map_or(next, |due| due.min(next)));
        }
        self.arm(now, id);
    }

    /// A message may be handed out from now on, if its row says so.
    pub(super) fn read_arrival(&mut self, key: MessageKey, effects: &mut Effects) {
        let from = key.encode();
        let to = [&from[..], &[u8::MAX]].concat();
        self.load(Load::Arrival((key.queue, key.partition)), (from, to), 2, effects);
    }

    fn arrival_read(&mut self, now: Now, id: PartitionId, rows: Vec<Row>) {
        let (stored, _) = self.stored(rows, ScanEnd::Reached);
        let rule = self.rule(now, id.0);
        for stored in stored {
            if let Some(head) = self.consider(now, (id, rule), stored) {
                let max = self.config.window_max;
                let partition = self.partitions.get_mut(&id).expect("it was considered in it");
                partition.window.arrive(head, max);
                self.reception.touch(id.0);
            }
        }
    }

    /// Sets the timer of a partition for what is due next.
    pub(super) fn arm(&mut self, now: Now, id: PartitionId) {
        let Some(partition) = self.partitions.get(&id) else { return };
        let timer = Timer::Partition(id.0, id.1);
        if let Some(end) = partition.flights.next_end() {
            self.timers.at_latest(timer, end);
        }
        if let (Some(due), true) = (partition.next_due, partition.serves_any()) {
            let wait = due.saturating_sub(now.wall.0 / 1_000_000);
            let wait = std::time::Duration::from_millis(wait.clamp(1, DUE_LOOK_MS));
            self.timers.at_latest(timer, now.mono.plus(wait));
        }
    }
}

pub(super) fn range_after(id: PartitionId, after: Option<Stamp>) -> (Vec<u8>, Vec<u8>) {
    match after {
        None => messages(id.0, id.1),
        Some(after) => messages_after(id.0, id.1, after),
    }
}

/// A far-away due time is looked at again so often, because the wall clock may step.
const DUE_LOOK_MS: u64 = 60_000;
