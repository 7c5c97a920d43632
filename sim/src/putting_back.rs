//! Disks that are put back to an earlier state, and who notices.
//!
//! Of a disk that was put back a node must not begin anything as long as anybody it is in session
//! with has known it later than that: the other says so, and it becomes a new host. Where nobody
//! can, it goes on as what it was. That is outside what is promised, and excused from then on; see
//! [`crate::oracle`]. What this file does not do: when it is done is in plans.

use gaggle_core::effect::Effect;
use gaggle_core::envelope::Envelope;

use crate::carrier::Goodbye;
use crate::disk::LastCommit;
use crate::goals::Goal;
use crate::judge::Subject;
use crate::options::node_id;
use crate::process::Process;
use crate::promises::Violation;
use crate::witness::look;
use crate::world::World;

impl World {
    /// Takes a copy of what is durable on the disk of a node.
    pub fn keep_disk(&mut self, at: usize) {
        self.report.line(self.now, format_args!("keep disk {}", at + 1));
        self.processes[at].disk.keep();
    }

    /// Puts the disk of a node back to when a copy was taken, if one was; a node that is up is
    /// killed first.
    pub fn put_back(&mut self, at: usize) {
        if !self.processes[at].disk.is_kept() {
            return;
        }
        if self.is_up(at) {
            self.crash(at);
        }
        self.report.line(self.now, format_args!("put back {}", at + 1));
        let Self { now, judge, processes, network, .. } = self;
        let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
        let keeps = |key| processes[at].disk.has_kept(key);
        judge.disk_put_back(*now, at, (&keeps, &seen));
        let process = &mut self.processes[at];
        process.put_back |= process.disk.put_back();
        process.wiped = false;
    }

    /// A node was told of its disk and is a new host from now on, or is no member any more.
    pub(crate) fn renewed(&mut self, at: usize) {
        self.report.line(self.now, format_args!("renewed {}", at + 1));
        if self.processes[at].put_back {
            self.judge.goals.note(Goal::PutBackNoticed);
        }
        let process = &mut self.processes[at];
        process.put_back = false;
        process.disk.crash(LastCommit::Made);
        self.end_process(at, Goodbye::Said);
        self.start_soon(at);
    }

    /// A node is opened: who knows that its disk was put back.
    pub(crate) fn note_knowers(&mut self, at: usize) {
        let Some(node) = &self.processes[at].node else { return };
        let hello = node.hello();
        let knows = |(other, process): (usize, &Process)| {
            let knows = process.node.as_ref().is_some_and(|node| node.knows_put_back(&hello));
            knows.then_some((other, process.life))
        };
        let known_by = self.processes.iter().enumerate().filter_map(knows).collect();
        self.processes[at].known_by = known_by;
    }

    /// Whether a node serves on a disk that was put back. It must not as long as somebody whom it
    /// reaches knows better.
    pub(crate) fn watch_put_back(&mut self, at: usize) {
        if !self.processes[at].put_back || !self.is_ready(at) {
            return;
        }
        let knows = |(other, life): &&(usize, u64)| {
            self.processes[*other].life == *life && self.network.is_met(*other, at)
        };
        if let Some((other, _)) = self.processes[at].known_by.iter().find(knows) {
            let (by, other) = (node_id(at), node_id(*other));
            let text = format!("the disk of {by} was put back, {other} knows, and {by} serves");
            self.judge.violations.push(Violation { promise: 4, text });
            return;
        }
        self.unnoticed(at);
    }

    /// Whether a node gives copies from a disk that was put back.
    pub(crate) fn watch_copies(&mut self, at: usize, effect: &Effect) {
        let gives = matches!(effect, Effect::Send { envelope: Envelope::MakeUp { .. }, .. });
        if gives && self.processes[at].put_back {
            self.unnoticed(at);
        }
    }

    /// Nobody could tell a node what its disk is before it gave something.
    fn unnoticed(&mut self, at: usize) {
        self.report.line(self.now, format_args!("unnoticed {}", at + 1));
        self.processes[at].put_back = false;
        let keeps = |key| self.processes[at].disk.keeps(key);
        self.judge.oracle.unnoticed(at, &keeps);
    }
}
