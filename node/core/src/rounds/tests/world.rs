//! A small world around the real hosts of one partition: sessions, copies, tombstones, leases.
//!
//! It is as simple as it can be and still break what can be broken: every node sees its own
//! disk, words are in order within a session, and sessions end at one side first. What is checked
//! is checked against what all nodes together have agreed on and handed out. The world can be
//! told to break one rule ([`Planted`]), so that it is known to notice.

use gaggle_wire::LateBy;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::planted::Planted;
use super::*;
use crate::now::{Mono, Now, Wall};

/// Nanoseconds of a step.
pub(super) const STEP: u64 = 1_000_000;
pub(super) const DRIFT: i64 = 10;
pub(super) const TURN: u64 = 30;
/// How far off a sick clock is.
pub(super) const SICK: i64 = 2000;
/// The wall at the first step.
pub(super) const ERA: i64 = 10_000;
/// What travels between two nodes.
#[derive(Clone, Debug)]
pub(super) enum Sentence {
    Word(Word),
    Mark,
    Again,
    Yield,
    Table(u64, Pinned),
    Copy(usize, BTreeSet<usize>, Option<Verdict>),
    Held(usize),
    Gone(usize),
    Moved(usize, Verdict),
    Leases(BTreeMap<u64, Lease>, BTreeMap<usize, u32>),
    Need(usize),
}

/// A group in flight.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) group: Vec<usize>,
    pub(super) until: i64,
    pub(super) by: usize,
}

/// A message as its producer made it.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) key: u64,
    pub(super) stamp: i64,
    pub(super) when: i64,
    pub(super) expires: i64,
    /// Who accepted it, and which stores have held it since.
    pub(super) via: Option<(usize, BTreeSet<Seat>)>,
    /// Everybody who was ever listed.
    pub(super) listed: BTreeSet<usize>,
    pub(super) confirmed: bool,
    /// Since when a majority of the pinned hosts is known to hold it.
    pub(super) safe: Option<i64>,
    pub(super) first: bool,
}

/// What a node keeps over a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) rows: Rows,
    pub(super) copies: BTreeMap<usize, BTreeSet<usize>>,
    pub(super) gone: BTreeSet<usize>,
    pub(super) moved: BTreeMap<usize, Verdict>,
    pub(super) count: BTreeMap<usize, u32>,
    pub(super) table: (u64, Pinned),
}

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) store: u128,
    pub(super) is_up: bool,
    pub(super) offset: i64,
    pub(super) is_sick: bool,
    pub(super) rounds: Rounds,
    pub(super) disk: Disk,
    pub(super) saved: Option<Disk>,
    pub(super) leases: BTreeMap<u64, Lease>,
    /// When it asked last.
    pub(super) asked: i64,
    pub(super) sessions: BTreeMap<usize, Session>,
}

/// One side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) is_marked: bool,
    pub(super) has_yielded: bool,
    pub(super) is_yielded_to: bool,
}

