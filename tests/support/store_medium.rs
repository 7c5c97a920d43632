//! The store of a node under the simulator, on a disk that fails.
//!
//! When a simulated process dies, the power fails at some write or sync of the commit that is under
//! way, or the process is killed there, or the disk refuses it; now and then the power fails again
//! within the opening that follows. A seed decides, so a run can be repeated.
//!
//! Invariant: what a commit said it did is there afterwards, and of what it did not say all or
//! nothing: the simulator compares. What this file does not do: no bits rot here; contents are
//! what the simulator's producers send.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use gaggle_core::event::ScanEnd;
use gaggle_core::ledger::{Row, Write};
use gaggle_node::store::{Change, Store};
use gaggle_sim::medium::{Medium, Told};
use gaggle_wire::{Message, Stamp};

use crate::faulty_disk::{Fault, FaultyDisk};

/// A store on a disk that fails as a seed says.
#[derive(Debug)]
pub struct StoreMedium {
    disk: FaultyDisk,
    store: Option<Store>,
    random: u64,
}

impl StoreMedium {
    /// An empty store.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let disk = FaultyDisk::new(seed);
        let mut medium = Self { store: None, disk, random: seed };
        medium.open();
        medium
    }

    fn open(&mut self) {
        let store = self.disk.open();
        self.store = Some(store.unwrap_or_else(|error| panic!("P1: the store is lost: {error}")));
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between two calls")
    }

    /// The next number of a splitmix64 sequence.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

impl Medium for StoreMedium {
    fn commit(&mut self, changes: &[Write]) {
        let told = self.store().commit(&with_contents(changes));
        told.unwrap_or_else(|error| panic!("a disk that is well refused a commit: {error}"));
    }

    fn die(&mut self, running: &[Write]) -> Told {
        const FAULTS: [Fault; 4] = [Fault::PowerCut, Fault::Kill, Fault::Io, Fault::Full];
        let fault = FAULTS[usize::try_from(self.below(4)).expect("it is small")];
        let mut told = Told::Nothing;
        if !running.is_empty() {
            let nth = 1 + self.below(COMMIT_WRITES);
            self.disk.fail_at(nth, fault);
            if self.store().commit(&with_contents(running)).is_ok() {
                told = Told::Done;
            }
        }
        let killed = fault == Fault::Kill && !running.is_empty() && !self.disk.is_waiting();
        if !killed {
            // Before the store is dropped: that would close it well.
            self.disk.crash();
        }
        self.store = None;
        if self.below(3) == 0 {
            let nth = 1 + self.below(OPENING_WRITES);
            self.disk.fail_at(nth, Fault::PowerCut);
            let opened = self.disk.open();
            self.disk.crash();
            drop(opened);
        }
        self.open();
        told
    }

    fn wipe(&mut self) {
        self.store = None;
        self.disk = FaultyDisk::new(self.random);
        self.open();
    }

    fn rows(&self) -> Vec<Row> {
        let read = self.store().read_all(|rows| rows.collect());
        read.unwrap_or_else(|error| panic!("P1: the store cannot be read: {error}"))
    }

    fn read(&self, from: &[u8], to: &[u8], limit: usize) -> (Vec<Row>, ScanEnd) {
        let (mut rows, mut end) = (self.rows(), ScanEnd::Reached);
        rows.retain(|row| from <= &row.key[..] && &row.key[..] < to);
        if rows.len() > limit {
            rows.truncate(limit);
            end = ScanEnd::More;
        }
        (rows, end)
    }
}

/// All contents that applications of the simulator send in one run, by their checksum. The bodies
/// are the sender's number and the ticket of the send.
fn contents() -> &'static BTreeMap<u32, Bytes> {
    static CONTENTS: OnceLock<BTreeMap<u32, Bytes>> = OnceLock::new();
    CONTENTS.get_or_init(|| {
        let names = (0..64).flat_map(|actor| (0..3000).map(move |ticket| (actor, ticket)));
        let bodies = names.map(|(actor, ticket)| format!("{actor}-{ticket}"));
        // Guests have one body, whatever they send.
        let packed = bodies.chain(["ahead".to_owned()]).map(|body| {
            let (label, content) = Message::new(body).pack(0, Stamp::ZERO, 0).expect("it is small");
            (label.crc, content)
        });
        packed.collect()
    })
}

/// The changes with the contents of their messages, as the simulator's producers make them.
fn with_contents(changes: &[Write]) -> Vec<Change> {
    let change = |write: &Write| {
        let content = match write {
            Write::PutMessage { key, label, .. } => {
                let content = contents().get(&label.crc).cloned().unwrap_or_default();
                assert!(label.matches(&content), "the content of {key:?} is not known here");
                Some(content)
            }
            _ => None,
        };
        Change { write: write.clone(), content }
    };
    changes.iter().map(change).collect()
}

/// A commit of a storm takes about ten writes and two syncs; above that it is done.
const COMMIT_WRITES: u64 = 16;
/// As many as a repair takes, roughly.
const OPENING_WRITES: u64 = 8;
