//! Disks: which one each node was met with last, and how far it had come.
//!
//! A node's store has a name of its own and counts its commits. It says both when it is met, and
//! how far it is with all that others build upon. So a disk that was put back to an earlier state
//! gives itself away: it has a name that it had laid down, or it is opened at a lower number than
//! it had told. What such a disk holds is no evidence of anything any more.
//!
//! Invariant: a number that is remembered here was durable at its node when it was told. What this
//! file does not do: what follows from it is in [`crate::Node`].

use std::collections::BTreeMap;

use gaggle_wire::{NodeId, ProcessId};
use serde::{Deserialize, Serialize};

use crate::envelope::PeerHello;

/// What is written down of a node's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskRecord {
    /// Its name.
    store: u128,
    /// The process that ran on it last.
    process: ProcessId,
    /// How many commits it has told of.
    commits: u64,
    /// Its last names before this one, and the process that ran on it last under each.
    former: Vec<(u128, ProcessId)>,
}

/// The disks of all nodes that were met.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    known: BTreeMap<NodeId, Known>,
}

#[derive(Debug)]
struct Known {
    record: DiskRecord,
    /// Whether it is on the own disk as it is here.
    written: bool,
}

/// Whether a node has the disk it had when it was met last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    /// The node is met for the first time.
    First,
    /// The same one.
    Same,
    /// Another one: nothing that was known of its copies and tombstones holds.
    Another,
}

impl Disks {
    pub(crate) fn new(records: BTreeMap<NodeId, DiskRecord>) -> Self {
        let known = |(node, record)| (node, Known { record, written: true });
        Self { known: records.into_iter().map(known).collect() }
    }

    /// All nodes that were met, in this run or before it.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.known.keys().copied()
    }

    /// The name of the disk that a node had when it was met last.
    pub(crate) fn store(&self, node: NodeId) -> Option<u128> {
        self.known.get(&node).map(|known| known.record.store)
    }

    /// Whether this is the disk that a node had when it was met last.
    pub(crate) fn has(&self, node: NodeId, store: u128) -> bool {
        self.store(node) == Some(store)
    }

    /// Whether the disk of a node was put back to an earlier state. One process cannot tell that of
    /// itself: it is opened once, and its number rises from then on.
    pub(crate) fn is_outdated(&self, hello: &PeerHello) -> bool {
        let Some(Known { record, .. }) = self.known.get(&hello.node) else { return false };
        if record.store == hello.store {
            record.process != hello.process && hello.commits < record.commits
        } else {
            // Of two living processes under one name, each with a disk of its own, neither was put
            // back: they are told apart otherwise.
            let laid_down = |(store, process)| store == hello.store && process != hello.process;
            record.former.iter().copied().any(laid_down)
        }
    }

    /// A node is met.
    pub(crate) fn met(&mut self, hello: &PeerHello) -> Disk {
        let PeerHello { node, store, process, commits, .. } = *hello;
        let Some(known) = self.known.get_mut(&node) else {
            let record = DiskRecord { store, process, commits, former: Vec::new() };
            self.known.insert(node, Known { record, written: false });
            return Disk::First;
        };
        let Known { record, written } = known;
        if record.store == store {
            if record.process != process {
                (record.process, *written) = (process, false);
            }
            record.commits = record.commits.max(commits);
            return Disk::Same;
        }
        record.former.push((record.store, record.process));
        let many = record.former.len().saturating_sub(FORMER_MAX);
        record.former.drain(..many);
        (record.store, record.process, record.commits) = (store, process, commits);
        *written = false;
        Disk::Another
    }

    /// A node tells how many commits its disk has; whether that can be.
    pub(crate) fn told(&mut self, node: NodeId, commits: u64) -> bool {
        let Some(Known { record, written }) = self.known.get_mut(&node) else { return true };
        if commits > record.commits {
            (record.commits, *written) = (commits, false);
        }
        commits >= record.commits
    }

    /// What is to be written down, since the last time.
    pub(crate) fn take_unwritten(&mut self) -> Vec<(NodeId, DiskRecord)> {
        let unwritten = self.known.iter_mut().filter(|(_, known)| !known.written);
        let take = |(node, known): (&NodeId, &mut Known)| {
            known.written = true;
            (*node, known.record.clone())
        };
        unwritten.map(take).collect()
    }
}

