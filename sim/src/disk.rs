//! A disk, and the words that wait for it.
//!
//! Rows are durable when their commit is done, not before; a crash loses everything else, except
//! that the commit under way may just have made it. Words wait for the changes before them, as
//! the rule of write before speak says: this is the simulator's half of the driver.
//!
//! Invariant: a word is spoken after every change that stands before it is durable, and in order.
//! What this file does not do: contents of messages; a row of a message is its header here.

use std::collections::BTreeSet;

use gaggle_core::Node;
use gaggle_core::effect::Effect;
use gaggle_core::event::ScanEnd;
use gaggle_core::ledger::key::meta;
use gaggle_core::ledger::{Key, MessageKey, Row, Write, record};
use gaggle_wire::{MessageId, QueueId};

use crate::medium::{self, Medium, Rows};

/// The disk of one node.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    durable: Rows,
    /// As it will be when all is committed.
    live: Rows,
    changes: Vec<Write>,
    words: Vec<Word>,
    running: Option<(Vec<Write>, Vec<Word>)>,
    /// Messages that cannot be read back.
    damaged: BTreeSet<Vec<u8>>,
    /// A copy of what was durable once, and what of it could not be read back then.
    kept: Option<(Rows, BTreeSet<Vec<u8>>)>,
    /// What it lies on, if not on itself alone.
    medium: Option<Box<dyn Medium>>,
}

impl Disk {
    /// Lays an empty disk on a medium.
    pub(crate) fn lay_on(&mut self, medium: Box<dyn Medium>) {
        self.medium = Some(medium);
    }

    /// A change, to be made durable with the next commit.
    pub(crate) fn write(&mut self, write: Write) {
        apply(&mut self.live, &write);
        self.changes.push(write);
    }

    /// A word, and when it was said: given back if it may be spoken now.
    pub(crate) fn say(&mut self, word: Effect, now: u64) -> Option<Effect> {
        if !self.changes.is_empty() {
            self.words.push((word, now));
            return None;
        }
        match &mut self.running {
            Some((_, words)) => {
                words.push((word, now));
                None
            }
            None => Some(word),
        }
    }

    /// Starts a commit of what has gathered; whether there was anything, and none under way.
    pub(crate) fn start(&mut self) -> bool {
        if self.changes.is_empty() || self.running.is_some() {
            return false;
        }
        let group = (std::mem::take(&mut self.changes), std::mem::take(&mut self.words));
        self.running = Some(group);
        true
    }

    /// How many changes of this kind are in the commit under way.
    pub(crate) fn written(&self, kind: impl Fn(&Write) -> bool) -> usize {
        let changes = self.running.iter().flat_map(|(changes, _)| changes);
        changes.filter(|change| kind(change)).count()
    }

    /// Whether a commit is under way.
    pub(crate) fn is_committing(&self) -> bool {
        self.running.is_some()
    }

    /// The commit is done; what may be spoken now.
    pub(crate) fn end(&mut self) -> Vec<Word> {
        let (changes, words) = self.running.take().expect("a commit ends once");
        for change in &changes {
            apply(&mut self.durable, change);
            self.forget_damage(change);
        }
        if let Some(medium) = &mut self.medium {
            medium.commit(&changes);
        }
        words
    }

    /// The process died; whether the commit under way had just been made.
    pub(crate) fn crash(&mut self, commit: LastCommit) {
        let running = self.running.take().map_or_else(Vec::new, |(changes, _)| changes);
        let mut made = self.durable.clone();
        for change in &running {
            apply(&mut made, change);
        }
        let commit = match &mut self.medium {
            Some(medium) => medium::die(&mut **medium, &running, (&self.durable, &made)),
            None => commit,
        };
        if commit == LastCommit::Made {
            self.durable = made;
            running.iter().for_each(|change| self.forget_damage(change));
        }
        self.changes.clear();
        self.words.clear();
        self.live = self.durable.clone();
    }

    /// A copy is taken of what is durable, unless that is nothing.
    pub(crate) fn keep(&mut self) {
        if !self.durable.is_empty() {
            self.kept = Some((self.durable.clone(), self.damaged.clone()));
        }
    }

    /// Whether a copy was taken.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether there is this message in the copy.
    pub(crate) fn has_kept(&self, key: MessageKey) -> bool {
        self.kept.as_ref().is_some_and(|(rows, _)| rows.contains_key(&key.encode()))
    }

