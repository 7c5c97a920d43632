//! Planted bugs: faults that a node could well have, and that the simulator has to find.
//!
//! A simulator that finds nothing proves nothing until it is known what it would find. So each
//! bug here stands for a way to break a promise: the swarm is run against it, and has to report
//! that promise within so many seeds. A bug that is not found is a hole in the load, the faults or
//! the watchers.
//!
//! There are two ways to plant one. Most sit at the [`border`] of a node and change what it hears,
//! says, or is opened on. What cannot be told from there is a patch (`sim/planted/*.patch`) that
//! is applied to a copy of the core and built there ([`workshop`]). Nothing of either is in what
//! is shipped.
//!
//! Invariant: a bug is found by the same swarm that is run against the honest core.
//! What this room does not do: it prints nothing; see `main.rs`.

pub mod border;
mod copies;
mod custody;
pub mod hunt;
pub(crate) mod memory;
pub mod trial;
pub mod workshop;

use border::Border;

use crate::plan::STRICT_FROM;

/// A planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// How it is called.
    pub name: &'static str,
    /// The promises that it breaks: one of them has to be reported.
    pub breaks: &'static [&'static str],
    /// What else it may show as; a hunt goes on.
    pub shows: &'static [&'static str],
    /// Where it is planted.
    pub plot: Plot,
}

impl Bug {
    /// The first and the last seed to look for it in so many: what breaks the order of a strict
    /// queue shows in plans that have one.
    fn seeds(&self, seeds: u64) -> (u64, u64) {
        let from = if self.breaks == ["P5"] { STRICT_FROM } else { 1 };
        (from, from + seeds - 1)
    }
}

/// Where a bug is planted.
#[derive(Clone, Copy, Debug)]
pub enum Plot {
    /// At the border of each node.
    Border(&'static Border),
    /// In the core: the text of a patch.
    Core(&'static str),
}

/// All planted bugs, by the promise that they break.
pub const BUGS: &[Bug] = &[
    Bug {
        name: "confirm-before-held",
        breaks: &["P1"],
        shows: &[],
        plot: Plot::Border(&copies::CONFIRM_BEFORE_HELD),
    },
    Bug {
        name: "held-before-commit",
        breaks: &["P1"],
        shows: &[],
        plot: Plot::Border(&copies::HELD_BEFORE_COMMIT),
    },
    Bug {
        name: "answer-before-commit",
        breaks: &["P1"],
        shows: &[],
        plot: Plot::Border(&copies::ANSWER_BEFORE_COMMIT),
    },
    Bug {
        name: "absence-is-delete",
        breaks: &["P1"],
        shows: &[],
        plot: Plot::Border(&copies::ABSENCE_IS_DELETE),
    },
    Bug {
        name: "one-host-twice",
        breaks: &["P1"],
        shows: &[],
        plot: Plot::Core(include_str!("../../planted/one-host-twice.patch")),
    },
    Bug {
        name: "contents-swapped",
        breaks: &["P2"],
        shows: &[],
        plot: Plot::Border(&copies::CONTENTS_SWAPPED),
    },
    Bug {
        name: "leases-not-told",
        breaks: &["P3"],
        shows: &[],
        plot: Plot::Border(&custody::LEASES_NOT_TOLD),
    },
    Bug {
        name: "lease-from-enqueue",
        breaks: &["P3"],
        shows: &[],
        plot: Plot::Core(include_str!("../../planted/lease-from-enqueue.patch")),
    },
    Bug {
        name: "tombstones-forgotten",
        breaks: &["P4"],
        shows: &["L5"],
        plot: Plot::Border(&memory::TOMBSTONES_FORGOTTEN),
    },
    Bug {
        name: "returner-not-told",
        breaks: &["P4"],
        shows: &["L5"],
        plot: Plot::Border(&memory::RETURNER_NOT_TOLD),
    },
    Bug {
        name: "before-the-marks",
        breaks: &["P4"],
        shows: &["P3", "P10", "L5"],
        plot: Plot::Border(&custody::BEFORE_THE_MARKS),
    },
    Bug {
        name: "stand-in-forgotten",
        breaks: &["P4"],
        shows: &["L5", "P3"],
        plot: Plot::Core(include_str!("../../planted/stand-in-forgotten.patch")),
    },
    Bug {
        name: "tombstone-dropped-by-age",
        breaks: &["P4"],
        shows: &["L5"],
        plot: Plot::Core(include_str!("../../planted/tombstone-dropped-by-age.patch")),
    },
    Bug {
        name: "key-not-waited-for",
        breaks: &["P5"],
        shows: &["P3", "P10", "L5"],
        plot: Plot::Core(include_str!("../../planted/key-not-waited-for.patch")),
    },
    Bug {
        name: "put-back-unnoticed",
        breaks: &["P4"],
        shows: &["L1", "L5"],
        plot: Plot::Border(&memory::PUT_BACK_UNNOTICED),
    },
    Bug {
        name: "stamps-issued-again",
        breaks: &["P8"],
        shows: &["P3", "P11"],
        plot: Plot::Border(&memory::STAMPS_ISSUED_AGAIN),
    },
    Bug {
        name: "want-told-once",
        breaks: &["P10"],
        shows: &[],
        plot: Plot::Border(&custody::WANT_TOLD_ONCE),
    },
    Bug {
        name: "yield-without-giving",
        breaks: &["P10"],
        shows: &["L5"],
        plot: Plot::Border(&custody::YIELD_WITHOUT_GIVING),
    },
    Bug {
        name: "head-dropped",
        breaks: &["P10"],
        shows: &[],
        plot: Plot::Core(include_str!("../../planted/head-dropped.patch")),
    },
    Bug {
        name: "tombstone-dropped-early",
        breaks: &["P11"],
        shows: &["P1", "P3", "P4", "L5"],
        plot: Plot::Core(include_str!("../../planted/tombstone-dropped-early.patch")),
    },
    Bug {
        name: "arrivals-not-cut",
        breaks: &["P12"],
        shows: &[],
        plot: Plot::Core(include_str!("../../planted/arrivals-not-cut.patch")),
    },
    Bug {
        name: "table-not-told",
        breaks: &["P13"],
        shows: &["P1", "P4", "P10", "L5"],
        plot: Plot::Border(&memory::TABLE_NOT_TOLD),
    },
    Bug {
        name: "queue-comes-back",
        breaks: &["P13"],
        shows: &[],
        plot: Plot::Core(include_str!("../../planted/queue-comes-back.patch")),
    },
    Bug {
        name: "gate-open",
        breaks: &["P14"],
        shows: &[],
        plot: Plot::Core(include_str!("../../planted/gate-open.patch")),
    },
];

impl Bug {
    /// Whether this is a promise that the bug breaks.
    #[must_use]
    pub fn accounts_for(&self, promise: &str) -> bool {
        self.breaks.contains(&promise)
    }
}

#[cfg(test)]
mod tests;
