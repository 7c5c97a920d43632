//! The node: owns the rooms and passes one room's answer to the next.
//!
//! Each event goes to the file of its kind below; those files route, and fill the effects, while
//! the rooms decide. Nothing here knows sockets, disks or clocks, so a run is a function of its
//! events (and that is what the simulator drives).
//!
//! Invariant: between two events the rooms agree with each other; [`Node::check`] says how.

mod asking;
mod away;
mod change;
mod clocks;
mod commits;
mod comparing;
mod copies;
mod deleting;
mod expiring;
mod forgetting;
mod giving;
mod inventory;
mod leaving;
mod link;
mod loading;
mod making_up;
mod opening;
mod passing;
mod peeking;
mod placing;
mod receiving;
mod refilling;
mod removing;
mod renewing;
mod replacing;
mod requests;
mod rounding;
mod scrubbing;
mod sending;
mod standing_in;
mod status;
mod sweeping;
mod tables;
mod telling;
#[cfg(test)]
mod tests;
mod ticks;
mod twins;
mod watched;

use std::collections::BTreeMap;

use gaggle_wire::{
    ArrivalSkew, ClusterMember, DeleteResult, NodeId, ProcessId, QueueId, Refusal, Stamp, Standing,
    Welcome,
};

pub use opening::OpenError;
pub use watched::Holdings;

use rand_pcg::Pcg64Mcg;

use crate::calls::{Batch, Calls};
use crate::clock::{Calendar, Clock, Leaps};
use crate::config::Config;
use crate::custody::burial::Burials;
use crate::custody::replacing::Replacing;
use crate::custody::scrub::Scrub;
use crate::custody::sending::Sending;
use crate::effect::{Effect, Effects, Stop};
use crate::envelope::{Envelope, PEER_VERSION, PeerHello};
use crate::event::{Event, Surroundings};
use crate::lag::Lag;
use crate::ledger::{Key, MessageKey, Write, key::meta, record};
use crate::membership::{Member, Membership, Output, Profile, Readiness, Zone};
use crate::now::{Mono, Now};
use crate::queue::Partition;
use crate::ranges::Ranges;
use crate::reception::Reception;
use crate::session::{PartitionId, Sessions};
use crate::space::Space;
use crate::table::Table;
use crate::timer::{Timer, Timers};

use asking::Question;
use commits::Commits;
use loading::{Loaded, Loads};
use peeking::Peek;
use status::{AskedStatus, Told};

/// A node of the cluster.
pub struct Node {
    config: Config,
    run: Run,
    calendar: Calendar,
    leaps: Leaps,
    clock: Clock,
    timers: Timers,
    membership: Membership,
    sessions: Sessions,
    table: Table,
    partitions: BTreeMap<PartitionId, Partition>,
    sends: Sends,
    burials: Burials,
    replacing: Replacing,
    scrub: Scrub,
    reception: Reception,
    desk: Desk,
}

/// What belongs to this run of the node.
#[derive(Debug)]
struct Run {
    boot: u64,
    store: u128,
    /// The process, as it began: a clock that goes back makes it another.
    process: ProcessId,
    commits: Commits,
    /// Whether it has become another host, which is to be opened anew.
    renewed: bool,
    drain: Drain,
    measured: Surroundings,
    lag: Lag,
    /// Counters, by name: refusals, expiries, repairs.
    counters: BTreeMap<&'static str, u64>,
    /// How late messages are accepted, by queue.
    skews: BTreeMap<QueueId, ArrivalSkew>,
    /// What the runtime counted.
    counted: Vec<(&'static str, u64)>,
    /// What was last said of the own readiness.
    told: Readiness,
    /// How much room the own disk has.
    space: Space,
    /// What clients were told last of the members.
    welcomed: Option<Welcome>,
    /// The members that are on disk.
    members_written: BTreeMap<NodeId, Vec<u8>>,
    /// Rows that count deliveries of messages which are not here, as they were found at open.
    uncounted: Vec<MessageKey>,
    /// When the present resend window began: time goes on in such steps for what was stored.
    window_began: Mono,
    /// For process ids: a clock goes back only as another process.
    rng: Pcg64Mcg,
}

/// Whether the node is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    No,
    /// Sends under way are waited for until then.
    Until(Mono),
    /// All is told; until then the others may end their sessions, which says that they heard it.
    Told(Mono),
    /// All is handed over.
    Done,
}

/// Sends that this node coordinates, and what is to be told of settled messages in bulk.
#[derive(Debug, Default)]
struct Sends {
    under_way: BTreeMap<u64, Sending>,
    next: u64,
    settled: BTreeMap<NodeId, News>,
    /// Of those, what some other host did not get.
    lacking: BTreeMap<NodeId, News>,
}

