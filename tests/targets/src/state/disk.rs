//! A disk: changes that are durable when their commit ends, and words that wait for them.
//!
//! Invariant: a word is given back only after every change before it is durable (write before
//! speak). What this file does not do: contents of messages; a row of a message is its header.

use std::collections::BTreeMap;

use gaggle_core::effect::Effect;
use gaggle_core::event::ScanEnd;
use gaggle_core::ledger::{Row, Write};

/// The disk of one node.
#[derive(Debug, Default)]
pub(super) struct Disk {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What waits for the next commit.
    waiting: Group,
    /// What the commit that is under way makes durable.
    running: Option<Group>,
}

/// Changes, and the words behind them.
#[derive(Debug, Default)]
struct Group {
    changes: Vec<Write>,
    words: Vec<Effect>,
}

/// What became of a commit during which the process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastCommit {
    Made,
    Lost,
}

impl Disk {
    /// A disk with these rows.
    pub(super) fn with(rows: Vec<Row>) -> Self {
        let rows = rows.into_iter().map(|Row { key, value }| (key, value)).collect();
        Self { rows, ..Self::default() }
    }

    pub(super) fn write(&mut self, write: Write) {
        self.waiting.changes.push(write);
    }

    /// A word: given back if it may be spoken now.
    pub(super) fn say(&mut self, word: Effect) -> Option<Effect> {
        let group = if self.waiting.changes.is_empty() {
            self.running.as_mut()
        } else {
            Some(&mut self.waiting)
        };
        match group {
            Some(group) => {
                group.words.push(word);
                None
            }
            None => Some(word),
        }
    }

    /// A commit begins, unless one is under way or nothing is to be written.
    pub(super) fn begin(&mut self) {
        if self.running.is_none() && !self.waiting.changes.is_empty() {
            self.running = Some(std::mem::take(&mut self.waiting));
        }
    }

    /// The commit that is under way is done; what may be said now.
    pub(super) fn end(&mut self) -> Vec<Effect> {
        let Group { changes, words } = self.running.take().unwrap_or_default();
        for change in changes {
            self.apply(change);
        }
        words
    }

    /// The process died, and with it all that was not durable.
    pub(super) fn crash(&mut self, commit: LastCommit) {
        if commit == LastCommit::Made {
            self.end();
        }
        *self = Self { rows: std::mem::take(&mut self.rows), ..Self::default() };
    }

    /// Whether all is durable.
    pub(super) fn is_still(&self) -> bool {
        self.running.is_none() && self.waiting.changes.is_empty()
    }

    /// All durable rows.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.rows.iter().map(row).collect()
    }

    /// Durable rows of a range.
    pub(super) fn read(&self, from: &[u8], to: &[u8], limit: usize) -> (Vec<Row>, ScanEnd) {
        if from >= to {
            return (Vec::new(), ScanEnd::Reached);
        }
        let mut range = self.rows.range(from.to_vec()..to.to_vec());
        let rows = range.by_ref().take(limit).map(row).collect();
        (rows, if range.next().is_some() { ScanEnd::More } else { ScanEnd::Reached })
    }

    fn apply(&mut self, write: Write) {
        match write {
            Write::Put { key, value } => {
                self.rows.insert(key, value);
            }
            Write::PutMessage { key, header, .. } => {
                self.rows.insert(key.encode(), header);
            }
            Write::PutHeader { key, header } => {
                self.rows.entry(key.encode()).and_modify(|value| *value = header);
            }
            Write::Delete { key } => {
                self.rows.remove(&key);
            }
            Write::DeleteRange { from, to } => {
                self.rows.retain(|key, _| *key < from || *key >= to);
            }
        }
    }
}

fn row((key, value): (&Vec<u8>, &Vec<u8>)) -> Row {
    Row { key: key.clone(), value: value.clone() }
}
