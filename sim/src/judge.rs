//! The judge: what clients know and what the world sees, held against every promise.
//!
//! Each fact is judged by all watchers before it is taken down. What this file does not do: what
//! a promise forbids is in its own file under [`crate::promises`].

use std::collections::{BTreeMap, BTreeSet};

use gaggle_core::ledger::MessageKey;
use gaggle_wire::{NodeId, Request, Stamp};

use crate::goals::Goals;
use crate::oracle::{Answer, Delivered, Fact, FullName, Oracle, Place, show};
use crate::promises::{self, Violation};
use crate::truth::Truth;
use crate::weather::Weather;

/// Everything that a watcher may look at.
pub struct Scene<'a> {
    /// The time.
    pub now: u64,
    /// What clients knew before.
    pub oracle: &'a Oracle,
    /// Whether anything fails.
    pub weather: &'a Weather,
    /// What the world sees of a message now.
    pub look: Look<'a>,
}

/// A question to the world.
pub type Look<'a> = &'a dyn Fn(&Subject) -> Witness;

/// A message, and who handed it out.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The message.
    pub name: FullName,
    /// Its stamp.
    pub stamp: Stamp,
    /// Its custodian, if it was delivered.
    pub custodian: Option<NodeId>,
}

/// What the world sees of a message, by the places of the nodes.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// Who is up.
    pub up: BTreeSet<usize>,
    /// Who is being stopped.
    pub leaving: BTreeSet<usize>,
    /// What the wall clocks of those that are up say.
    pub walls: Vec<u64>,
    /// On whose disks it lies.
    pub holders: BTreeSet<usize>,
    /// On which of those it is damaged.
    pub damaged: BTreeSet<usize>,
    /// Who was removed from the cluster with the disk that it has.
    pub struck: BTreeSet<usize>,
    /// Who knows that its copy is damaged or missing.
    pub losers: BTreeSet<usize>,
    /// Who is up and knows that it is gone, be its tombstone on disk or about to be.
    pub buriers: BTreeSet<usize>,
    /// On whose disks its tombstone lies, whether their nodes are up or not.
    pub buried: BTreeSet<usize>,
    /// Who is in session with its custodian, with nothing cut and both awake; the custodian
    /// itself among them.
    pub near: BTreeSet<usize>,
    /// Who is in session with its custodian, whatever is cut, and since when.
    pub sessions: BTreeMap<usize, u64>,
}

/// Hears all, and judges.
#[derive(Debug, Default)]
pub struct Judge {
    /// What clients know.
    pub oracle: Oracle,
    /// Whether anything fails.
    pub weather: Weather,
    /// What has happened that must happen sometimes.
    pub goals: Goals,
    /// What applications are told.
    pub(crate) truth: Truth,
    pub(crate) violations: Vec<Violation>,
}

impl Judge {
    /// A client asks for something.
    pub(crate) fn asks(&mut self, now: u64, place: Place, number: u64, request: &Request) {
        self.oracle.asks(now, place, number, request);
    }

    /// A client gets an answer.
    pub(crate) fn hears(&mut self, now: u64, answer: &Answer<'_>, look: Look<'_>) {
        self.goals.answered(answer.response);
        for fact in self.oracle.hears(now, answer) {
            self.goals.told_by(answer.place.node, &fact);
            self.judge(now, &fact, look);
        }
    }

    /// A client has no connection to a node any more.
    pub(crate) fn lost(&mut self, now: u64, place: Place) {
        self.oracle.lost(now, place);
    }

    /// A node is about to lose what is on its disk.
    pub(crate) fn disk_lost(&mut self, now: u64, at: usize, look: Look<'_>) {
        self.weather.disturb();
        self.truth.disk_lost(at);
        self.oracle.disk_lost(now, at, look);
    }

    /// A node is removed from the cluster: what is to be consumed must lie at another one, unless
    /// loss was accepted.
    pub(crate) fn removed(&mut self, now: u64, (at, loss): (usize, bool), look: Look<'_>) {
        if !loss {
            let mut open = self.oracle.fates().filter(|(_, fate)| fate.is_open());
            let alone = open.find(|(name, fate)| {
                let witness = look(&fate.subject(**name));
                witness.holders.iter().eq([&at]) && witness.buriers.is_empty()
            });
            if let Some((name, _)) = alone {
                let node = crate::options::node_id(at);
                let text = format!("{node} is removed, and only it has {}", show(*name));
                self.violations.push(Violation { promise: 1, text });
            }
        }
        self.truth.disk_lost(at);
        self.oracle.disk_lost(now, at, look);
    }

    /// The disk of a node is about to be put back to a state in which it has these messages.
    pub(crate) fn disk_put_back(
        &mut self,
        now: u64,
        at: usize,
        there: (&dyn Fn(MessageKey) -> bool, Look<'_>),
    ) {
        self.weather.disturb();
        self.truth.disk_lost(at);
        self.oracle.disk_put_back(now, at, there);
    }

    /// Messages at a node are damaged.
    pub(crate) fn rots(&mut self, now: u64, at: usize, keys: &[MessageKey], look: Look<'_>) {
        self.weather.disturb();
        self.oracle.rots((now, at), keys, look);
    }

    /// Rows of messages at a node are lost.
    pub(crate) fn rows_lost(&mut self, now: u64, at: usize, keys: &[MessageKey], look: Look<'_>) {
        self.weather.disturb();
        self.oracle.rows_lost((now, at), keys, look);
    }

    /// Something is so.
    pub(crate) fn judge(&mut self, now: u64, fact: &Fact, look: Look<'_>) {
        let scene = Scene { now, oracle: &self.oracle, weather: &self.weather, look };
        self.violations.extend(promises::violations(&scene, fact));
        self.goals.learns(&scene, fact);
        self.oracle.learn(now, fact, look);
        if let Fact::Confirmed { name, .. } | Fact::Delivered(Delivered { name, .. }) = fact {
            self.appears(*name);
        }
    }

    /// What went against a promise.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}