/// All of it.
pub(super) struct World {
    pub(super) rng: Pcg64Mcg,
    pub(super) planted: Planted,
    pub(super) now: i64,
    pub(super) nodes: Vec<Node>,
    pub(super) first_hosts: Pinned,
    pub(super) letters: Vec<Letter>,
    pub(super) cuts: BTreeSet<(usize, usize)>,
    pub(super) under_way: BTreeMap<(usize, usize), VecDeque<(u64, Sentence)>>,
    pub(super) late_by: LateBy,
    sessions: u64,
    /// The chance that a node crashes while it writes.
    pub(super) brittle: f64,
    /// Every round that was built, when it was asked for, and by whom.
    pub(super) built: Vec<(Round, i64, usize)>,
    pub(super) truth: BTreeMap<u64, Round>,
    pub(super) verdicts: BTreeMap<usize, Verdict>,
    pub(super) hosts: (u64, Pinned),
    pub(super) up_to: Stamp,
    pub(super) newest_first: BTreeMap<u64, i64>,
    pub(super) wrong: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, planted: Planted) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let hosts = if rng.random_bool(0.15) { 5 } else { 3 };
        let count = hosts + 2;
        let skip = rng.random_range(0..count);
        let seats = (0..hosts).map(|i| seat(((i + skip) % count) as u64));
        let first_hosts = Pinned::new(seats);
        let late_by = if rng.random_bool(0.6) { LateBy::Key } else { LateBy::Watermark };
        let mut world = Self {
            planted,
            now: 0,
            nodes: Vec::new(),
            letters: Vec::new(),
            cuts: BTreeSet::new(),
            under_way: BTreeMap::new(),
            late_by,
            sessions: 0,
            brittle: 0.0,
            built: Vec::new(),
            truth: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            hosts: (0, first_hosts.clone()),
            first_hosts,
            up_to: Stamp::ZERO,
            newest_first: BTreeMap::new(),
            wrong: None,
            rng,
        };
        for n in 0..count {
            let offset = world.rng.random_range(-5..=5);
            let table = world.hosts.clone();
            let disk = Disk { table, ..Disk::default() };
            let rounds = world.opened(n, 1, &disk);
            world.nodes.push(Node {
                store: 1,
                is_up: true,
                offset,
                is_sick: false,
                rounds,
                disk,
                saved: None,
                leases: BTreeMap::new(),
                asked: 0,
                sessions: BTreeMap::new(),
            });
        }
        for a in 0..count {
            for b in 0..a {
                world.start(a, b);
            }
        }
        world
    }

    pub(super) fn opened(&mut self, n: usize, store: u128, disk: &Disk) -> Rounds {
        let settings = Settings {
            window: Duration::from_nanos(20 * STEP),
            drift_max: Duration::from_nanos(DRIFT as u64 * STEP),
            turn: Duration::from_nanos(TURN * STEP),
            patience: Duration::from_nanos(15 * STEP),
            pause: Duration::from_nanos(STEP),
            late_by: self.late_by,
        };
        let me = Seat { node: NodeId(n as u64), store };
        let opened = Opened { at: self.planted.opened(self.mono()), seed: self.rng.random() };
        Rounds::open(self.first_hosts.clone(), me, settings, disk.rows.clone(), opened)
    }

    pub(super) fn fail(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Where every node stands, for whoever reads a failure.
    pub(super) fn picture(&self) -> String {
        let mut picture = String::new();
        for (n, node) in self.nodes.iter().enumerate() {
            let rounds = &node.rounds;
            let pinned: Vec<_> =
                rounds.hosts().pinned.seats().map(|s| (s.node.0, s.store)).collect();
            let (seat, last, told) = ((n, node.store), rounds.last(), rounds.is_told());
            let (serves, ballot) = (self.serves(n), rounds.ballot().map(|b| (b.number, b.node.0)));
            let with: Vec<_> = node.sessions.keys().collect();
            let open = rounds.open_round().map(|round| round.n);
            picture += &format!(
                "\n  {seat:?} last {last} told {told} serves {serves} {ballot:?} open {open:?} \
                 turn {} pinned {pinned:?} with {with:?} copies {:?}",
                rounds.may_hand_out(self.mono(), &self.sight(n)),
                node.disk.copies.keys(),
            );
        }
        picture
    }

    pub(super) fn mono(&self) -> Mono {
        Mono((self.now + ERA) as u64 * STEP)
    }

    pub(super) fn wall(&self, n: usize) -> i64 {
        self.now + self.nodes[n].offset
    }

    pub(super) fn time(&self, n: usize) -> Now {
        Now { mono: self.mono(), wall: Wall((ERA + self.wall(n)) as u64 * STEP) }
    }

    pub(super) fn seat_of(&self, n: usize) -> Seat {
        Seat { node: NodeId(n as u64), store: self.nodes[n].store }
    }

    pub(super) fn entry(&self, n: usize, m: usize) -> Entry {
        let stamp = self.stamp(m);
        let id = MessageId { process: stamp.process, number: m as u64 };
        let list = self.nodes[n].disk.copies.get(&m).into_iter().flatten();
        let holders = list.map(|z| NodeId(*z as u64)).collect();
        let key = self.letters[m].key;
        Entry { stamp, name: Name { id, moves: 0 }, key, holders }
    }

    pub(super) fn stamp(&self, m: usize) -> Stamp {
        let time = (ERA + self.letters[m].stamp) as u64 * STEP;
        Stamp { time, count: m as u32, process: ProcessId(1) }
    }

    pub(super) fn is_pinned(&self, n: usize) -> bool {
        self.nodes[n].rounds.hosts().pinned.has(self.seat_of(n))
    }

    pub(super) fn seated_peers(&self, n: usize) -> Vec<usize> {
        let pinned = &self.nodes[n].rounds.hosts().pinned;
        let peers = self.nodes[n].sessions.keys().copied();
        peers.filter(|p| pinned.has(self.seat_of(*p))).collect()
    }

    /// Whether custody of what all pinned hosts hold is with this node.
    pub(super) fn serves(&self, n: usize) -> bool {
        let node = &self.nodes[n];
        let is_well = node.is_up && !node.is_sick && self.is_pinned(n);
        let peers = self.seated_peers(n).into_iter().filter(|p| !self.nodes[*p].is_sick);
        let mut yields = peers.map(|p| {
            let session = node.sessions[&p];
            if p < n { !session.has_yielded } else { session.is_yielded_to }
        });
        is_well && node.sessions.values().all(|session| session.is_marked) && yields.all(|ok| ok)
    }

    pub(super) fn sight(&self, n: usize) -> Sight {
        let peer = |(p, session): (&usize, &Session)| {
            let other = &self.nodes[*p];
            let yielded = session.is_yielded_to;
            (NodeId(*p as u64), Peer { store: other.store, yielded, sick: other.is_sick })
        };
        let peers = self.nodes[n].sessions.iter().map(peer).collect();
        Sight { serving: self.serves(n), peers }
    }

    pub(super) fn here(&self, n: usize, m: usize) -> Here {
        let disk = &self.nodes[n].disk;
        if disk.gone.contains(&m) || disk.moved.contains_key(&m) {
            Here::Gone
        } else if disk.copies.contains_key(&m) {
            let is_over = self.now >= self.letters[m].expires;
            if is_over { Here::Expired } else { Here::Held }
        } else {
            Here::Missing
        }
    }

    pub(super) fn number(entry: &Entry) -> usize {
        entry.name.id.number as usize
    }

    /// Calls a host, and does what it wants done.
    pub(super) fn call(
        &mut self,
        n: usize,
        call: impl FnOnce(&mut Rounds, &Around<'_>) -> Vec<Act>,
    ) {
        let sight = self.sight(n);
        let here: Vec<_> = (0..self.letters.len()).map(|m| self.here(n, m)).collect();
        let here = |entry: &Entry| here[Self::number(entry)];
        let now = self.time(n);
        let around = Around { now, sight: &sight, here: &here };
        let acts = call(&mut self.nodes[n].rounds, &around);
        self.perform(n, acts);
    }

    /// Rows first. A crash may come before them, or before anything is said.
    fn perform(&mut self, n: usize, acts: Vec<Act>) {
        if let Some(round) = self.nodes[n].rounds.open_round()
            && !self.built.iter().any(|(built, ..)| built == round)
        {
            self.built.push((round.clone(), self.nodes[n].asked, n));
        }
        for act in &acts {
            if let Act::Chosen(round) = act {
                self.agreed(round);
            }
        }
        let has_rows = acts.iter().any(|act| matches!(act, Act::Write(_)));
        let crashes = has_rows && self.rng.random_bool(self.brittle);
        if crashes && self.rng.random_bool(0.5) {
            return self.crash(n);
        }
        for act in &acts {
            match act {
                Act::Write(row) => self.write(n, row.clone()),
                Act::Chosen(round) => self.settle(n, round),
                Act::Say(..) | Act::Gather(_) | Act::Fetch(..) | Act::GiveAll(..) => {}
            }
        }
        if crashes {
            return self.crash(n);
        }
        for act in acts {
            self.act(n, act);
        }
    }

    fn act(&mut self, n: usize, act: Act) {
        match act {
            Act::Write(_) | Act::Chosen(_) => {}
            Act::Say(to, word) => {
                if let Word::Ask { .. } = word {
                    self.nodes[n].asked = self.now;
                }
                self.say(n, to.0 as usize, word);
            }
            Act::Gather(asked) => {
                if asked.by.0 as usize == n {
                    self.nodes[n].asked = self.now;
                }
                let held = self.held_up_to(n, asked.up_to);
                self.call(n, |rounds, around| rounds.gathered(around, asked, held));
            }
            Act::Fetch(from, entries) => {
                for entry in entries {
                    self.put(n, from.0 as usize, Sentence::Need(Self::number(&entry)));
                }
            }
            Act::GiveAll(to, word) => {
                self.give_all(n, to.0 as usize);
                self.say(n, to.0 as usize, word);
            }
        }
    }

    fn say(&mut self, from: usize, to: usize, word: Word) {
        for (from, to, word) in self.planted.twisted(self, from, to, word) {
            self.put(from, to, Sentence::Word(word));
        }
    }

    fn write(&mut self, n: usize, row: Row) {
        let rows = &mut self.nodes[n].disk.rows;
        match row {
            Row::Acceptor(_) if self.planted == Planted::PromiseNotDurable => {}
            Row::Acceptor(record) => rows.acceptor = Some(record),
            Row::Round(_) if self.planted == Planted::WatermarkNotDurable => {}
            Row::Round(round) => rows.rounds.push(round),
            Row::Sum(sum) => {
                rows.rounds.retain(|round| round.n > sum.n);
                rows.sum = Some(self.planted.sum(sum));
            }
            Row::Told(told) => rows.told = Some(told),
        }
    }

    fn held_up_to(&self, n: usize, up_to: Stamp) -> Vec<Entry> {
        let node = &self.nodes[n];
        let open = |m: &usize| {
            let name = self.entry(n, *m).name;
            let verdict = node.rounds.verdict(name);
            let is_open = matches!(verdict, None | Some(Verdict::Out(Why::Lost)));
            is_open && !node.disk.moved.contains_key(m) && self.stamp(*m) <= up_to
        };
        let held = node.disk.copies.keys().copied().filter(open);
        held.map(|m| self.entry(n, m)).collect()
    }

    /// Starts a session.
    pub(super) fn start(&mut self, a: usize, b: usize) {
        self.sessions += 1;
        for (x, y) in [(a, b), (b, a)] {
            self.under_way.remove(&(x, y));
            let id = self.sessions;
            let (is_marked, has_yielded, is_yielded_to) = (false, false, false);
            let session = Session { id, is_marked, has_yielded, is_yielded_to };
            self.nodes[x].sessions.insert(y, session);
            self.nodes[x].rounds.ended(NodeId(y as u64));
        }
        for (x, y) in [(a, b), (b, a)] {
            let disk = self.nodes[x].disk.clone();
            self.put(x, y, Sentence::Table(disk.table.0, disk.table.1));
            for m in disk.gone {
                self.put(x, y, Sentence::Gone(m));
            }
            for (m, verdict) in disk.moved {
                if disk.copies.get(&m).is_some_and(|list| list.contains(&y)) {
                    self.put(x, y, Sentence::Moved(m, verdict));
                }
            }
            self.put(x, y, Sentence::Mark);
            self.give_all(x, y);
        }
    }

    /// A session ends at one side. The others are asked for a fresh mark.
    pub(super) fn end(&mut self, x: usize, y: usize) {
        self.nodes[x].sessions.remove(&y);
        self.nodes[x].rounds.ended(NodeId(y as u64));
        let others: Vec<_> = self.nodes[x].sessions.keys().copied().collect();
        for z in others {
            if let Some(session) = self.nodes[x].sessions.get_mut(&z) {
                session.is_marked = false;
            }
            self.put(x, z, Sentence::Again);
        }
    }

    pub(super) fn crash(&mut self, n: usize) {
        self.nodes[n].is_up = false;
        self.nodes[n].sessions.clear();
        self.nodes[n].leases.clear();
        self.under_way.retain(|(a, b), _| *a != n && *b != n);
        self.reset(n);
    }

    pub(super) fn reset(&mut self, n: usize) {
        let disk = self.nodes[n].disk.clone();
        let store = self.nodes[n].store;
        let rounds = self.opened(n, store, &disk);
        self.nodes[n].rounds = rounds;
    }

    pub(super) fn put(&mut self, from: usize, to: usize, sentence: Sentence) {
        if let Some(session) = self.nodes[from].sessions.get(&to) {
            self.under_way.entry((from, to)).or_default().push_back((session.id, sentence));
        }
    }

    pub(super) fn tell_leases(&mut self, n: usize) {
        for p in self.seated_peers(n) {
            let node = &self.nodes[n];
            let leases = Sentence::Leases(node.leases.clone(), node.disk.count.clone());
            self.put(n, p, leases);
        }
    }

    pub(super) fn give_all(&mut self, from: usize, to: usize) {
        for m in 0..self.letters.len() {
            self.give(from, to, m);
        }
    }

    /// Gives a copy to a node that is listed or pinned and lacks it.
    pub(super) fn give(&mut self, from: usize, to: usize, m: usize) {
        let is_pinned = self.nodes[from].rounds.hosts().pinned.has(self.seat_of(to));
        let lacks = !self.nodes[to].disk.copies.contains_key(&m);
        let Some(list) = self.nodes[from].disk.copies.get_mut(&m) else { return };
        if lacks && (list.contains(&to) || is_pinned) {
            list.insert(to);
            let list = list.clone();
            self.letters[m].listed.insert(to);
            let moved = self.nodes[from].disk.moved.get(&m).copied();
            self.put(from, to, Sentence::Copy(m, list, moved));
        }
    }
}
