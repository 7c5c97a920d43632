//! Rounds of strict partitions: what other pinned hosts say, what is due, and what becomes of it.
//!
//! A pinned host calls its rounds with each word, when something that waits may be released, and
//! now and then. The rows that a call wants written stand before its words in the effects, so that
//! they are durable first; what is said of what is held stands behind the rows of that, too.
//!
//! Invariant: only what a chosen round released is handed out, and only in the turn. What this file
//! does not do: it decides nothing of what is agreed; see `rounds`.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{Label, MessageId, NodeId, Order, QueueId, Refusal};
use rand::RngExt;

use super::Node;
use crate::custody::burial::{Numbers, merge_numbers};
use crate::effect::Effects;
use crate::envelope::{Envelope, PartitionInventory};
use crate::now::Now;
use crate::queue::{Agreed, Partition, Release, here};
use crate::ranges::Ranges;
use crate::rounds::{
    Act, Around, Entry, Here, Opened, Peer, Pinned, Rounds, Row, Rows, Seat, Settings, Sight,
    Wishes,
};
use crate::session::PartitionId;
use crate::table;
use crate::table::rendezvous::{self, Slot};
use crate::timer::Timer;

impl Node {
    /// The hosts with which the partitions of a new strict queue begin.
    pub(super) fn pin(&self, entry: table::Entry) -> Result<table::Entry, Refusal> {
        let settings = entry.settings();
        if !self.config.strict_queues {
            let why = "strict queues are not there yet".to_owned();
            return Err(Refusal::BadSetting { setting: "order".to_owned(), why });
        }
        let refuse = |reachable: usize| Refusal::NotEnoughHosts {
            wanted: settings.replicas,
            reachable: u8::try_from(reachable).unwrap_or(u8::MAX),
        };
        let mut pinned = Vec::new();
        for partition in 0..settings.partitions {
            let mut homes = self.ranking((entry.id, partition));
            homes.retain(|node| self.sessions.reaches(*node));
            homes.truncate(usize::from(settings.replicas));
            let seats: Vec<Seat> = homes.iter().filter_map(|node| self.seat(*node)).collect();
            if seats.len() < usize::from(settings.replicas) {
                return Err(refuse(seats.len()));
            }
            pinned.push(Pinned::new(seats));
        }
        Ok(entry.strict(pinned))
    }

    /// A node with the store that it was met with last.
    fn seat(&self, node: NodeId) -> Option<Seat> {
        let own = (node == self.config.node).then_some(self.run.store);
        Some(Seat { node, store: own.or_else(|| self.sessions.disks.store(node))? })
    }

    /// Opens the rounds of the strict partitions, as they were written down, with what is held.
    pub(super) fn open_rounds(
        &mut self,
        now: Now,
        (mut rows, mut held): (BTreeMap<PartitionId, Rows>, BTreeMap<PartitionId, Vec<Label>>),
    ) {
        let queues: Vec<QueueId> = self.table.entries().map(|entry| entry.id).collect();
        let ids: Vec<PartitionId> =
            queues.into_iter().flat_map(|queue| self.strict_partitions(queue)).collect();
        for id in ids {
            let rows = rows.remove(&id).unwrap_or_default();
            self.agree(now, id, (rows, held.remove(&id).unwrap_or_default()));
        }
    }

    /// A queue is known here from now on: if it is a strict one, its partitions begin.
    pub(super) fn begin_rounds(&mut self, now: Now, queue: QueueId) {
        for id in self.strict_partitions(queue) {
            if !self.partitions.get(&id).is_some_and(Partition::is_strict) {
                self.agree(now, id, (Rows::default(), Vec::new()));
            }
        }
        self.timers.at_latest(Timer::Rounds, now.mono);
    }

    fn strict_partitions(&self, queue: QueueId) -> Vec<PartitionId> {
        let entry = self.table.live(queue).map(table::Entry::settings);
        let strict = entry.filter(|settings| settings.order == Order::Strict);
        let partitions = strict.map_or(0, |settings| settings.partitions);
        (0..partitions).map(|partition| (queue, partition)).collect()
    }

    fn agree(&mut self, now: Now, id: PartitionId, (rows, held): (Rows, Vec<Label>)) {
        let me = Seat { node: self.config.node, store: self.run.store };
        let settings = self.round_settings(id.0);
        let first = self.table.live(id.0).and_then(|entry| entry.pinned(id.1)).cloned();
        let opened = Opened { at: now.mono, seed: self.run.rng.random() };
        let partition = self.partitions.entry(id).or_insert_with(|| Partition::new(id));
        partition.release = match first.filter(|first| first.has(me)) {
            Some(first) => {
                let rounds = Rounds::open(first, me, settings, rows, opened);
                let known = (&mut partition.known, now.mono);
                Release::Agreed(Box::new(Agreed::new(rounds, held, known)))
            }
            None => Release::Elsewhere,
        };
    }