    /// The copy takes the place of what is durable, and nobody runs on it; whether that is another.
    pub(crate) fn put_back(&mut self) -> bool {
        let Some((rows, damaged)) = self.kept.clone() else { return false };
        let another = rows != self.durable;
        if let Some(medium) = &mut self.medium {
            medium.commit(&medium::replacing(&rows));
        }
        (self.durable, self.damaged) = (rows, damaged);
        self.live = self.durable.clone();
        another
    }

    /// All is lost, but for a copy.
    pub(crate) fn wipe(&mut self) {
        *self = Self { medium: self.medium.take(), kept: self.kept.take(), ..Self::default() };
        if let Some(medium) = &mut self.medium {
            medium.wipe();
        }
    }

    /// All durable rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let row =
            |(key, value): (&Vec<u8>, &Vec<u8>)| Row { key: key.clone(), value: value.clone() };
        let rows = self.durable.iter().map(row).collect();
        let rows = match &self.medium {
            Some(medium) => medium::checked(medium.rows(), rows),
            None => rows,
        };
        rows.into_iter()
    }

    /// Durable rows of a range.
    pub(crate) fn read(&self, from: &[u8], to: &[u8], limit: usize) -> (Vec<Row>, ScanEnd) {
        let range = from.to_vec()..to.to_vec();
        if range.is_empty() {
            return (Vec::new(), ScanEnd::Reached);
        }
        let mut rows: Vec<Row> = self
            .durable
            .range(range)
            .take(limit + 1)
            .map(|(key, value)| Row { key: key.clone(), value: value.clone() })
            .collect();
        let end = if rows.len() > limit { ScanEnd::More } else { ScanEnd::Reached };
        rows.truncate(limit);
        match &self.medium {
            Some(medium) => medium::checked(medium.read(from, to, limit), (rows, end)),
            None => (rows, end),
        }
    }

    /// Rows of messages vanish from the platter, as if they had never been written. The process
    /// that runs on the disk knows nothing of it.
    pub(crate) fn vanish(&mut self, keys: &[MessageKey]) {
        self.rot(keys);
        for key in keys {
            self.durable.remove(&key.encode());
            self.live.remove(&key.encode());
        }
        if let Some(medium) = &mut self.medium {
            let gone = keys.iter().map(|key| Write::Delete { key: key.encode() });
            medium.commit(&gone.collect::<Vec<_>>());
        }
    }

    /// Rows of messages cannot be read at all any more: they lie there and say nothing. The process
    /// that runs on the disk knows nothing of it.
    pub(crate) fn rot_headers(&mut self, keys: &[MessageKey]) {
        if self.medium.is_some() {
            // A store that checks its pages gives no such row.
            return self.vanish(keys);
        }
        self.rot(keys);
        for key in keys {
            for rows in [&mut self.durable, &mut self.live] {
                rows.entry(key.encode()).and_modify(Vec::clear);
            }
        }
    }

    /// Contents of messages are damaged. The process that runs on the disk knows nothing of it.
    pub(crate) fn rot(&mut self, keys: &[MessageKey]) {
        self.damaged.extend(keys.iter().map(|key| key.encode()));
    }

    /// Whether all can be read back.
    pub(crate) fn is_sound(&self) -> bool {
        self.damaged.is_empty()
    }

    /// Whether a message cannot be read back.
    pub(crate) fn is_damaged(&self, key: MessageKey) -> bool {
        self.is_damaged_row(&key.encode())
    }

    /// Whether a row cannot be read back.
    pub(crate) fn is_damaged_row(&self, key: &[u8]) -> bool {
        self.damaged.contains(key)
    }

    /// Durable messages, in key order.
    pub(crate) fn stored(&self) -> Vec<MessageKey> {
        self.durable.keys().filter_map(|key| MessageKey::parse(key)).collect()
    }

    /// What is written anew is whole, and what is removed is not looked for.
    fn forget_damage(&mut self, write: &Write) {
        match write {
            Write::PutMessage { key, .. } => drop(self.damaged.remove(&key.encode())),
            Write::Delete { key } => drop(self.damaged.remove(key)),
            Write::DeleteRange { from, to } => {
                self.damaged.retain(|key| !(from..to).contains(&key));
            }
            Write::Put { .. } | Write::PutHeader { .. } => {}
        }
    }

    /// Whether a message lies here or is about to.
    pub(crate) fn has(&self, key: MessageKey) -> bool {
        self.live.contains_key(&key.encode())
    }

    /// Messages that lie here, or are about to, in a range of keys.
    pub(crate) fn messages(&self, from: &[u8], to: &[u8]) -> Vec<MessageKey> {
        if from >= to {
            return Vec::new();
        }
        let rows = self.live.range(from.to_vec()..to.to_vec());
        rows.filter_map(|(key, _)| MessageKey::parse(key)).collect()
    }

    /// Whether a message is durable here, be it damaged.
    pub(crate) fn keeps(&self, key: MessageKey) -> bool {
        self.keeps_row(&key.encode())
    }

    /// Its name, if it has one: the last that it was given.
    pub(crate) fn store(&self) -> Option<u128> {
        let row = |name| self.durable.get(&Key::Meta(name).encode());
        let row = row(meta::RENAMED).or_else(|| row(meta::STORE))?;
        record::decode(row).ok()
    }

    /// Whether there is a durable row.
    pub(crate) fn keeps_row(&self, key: &[u8]) -> bool {
        self.durable.contains_key(key)
    }

    /// Whether a durable row is a tombstone of this message.
    pub(crate) fn buries(&self, queue: QueueId, partition: u16, id: MessageId) -> bool {
        let key = |block| Key::Tombstones(queue, partition, block).encode();
        let mut blocks = self.durable.range(key(0)..=key(u64::MAX));
        blocks.any(|(_, value)| Node::is_tombstone_of(value, id))
    }

    /// Keys of durable rows.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &Vec<u8>> {
        self.durable.keys()
    }
}

