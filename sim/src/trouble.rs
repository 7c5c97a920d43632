//! Disks that are not well: commits that fail or take long, rows that rot.
//!
//! A commit that fails may have been made all the same. Its process says nothing any more, and is
//! opened anew on what is durable, as the driver of a node does it. What this file does not do:
//! rows and commits that go well are in `disk.rs`, disks without room in `filling.rs`.

use gaggle_core::effect::Effect;
use gaggle_core::envelope::{Envelope, delivery_message};
use gaggle_core::event::{Event, Missed, Surroundings};
use gaggle_core::ledger::{MessageKey, Row};
use gaggle_wire::{DeliveryLabel, Response};
use rand::RngExt;

use crate::carrier::Goodbye;
use crate::disk::LastCommit;
use crate::goals::Goal;
use crate::judge::Subject;
use crate::options::node_id;
use crate::plan::RowLoss;
use crate::process::Process;
use crate::witness::look;
use crate::world::{Happening, World};

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Illness {
    /// The commit that ends next fails.
    fails: bool,
    /// How long a commit takes at most, if that is long, in nanoseconds.
    slow: Option<u64>,
    /// Whether it is measured: a process does so as soon as it has been slow itself, or its disk.
    measured: bool,
    /// The life of its process that measures it.
    measured_by: u64,
}

impl World {
    /// The next commit of a node fails.
    pub(crate) fn fail_commit(&mut self, at: usize) {
        self.processes[at].illness.fails = true;
    }

    /// Commits of a node take so long at most, from now on.
    pub(crate) fn slow_disk(&mut self, at: usize, nanos: u64) {
        self.report.line(self.now, format_args!("disk of {} is slow", at + 1));
        self.judge.weather.disturb();
        self.processes[at].illness.slow = Some(nanos);
        self.begin_measuring(at);
    }

    /// A process, and those after it, measure their disk and themselves from now on.
    pub(crate) fn begin_measuring(&mut self, at: usize) {
        self.processes[at].illness.measured = true;
        self.start_measuring(at);
    }

    /// A process measures from now on, if those before it have.
    pub(crate) fn start_measuring(&mut self, at: usize) {
        let Process { illness, life, .. } = &mut self.processes[at];
        if illness.measured && *life != illness.measured_by {
            illness.measured_by = *life;
            let life = *life;
            self.measure(at, life);
        }
    }

    /// Commits of a node take what they took.
    pub(crate) fn quick_disk(&mut self, at: usize) {
        if self.processes[at].illness.slow.take().is_some() {
            self.report.line(self.now, format_args!("disk of {} is quick", at + 1));
            self.judge.weather.disturb();
        }
    }

    /// Nothing is wrong with any disk.
    pub(crate) fn mend_disks(&mut self) {
        for at in 0..self.processes.len() {
            self.processes[at].illness.fails = false;
            self.free_disk(at);
            self.quick_disk(at);
        }
    }

    /// Whether the disk of a node is as quick as it should be.
    pub(crate) fn is_quick(&self, at: usize) -> bool {
        self.processes[at].illness.slow.is_none()
    }

    /// A commit begins.
    pub(crate) fn commit_begins(&mut self, at: usize) {
        let takes = match self.processes[at].illness.slow {
            None => self.draw(self.options.commit),
            Some(most) => self.draw((self.options.commit.0, most.max(self.options.commit.1))),
        };
        self.processes[at].commit_began = self.now;
        let life = self.processes[at].life;
        self.at(self.now + takes, Happening::Committed { at, life });
    }

    /// A commit ends; whether it fails, and its process with it.
    pub(crate) fn commit_fails(&mut self, at: usize) -> bool {
        let fails = self.processes[at].illness.fails;
        let full = !fails && self.finds_no_room(at);
        if !fails && !full {
            return false;
        }
        self.processes[at].illness.fails = false;
        self.judge.goals.note(if full { Goal::DiskFull } else { Goal::CommitFailed });
        let made = if fails && self.rng.random() { LastCommit::Made } else { LastCommit::Lost };
        self.report.line(self.now, format_args!("commit of {} fails {made:?}", at + 1));
        self.judge.weather.disturb();
        self.processes[at].disk.crash(made);
        self.end_process(at, Goodbye::Said);
        self.start_soon(at);
        true
    }

    /// A node that cannot be opened, or has just lost its store, is opened in a moment.
    pub(crate) fn start_soon(&mut self, at: usize) {
        let soon = self.now + self.draw(REOPEN);
        self.at(soon, Happening::Start { at });
    }

