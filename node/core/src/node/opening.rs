//! Opening a node on its rows, and its first steps.
//!
//! Rows come in key order, so what a later row needs was read before it: the node's own values,
//! queues, members, tombstones, what is settled, and then the messages, of which only ranges and
//! counts stay in memory. A damaged row of the node itself is fatal; a damaged message is counted
//! and left for a fresh copy; a message of a queue that nobody knows is kept (F16). A row that
//! counts deliveries of a message which is not here goes: its receipts named an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use gaggle_wire::{Label, NodeId, ProcessId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thiserror::Error;

use super::commits::Commits;
use super::{Desk, Drain, Node, Run, Sends};
use crate::clock::{Calendar, Clock, Leaps};
use crate::config::Config;
use crate::custody::burial::{BLOCK_MAX, BlockRecord, Burials};
use crate::custody::known::SettledRecord;
use crate::custody::replacing::Replacing;
use crate::custody::scrub::Scrub;
use crate::effect::Effects;
use crate::event::Surroundings;
use crate::lag::Lag;
use crate::ledger::key::meta;
use crate::ledger::record::RecordError;
use crate::ledger::{Key, MessageKey, MessageRecord, Row, Write, record};
use crate::membership::{Contacts, Me, Membership, MembershipConfig, Profile, Readiness, Zone};
use crate::now::Now;
use crate::queue::Partition;
use crate::reception::Reception;
use crate::rounds::Rows;
use crate::session::{DiskRecord, Disks, PartitionId, Sessions};
use crate::table::{Entry, Removal, Stage, Table};
use crate::timer::{Timer, Timers};

/// Why a node cannot be opened on these rows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// A row of the node itself cannot be read.
    #[error("the row {0:02x?} of the store is damaged, or of a kind that is not known here")]
    BadRow(Vec<u8>),
    /// The node was removed from the cluster with this disk, for good.
    #[error("node {0} was removed from the cluster with this disk")]
    Removed(NodeId),
    /// Another version of Gaggle wrote the store. Nothing is changed by that: it can be opened by
    /// that version.
    #[error(
        "the store was written by another version of Gaggle: its row {0:02x?} has version {1}, \
         this one reads {own}",
        own = record::VERSION
    )]
    OtherVersion(Vec<u8>, u8),
    /// The zone in the configuration is none.
    #[error("the zone {0:?} is not at most 64 characters of A-Z a-z 0-9 . _ -")]
    BadZone(String),
}

/// What the rows say.
#[derive(Default)]
struct Opened {
    boot: u64,
    ceiling: u64,
    store: u128,
    renamed: Option<u128>,
    commits: u64,
    table: Table,
    members: Vec<(NodeId, SocketAddr)>,
    disks: BTreeMap<NodeId, DiskRecord>,
    burials: Burials,
    settled: BTreeMap<PartitionId, BTreeMap<ProcessId, SettledRecord>>,
    partitions: BTreeMap<PartitionId, Partition>,
    /// The message that was read last, and its number.
    last: Option<(MessageKey, u64)>,
    damaged: u64,
    /// Messages without a row that can be read, and with one that counts their deliveries.
    uncounted: Vec<MessageKey>,
    written: BTreeMap<NodeId, Vec<u8>>,
    /// What was agreed on of strict partitions, and what lies there.
    rounds: BTreeMap<PartitionId, Rows>,
    strict: BTreeMap<PartitionId, Vec<Label>>,
}

