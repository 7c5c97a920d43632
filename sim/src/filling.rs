//! Disks that fill: no commit finds room any more, but for what was set aside.
//!
//! Half of the disks have something set aside when they fill. It is given back when a commit fails,
//! and from then on changes find room that remove or bury something, and so many new copies. When
//! these are used up, or nothing was set aside, the process cannot be opened until there is room.
//! A process measures its disk as soon as it was full once.
//!
//! What this file does not do: other things that disks do are in `trouble.rs`.

use gaggle_core::ledger::Write;
use rand::RngExt;

use crate::goals::Goal;
use crate::world::World;

/// How much room a disk has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Enough.
    #[default]
    Roomy,
    /// None, but something is set aside.
    Reserved,
    /// What was set aside was given back: room for so many new copies.
    Spent(usize),
    /// None at all.
    Full,
}

impl World {
    /// There is no room on the disk of a node any more.
    pub(crate) fn fill_disk(&mut self, at: usize) {
        let filling = if self.rng.random() { Filling::Reserved } else { Filling::Full };
        self.fill_disk_to(at, filling);
    }

    /// There is this room on the disk of a node from now on.
    pub(crate) fn fill_disk_to(&mut self, at: usize, filling: Filling) {
        self.report.line(self.now, format_args!("disk of {} is {filling:?}", at + 1));
        self.judge.weather.disturb();
        self.processes[at].filling = filling;
        self.begin_measuring(at);
    }

    /// There is room again.
    pub(crate) fn free_disk(&mut self, at: usize) {
        if self.processes[at].filling != Filling::Roomy {
            self.fill_disk_to(at, Filling::Roomy);
        }
    }

    /// Whether a process cannot be opened: there is no room for what it writes first.
    pub(crate) fn is_full(&self, at: usize) -> bool {
        self.processes[at].filling == Filling::Full
    }

    /// What a process measures of its disk: how much of a hundred is free, or nothing of one that
    /// never was full.
    pub(crate) fn measured_room(&self, at: usize) -> (u64, u64) {
        match self.processes[at].filling {
            Filling::Roomy => (100, 100),
            Filling::Reserved | Filling::Spent(_) | Filling::Full => (0, 100),
        }
    }

    /// Whether the commit that ends finds no room.
    pub(crate) fn finds_no_room(&mut self, at: usize) -> bool {
        let process = &mut self.processes[at];
        let copies = process.disk.written(|write| matches!(write, Write::PutMessage { .. }));
        let (found, filling) = match process.filling {
            Filling::Roomy => return false,
            Filling::Spent(left) if copies <= left => (true, Filling::Spent(left - copies)),
            Filling::Reserved => (false, Filling::Spent(FITS)),
            Filling::Spent(_) | Filling::Full => (false, Filling::Full),
        };
        process.filling = filling;
        if found && process.disk.written(|write| matches!(write, Write::Delete { .. })) > 0 {
            self.judge.goals.note(Goal::FullDeleted);
        }
        !found
    }
}

/// How many new copies fit where something was set aside.
const FITS: usize = 64;
