//! The table: which queues there are, with which settings, and which nodes are to leave or were
//! removed. Every node has all of it.
//!
//! Entries spread as deltas and are made equal at the start of every session. Nothing is agreed
//! upon: the last writer of a field wins, by stamp, and a new stamp is above the present one, so
//! that no stamp from the future bars a correction. Two live queues of one name (made on two
//! sides of a cut) are one queue to clients: sends go to the smaller id, receives serve both,
//! deletion takes both.
//!
//! Invariants: merging is commutative, associative and idempotent; a deleted entry never lives
//! again (P13). What this room does not do: it does not send or store entries, it does not place
//! messages (that is [`rendezvous`]).

pub(crate) mod removals;
pub mod rendezvous;

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{Order, QueueDescription, QueueId, QueueName, Settings, Stamp};
use serde::{Deserialize, Serialize};

use crate::rounds::Pinned;
use removals::Removals;
pub use removals::{Removal, Stage};

/// A queue in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The stamp of its creation.
    pub id: QueueId,
    /// Its name.
    pub name: QueueName,
    settings: Settings,
    /// Of a strict queue: the hosts with which each partition began.
    pinned: Vec<Pinned>,
    /// Of the settings, in the order of [`FIELDS`].
    stamps: [Stamp; 9],
    /// Messages accepted before this were dropped.
    pub purged: Stamp,
    /// When it was deleted; [`Stamp::ZERO`] while it lives.
    deleted: Stamp,
}

impl Entry {
    /// A new queue.
    #[must_use]
    pub fn new(id: QueueId, name: QueueName, settings: Settings) -> Self {
        let (stamps, pinned) = ([id.0; 9], Vec::new());
        Self { id, name, settings, pinned, stamps, purged: Stamp::ZERO, deleted: Stamp::ZERO }
    }

    /// A new strict queue, whose partitions begin with these hosts.
    #[must_use]
    pub fn strict(self, pinned: Vec<Pinned>) -> Self {
        Self { pinned, ..self }
    }

    /// Whether it is a strict one.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.settings.order == Order::Strict
    }

    /// The hosts with which a partition of a strict queue began.
    #[must_use]
    pub fn pinned(&self, partition: u16) -> Option<&Pinned> {
        self.pinned.get(usize::from(partition))
    }

    /// Its settings. Two changes of different fields may contradict each other after a merge; the
    /// larger demand gives way.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let confirms = self.settings.confirms.min(self.settings.replicas);
        let at_least = self.settings.at_least.min(confirms);
        Settings { confirms, at_least, ..self.settings }
    }

    /// Whether it was deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.deleted != Stamp::ZERO
    }

    /// As clients see it.
    #[must_use]
    pub fn describe(&self) -> QueueDescription {
        QueueDescription { id: self.id, name: self.name.clone(), settings: self.settings() }
    }

    /// Sets the fields that differ, with a stamp above their present ones.
    pub fn set(&mut self, settings: Settings, now: Stamp) {
        for (field, stamp) in FIELDS.iter().zip(&mut self.stamps) {
            if !field.equal(&self.settings, &settings) {
                field.copy(&settings, &mut self.settings);
                *stamp = above(*stamp, now);
            }
        }
    }

    /// Drops every message accepted before now.
    pub fn purge(&mut self, now: Stamp) {
        self.purged = above(self.purged, now);
    }

    /// Deletes it, for ever.
    pub fn delete(&mut self, now: Stamp) {
        self.deleted = self.deleted.max(now);
    }

    fn merge(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (at, field) in FIELDS.iter().enumerate() {
            if other.stamps[at] > self.stamps[at] {
                field.copy(&other.settings, &mut self.settings);
                self.stamps[at] = other.stamps[at];
            }
        }
        self.purged = self.purged.max(other.purged);
        self.deleted = self.deleted.max(other.deleted);
        *self != before
    }
}

/// A stamp above the present one, and the stamp of now if that is.
pub(crate) fn above(present: Stamp, now: Stamp) -> Stamp {
    if now > present { now } else { Stamp { time: present.time.saturating_add(1), ..now } }
}