    fn round_settings(&self, queue: QueueId) -> Settings {
        let settings = self.table.live(queue).map(table::Entry::settings).unwrap_or_default();
        Settings {
            window: Duration::from_millis(settings.window_ms),
            drift_max: self.config.drift_max,
            late_by: settings.late_by,
            pause: ROUNDS_EVERY,
            ..Settings::default()
        }
    }

    /// Looks at all rounds. To be called every few milliseconds while there are any.
    pub(super) fn rounds_due(&mut self, now: Now, effects: &mut Effects) {
        let seated = self.partitions.iter().filter(|(_, partition)| partition.agreed().is_some());
        let ids: Vec<PartitionId> = seated.map(|(id, _)| *id).collect();
        if !ids.is_empty() {
            self.timers.at_latest(Timer::Rounds, now.mono.plus(ROUNDS_EVERY));
        }
        for id in ids {
            let settings = self.round_settings(id.0);
            let window = u64::try_from(settings.window.as_nanos()).unwrap_or(u64::MAX);
            let Some(partition) = self.partitions.get_mut(&id) else { continue };
            let Release::Agreed(agreed) = &mut partition.release else { continue };
            agreed.rounds.set(settings);
            let waits = agreed.is_due(now.wall.0.saturating_sub(window));
            if waits || now.mono >= agreed.looked_at.plus(LOOK_EVERY) {
                agreed.looked_at = now.mono;
                self.with_rounds(now, id, |_, _| Vec::new(), effects);
            }
        }
    }

    /// Another pinned host says something.
    pub(super) fn word_came(
        &mut self,
        now: Now,
        peer: NodeId,
        envelope: Envelope,
        effects: &mut Effects,
    ) {
        let (id, word) = match envelope {
            Envelope::Rounds { queue, partition, word } => ((queue, partition), word),
            Envelope::Lacks { queue, partition, messages } => {
                return self.give_seated(now, peer, ((queue, partition), &messages), effects);
            }
            _ => return,
        };
        let Some(from) = self.seat(peer) else { return };
        self.with_rounds(now, id, |rounds, around| rounds.handle(around, from, *word), effects);
    }

    /// A host with a seat lacks messages that are here: it becomes one of their holders, and is
    /// given them.
    fn give_seated(
        &mut self,
        now: Now,
        peer: NodeId,
        (id, messages): (PartitionId, &Numbers),
        effects: &mut Effects,
    ) {
        let agreed = self.partitions.get(&id).and_then(Partition::agreed);
        if agreed.is_some_and(|agreed| agreed.rounds.hosts().pinned.has_node(peer)) {
            self.lists_came(id, (&[peer], messages), effects);
            self.tell_lists(id, messages, effects);
            self.give_lacking(peer, id, &PartitionInventory::nothing(id), messages);
            self.make_up(now, peer, effects);
        }
    }

    /// A session is over: what a host reported it may not be able to give any more.
    pub(super) fn rounds_lost(&mut self, peer: NodeId) {
        for partition in self.partitions.values_mut() {
            if let Release::Agreed(agreed) = &mut partition.release {
                agreed.rounds.ended(peer);
            }
        }
    }

