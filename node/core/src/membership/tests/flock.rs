//! The bottle: nodes that speak only over this network, which delays, loses and cuts from one seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::NodeId;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::super::*;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) struct Flock {
    pub(super) now: Mono,
    pub(super) geese: Vec<Goose>,
    pub(super) config: MembershipConfig,
    /// Of a thousand packets so many are lost.
    pub(super) loss: u32,
    pub(super) delay_ms: (u64, u64),
    /// Directed links that carry nothing.
    pub(super) cuts: BTreeSet<(usize, usize)>,
    under_way: BTreeMap<(Mono, u64), (usize, usize, Bytes)>,
    sent: u64,
    /// How many packets were sent, lost ones included.
    pub(super) packets: usize,
    /// How many bytes were in them.
    pub(super) bytes: usize,
    rng: Pcg64Mcg,
    /// Everything that came out, if wanted.
    pub(super) trace: Option<Vec<(Mono, usize, Output)>>,
    pub(super) refusals: Vec<PacketRefused>,
}

pub(super) struct Goose {
    /// The name in its certificate; two geese may run under one.
    pub(super) node: NodeId,
    pub(super) membership: Option<Membership>,
    pub(super) boot: u64,
    pub(super) rejoined: usize,
    pub(super) paused: usize,
    pub(super) rivals: Vec<SocketAddr>,
    /// By whom it had to end.
    pub(super) outlived: Option<SocketAddr>,
    stopped: Option<VecDeque<(usize, Bytes)>>,
}

impl Flock {
    /// So many nodes that know the first one as their seed; none is started.
    pub(super) fn new(size: usize, seed: u64) -> Self {
        let goose = |who| Goose {
            node: node(who),
            membership: None,
            boot: 0,
            rejoined: 0,
            paused: 0,
            rivals: Vec::new(),
            outlived: None,
            stopped: None,
        };
        Self {
            now: Mono(seed % 1_000 * 1_000_000),
            geese: (0..size).map(goose).collect(),
            config: MembershipConfig::default(),
            loss: 0,
            delay_ms: (0, 3),
            cuts: BTreeSet::new(),
            under_way: BTreeMap::new(),
            sent: 0,
            packets: 0,
            bytes: 0,
            rng: Pcg64Mcg::seed_from_u64(seed),
            trace: None,
            refusals: Vec::new(),
        }
    }

    /// A flock that has come together.
    pub(super) fn formed(size: usize, seed: u64) -> Self {
        let mut flock = Self::new(size, seed);
        for who in 0..size {
            flock.start(who);
        }
        flock.until(SECOND * 20, Self::is_complete);
        flock.run(SECOND * 3);
        flock
    }

    pub(super) fn start(&mut self, who: usize) {
        let boot = self.geese[who].boot + 1;
        self.start_as(who, boot);
    }

    pub(super) fn start_as(&mut self, who: usize, boot: u64) {
        let me =
            Me { node: self.geese[who].node, boot, peer_address: peer(who), profile: profile(who) };
        let contacts = Contacts { seeds: vec![peer(0)], remembered: Vec::new() };
        let seed = self.rng.random();
        let membership = Membership::new(self.config.clone(), me, seed, contacts);
        self.geese[who].boot = boot;
        self.geese[who].membership = Some(membership);
        self.call(who, |membership, now, out| membership.start(now, out));
    }

    /// Three nodes of which the last has lived long and is gone.
    pub(super) fn bereaved(seed: u64) -> Self {
        let mut flock = Self::new(3, seed);
        flock.start(0);
        flock.start(1);
        flock.start_as(2, 500);
        flock.until(Duration::from_secs(10), Self::is_complete);
        flock.kill(2);
        flock
    }

    pub(super) fn kill(&mut self, who: usize) {
        self.geese[who].membership = None;
    }

    pub(super) fn isolate(&mut self, who: usize) {
        for other in 0..self.geese.len() {
            self.cuts.insert((who, other));
            self.cuts.insert((other, who));
        }
    }

    pub(super) fn stop(&mut self, who: usize) {
        self.geese[who].stopped = Some(VecDeque::new());
    }

    /// Goes on after a stop: first what waits in the sockets, or first the timers.
    pub(super) fn resume(&mut self, who: usize, timers_first: bool) {
        let waiting = self.geese[who].stopped.take().unwrap();
        if timers_first {
            self.call(who, Membership::wakeup);
        }
        for (from, data) in waiting {
            self.deliver(from, who, &data);
        }
    }

    pub(super) fn call(
        &mut self,
        who: usize,
        what: impl FnOnce(&mut Membership, Mono, &mut Vec<Output>),
    ) {
        let Some(membership) = &mut self.geese[who].membership else { return };
        let mut out = Vec::new();
        what(membership, self.now, &mut out);
        for output in out {
            self.take(who, output);
        }
    }

