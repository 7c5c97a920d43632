//! What the world sees: of a message, on whose disks it is, who has its tombstone, who could have
//! told its custodian; of a node, what it has in memory, what it removes, what its clock says.
//!
//! It is for watchers whose promise speaks of hosts and sessions, which no client sees. What this
//! file does not do: it judges nothing.

use gaggle_core::effect::Effect;
use gaggle_core::envelope::Envelope;
use gaggle_core::ledger::{Key, MessageKey, Write};
use gaggle_wire::{MessageId, Response};

use crate::judge::{Subject, Witness};
use crate::network::Network;
use crate::options::{node_id, place};
use crate::oracle::{Answer, Fact, name_of};
use crate::process::{Process, Stop};
use crate::world::World;

/// What there is to see now.
pub(crate) fn look(
    now: u64,
    (processes, network): (&[Process], &Network),
    subject: &Subject,
) -> Witness {
    let (queue, partition, process, number) = subject.name;
    let key = MessageKey { queue, partition, stamp: subject.stamp }.encode();
    let id = MessageId { process, number };
    let mut witness = Witness::default();
    for (at, process) in processes.iter().enumerate() {
        if process.disk.keeps_row(&key) {
            witness.holders.insert(at);
            if process.disk.is_damaged_row(&key) {
                witness.damaged.insert(at);
            }
        }
        if process.disk.buries(queue, partition, id) {
            witness.buried.insert(at);
        }
        if process.is_struck() {
            witness.struck.insert(at);
        }
        let node = process.node.as_ref();
        if process.stop != Stop::No {
            witness.leaving.insert(at);
        }
        if node.is_some() {
            witness.up.insert(at);
            witness.walls.push(process.clocks(now).wall.0);
        }
        if node.is_some_and(|node| node.has_lost(queue, partition, id)) {
            witness.losers.insert(at);
        }
        if node.is_some_and(|node| node.has_tombstone(queue, partition, id)) {
            witness.buriers.insert(at);
        }
        let Some(custodian) = subject.custodian.map(place) else { continue };
        if is_refused(process, &processes[custodian]) {
            continue;
        }
        let hear = network.passes(at, custodian) && network.passes(custodian, at);
        let awake = process.is_awake() && processes[custodian].is_awake();
        if awake && (at == custodian || hear && network.is_met(at, custodian)) {
            witness.near.insert(at);
        }
        if let Some(since) = network.met_since(at, custodian) {
            witness.sessions.insert(at, since);
        }
    }
    witness
}

/// Whether one of two begins no session with the other, because its disk was put back.
fn is_refused(one: &Process, other: &Process) -> bool {
    let knows = |one: &Process, other: &Process| match (&one.node, &other.node) {
        (Some(one), Some(other)) => one.knows_put_back(&other.hello()),
        _ => false,
    };
    knows(one, other) || knows(other, one)
}

impl World {
    /// A client gets an answer.
    pub(crate) fn hears(&mut self, answer: &Answer<'_>) {
        let Self { now, judge, processes, network, .. } = self;
        let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
        judge.hears(*now, answer, &seen);
    }

    /// Something is so.
    pub(crate) fn judge(&mut self, fact: &Fact) {
        let Self { now, judge, processes, network, .. } = self;
        let seen = |subject: &Subject| look(*now, (&processes[..], &*network), subject);
        judge.judge(*now, fact, &seen);
    }

    /// A node has handled an event: what it has in memory, and what its clock says.
    pub(crate) fn watch(&mut self, at: usize) {
        if !self.is_up(at) {
            return;
        }
        let walls = &mut self.walls;
        walls.clear();
        let up = self.processes.iter().filter(|process| process.node.is_some());
        walls.extend(up.map(|process| process.clocks(self.now).wall.0));
        walls.sort_unstable();
        let process = &mut self.processes[at];
        let now = process.clocks(self.now);
        let Some(node) = &process.node else { return };
        let drift = u64::try_from(node.drift_max().as_nanos()).unwrap_or(u64::MAX);
        let middle = walls[(walls.len() - 1) / 2];
        process.latest = process.latest.max(now.wall.0).max(middle);
        let highest = process.latest.saturating_add(drift);
        let clock = Fact::Clock { at, reading: node.clock(now), highest };
        let holds = Fact::Holds { at, holdings: node.holdings(), limits: node.limits() };
        if !self.may_be_misled(at) {
            self.judge(&clock);
        }
        self.judge(&holds);
    }

    /// A node reads: how much at once.
    pub(crate) fn watch_load(&mut self, at: usize, effect: &Effect) {
        let (Effect::Load { limit, .. }, Some(node)) = (effect, &self.processes[at].node) else {
            return;
        };
        let mut holdings = node.holdings();
        holdings.page = *limit;
        let limits = node.limits();
        self.judge(&Fact::Holds { at, holdings, limits });
    }

    /// A node answers a client or another node: what of its own it gives, and hands out.
    pub(crate) fn watch_hand_outs(&mut self, at: usize, effect: &Effect) {
        let (deliveries, here) = match effect {
            Effect::Answer { response: Response::Deliveries { deliveries }, .. } => {
                (deliveries, true)
            }
            Effect::Send { envelope: Envelope::Grant { deliveries, .. }, .. } => {
                (deliveries, false)
            }
            _ => return,
        };
        let by = node_id(at);
        let own = deliveries.iter().filter(|d| d.receipt.custodian == by && d.lease_ms > 0);
        for delivery in own {
            self.judge.oracle.gives(self.now, delivery);
            if here {
                self.judge(&Fact::HandedOut { name: name_of(&delivery.receipt), by });
            }
        }
    }

    /// A node answers a client: of what it has counted enough hosts.
    pub(crate) fn watch_counts(&mut self, effect: &Effect) {
        if let Effect::Answer { response: Response::Sent(sent), .. } = effect {
            self.judge.oracle.counts(self.now, sent.accepted);
        }
    }

    /// A node writes: which messages it removes.
    pub(crate) fn watch_removals(&mut self, at: usize, write: &Write) {
        let removed = match write {
            Write::Delete { key } => MessageKey::parse(key).into_iter().collect(),
            Write::DeleteRange { from, to } => self.processes[at].disk.messages(from, to),
            Write::Put { .. } | Write::PutMessage { .. } | Write::PutHeader { .. } => Vec::new(),
        };
        for key in removed {
            if let Some(name) = self.judge.oracle.in_row(key) {
                self.judge(&Fact::Removed { at, name });
            }
        }
    }

    /// The queues in the table of each node that is up. That a queue was deleted is known for as
    /// long as somebody might not know it, which each node finds out for itself.
    pub(crate) fn tables(&self) -> Vec<(usize, Vec<Vec<u8>>)> {
        let up = (0..self.processes.len()).filter(|at| self.is_up(*at));
        let tables = up.map(|at| {
            let rows = self.processes[at].disk.rows();
            let lives =
                |queue| self.processes[at].node.as_ref().is_some_and(|node| node.has_queue(queue));
            let queues = rows.filter(|row| match Key::parse(&row.key) {
                Some(Key::Queue(queue)) => lives(queue),
                _ => false,
            });
            (at, queues.map(|row| [row.key, row.value].concat()).collect())
        });
        tables.collect()
    }
}