#[derive(Clone, Copy)]
enum Field {
    Visibility,
    Replicas,
    Confirms,
    AtLeast,
    MessageSize,
    Retention,
    Delay,
    Window,
    LateBy,
}

const FIELDS: [Field; 9] = [
    Field::Visibility,
    Field::Replicas,
    Field::Confirms,
    Field::AtLeast,
    Field::MessageSize,
    Field::Retention,
    Field::Delay,
    Field::Window,
    Field::LateBy,
];

impl Field {
    fn copy(self, from: &Settings, to: &mut Settings) {
        match self {
            Self::Visibility => to.visibility_timeout_ms = from.visibility_timeout_ms,
            Self::Replicas => to.replicas = from.replicas,
            Self::Confirms => to.confirms = from.confirms,
            Self::AtLeast => to.at_least = from.at_least,
            Self::MessageSize => to.message_size_max = from.message_size_max,
            Self::Retention => to.retention_ms = from.retention_ms,
            Self::Delay => to.delay_ms = from.delay_ms,
            Self::Window => to.window_ms = from.window_ms,
            Self::LateBy => to.late_by = from.late_by,
        }
    }

    fn equal(self, a: &Settings, b: &Settings) -> bool {
        let mut changed = *a;
        self.copy(b, &mut changed);
        changed == *a
    }
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<QueueId, Entry>,
    /// Live queues only.
    names: BTreeMap<QueueName, BTreeSet<QueueId>>,
    /// Queues that were deleted.
    deleted: BTreeMap<QueueId, Age>,
    removals: Removals,
}

/// How long something has been so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// Since a moment ago.
    New,
    /// For longer.
    Old,
}

impl Table {
    /// The live queue of this id.
    pub(crate) fn live(&self, id: QueueId) -> Option<&Entry> {
        self.entries.get(&id).filter(|entry| !entry.is_deleted())
    }

    /// The entry of this id, be it deleted.
    pub(crate) fn entry(&self, id: QueueId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// The live queues of this name, smallest id first.
    pub(crate) fn named(&self, name: &QueueName) -> Vec<&Entry> {
        self.names.get(name).into_iter().flatten().map(|id| &self.entries[id]).collect()
    }

    /// All entries, deleted ones among them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// One live entry per name that starts with this text, by name, after this one.
    pub(crate) fn page(
        &self,
        prefix: &str,
        after: Option<&QueueName>,
    ) -> impl Iterator<Item = &Entry> {
        use std::ops::Bound;
        let from = after.map_or("", QueueName::as_str);
        let from = if from < prefix { Bound::Included(prefix) } else { Bound::Excluded(from) };
        self.names
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(move |(name, _)| name.as_str().starts_with(prefix))
            .filter_map(|(_, ids)| ids.first().map(|id| &self.entries[id]))
    }

    /// How many live names there are.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Which nodes are to leave, and which have been removed.
    pub(crate) fn removals(&self) -> &Removals {
        &self.removals
    }

    /// Takes a removal in; the merged one if it brought anything new.
    pub(crate) fn merge_removal(&mut self, removal: &Removal) -> Option<Removal> {
        self.removals.merge(removal)
    }

    /// How many entries there are, deleted ones among them.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What is deleted now is deleted for longer from now on.
    pub(crate) fn grow_old(&mut self) {
        self.deleted.values_mut().for_each(|age| *age = Age::Old);
    }

    /// Queues that have been deleted for longer.
    pub(crate) fn long_deleted(&self) -> impl Iterator<Item = QueueId> {
        let old = self.deleted.iter().filter(|(_, age)| **age == Age::Old);
        old.map(|(queue, _)| *queue)
    }

    /// Forgets a queue that was deleted; whether there was one.
    pub(crate) fn forget(&mut self, queue: QueueId) -> bool {
        self.deleted.remove(&queue).is_some() && self.entries.remove(&queue).is_some()
    }

    /// Takes an entry in; the merged one if it brought anything new.
    pub(crate) fn merge(&mut self, entry: &Entry) -> Option<&Entry> {
        let changed = match self.entries.get_mut(&entry.id) {
            Some(present) => present.merge(entry),
            None => {
                self.entries.insert(entry.id, entry.clone());
                true
            }
        };
        if !changed {
            return None;
        }
        let merged = &self.entries[&entry.id];
        if merged.is_deleted() {
            self.deleted.entry(merged.id).or_insert(Age::New);
            if let Some(ids) = self.names.get_mut(&merged.name) {
                ids.remove(&merged.id);
                if ids.is_empty() {
                    self.names.remove(&merged.name);
                }
            }
        } else {
            self.names.entry(merged.name.clone()).or_default().insert(merged.id);
        }
        Some(merged)
    }
}

/// Names of the settings in which two differ.
pub(crate) fn differences(a: &Settings, b: &Settings) -> Vec<String> {
    let named: [(&str, Field); FIELDS.len()] = [
        ("visibility", Field::Visibility),
        ("replicas", Field::Replicas),
        ("confirms", Field::Confirms),
        ("at-least", Field::AtLeast),
        ("message-size-max", Field::MessageSize),
        ("retention", Field::Retention),
        ("delay", Field::Delay),
        ("window", Field::Window),
        ("late-by", Field::LateBy),
    ];
    let mut differs: Vec<String> = named
        .iter()
        .filter(|(_, field)| !field.equal(a, b))
        .map(|(name, _)| (*name).to_owned())
        .collect();
    if a.partitions != b.partitions {
        differs.push("partitions".to_owned());
    }
    differs
}

#[cfg(test)]
mod tests {
    use gaggle_wire::ProcessId;

