//! The nodes of the cluster, the connections to them, and which one to ask.
//!
//! A client keeps a few connections, to nodes that it picks by lot, so that the clients of a
//! cluster spread by themselves. Work goes to a node that is ready and answers; one that is slow,
//! draining or owes an answer for too long is passed over as long as there is another.
//!
//! Invariants: of every node at most one connection is used; work goes only to a node that has
//! said welcome. What this file does not do: it does not know what the work is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use gaggle_wire::{NodeId, Standing, Welcome};

use crate::config::{Config, Reach};
use crate::event::Target;
use crate::random::{Random, mix};
use crate::timers::{Timer, Timers};

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Nodes {
    reach: Reach,
    /// The steady time.
    pub(crate) now: Duration,
    /// This client's lot.
    lot: u64,
    links: BTreeMap<u64, Link>,
    last_link: u64,
    peers: BTreeMap<NodeId, Peer>,
    seeds: Vec<Redial>,
}

#[derive(Debug)]
struct Link {
    target: Target,
    state: State,
    /// Answers owed.
    owed: u32,
    /// Since when nothing was heard although an answer is owed, or since the dialling.
    silent_since: Duration,
    /// When something was heard last.
    heard: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Dialling,
    Up(NodeId),
}

/// A node as the cluster told of it.
#[derive(Debug)]
struct Peer {
    /// Where it is, if anybody has said so: a node that is not a member any more, or not yet, lists
    /// itself nowhere and may all the same be connected, as a seed.
    address: Option<SocketAddr>,
    /// As it says itself while it is connected, as others say otherwise: a node that is cut off
    /// from the rest calls them all down.
    standing: Standing,
    /// Whether others call it down although it is connected.
    accused: bool,
    /// Until when it is passed over because it could not do what it was asked.
    sour_until: Duration,
    /// A connection that is up or being made.
    link: Option<u64>,
    /// Whether it owes an answer for longer than is usual.
    doubtful: bool,
    redial: Redial,
}

#[derive(Clone, Copy, Debug, Default)]
struct Redial {
    link: Option<u64>,
    failures: u32,
    at: Duration,
}

/// Where a connection is wanted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Seed(usize),
    Peer(NodeId),
}

/// What a welcome changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Greeted {
    /// The node is connected from now on.
    New,
    /// It was before: only the members may have changed.
    Known,
    /// It is connected twice; the new connection is not wanted.
    Duplicate,
}

impl Nodes {
    pub(crate) fn new(config: &Config, lot: u64) -> Self {
        Self {
            reach: config.reach,
            now: Duration::ZERO,
            lot,
            links: BTreeMap::new(),
            last_link: 0,
            peers: BTreeMap::new(),
            seeds: vec![Redial::default(); config.seeds],
        }
    }

    /// The connection to a node, if it has said welcome.
    pub(crate) fn link_of(&self, node: NodeId) -> Option<u64> {
        let link = self.peers.get(&node)?.link?;
        (self.links.get(&link)?.state == State::Up(node)).then_some(link)
    }

    /// The node at the other end, if it has said welcome.
    pub(crate) fn node_at(&self, link: u64) -> Option<NodeId> {
        match self.links.get(&link)?.state {
            State::Up(node) => Some(node),
            State::Dialling => None,
        }
    }

    pub(crate) fn knows(&self, link: u64) -> bool {
        self.links.contains_key(&link)
    }

    /// All connections that may be used.
    pub(crate) fn links_up(&self) -> impl Iterator<Item = u64> {
        self.links.iter().filter(|(_, link)| link.state != State::Dialling).map(|(id, _)| *id)
    }

    /// The node to give a piece of work to: of the best there are, the one that the salt draws,
    /// not one of `avoid` unless there is no other.
    pub(crate) fn pick(&self, salt: u64, avoid: &[NodeId]) -> Option<NodeId> {
        self.peers
            .keys()
            .filter(|node| self.link_of(**node).is_some())
            .min_by_key(|node| {
                (avoid.contains(node), self.rank(**node), mix(salt ^ mix(node.0 ^ self.lot)))
            })
            .copied()
    }

    /// As [`Nodes::pick`], but only a node that is not to be avoided and not in doubt.
    pub(crate) fn pick_other(&self, salt: u64, avoid: &[NodeId]) -> Option<NodeId> {
        self.pick(salt, avoid).filter(|node| !avoid.contains(node) && self.rank(*node) < DOUBTFUL)
    }

    /// Whether this node would do for work that suits it.
    pub(crate) fn is_fit(&self, node: NodeId) -> bool {
        self.link_of(node).is_some() && self.rank(node) < DOUBTFUL
    }

