//! Nodes that are removed from the cluster.
//!
//! From the moment that one is removed nobody may need its disk any more: whatever is confirmed
//! lies at others, unless loss was accepted. Its process ends when it hears of it, and with it its
//! disk: whoever starts it again starts a new host. What this file does not do: when somebody asks
//! for it is in plans.

use std::collections::BTreeSet;

use gaggle_core::ledger::{Key, Write};
use gaggle_core::table::{Removal, Stage};
use gaggle_wire::{Loss, Request};

use crate::goals::Goal;
use crate::judge::Subject;
use crate::options::{node_id, place};
use crate::process::Process;
use crate::witness::look;
use crate::world::World;

/// What is known of the removal of a node.
#[derive(Debug, Default)]
pub(crate) struct Struck {
    /// Whether somebody asked for it, at any time.
    pub(crate) asked: bool,
    /// Whether loss was accepted.
    loss: bool,
    /// With which disks it was removed.
    stores: BTreeSet<u128>,
}

impl Process {
    /// Whether its node was removed from the cluster with the disk that it has.
    pub(crate) fn is_struck(&self) -> bool {
        let stores = &self.struck.stores;
        !stores.is_empty() && self.disk.store().is_some_and(|store| stores.contains(&store))
    }
}

impl World {
    /// Somebody asks for the removal of a node.
    pub(crate) fn removal_asked(&mut self, at: usize, loss: Loss) {
        let struck = &mut self.processes[at].struck;
        struck.asked = true;
        struck.loss |= loss == Loss::Accepted;
    }

    /// A node writes: whether that removes one.
    pub(crate) fn watch_strikes(&mut self, write: &Write) {
        let Write::Put { key, value } = write else { return };
        let Some(Key::Removal(node, store)) = Key::parse(key) else { return };
        let at = place(node);
        let removal: Option<Removal> = gaggle_core::ledger::record::decode(value).ok();
        let removed = removal.is_some_and(|removal| removal.stage == Stage::Removed);
        if !removed || !self.processes[at].struck.stores.insert(store) {
            return;
        }
        self.report.line(self.now, format_args!("removed {}", at + 1));
        self.judge.goals.note(Goal::Removed);
        let loss = self.processes[at].struck.loss;
        let Self { now, judge, processes, network, .. } = self;
        let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
        judge.removed(*now, (at, loss), &seen);
    }

    /// A process cannot be opened on its disk any more, which is thrown away.
    pub(crate) fn ended_for_good(&mut self, at: usize) {
        self.report.line(self.now, format_args!("ended {}", at + 1));
        if self.processes[at].struck.loss {
            // What it has taken since it was removed goes as well.
            let Self { now, judge, processes, network, .. } = self;
            let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
            judge.disk_lost(*now, at, &seen);
        }
        let process = &mut self.processes[at];
        process.disk.wipe();
        (process.wiped, process.put_back) = (true, false);
        process.struck.loss = false;
    }

    /// Whether somebody has asked for the removal of any node.
    pub(crate) fn is_any_removed(&self) -> bool {
        self.processes.iter().any(|process| process.struck.asked)
    }

    /// Who was removed is a member again.
    pub(crate) fn note_joined(&mut self) {
        if self.processes.iter().any(|process| !process.struck.stores.is_empty()) {
            self.judge.goals.note(Goal::JoinedAnew);
        }
    }

    /// Who was to leave and has not is to stay, says an operator at every node; and whoever is down
    /// is started.
    pub(crate) fn keep_all(&mut self) {
        let asked = |at: &usize| self.processes[*at].struck.asked;
        let leaving: Vec<usize> = (0..self.processes.len()).filter(asked).collect();
        for node in leaving {
            if !self.is_up(node) {
                self.start(node);
            }
            for at in 0..self.processes.len() {
                if self.is_up(at) {
                    let hand = self.hand();
                    self.ask(hand, at, Request::KeepNode { node: node_id(node) });
                }
            }
        }
    }
}