/// How many names of a disk are remembered that it has laid down.
const FORMER_MAX: usize = 16;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::envelope::PEER_VERSION;

    const B: NodeId = NodeId(2);

    fn hello(store: u128, process: u64, commits: u64) -> PeerHello {
        let address = "127.0.0.1:7400".parse().unwrap();
        PeerHello {
            version: PEER_VERSION,
            node: B,
            boot: 1,
            store,
            process: ProcessId(process),
            commits,
            peer_address: address,
            client_address: address,
            zone: String::new(),
            space: crate::space::Space::Plenty,
        }
    }

    /// A node was met with this disk.
    pub(in crate::session) fn met(node: NodeId, store: u128) -> Disks {
        let mut disks = Disks::default();
        disks.met(&PeerHello { node, ..hello(store, 1, 0) });
        disks
    }

    #[test]
    fn another_disk_under_an_old_name_is_noticed() {
        let mut disks = met(B, 1);
        assert_eq!(disks.met(&hello(1, 2, 0)), Disk::Same);
        assert_eq!(disks.met(&hello(7, 3, 0)), Disk::Another);
        assert!(disks.has(B, 7) && !disks.has(B, 1));
    }

    #[test]
    fn a_disk_that_is_opened_at_a_lower_number_than_it_told_was_put_back() {
        let mut disks = Disks::default();
        assert!(!disks.is_outdated(&hello(1, 1, 5)), "nobody knows it");
        assert_eq!(disks.met(&hello(1, 1, 5)), Disk::First);
        assert!(disks.told(B, 9));
        assert!(!disks.is_outdated(&hello(1, 1, 5)), "it is the process that told it");
        for (commits, outdated) in [(8, true), (9, false), (10, false)] {
            assert_eq!(disks.is_outdated(&hello(1, 2, commits)), outdated, "{commits}");
        }
        assert!(!disks.told(B, 8), "a process went back with its disk");
        assert!(disks.is_outdated(&hello(1, 2, 8)), "and what it told holds");
        assert!(!disks.is_outdated(&hello(2, 2, 0)), "another disk counts from its own beginning");
    }

    #[test]
    fn a_disk_that_has_a_name_it_had_laid_down_was_put_back() {
        let mut disks = met(B, 1);
        for store in 2..=3 + FORMER_MAX as u128 {
            disks.met(&hello(store, 1, 0));
        }
        let outdated = |store: &u128| disks.is_outdated(&hello(*store, 2, 100));
        let last = 3 + FORMER_MAX as u128;
        assert_eq!((1..=last).filter(outdated).count(), FORMER_MAX, "the last ones");
        assert!(outdated(&(last - 1)) && !outdated(&last));
    }

    #[test]
    fn of_two_processes_under_one_name_with_disks_of_their_own_neither_was_put_back() {
        let mut disks = met(B, 1);
        for _ in 0..3 {
            assert!(!disks.is_outdated(&hello(2, 2, 0)));
            assert_eq!(disks.met(&hello(2, 2, 0)), Disk::Another);
            assert!(!disks.is_outdated(&hello(1, 1, 0)), "it was never opened anew");
            assert_eq!(disks.met(&hello(1, 1, 0)), Disk::Another);
        }
        assert!(disks.is_outdated(&hello(2, 3, 100)), "and what was is");
    }

    #[test]
    fn what_is_known_of_a_disk_is_written_once_and_holds_over_a_restart() {
        let mut disks = met(B, 1);
        disks.told(B, 9);
        let written = disks.take_unwritten();
        assert_eq!(disks.take_unwritten(), []);
        disks.told(B, 9);
        assert_eq!(disks.take_unwritten(), []);
        disks.told(B, 10);
        assert_eq!(disks.take_unwritten().len(), 1);
        let again = Disks::new(written.into_iter().collect());
        assert!(again.is_outdated(&hello(1, 2, 8)) && !again.is_outdated(&hello(1, 2, 9)));
    }
}