    use super::*;

    fn at(time: u64) -> Stamp {
        Stamp { time, count: 0, process: ProcessId(1) }
    }

    fn entry(time: u64) -> Entry {
        Entry::new(QueueId(at(time)), QueueName::parse("orders").unwrap(), Settings::default())
    }

    #[test]
    fn the_last_writer_of_a_field_wins_in_any_order() {
        let (mut a, mut b) = (entry(1), entry(1));
        a.set(Settings { delay_ms: 5, replicas: 5, ..a.settings() }, at(10));
        b.set(Settings { delay_ms: 7, confirms: 3, ..b.settings() }, at(11));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        assert!(ab.merge(&b) && ba.merge(&a));
        assert_eq!(ab, ba);
        assert!(!ab.merge(&b), "merging again changes nothing");
        let merged = ab.settings();
        assert_eq!((merged.delay_ms, merged.replicas, merged.confirms), (7, 5, 3));
    }

    #[test]
    fn no_stamp_from_the_future_bars_a_correction() {
        let mut a = entry(1);
        a.set(Settings { delay_ms: 5, ..a.settings() }, at(u64::MAX - 1));
        let mut b = a.clone();
        b.set(Settings { delay_ms: 6, ..b.settings() }, at(10));
        assert!(a.merge(&b));
        assert_eq!(a.settings().delay_ms, 6);
    }

    #[test]
    fn a_deleted_queue_does_not_come_back() {
        let mut table = Table::default();
        let live = entry(1);
        assert!(table.merge(&live).is_some());
        let mut dead = live.clone();
        dead.delete(at(5));
        assert!(table.merge(&dead).is_some());
        assert!(table.merge(&live).is_none());
        assert!(table.live(live.id).is_none() && table.named(&live.name).is_empty());
        assert!(table.merge(&entry(9)).is_some(), "a new incarnation is another queue");
        assert_eq!(table.named(&live.name).len(), 1);
    }

    #[test]
    fn of_two_queues_of_one_name_the_smaller_id_comes_first() {
        let mut table = Table::default();
        table.merge(&entry(9));
        table.merge(&entry(3));
        let ids: Vec<u64> =
            table.named(&entry(1).name).iter().map(|entry| entry.id.0.time).collect();
        assert_eq!(ids, [3, 9]);
        assert_eq!(table.page("", None).count(), 1);
    }

    #[test]
    fn differing_settings_are_named() {
        let other = Settings { partitions: 4, delay_ms: 1, ..Settings::default() };
        assert_eq!(differences(&Settings::default(), &other), ["delay", "partitions"]);
    }
}
