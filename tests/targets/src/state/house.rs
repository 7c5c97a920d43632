//! A node with its disk and its clocks: what a runtime does around a core, at its smallest.
//!
//! Invariants: words wait for the changes before them; after every event the node checks itself,
//! and every row that it writes can be read back.

use std::collections::VecDeque;

use gaggle_core::effect::{Effect, Effects};
use gaggle_core::event::{Event, LoadId};
use gaggle_core::ledger::{Key, MessageRecord, Row, Write};
use gaggle_core::{Config, Node, OpenError};

use super::disk::{Disk, LastCommit};
use super::{at, config};

/// A node and what is around it.
pub(crate) struct House {
    config: Config,
    pub(crate) node: Node,
    disk: Disk,
    ms: u64,
    off: i64,
    /// What it said and nobody took up yet.
    pub(crate) words: Vec<Effect>,
    loads: VecDeque<Load>,
    /// Rises when the process dies: its connections are gone then.
    pub(crate) life: u64,
    /// Whether it has become another host, and is to be opened anew.
    renewed: bool,
    /// What happened to it last, to be told when something does not hold.
    past: VecDeque<(u64, Event)>,
}

/// A question to the disk.
struct Load {
    load: LoadId,
    from: Vec<u8>,
    to: Vec<u8>,
    limit: usize,
}

impl House {
    /// A started node on an empty disk.
    pub(crate) fn new(node: u64) -> Self {
        let mut house = Self::on(node, Vec::new());
        house.start();
        house
    }

    /// A node that is not started, on these rows.
    pub(crate) fn on(node: u64, rows: Vec<Row>) -> Self {
        let disk = Disk::with(rows);
        let config = config(node);
        let opened = open(&config, &disk, (0, 0)).expect("it was not removed");
        Self {
            config,
            node: opened,
            disk,
            ms: 0,
            off: 0,
            words: Vec::new(),
            loads: VecDeque::new(),
            life: 0,
            renewed: false,
            past: VecDeque::new(),
        }
    }

    /// Its first event.
    pub(crate) fn start(&mut self) {
        self.handle(Event::Started);
    }

    /// Something happens to it.
    pub(crate) fn handle(&mut self, event: Event) {
        let mut effects = Effects::new();
        self.past.push_back((self.ms, event.clone()));
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
        self.node.handle(at(self.ms, self.off), event, &mut effects);
        self.node.check();
        // All writes of an event stand before all of its words.
        let mut words = Vec::new();
        for effect in effects.drain() {
            match effect {
                Effect::Write(write) => {
                    assert_readable(&write);
                    self.disk.write(write);
                }
                Effect::SendNow { .. } | Effect::Gossip { .. } => self.words.push(effect),
                word => words.push(word),
            }
        }
        for word in words {
            let word = self.disk.say(word);
            self.spoken(word);
        }
        self.renewed();
    }

    fn spoken(&mut self, words: impl IntoIterator<Item = Effect>) {
        for word in words {
            match word {
                Effect::Load { load, from, to, limit, .. } => {
                    self.loads.push_back(Load { load, from, to, limit });
                }
                Effect::Renewed => self.renewed = true,
                word => self.words.push(word),
            }
        }
    }

    /// A node that has become another host is opened anew.
    fn renewed(&mut self) {
        if std::mem::take(&mut self.renewed) {
            self.crash(LastCommit::Made);
        }
    }

    /// A commit begins, unless one is under way.
    pub(crate) fn begin_commit(&mut self) {
        self.disk.begin();
    }

    /// The commit that is under way is done.
    pub(crate) fn end_commit(&mut self) {
        let words = self.disk.end();
        self.spoken(words);
        self.renewed();
    }

