//! Lives of processes: start, crash, pause, drain, loss of the disk.
//!
//! What this file does not do: it does not draw when; see [`crate::storm`] and the scenarios.

use std::collections::VecDeque;

use gaggle_core::event::Event;
use gaggle_core::ledger::key::{Agreed, meta};
use gaggle_core::ledger::{Key, MessageKey, Write, record};
use gaggle_core::{Node, OpenError};
use gaggle_wire::{Request, Response};
use rand::RngExt;

use crate::carrier::Goodbye;
use crate::disk::LastCommit;
use crate::goals::Goal;
use crate::judge::Subject;
use crate::lateness::Lateness;
use crate::process::{Process, Stop};
use crate::witness::look;
use crate::world::{Happening, World};

impl World {
    /// Starts a node on what is durable on its disk.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn start(&mut self, at: usize) {
        if self.processes[at].node.is_some() {
            if self.processes[at].stop == Stop::Asked {
                self.processes[at].stop = Stop::ThenStart;
            }
            return;
        }
        if self.is_full(at) {
            return self.start_soon(at);
        }
        self.report.line(self.now, format_args!("start {}", at + 1));
        self.goals_started(at);
        self.judge.weather.trouble(self.now, at, at);
        if self.processes.iter().any(|other| other.life > 0 && other.node.is_none()) {
            // It waits for whom it remembers, and what it is the first to hand out waits with it.
            self.judge.weather.disturb();
        }
        let mut config = self.options.config(at, self.rng.random());
        let process = &mut self.processes[at];
        process.life += 1;
        process.stop = Stop::No;
        process.wake_at = None;
        let now = process.clocks(self.now);
        process.latest = now.wall.0;
        if process.disk.keys().next().is_none() {
            let store: u128 = self.rng.random();
            let key = Key::Meta(meta::STORE).encode();
            process.disk.write(Write::Put { key, value: record::encode(&store) });
            process.disk.start();
            process.disk.end();
        }
        let mut rows: Vec<_> = process.disk.rows().collect();
        if let Some(border) = self.border {
            (border.opens)(&mut config, &mut rows);
        }
        match Node::open(config, now, &mut rows.drain(..)) {
            Ok(node) => process.node = Some(node),
            Err(OpenError::Removed(_)) => return self.ended_for_good(at),
            Err(error) => panic!("its rows are its own: {error}"),
        }
        self.note_knowers(at);
        self.feed(at, Event::Started);
        self.start_measuring(at);
    }

    /// Starts nodes and lets them come together.
    ///
    /// # Panics
    /// When they do not.
    pub fn form(&mut self, nodes: usize) {
        for at in 0..nodes {
            self.start(at);
        }
        assert!(self.run_until(30_000_000_000, |w| w.is_whole(nodes)), "the nodes do not form");
    }

    /// Whether the first so many nodes are all connected to each other and ready.
    #[must_use]
    pub fn is_whole(&self, nodes: usize) -> bool {
        (0..nodes).all(|at| {
            self.is_ready(at) && (0..nodes).all(|to| at == to || self.network.is_met(at, to))
        })
    }

    /// Whether all nodes that should be up are up, awake, ready and connected, and nothing is cut.
    pub(crate) fn is_well(&self) -> bool {
        let nodes = (0..self.processes.len()).filter(|at| {
            let process = &self.processes[*at];
            process.life > 0 && process.stop != Stop::Done
        });
        let well = |at: usize| {
            let process = &self.processes[at];
            process.is_awake() && process.wall.goes() && self.is_quick(at) && self.is_ready(at)
        };
        let met = |at: usize| nodes.clone().all(|to| at == to || self.network.is_met(at, to));
        let calm = self.network.cuts().is_empty() && self.options.tail == 0;
        calm && nodes.clone().all(|at| well(at) && met(at))
    }

    /// Whether a node says that it is ready.
    #[must_use]
    pub fn is_ready(&self, at: usize) -> bool {
        let Some(node) = &self.processes[at].node else { return false };
        let welcome = node.welcome();
        let own = welcome.members.iter().find(|member| member.node == welcome.node);
        own.is_some_and(|member| member.standing == gaggle_wire::Standing::Ready)
    }

    /// Kills a process: what was not durable is lost, its connections fall silent.
    pub fn crash(&mut self, at: usize) {
        let made = if self.rng.random() { LastCommit::Made } else { LastCommit::Lost };
        self.report.line(self.now, format_args!("crash {} {made:?}", at + 1));
        self.judge.weather.disturb();
        self.goals_killed(at);
        self.processes[at].disk.crash(made);
        self.end_process(at, Goodbye::Unsaid);
    }

    pub(crate) fn end_process(&mut self, at: usize, goodbye: Goodbye) {
        self.goals_counted(at);
        let process = &mut self.processes[at];
        if let Some(suspension) = process.suspended.take() {
            process.stood += suspension.stood(self.now);
        }
        process.node = None;
        process.life += 1;
        process.backlog = None;
        process.stalls = None;
        process.lateness = Lateness::default();
        process.stop = Stop::No;
        process.wishes.clear();
        process.dialling.clear();
        process.dialled.clear();
        for (link, end) in self.network.of(at) {
            self.network.close(link, end);
            self.other_left(link, end, goodbye);
        }
        self.network.wake(at);
        self.node_gone(at, goodbye);
    }

    /// Takes a node's disk away; it must be down.
    pub fn wipe(&mut self, at: usize) {
        self.report.line(self.now, format_args!("wipe {}", at + 1));
        assert!(self.processes[at].node.is_none(), "a disk is wiped while its node is down");
        let Self { now, judge, processes, network, .. } = self;
        let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
        judge.disk_lost(*now, at, &seen);
        self.processes[at].disk.wipe();
        (self.processes[at].wiped, self.processes[at].put_back) = (true, false);
    }

    /// Rows of messages vanish from a disk, be its node up: those at these places.
    pub fn vanish(&mut self, at: usize, places: &[usize]) {
        self.report.line(self.now, format_args!("vanish {} {places:?}", at + 1));
        let stored = self.processes[at].disk.stored();
        let keys: Vec<MessageKey> =
            places.iter().filter_map(|at| stored.get(*at)).copied().collect();
        self.processes[at].disk.vanish(&keys);
    }

    /// Stops a process for some time, as a debugger or a loaded machine does.
    pub fn pause(&mut self, at: usize, nanos: u64) {
        let process = &mut self.processes[at];
        if process.is_awake() {
            self.report.line(self.now, format_args!("pause {}", at + 1));
            self.judge.weather.disturb();
            self.judge.weather.trouble(self.now, at, at);
            let process = &mut self.processes[at];
            process.backlog = Some(VecDeque::new());
            let life = process.life;
            self.at(self.now + nanos, Happening::Resume { at, life });
        }
    }

    pub(crate) fn resume(&mut self, at: usize, life: u64) {
        if self.processes[at].life != life {
            return;
        }
        let Some(mut backlog) = self.processes[at].backlog.take() else { return };
        self.report.line(self.now, format_args!("resume {}", at + 1));
        if let Some(suspension) = self.processes[at].suspended {
            let lasted = suspension.lasted(self.now);
            backlog.retain(|event| self.comes_through(lasted, event));
        }
        self.judge.weather.trouble(self.now, at, at);
        let due = self.processes[at].wake_at.take();
        if self.processes[at].suspended.is_none() {
            self.record_lateness(at, due);
        }
        self.wake_up(at);
        let first: bool = self.rng.random();
        if first {
            self.feed(at, Event::Wakeup);
        }
        for event in backlog {
            self.feed(at, event);
        }
        self.feed(at, Event::Wakeup);
        self.stalls_again(at);
    }

    /// Asks a node to stop; it ends when all is handed over.
    pub fn drain(&mut self, at: usize) {
        if self.processes[at].node.is_some() && self.processes[at].stop == Stop::No {
            self.report.line(self.now, format_args!("drain {}", at + 1));
            self.processes[at].stop = Stop::Asked;
            let leaves = |process: &&Process| process.node.is_none() || process.stop != Stop::No;
            let away = self.processes.iter().filter(leaves).count();
            // What the last host of a queue has handed out comes again: there is nobody to tell.
            if self.judge.oracle.fewest_replicas().is_some_and(|fewest| away >= fewest) {
                self.judge.weather.disturb();
            }
            self.feed(at, Event::Drain);
        }
    }

    pub(crate) fn drained(&mut self, at: usize) {
        self.report.line(self.now, format_args!("drained {}", at + 1));
        self.judge.goals.note(Goal::Stopped);
        let stop = self.processes[at].stop;
        self.processes[at].disk.crash(LastCommit::Made);
        self.end_process(at, Goodbye::Said);
        self.processes[at].stop = Stop::Done;
        if stop == Stop::ThenStart {
            let soon = self.now + self.draw(START_AFTER_STOP);
            self.at(soon, Happening::Start { at });
        }
    }

    /// Whether a node is up.
    #[must_use]
    pub fn is_up(&self, at: usize) -> bool {
        self.processes[at].node.is_some()
    }

    /// What the nodes count: for whoever has to understand a failure.
    pub(crate) fn counters(&mut self) -> String {
        let Response::Status(status) = self.call(0, figures()) else { return String::new() };
        let each = status.members.iter().filter_map(|member| {
            let report = member.report.as_ref()?;
            Some(format!("{} {:?}", member.node, report.counters))
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// The sum of a counter over all nodes that the first one which is up can ask.
    pub fn counted(&mut self, counter: &str) -> u64 {
        let Some(at) = (0..self.processes.len()).find(|at| self.is_up(*at)) else { return 0 };
        let Response::Status(status) = self.call(at, figures()) else { return 0 };
        let reports = status.members.iter().filter_map(|member| member.report.as_ref());
        let counters = reports.flat_map(|report| &report.counters);
        counters.filter(|(name, _)| name == counter).map(|(_, count)| count).sum()
    }

    /// Messages on the disk of a node.
    #[must_use]
    pub fn stored(&self, at: usize) -> usize {
        let keys = self.processes[at].disk.keys();
        keys.filter(|key| MessageKey::is_message(key)).count()
    }

    /// Rows on the disk of a node that belong to messages, dead or alive.
    #[must_use]
    pub fn leftovers(&self, at: usize) -> Vec<Key> {
        self.left(at).collect()
    }

    /// Queues on the disk of a node, deleted ones among them.
    #[must_use]
    pub fn queues_stored(&self, at: usize) -> usize {
        let keys = self.processes[at].disk.keys().filter_map(|key| Key::parse(key));
        keys.filter(|key| matches!(key, Key::Queue(_))).count()
    }

    /// Whether there are any.
    pub(crate) fn is_anything_left(&self, at: usize) -> bool {
        // Rows of messages come late in key order, and this is asked after every event.
        self.left(at).next().is_some()
    }

    fn left(&self, at: usize) -> impl Iterator<Item = Key> + '_ {
        let keys = self.processes[at].disk.keys().rev().filter_map(|key| Key::parse(key));
        let kept = |key: &Key| match key {
            Key::Meta(_) | Key::Queue(_) | Key::Member(_) | Key::Disk(_) => true,
            // What was promised, and the sum of what is over, is kept for as long as its queue.
            Key::Agreed(_, _, what) => !matches!(what, Agreed::Round(_)),
            _ => false,
        };
        keys.filter(move |key| !kept(key) && !matches!(key, Key::Removal(..)))
    }
}

/// Asks for what the nodes count; the figures of queues are of no interest.
fn figures() -> Request {
    Request::Status { prefix: String::new(), after: None }
}

/// How long it takes to start a process that was stopped.
const START_AFTER_STOP: (u64, u64) = (1_000_000, 200_000_000);