impl Opened {
    fn read(&mut self, row: &Row) -> Result<(), OpenError> {
        let bad = || OpenError::BadRow(row.key.clone());
        let unread = |error| match error {
            RecordError::UnknownVersion(of) => OpenError::OtherVersion(row.key.clone(), of),
            RecordError::Damaged => bad(),
        };
        let value = &row.value;
        match Key::parse(&row.key).ok_or_else(bad)? {
            Key::Meta(meta::BOOT) => {
                let boot: u64 = record::decode(value).map_err(unread)?;
                // The next run is numbered from it.
                self.boot = if boot < u64::MAX { boot } else { return Err(bad()) };
            }
            Key::Meta(meta::CEILING) => self.ceiling = record::decode(value).map_err(unread)?,
            Key::Meta(meta::STORE) => self.store = record::decode(value).map_err(unread)?,
            Key::Meta(meta::RENAMED) => {
                self.renamed = Some(record::decode(value).map_err(unread)?);
            }
            Key::Meta(meta::COMMITS) => self.commits = record::decode(value).map_err(unread)?,
            Key::Meta(_) | Key::Due(..) => {}
            Key::Queue(_) => {
                let entry: Entry = record::decode(value).map_err(unread)?;
                self.table.merge(&entry);
            }
            Key::Member(node) => {
                let address = record::decode(value).map_err(unread)?;
                self.members.push((node, address));
                self.written.insert(node, value.clone());
            }
            Key::Removal(..) => {
                let removal: Removal = record::decode(value).map_err(unread)?;
                self.table.merge_removal(&removal);
            }
            Key::Disk(node) => {
                self.disks.insert(node, record::decode(value).map_err(unread)?);
            }
            Key::Tombstones(_, _, block) if block > BLOCK_MAX => return Err(bad()),
            Key::Tombstones(queue, partition, block) => {
                let read: BlockRecord = record::decode(value).map_err(unread)?;
                let known = &mut self.partition((queue, partition)).known;
                for (process, numbers) in &read.messages {
                    known.bury(*process, numbers);
                }
                self.burials.read((queue, partition), block, read);
            }
            Key::Settled(queue, partition, process) => {
                let read = record::decode(value).map_err(unread)?;
                self.settled.entry((queue, partition)).or_default().insert(process, read);
            }
            Key::Message(key) => self.read_message(key, value),
            Key::Deliveries(key) => self.read_count(key),
            Key::Agreed(queue, partition, what) => {
                let rows = self.rounds.entry((queue, partition)).or_default();
                rows.read(what, value).map_err(unread)?;
            }
        }
        Ok(())
    }

    fn read_message(&mut self, key: MessageKey, value: &[u8]) {
        match MessageRecord::decode(&key, value) {
            Ok(message) => {
                let partition = self.partition((key.queue, key.partition));
                let number = message.label.number;
                if partition.known.hold_row(key.stamp.process, number) {
                    let list = partition.list(&message.holders);
                    partition.lists.hold(list, key.stamp.process, number);
                }
                if self.table.live(key.queue).is_some_and(Entry::is_strict) {
                    let held = self.strict.entry((key.queue, key.partition)).or_default();
                    held.push(message.label);
                }
                let partition = self.partition((key.queue, key.partition));
                if message.label.delay_ms > 0 {
                    partition.next_due = Some(0);
                }
                self.last = Some((key, number));
            }
            Err(_) => {
                // Nothing may be known of its partition: the scrub has to pass there.
                self.partition((key.queue, key.partition));
                self.damaged += 1;
            }
        }
    }

    /// A row that counts deliveries lies right behind its message.
    fn read_count(&mut self, key: MessageKey) {
        match self.last.filter(|(last, _)| *last == key) {
            Some((_, number)) => {
                let known = &mut self.partition((key.queue, key.partition)).known;
                known.count_row(key.stamp.process, number);
            }
            None => self.uncounted.push(key),
        }
    }

    fn partition(&mut self, id: PartitionId) -> &mut Partition {
        self.partitions.entry(id).or_insert_with(|| Partition::new(id))
    }
}