    fn rank(&self, node: NodeId) -> u8 {
        let Some(peer) = self.peers.get(&node) else { return u8::MAX };
        match (peer.standing, peer.doubtful) {
            (Standing::Ready, false) if peer.sour_until <= self.now => 0,
            (Standing::Ready | Standing::Slow | Standing::Full, false) => 1,
            (Standing::Ready | Standing::Slow | Standing::Full, true) => DOUBTFUL,
            (Standing::NotReady, _) => 3,
            (Standing::Down, _) => 4,
        }
    }

    /// This node could not do what it was asked, though another one may: it is not asked first
    /// for a while.
    pub(crate) fn sour(&mut self, node: NodeId, config: &Config) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.sour_until = self.now + config.sour;
        }
    }

    /// This node owes an answer for longer than is usual. It is passed over until it answers.
    pub(crate) fn doubt(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.doubtful = true;
        }
    }

    /// Whether this node has said anything after that moment.
    pub(crate) fn heard_after(&self, node: NodeId, moment: Duration) -> bool {
        let link = self.link_of(node).and_then(|link| self.links.get(&link));
        link.is_some_and(|link| link.heard > moment)
    }

    /// Names a new connection to each place that one is wanted to.
    pub(crate) fn dial(
        &mut self,
        now: Duration,
        config: &Config,
        timers: &mut Timers,
    ) -> Vec<(u64, Target)> {
        let wanted = self.wanted(config);
        let (due, later): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(_, at)| *at <= now);
        match later.into_iter().map(|(_, at)| at).min() {
            Some(at) => timers.set(Timer::Dial, at),
            None => timers.clear(&Timer::Dial),
        }
        due.into_iter().map(|(place, _)| self.begin(place, now, config, timers)).collect()
    }

    fn begin(
        &mut self,
        place: Place,
        now: Duration,
        config: &Config,
        timers: &mut Timers,
    ) -> (u64, Target) {
        self.last_link += 1;
        let link = self.last_link;
        let target = match place {
            Place::Seed(position) => {
                self.seeds[position].link = Some(link);
                Target::Seed(position)
            }
            Place::Peer(node) => {
                let peer = self.peers.get_mut(&node).expect("only known peers are wanted");
                peer.link = Some(link);
                Target::Address(peer.address.expect("only peers with an address are dialled"))
            }
        };
        let state = State::Dialling;
        self.links.insert(link, Link { target, state, owed: 0, silent_since: now, heard: now });
        timers.set(Timer::Link(link), now + config.greeting_timeout);
        (link, target)
    }

    /// Where connections are wanted and there are none, and from when on.
    fn wanted(&self, config: &Config) -> Vec<(Place, Duration)> {
        let idle = self.seeds.iter().enumerate().filter(|(_, seed)| seed.link.is_none());
        let seeds = idle.map(|(position, seed)| (Place::Seed(position), seed.at));
        if self.reach == Reach::OneNode {
            return seeds.take(1).filter(|(place, _)| *place == Place::Seed(0)).collect();
        }
        let alone = self.links_up().next().is_none();
        let mut ranked: Vec<(&NodeId, &Peer)> = self.peers.iter().collect();
        ranked.sort_by_key(|(node, peer)| (peer.standing, mix(node.0 ^ self.lot)));
        // One that is down is no use, unless nothing else is left to try; one that is nowhere to be
        // found is none once its connection has ended.
        let useful = |peer: &Peer| {
            let found = peer.address.is_some() || peer.link.is_some();
            found && (alone || peer.standing != Standing::Down)
        };
        let peers = ranked.into_iter().filter(|(_, peer)| useful(peer)).take(config.links_wanted);
        let missing = peers.filter(|(_, peer)| peer.link.is_none());
        let mut wanted: Vec<(Place, Duration)> =
            missing.map(|(node, peer)| (Place::Peer(*node), peer.redial.at)).collect();
        if alone {
            wanted.extend(seeds);
        }
        wanted
    }

    /// A node has said who it is and who else there is.
    pub(crate) fn greet(&mut self, link: u64, welcome: &Welcome, timers: &mut Timers) -> Greeted {
        let node = welcome.node;
        self.learn_members(welcome);
        let Some(present) = self.links.get_mut(&link) else { return Greeted::Duplicate };
        if present.state == State::Up(node) {
            return Greeted::Known;
        }
        let peer = self.peers.get_mut(&node).expect("the members were learned, it among them");
        if peer.link.is_some_and(|other| other != link)
            && let Some(other) = peer.link.and_then(|other| self.links.get(&other))
            && other.state != State::Dialling
        {
            return Greeted::Duplicate;
        }
        let present = self.links.get_mut(&link).expect("it was there a moment ago");
        present.state = State::Up(node);
        peer.link = Some(link);
        peer.doubtful = false;
        peer.redial = Redial::default();
        if let Target::Seed(position) = present.target {
            self.seeds[position] = Redial { link: Some(link), ..Redial::default() };
        }
        timers.clear(&Timer::Link(link));
        Greeted::New
    }

    fn learn_members(&mut self, welcome: &Welcome) {
        let told = welcome.members.iter().take(MEMBERS_MAX);
        let members: BTreeMap<NodeId, _> = told.map(|member| (member.node, member)).collect();
        let links = &self.links;
        self.peers.retain(|node, peer| {
            let connected = peer.link.is_some_and(|link| links.contains_key(&link));
            members.contains_key(node) || *node == welcome.node || connected
        });
        for (node, member) in members {
            let fresh = || Peer::new(Some(member.address), member.standing);
            let peer = self.peers.entry(node).or_insert_with(fresh);
            peer.address = Some(member.address);
            let link = peer.link.and_then(|link| self.links.get(&link));
            let connected = link.is_some_and(|link| link.state == State::Up(node));
            if connected && node != welcome.node {
                peer.accused = member.standing == Standing::Down;
            } else {
                peer.standing = member.standing;
            }
        }
        // A node that does not list itself is taken at its word: it answers.
        self.peers.entry(welcome.node).or_insert_with(|| Peer::new(None, Standing::Ready));
    }

    /// Connections to nodes that others call down: whether they are alive must be seen soon.
    pub(crate) fn accused(&self) -> Vec<u64> {
        let accused = self.peers.iter().filter(|(_, peer)| peer.accused);
        accused.filter_map(|(node, _)| self.link_of(*node)).collect()
    }

    /// A connection is gone. The place is dialled again after a while.
    pub(crate) fn lose(&mut self, link: u64, now: Duration, config: &Config, random: &mut Random) {
        let Some(lost) = self.links.remove(&link) else { return };
        let redials = self.peers.values_mut().filter(|peer| peer.link == Some(link)).map(|peer| {
            peer.link = None;
            peer.doubtful = false;
            if std::mem::take(&mut peer.accused) {
                peer.standing = Standing::Down;
            }
            &mut peer.redial
        });
        for redial in redials {
            back_off(redial, now, config, random);
        }
        if let Target::Seed(position) = lost.target {
            back_off(&mut self.seeds[position], now, config, random);
        }
    }

    /// An answer is owed on this connection from now on.
    pub(crate) fn owe(&mut self, id: u64, now: Duration, config: &Config, timers: &mut Timers) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.owed == 0 {
            link.silent_since = now;
            if let State::Up(node) = link.state {
                let limit = silence_max(self.peers.get(&node), config);
                timers.set(Timer::Link(id), now + limit);
            }
        }
        link.owed += 1;
    }

    /// An owed answer came.
    pub(crate) fn paid(&mut self, link: u64) {
        if let Some(link) = self.links.get_mut(&link) {
            link.owed = link.owed.saturating_sub(1);
        }
    }

    /// Something was heard on this connection.
    pub(crate) fn heard(&mut self, link: u64, now: Duration) {
        let Some(link) = self.links.get_mut(&link) else { return };
        link.silent_since = now;
        link.heard = now;
        if let State::Up(node) = link.state
            && let Some(peer) = self.peers.get_mut(&node)
        {
            peer.doubtful = false;
            peer.accused = false;
        }
    }

    /// Whether a connection has been silent for too long; if not, it is looked at again later.
    pub(crate) fn is_dead(
        &mut self,
        id: u64,
        now: Duration,
        config: &Config,
        timers: &mut Timers,
    ) -> bool {
        let Some(link) = self.links.get(&id) else { return false };
        let limit = match link.state {
            State::Dialling => return true,
            State::Up(node) => silence_max(self.peers.get(&node), config),
        };
        if link.owed == 0 {
            return false;
        }
        let dead_at = link.silent_since + limit;
        if dead_at > now {
            timers.set(Timer::Link(id), dead_at);
        }
        dead_at <= now
    }
}

impl Peer {
    fn new(address: Option<SocketAddr>, standing: Standing) -> Self {
        let (accused, sour_until, link, doubtful) = (false, Duration::ZERO, None, false);
        let redial = Redial::default();
        Self { address, standing, accused, sour_until, link, doubtful, redial }
    }
}

fn silence_max(peer: Option<&Peer>, config: &Config) -> Duration {
    if peer.is_some_and(|peer| peer.accused) { config.silence_max_down } else { config.silence_max }
}

fn back_off(redial: &mut Redial, now: Duration, config: &Config, random: &mut Random) {
    redial.link = None;
    redial.at = now + random.backoff(config, redial.failures);
    redial.failures = redial.failures.saturating_add(1);
}

/// The rank of a ready node that owes an answer for too long.
const DOUBTFUL: u8 = 2;

/// More than the nodes of the largest cluster (100).
const MEMBERS_MAX: usize = 1024;