/// Messages by queue, partition and process.
type News = BTreeMap<(QueueId, u16, ProcessId), Ranges>;

/// Questions under way, requests in parts, and what others last told of themselves.
#[derive(Debug, Default)]
struct Desk {
    told: BTreeMap<NodeId, Told>,
    peeks: Vec<(Mono, Peek)>,
    /// Who asked for the status while the oldest messages are being read.
    status_asked: Vec<AskedStatus>,
    /// Such reads that are under way.
    oldest_reads: u64,
    calls: Calls<Question>,
    loads: Loads,
    deletes: BTreeMap<u64, Batch<DeleteResult>>,
    changes: BTreeMap<u64, Batch<Result<u64, Refusal>>>,
    /// Looks for expired messages that are under way.
    looks: usize,
    next_batch: u64,
}

impl Desk {
    fn batch_number(&mut self) -> u64 {
        self.next_batch += 1;
        self.next_batch
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("node", &self.config.node).field("run", &self.run).finish()
    }
}

impl Node {
    /// Handles one event.
    pub fn handle(&mut self, now: Now, event: Event, effects: &mut Effects) {
        if self.run.renewed {
            return;
        }
        let before = effects.as_slice().len();
        let leapt = self.leaps.look(now, self.config.suspicion);
        let now = self.calendar.read(now);
        if leapt {
            self.woke(now, effects);
        }
        self.due(now, effects);
        match event {
            Event::Started => self.start(now, effects),
            Event::ClientOpened(_) | Event::Wakeup => {}
            Event::ClientClosed(client) => self.client_closed(now, client, effects),
            Event::Request { reply, request } => self.request(now, reply, request, effects),
            Event::LinkUp { link, hello } => self.link_up(now, link, &hello, effects),
            Event::LinkDown { link } => self.link_down(now, link, effects),
            Event::Envelope { link, envelope } => {
                if let Some(peer) = self.sessions.peer(link) {
                    self.envelope(now, peer, envelope, effects);
                }
            }
            Event::Gossip { from, packet } => {
                let mut out = Vec::new();
                if self.membership.received(now.mono, from, &packet, &mut out).is_err() {
                    self.count("gossip_refused");
                }
                self.membership_said(now, out, effects);
            }
            Event::Loaded { load, rows, end, damaged } => {
                self.loaded(now, load, Loaded { rows, end, damaged }, effects);
            }
            Event::BodyLost { key, missed } => self.doubt(key, missed, effects),
            Event::Counted(counted) => self.run.counted = counted,
            Event::Measured(surroundings) => {
                self.run.measured = surroundings;
                self.run.lag.measured(&surroundings, now.mono, self.config.slow_after);
                let Surroundings { disk_free_bytes, disk_total_bytes, .. } = surroundings;
                self.run.space = self.run.space.measured(disk_free_bytes, disk_total_bytes);
                self.tell_readiness(now, effects);
                self.tell_fit(now, effects);
            }
            Event::Drain => self.drain(now, effects),
        }
        if !self.run.renewed {
            self.serve_touched(now, effects);
        }
        self.count_commit(before, effects);
    }