    fn take(&mut self, who: usize, output: Output) {
        if let Some(trace) = &mut self.trace {
            trace.push((self.now, who, output.clone()));
        }
        match output {
            Output::Packet { to, node: named, data } => {
                assert!(data.len() <= PACKET_SIZE_LIMIT);
                let target = (0..self.geese.len()).find(|target| peer(*target) == to);
                let Some(target) = target else { return };
                self.packets += 1;
                self.bytes += data.len();
                let lost = self.rng.random_range(0..1_000) < self.loss;
                let stranger = named.is_some_and(|named| named != self.geese[target].node);
                if lost || stranger || self.cuts.contains(&(who, target)) {
                    return;
                }
                let (least, most) = self.delay_ms;
                let delay = self.rng.random_range(least * 1_000..=most * 1_000);
                self.sent += 1;
                let at = self.now.plus(Duration::from_micros(delay));
                self.under_way.insert((at, self.sent), (who, target, data));
            }
            Output::ViewChanged => {}
            Output::Rejoined => self.geese[who].rejoined += 1,
            Output::Paused => self.geese[who].paused += 1,
            Output::Rival { address } => self.geese[who].rivals.push(address),
            Output::Outlived { by } => {
                self.geese[who].outlived = Some(by);
                self.geese[who].membership = None;
            }
        }
    }

    fn deliver(&mut self, from: usize, to: usize, data: &Bytes) {
        if let Some(waiting) = &mut self.geese[to].stopped {
            waiting.push_back((from, data.clone()));
            return;
        }
        let (mut refused, name) = (None, self.geese[from].node);
        self.call(to, |membership, now, out| {
            refused = membership.received(now, name, data, out).err();
        });
        self.refusals.extend(refused);
    }

    fn next_wakeup(&self) -> Option<(Mono, usize)> {
        let awake = self.geese.iter().enumerate().filter(|(_, goose)| goose.stopped.is_none());
        let due =
            awake.filter_map(|(who, goose)| Some((goose.membership.as_ref()?.next_wakeup()?, who)));
        due.min()
    }

    /// Runs until the moment, or until the condition holds.
    pub(super) fn advance(&mut self, end: Mono, done: impl Fn(&Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            let packet = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let wakeup = self.next_wakeup();
            let next = packet.into_iter().chain(wakeup.map(|(at, _)| at)).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = self.now.max(end);
                return done(self);
            };
            self.now = self.now.max(next);
            if packet == Some(next) {
                let (_, (from, to, data)) = self.under_way.pop_first().unwrap();
                self.deliver(from, to, &data);
            } else if let Some((_, who)) = wakeup {
                self.call(who, Membership::wakeup);
            }
        }
    }

    pub(super) fn run(&mut self, duration: Duration) {
        self.advance(self.now.plus(duration), |_| false);
    }

    /// How long it took until the condition held; fails when that is too long.
    #[track_caller]
    pub(super) fn until(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> Duration {
        let start = self.now;
        let held = self.advance(start.plus(limit), done);
        assert!(held, "not within {limit:?}\n{}", self.picture());
        self.now.since(start)
    }

    pub(super) fn view(&self, who: usize) -> &View {
        self.geese[who].membership.as_ref().unwrap().view()
    }

    pub(super) fn state(&self, seen_by: usize, who: usize) -> Option<MemberState> {
        self.view(seen_by).member(node(who)).map(|member| member.state)
    }

    pub(super) fn living(&self) -> Vec<usize> {
        (0..self.geese.len()).filter(|who| self.geese[*who].membership.is_some()).collect()
    }

    /// Whether every living node sees every living node alive and in detail, and the rest down.
    pub(super) fn is_complete(&self) -> bool {
        let living = self.living();
        living.iter().all(|me| {
            let view = self.view(*me);
            let detailed = living.iter().all(|who| {
                view.member(node(*who)).is_some_and(|member| {
                    member.state == MemberState::Alive
                        && member.client_address == Some(profile(*who).client_address)
                        && member.zone == profile(*who).zone
                })
            });
            detailed && view.present().count() == living.len()
        })
    }

    pub(super) fn rejoined(&self) -> usize {
        self.geese.iter().map(|goose| goose.rejoined).sum()
    }

    pub(super) fn picture(&self) -> String {
        let mut picture = String::new();
        for me in self.living() {
            let states = self.view(me).iter().map(|(node, m)| format!("{node}:{:?}", m.state));
            let states: Vec<String> = states.collect();
            picture.push_str(&format!("{me} sees {}\n", states.join(" ")));
        }
        picture
    }
}

pub(super) fn node(who: usize) -> NodeId {
    NodeId(who as u64 + 1)
}

pub(super) fn peer(who: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, who as u8 + 1], 7_400))
}

pub(super) fn profile(who: usize) -> Profile {
    let zone = Zone::parse(&format!("zone-{who}")).unwrap();
    let client_address = SocketAddr::from(([10, 1, 0, who as u8 + 1], 7_400));
    Profile { zone, client_address, readiness: Readiness::default() }
}

pub(super) fn ready_profile(who: usize) -> Profile {
    let readiness = Readiness { ready: true, ..Readiness::default() };
    Profile { readiness, ..profile(who) }
}
