//! The promises, and who watches them: one file each, and the table of all.
//!
//! A watcher is a function from what was known and what has just been learned to a complaint. It
//! keeps nothing itself. Every watcher is fed a history that breaks its promise, and one that
//! nearly does, in the test beside it; all watchers look on, and no other may complain.
//!
//! What this folder does not do: what a single node can see of itself is in `Node::check`.

#[cfg(test)]
mod history;
mod p01_no_loss;
mod p02_no_invention;
mod p03_explained_duplicates;
mod p04_delete_is_final;
mod p05_strict_order;
mod p08_unique_stamps;
mod p10_nothing_stranded;
mod p11_stored_once;
mod p12_limits;
mod p13_table;
mod p14_sick_clock;

use std::fmt;

use crate::judge::{Scene, Subject};
use crate::oracle::{Fact, Fate, FullName};

/// A promise of `docs/promises.md`.
#[derive(Debug)]
pub struct Promise {
    /// Its number.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// What is watched, and how.
    pub watched: &'static str,
    watcher: Option<Watcher>,
}

type Watcher = fn(&Scene<'_>, &Fact) -> Option<String>;

impl Promise {
    /// Whether anything watches it.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watcher.is_some()
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the promise.
    pub promise: u8,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}: {}", self.promise, self.text)
    }
}

/// What a fact says against the promises.
pub(crate) fn violations(scene: &Scene<'_>, fact: &Fact) -> Vec<Violation> {
    let watched = TABLE.iter().filter_map(|promise| Some((promise.number, promise.watcher?)));
    let found = watched.filter_map(|(promise, watcher)| {
        watcher(scene, fact).map(|text| Violation { promise, text })
    });
    found.collect()
}

/// All promises.
pub const TABLE: [Promise; 14] = [
    Promise {
        number: 1,
        name: "no loss",
        watched: "a confirm names as many copies as lie on disks, and no fewer than the queue \
                  asks for; nothing is gone that nobody deleted, and at the end what did not come \
                  lies on a disk still",
        watcher: Some(p01_no_loss::watch),
    },
    Promise {
        number: 2,
        name: "no invention",
        watched: "every delivery is of a message that was sent to this queue, with its label",
        watcher: Some(p02_no_invention::watch),
    },
    Promise {
        number: 3,
        name: "explained duplicates",
        watched: "in fair weather a second delivery has an ended lease or a release behind it; in \
                  a storm at least those of one run of one custodian do",
        watcher: Some(p03_explained_duplicates::watch),
    },
    Promise {
        number: 4,
        name: "delete is final",
        watched: "a confirmed delete is on as many disks as its queue asks for, and on those of \
                  the holders near its coordinator; in fair weather nothing comes, or lies on a \
                  disk, that was deleted more than 2 s before; in a storm nothing is handed out by \
                  a host that somebody who had the tombstone when the delete was confirmed could \
                  have told for 2 s, or when their session began",
        watcher: Some(p04_delete_is_final::watch),
    },
    Promise {
        number: 5,
        name: "strict order",
        watched: "what comes for the first time is newer than all that has come of its key",
        watcher: Some(p05_strict_order::watch),
    },
    strict(6, "late is never lost"),
    strict(7, "the watermark never goes back"),
    Promise {
        number: 8,
        name: "unique stamps",
        watched: "no two sends are accepted at one stamp, and a node's stamps rise from an answer \
                  to the next request",
        watcher: Some(p08_unique_stamps::watch),
    },
    strict(9, "one delivery group"),
    Promise {
        number: 10,
        name: "nothing is stranded",
        watched: "in fair weather no message is ready and no consumer waits, both for a second; \
                  when the storm is over everything comes to a consumer (liveness.rs)",
        watcher: Some(p10_nothing_stranded::watch),
    },
    Promise {
        number: 11,
        name: "stored once",
        watched: "a message sent again clashes with nothing, and after its delete, in fair \
                  weather, the answer is that it is gone",
        watcher: Some(p11_stored_once::watch),
    },
    Promise {
        number: 12,
        name: "limits hold",
        watched: "after every event: ids of windows, requests that wait, sends under way, rows of \
                  a read; no delete is refused at a limit",
        watcher: Some(p12_limits::watch),
    },
    Promise {
        number: 13,
        name: "the table converges",
        watched: "a row of a confirmed message goes for a reason; what was purged, and a deleted \
                  queue, does not come back; at the end all tables are the same",
        watcher: Some(p13_table::watch),
    },
    Promise {
        number: 14,
        name: "one sick clock",
        watched: "after every event no clock is beyond its own wall and the drift bound; no send \
                  of a right clock is refused for a wrong one",
        watcher: Some(p14_sick_clock::watch),
    },
];

/// Whether a message lies undamaged on the disk of a node that is up.
fn is_reachable(scene: &Scene<'_>, name: &FullName, fate: &Fate) -> bool {
    let subject = Subject { name: *name, stamp: fate.label.stamp, custodian: None };
    let witness = (scene.look)(&subject);
    witness.holders.iter().any(|at| witness.up.contains(at) && !witness.damaged.contains(at))
}

const fn strict(number: u8, name: &'static str) -> Promise {
    Promise {
        number,
        name,
        watched: "nobody watches it yet: no node makes strict queues",
        watcher: None,
    }
}

/// How long what was handed out may be on its way to its client, commits included.
const ON_ITS_WAY: u64 = 400_000_000;
/// So long after it was asked for, a tombstone is kept for certain: a little less than the shortest
/// resend window.
const KEPT: u64 = 3_500_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_promise_by_its_number() {
        assert!(TABLE.iter().zip(1..).all(|(promise, number)| promise.number == number));
    }

    #[test]
    fn a_violation_is_printed_with_the_number_of_its_promise() {
        let violation = Violation { promise: 4, text: "it came again".to_owned() };
        assert_eq!(violation.to_string(), "P4: it came again");
    }
}