    /// When [`Event::Wakeup`] is due.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Mono> {
        if self.run.renewed {
            return None;
        }
        let next = [self.timers.next(), self.membership.next_wakeup()];
        next.into_iter().flatten().min()
    }

    /// What this node says first on a connection to another.
    #[must_use]
    pub fn hello(&self) -> PeerHello {
        PeerHello {
            version: PEER_VERSION,
            node: self.config.node,
            boot: self.run.boot,
            store: self.run.store,
            process: self.run.process,
            commits: self.run.commits.at_open(),
            peer_address: self.config.peer_address,
            client_address: self.config.client_address,
            zone: self.config.zone.clone(),
            space: self.run.space,
        }
    }

    /// What this node tells a client first.
    #[must_use]
    pub fn welcome(&self) -> Welcome {
        let members = self.in_view().filter_map(|(node, member)| {
            let address = member.client_address?;
            Some(ClusterMember { node, address, standing: self.standing(node, member) })
        });
        Welcome {
            version: gaggle_wire::VERSION,
            node: self.config.node,
            members: members.collect(),
        }
    }

    /// The node's hybrid time, for answers: nanoseconds since 1970.
    #[must_use]
    pub fn clock(&self, now: Now) -> u64 {
        self.clock.reading(self.calendar.believed(now).wall)
    }

    /// Checks the invariants that are visible inside one node.
    ///
    /// # Panics
    /// When one does not hold, naming the promise.
    pub fn check(&self) {
        for partition in self.partitions.values() {
            partition.check();
        }
        for sending in self.sends.under_way.values() {
            let counted = sending.counted();
            let distinct = counted.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(distinct, "P1: each host counts once");
        }
    }

    fn standing(&self, node: NodeId, member: &Member) -> Standing {
        let own = node == self.config.node;
        if !own && !member.is_present() {
            return Standing::Down;
        }
        match if own { self.readiness() } else { member.readiness } {
            Readiness { ready: false, .. } => Standing::NotReady,
            Readiness { space: Space::Full, .. } => Standing::Full,
            Readiness { slow: true, .. } => Standing::Slow,
            Readiness { .. } => Standing::Ready,
        }
    }

    fn readiness(&self) -> Readiness {
        Readiness { ready: self.is_ready(), slow: self.is_slow(), space: self.run.space }
    }

    /// Whether this node hands out and accepts: its marks are in, its disk is well, it stays.
    fn is_ready(&self) -> bool {
        self.run.drain == Drain::No
            && !self.leaves()
            && self.sessions.may_serve_any()
            && self.run.measured.commit_running_ms < COMMIT_STUCK_MS
    }

    /// Whether it lags, so that clients go elsewhere as long as there is another.
    fn is_slow(&self) -> bool {
        self.run.lag.is_slow()
    }

    fn profile(&self) -> Profile {
        Profile {
            zone: Zone::parse(&self.config.zone).unwrap_or_default(),
            client_address: self.config.client_address,
            readiness: self.run.told,
        }
    }

    /// A stamp of this node, below a ceiling that is on disk before anybody sees it.
    fn stamp(&mut self, now: Now, effects: &mut Effects) -> Stamp {
        self.keep_ceiling(now, effects);
        self.clock.stamp(now.wall)
    }

    fn keep_ceiling(&mut self, now: Now, effects: &mut Effects) {
        if let Some(ceiling) = self.clock.raise_ceiling(now.wall) {
            let key = Key::Meta(meta::CEILING).encode();
            effects.write(Write::Put { key, value: record::encode(&ceiling) });
        }
    }

    /// Says something to a node, if there is a session.
    fn say(&self, node: NodeId, envelope: Envelope, effects: &mut Effects) {
        if let Some(session) = self.sessions.with(node) {
            effects.send(session.link, envelope);
        }
    }

    /// Says something to every node in session.
    fn say_all(&self, envelope: &Envelope, effects: &mut Effects) {
        for (_, session) in self.sessions.iter() {
            effects.send(session.link, envelope.clone());
        }
    }

    fn count(&mut self, counter: &'static str) {
        self.count_more(counter, 1);
    }

    fn count_more(&mut self, counter: &'static str, by: u64) {
        *self.run.counters.entry(counter).or_default() += by;
    }

    /// Does what is due before the event is looked at.
    fn due(&mut self, now: Now, effects: &mut Effects) {
        if self.membership.next_wakeup().is_some_and(|at| at <= now.mono) {
            let mut out = Vec::new();
            self.membership.wakeup(now.mono, &mut out);
            self.membership_said(now, out, effects);
        }
        while let Some(timer) = self.timers.pop(now.mono) {
            self.timer(now, timer, effects);
        }
    }

    fn timer(&mut self, now: Now, timer: Timer, effects: &mut Effects) {
        match timer {
            Timer::Second => self.every_second(now, effects),
            Timer::Bulk => self.tell_in_bulk(now, effects),
            Timer::Rounds => self.rounds_due(now, effects),
            Timer::Partition(queue, partition) => {
                self.partition_due(now, (queue, partition), effects);
            }
            Timer::Replace => self.replace_on(now, effects),
            Timer::Scrub => self.scrub_on(now, effects),
            Timer::Deadlines => self.deadlines(now, effects),
            Timer::ServeAlone => {
                let patience = self.config.serve_alone_after;
                self.sessions.stop_waiting(now.mono.minus(patience));
                if let Some(since) = self.sessions.first_unmet() {
                    self.timers.at_latest(Timer::ServeAlone, since.plus(patience));
                }
                self.custody_changed(now, effects);
            }
        }
    }

    fn membership_said(&mut self, now: Now, out: Vec<Output>, effects: &mut Effects) {
        for output in out {
            match output {
                Output::Packet { to, node, data } => {
                    effects.push(Effect::Gossip { to, node, packet: data });
                }
                Output::ViewChanged => self.view_changed(now, effects),
                Output::Rejoined | Output::Paused => self.end_all_sessions(now, effects),
                Output::Rival { .. } => self.count("rivals"),
                Output::Outlived { by } => effects.push(Effect::Stop(Stop::NameTaken { by })),
            }
        }
    }
}

/// A commit that runs for so long ends readiness: something is wrong with the disk.
const COMMIT_STUCK_MS: u64 = 5_000;