    /// The disk answers its oldest question; whether there was one. A damaged row stands for a
    /// message that rotted.
    pub(crate) fn answer(&mut self, damage: Option<usize>) -> bool {
        let Some(Load { load, from, to, limit }) = self.loads.pop_front() else { return false };
        let (mut rows, end) = self.disk.read(&from, &to, limit);
        if let Some(damage) = damage
            && !rows.is_empty()
        {
            let row = damage % rows.len();
            if let Some(byte) = rows[row].value.get_mut(damage / 7) {
                *byte ^= 1;
            }
        }
        self.handle(Event::Loaded { load, rows, end, damaged: Vec::new() });
        true
    }

    /// All that is under way comes to its end: commits and reads.
    pub(crate) fn settle(&mut self) {
        for _ in 0..SETTLE_MAX {
            self.begin_commit();
            self.end_commit();
            if !self.answer(None) && self.disk.is_still() {
                return;
            }
        }
        panic!("a node reads and writes without end");
    }

    /// Time passes, and the node is woken when it wants to be.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.ms.saturating_add(ms);
        let mut in_place = 0;
        for _ in 0..WAKES_MAX {
            let Some(next) = self.node.next_wakeup() else { break };
            let next = next.0.div_ceil(1_000_000);
            if next > end {
                break;
            }
            in_place = if next <= self.ms { in_place + 1 } else { 0 };
            assert!(in_place < IN_PLACE_MAX, "a node wants to be woken without end");
            self.ms = self.ms.max(next);
            self.handle(Event::Wakeup);
        }
        self.ms = end;
        self.handle(Event::Wakeup);
    }

    /// The wall clock steps to be off by so many milliseconds.
    pub(crate) fn step(&mut self, off: i64) {
        self.off = off;
    }

    /// What the wall clock shows.
    pub(crate) fn wall(&self) -> u64 {
        at(self.ms, self.off).wall.0
    }

    /// The process dies, and starts again on what is durable.
    pub(crate) fn crash(&mut self, commit: LastCommit) {
        self.life += 1;
        self.disk.crash(commit);
        self.words.clear();
        self.loads.clear();
        self.config.seed = self.config.seed.wrapping_add(0x9e37_79b9);
        let now = (self.ms, self.off);
        self.node = open(&self.config, &self.disk, now).unwrap_or_else(|| {
            // It was removed from the cluster, and joins anew.
            self.disk = Disk::with(Vec::new());
            open(&self.config, &self.disk, now).expect("an empty disk was not removed")
        });
        self.node.check();
        self.start();
    }

    /// All is written, and the node opened again on it.
    pub(crate) fn reopen(&mut self) {
        self.begin_commit();
        self.end_commit();
        self.begin_commit();
        self.crash(LastCommit::Made);
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (ms, event) in &self.past {
                eprintln!("{} at {ms} ms: {event:?}", self.config.node);
            }
        }
    }
}

/// Opens a node, unless it was removed from the cluster with this disk.
fn open(config: &Config, disk: &Disk, (ms, off): (u64, i64)) -> Option<Node> {
    let mut rows = disk.rows().into_iter();
    match Node::open(config.clone(), at(ms, off), &mut rows) {
        Ok(node) => Some(node),
        Err(OpenError::Removed(_)) => None,
        Err(error) => panic!("a node cannot be opened on its own rows: {error}"),
    }
}

/// What is written can be read when it is needed.
fn assert_readable(write: &Write) {
    match write {
        Write::Put { key, .. } => {
            assert!(Key::parse(key).is_some(), "a row without a key is written: {key:02x?}");
        }
        Write::PutMessage { key, header, .. } | Write::PutHeader { key, header } => {
            let read = MessageRecord::decode(key, header);
            assert!(read.is_ok(), "a message is written that cannot be read: {read:?}");
        }
        Write::Delete { .. } | Write::DeleteRange { .. } => {}
    }
}

/// Far more than any event makes a node read.
const SETTLE_MAX: usize = 10_000;
/// A node wakes some ten times a second.
const WAKES_MAX: usize = 200;
/// What fits on a screen or two.
const PAST_MAX: usize = 30;
/// Timers may fall due while others are handled, but not for ever.
const IN_PLACE_MAX: usize = 50;