/// What became of a commit during which the process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastCommit {
    Made,
    Lost,
}

pub(crate) fn apply(rows: &mut Rows, write: &Write) {
    match write {
        Write::Put { key, value } => {
            rows.insert(key.clone(), value.clone());
        }
        Write::PutMessage { key, header, .. } => {
            rows.insert(key.encode(), header.clone());
        }
        Write::PutHeader { key, header } => {
            if let Some(value) = rows.get_mut(&key.encode()) {
                value.clone_from(header);
            }
        }
        Write::Delete { key } => {
            rows.remove(key);
        }
        Write::DeleteRange { from, to } => {
            let keys: Vec<Vec<u8>> =
                rows.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
            for key in keys {
                rows.remove(&key);
            }
        }
    }
}

/// What waits for a commit, and since when.
pub(crate) type Word = (Effect, u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: u8) -> Write {
        Write::Put { key: vec![key], value: vec![key] }
    }

    fn keys(disk: &Disk) -> Vec<u8> {
        disk.keys().map(|key| key[0]).collect()
    }

    #[test]
    fn a_word_waits_for_the_changes_before_it_only() {
        let mut disk = Disk::default();
        assert_eq!(disk.say(Effect::Drained, 7), Some(Effect::Drained));
        disk.write(put(1));
        assert_eq!(disk.say(Effect::Drained, 7), None);
        assert!(disk.start());
        disk.write(put(2));
        assert!(!disk.start(), "one commit at a time");
        assert_eq!(disk.end(), [(Effect::Drained, 7)]);
        assert_eq!(keys(&disk), [1]);
    }

    #[test]
    fn a_disk_is_put_back_to_what_was_durable_when_a_copy_was_taken() {
        let mut disk = Disk::default();
        disk.keep();
        assert!(!disk.is_kept(), "of nothing there is no copy");
        for key in 1..=3 {
            disk.write(put(key));
            disk.start();
            if key == 2 {
                disk.keep();
            }
            disk.end();
        }
        disk.wipe();
        assert!(disk.put_back());
        assert_eq!(keys(&disk), [1]);
        assert!(!disk.put_back(), "that is what it is now");
    }

    #[test]
    fn a_crash_loses_what_was_not_durable() {
        for (commit, left) in [(LastCommit::Lost, vec![1]), (LastCommit::Made, vec![1, 2])] {
            let mut disk = Disk::default();
            disk.write(put(1));
            disk.start();
            disk.end();
            disk.write(put(2));
            disk.start();
            disk.write(put(3));
            disk.crash(commit);
            assert_eq!(keys(&disk), left);
        }
    }
}