    /// What the runtime of a node measures, once anything has been slow.
    pub(crate) fn measure(&mut self, at: usize, life: u64) {
        let process = &self.processes[at];
        if process.life != life {
            return;
        }
        let running =
            if process.disk.is_committing() { self.now - process.commit_began } else { 0 };
        let slow = process.illness.slow;
        let (disk_free_bytes, disk_total_bytes) = self.measured_room(at);
        let measured = Surroundings {
            disk_free_bytes,
            disk_total_bytes,
            commit_running_ms: running / MS,
            commit_p99_ms: slow.unwrap_or(0) / MS,
            loop_p99_ms: process.lateness.p99(self.now) / MS,
            ..Surroundings::default()
        };
        self.feed(at, Event::Measured(measured));
        self.at(self.now + MEASURE_EVERY, Happening::Measure { at, life });
    }

    /// Messages on a disk are damaged, about so many of a thousand. A node finds out when it reads
    /// them.
    pub(crate) fn rot(&mut self, at: usize, of_thousand: u32) {
        let keys = self.some_rows(at, of_thousand, "rot");
        if keys.is_empty() {
            return;
        }
        let Self { now, judge, processes, network, .. } = self;
        let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
        judge.rots(*now, at, &keys, &seen);
        self.processes[at].disk.rot(&keys);
    }

    /// Rows of messages vanish from a disk, about so many of a thousand, or cannot be read at all.
    /// (That is none of what a store does which checks its pages. A node outlives it all the same.)
    pub(crate) fn lose_rows(&mut self, at: usize, (of_thousand, loss): (u32, RowLoss)) {
        let name = if loss == RowLoss::Vanish { "vanish" } else { "rot headers" };
        let keys = self.some_rows(at, of_thousand, name);
        if keys.is_empty() {
            return;
        }
        let Self { now, judge, processes, network, .. } = self;
        let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
        judge.rows_lost(*now, at, &keys, &seen);
        judge.goals.note(Goal::RowsLost);
        match loss {
            RowLoss::Vanish => self.processes[at].disk.vanish(&keys),
            RowLoss::Header => self.processes[at].disk.rot_headers(&keys),
        }
    }

    /// Some of the messages on a disk, about so many of a thousand, which is about to damage them.
    fn some_rows(&mut self, at: usize, of_thousand: u32, how: &str) -> Vec<MessageKey> {
        let mut keys = self.processes[at].disk.stored();
        keys.retain(|_| self.rng.random_range(0..1000) < of_thousand);
        if !keys.is_empty() {
            self.report.line(self.now, format_args!("{how} {} {}", at + 1, keys.len()));
        }
        keys
    }

    /// Whatever a word carries is read now: what cannot be read back is left out of it, and its
    /// node hears of it.
    pub(crate) fn readable(&mut self, at: usize, word: &mut Effect) {
        let process = &self.processes[at];
        if process.disk.is_sound() {
            return;
        }
        let life = process.life;
        let mut lost = Vec::new();
        let mut is_whole = |key: MessageKey, missed: Option<Missed>| {
            let whole = !process.disk.is_damaged(key);
            lost.extend((!whole).then_some((key, missed)));
            whole
        };
        let delivered = |delivery: &DeliveryLabel, reply| {
            let receipt = delivery.receipt.clone();
            (delivery_message(delivery).0, Some(Missed { receipt, reply }))
        };
        match word {
            Effect::Answer { response: Response::Deliveries { deliveries }, reply } => {
                let own = node_id(at);
                deliveries.retain(|delivery| {
                    let (key, missed) = delivered(delivery, Some(*reply));
                    delivery.receipt.custodian != own || is_whole(key, missed)
                });
            }
            Effect::Send { envelope: Envelope::Grant { deliveries, .. }, .. } => {
                deliveries.retain(|delivery| {
                    let (key, missed) = delivered(delivery, None);
                    is_whole(key, missed)
                });
            }
            Effect::Send { envelope: Envelope::Peeked { deliveries, .. }, .. } => {
                deliveries.retain(|delivery| is_whole(delivery_message(delivery).0, None));
            }
            Effect::Send { envelope: Envelope::MakeUp { queue, partition, items, .. }, .. } => {
                let (queue, partition) = (*queue, *partition);
                items.retain(|item| {
                    is_whole(MessageKey { queue, partition, stamp: item.label.stamp }, None)
                });
            }
            _ => {}
        }
        for (key, missed) in lost {
            self.judge.goals.note(Goal::RotFound);
            let event = Event::BodyLost { key, missed };
            self.at(self.now, Happening::Event { at, life, event });
        }
    }

    /// Which of these rows are of messages whose contents are damaged.
    pub(crate) fn damaged(&mut self, at: usize, rows: &[Row]) -> Vec<MessageKey> {
        let keys = rows.iter().filter_map(|row| MessageKey::parse(&row.key));
        let damaged: Vec<_> = keys.filter(|key| self.processes[at].disk.is_damaged(*key)).collect();
        if !damaged.is_empty() {
            self.judge.goals.note(Goal::RotFound);
        }
        damaged
    }
}

/// How often a runtime measures.
const MEASURE_EVERY: u64 = 1_000_000_000;
/// After what time a store that failed is opened anew.
const REOPEN: (u64, u64) = (1_000_000, 300_000_000);
const MS: u64 = 1_000_000;