    /// This node was away, it does not know for how long: it has no turn any more.
    pub(super) fn stop_rounds(&mut self, now: Now, effects: &mut Effects) {
        let seated = self.partitions.iter().filter(|(_, partition)| partition.agreed().is_some());
        for id in seated.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.with_rounds(now, id, |rounds, around| rounds.stop(around.sight), effects);
        }
    }

    /// Drops what is over of the rounds. To be called every second.
    pub(super) fn trim_rounds(&mut self, id: PartitionId, effects: &mut Effects) {
        if self.partitions.get(&id).and_then(Partition::agreed).is_none() {
            return;
        }
        let removed = self.removed();
        let untold = self.burials.untold(id, |node| removed.contains(&node));
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let Release::Agreed(agreed) = &mut partition.release else { return };
        let known = &partition.known;
        agreed.tidy(known);
        let is_over = |entry: &Entry| {
            let MessageId { process, number } = entry.name.id;
            let of = untold.iter().find(|(of, _)| *of == process);
            here(known, entry) == Here::Gone && !of.is_some_and(|(_, of)| of.contains(number))
        };
        for act in agreed.rounds.trim(is_over) {
            if let Act::Write(row) = act {
                write_row(id, &row, effects);
            }
        }
    }

    /// Whether the turn is over of which this node hands out: what was in it is read anew.
    pub(super) fn end_turns(&mut self, now: Now, queue: QueueId) {
        let partitions = self.partitions.range((queue, 0)..=(queue, u16::MAX));
        let seated = partitions.filter(|(_, partition)| partition.agreed().is_some());
        for id in seated.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.note_turn(now, id);
        }
    }

    fn note_turn(&mut self, now: Now, id: PartitionId) {
        let sight = self.sight(id);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let Release::Agreed(agreed) = &mut partition.release else { return };
        let serving = agreed.rounds.may_hand_out(now.mono, &sight);
        if std::mem::replace(&mut agreed.serving, serving) != serving {
            partition.close_window();
            self.reception.touch(id.0);
        }
    }

    /// Calls the rounds of a partition, has them do what is due then, and does what they say.
    fn with_rounds(
        &mut self,
        now: Now,
        id: PartitionId,
        call: impl FnOnce(&mut Rounds, &Around<'_>) -> Vec<Act>,
        effects: &mut Effects,
    ) {
        let sight = self.sight(id);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let Release::Agreed(agreed) = &mut partition.release else { return };
        let known = &partition.known;
        let here = |entry: &Entry| here(known, entry);
        let around = Around { now, sight: &sight, here: &here };
        let mut acts = call(&mut agreed.rounds, &around);
        acts.extend(agreed.rounds.tick(&around, &Wishes::default()));
        let (mut said, mut chosen, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        while !acts.is_empty() {
            let mut next = Vec::new();
            for act in acts {
                match act {
                    Act::Write(row) => write_row(id, &row, effects),
                    Act::Say(node, word) => said.push((node, word)),
                    Act::Gather(asked) => {
                        let held = agreed.held(asked.up_to, (known, &partition.lists));
                        next.extend(agreed.rounds.gathered(&around, asked, held));
                        next.extend(agreed.rounds.tick(&around, &Wishes::default()));
                    }
                    Act::Chosen(round) => chosen.push(round),
                    Act::Fetch(node, entries) => missing.push((node, entries)),
                    // Nobody asks for all: the pinned hosts do not change.
                    Act::GiveAll(..) => {}
                }
            }
            acts = next;
        }
        if now.mono < agreed.lacked_at.plus(LACK_EVERY) {
            missing.clear();
        } else if !missing.is_empty() {
            agreed.lacked_at = now.mono;
        }
        if !chosen.is_empty() {
            for round in &chosen {
                agreed.chosen(round, &mut partition.known);
            }
            self.reconsider(id);
            self.reception.touch(id.0);
        }
        let (queue, partition) = id;
        for (node, entries) in missing {
            let mut messages = Numbers::new();
            for MessageId { process, number } in entries.iter().map(|entry| entry.name.id) {
                merge_numbers(&mut messages, &[(process, Ranges::of(number, number))]);
            }
            self.say(node, Envelope::Lacks { queue, partition, messages }, effects);
        }
        for (node, word) in said {
            self.say(node, Envelope::Rounds { queue, partition, word: Box::new(word) }, effects);
        }
        self.note_turn(now, id);
    }

    fn sight(&self, id: PartitionId) -> Sight {
        let agreed = self.partitions.get(&id).and_then(Partition::agreed);
        let pinned = agreed.map(|agreed| &agreed.rounds.hosts().pinned);
        let mut nodes: Vec<NodeId> =
            pinned.into_iter().flat_map(Pinned::seats).map(|seat| seat.node).collect();
        rendezvous::order(Slot::of(id.0, id.1), &mut nodes);
        let serving =
            self.sessions.may_serve(&nodes) && !self.calendar.is_sick() && !self.is_told();
        let peers = nodes.into_iter().filter_map(|node| {
            let session = self.sessions.with(node)?;
            let store = self.sessions.disks.store(node)?;
            // Whose turn it is by custody has what the others yielded, or have handed over.
            let yielded = serving || session.leaving;
            Some((node, Peer { store, yielded, sick: false }))
        });
        Sight { serving, peers: peers.collect() }
    }
}

fn write_row(id: PartitionId, row: &Row, effects: &mut Effects) {
    for write in row.writes(id) {
        effects.write(write);
    }
}

/// How often a host says what it lacks, at most: copies are on their way for a moment.
const LACK_EVERY: Duration = Duration::from_millis(200);
/// How often rounds are looked at while something waits for one.
const ROUNDS_EVERY: Duration = Duration::from_millis(20);
/// How often they are looked at while nothing does: often enough for the turn to go on.
const LOOK_EVERY: Duration = Duration::from_millis(250);