impl Node {
    /// Opens a node on all rows of its store, in key order (of messages only the headers).
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was changed.
    pub fn open(
        config: Config,
        now: Now,
        rows: &mut dyn Iterator<Item = Row>,
    ) -> Result<Self, OpenError> {
        let zone =
            Zone::parse(&config.zone).map_err(|_| OpenError::BadZone(config.zone.clone()))?;
        let mut opened = Opened::default();
        for row in rows {
            opened.read(&row)?;
        }
        let store = opened.renamed.unwrap_or(opened.store);
        if opened.table.removals().stage(config.node, store) == Stage::Removed {
            return Err(OpenError::Removed(config.node));
        }
        for id in opened.settled.keys().copied().collect::<Vec<_>>() {
            opened.partition(id);
        }
        let none = BTreeMap::new();
        for (id, partition) in &mut opened.partitions {
            partition.known.rows_read(opened.settled.get(id).unwrap_or(&none));
        }
        opened.burials.reopened(config.node, now.mono);
        let mut rng = Pcg64Mcg::seed_from_u64(config.seed);
        let process = ProcessId(rng.random());
        let foca_seed = rng.random();
        let boot = if opened.boot == 0 { config.first_boot } else { opened.boot + 1 };
        let readiness = Readiness::default();
        let profile = Profile { zone, client_address: config.client_address, readiness };
        let me = Me { node: config.node, boot, peer_address: config.peer_address, profile };
        let remembered = opened.members;
        let awaited: BTreeSet<NodeId> = remembered.iter().map(|(node, _)| *node).collect();
        let contacts = Contacts { seeds: config.seeds.clone(), remembered };
        let swim = MembershipConfig { suspicion: config.suspicion, ..Default::default() };
        let (drift, step) = (config.drift_max, config.ceiling_step);
        let agreed = (opened.rounds, opened.strict);
        let mut node = Self {
            run: Run {
                window_began: now.mono,
                boot,
                store,
                process,
                commits: Commits::opened(opened.commits),
                renewed: false,
                drain: Drain::No,
                measured: Surroundings::default(),
                counted: Vec::new(),
                lag: Lag::default(),
                counters: BTreeMap::from([("rows_damaged", opened.damaged)]),
                skews: BTreeMap::new(),
                told: readiness,
                space: readiness.space,
                welcomed: None,
                members_written: opened.written,
                uncounted: opened.uncounted,
                rng,
            },
            calendar: Calendar::new(now, drift),
            leaps: Leaps::new(now),
            clock: Clock::new(process, opened.ceiling, now.wall, drift, step),
            timers: Timers::default(),
            membership: Membership::new(swim, me, foca_seed, contacts),
            sessions: Sessions::new(config.node, awaited, Disks::new(opened.disks)),
            table: opened.table,
            partitions: opened.partitions,
            sends: Sends::default(),
            burials: opened.burials,
            replacing: Replacing::default(),
            scrub: Scrub::default(),
            reception: Reception::default(),
            desk: Desk::default(),
            config,
        };
        node.open_rounds(now, agreed);
        Ok(node)
    }

    /// The first event of a run.
    pub(super) fn start(&mut self, now: Now, effects: &mut Effects) {
        let key = Key::Meta(meta::BOOT).encode();
        effects.write(Write::Put { key, value: record::encode(&self.run.boot) });
        self.keep_ceiling(now, effects);
        let mut out = Vec::new();
        for node in self.removed() {
            self.membership.remove(node, &mut out);
        }
        self.begin_leaving();
        self.membership.start(now.mono, &mut out);
        self.membership_said(now, out, effects);
        self.view_changed(now, effects);
        self.timers.at_latest(Timer::Second, now.mono);
        self.timers.at_latest(Timer::Rounds, now.mono);
        self.timers.at_latest(Timer::Scrub, now.mono);
        self.timers.at_latest(Timer::ServeAlone, now.mono.plus(self.config.serve_alone_after));
        for message in std::mem::take(&mut self.run.uncounted) {
            effects.write(Write::Delete { key: Key::Deliveries(message).encode() });
        }
        // Rows may lie here whose messages are gone: the last run may have ended in a sweep.
        let ids: Vec<PartitionId> = self.partitions.keys().copied().collect();
        for id in ids {
            self.sweep(id, effects);
        }
    }
}
