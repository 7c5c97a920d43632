//! Carrying: what nodes say to each other, to their disks and to clients, on its way.
//!
//! What this file does not do: which connections there are is the network's; when nodes live and
//! die is in `lives.rs`.

use bytes::Bytes;
use gaggle_core::effect::{Contents, Effect};
use gaggle_core::envelope::{Envelope, delivery_message};
use gaggle_core::event::{Event, LinkId};
use gaggle_wire::Response;
use rand::RngExt;

use crate::goals::Goal;
use crate::options::{node_id, place, place_at};
use crate::world::{Happening, World};

impl World {
    /// A node says something that waits for nothing any more.
    pub(crate) fn speak(&mut self, at: usize, mut word: Effect) {
        self.readable(at, &mut word);
        match word {
            Effect::Send { link, envelope } | Effect::SendNow { link, envelope } => {
                self.send(at, link, envelope);
            }
            Effect::Gossip { to, packet, .. } => self.gossip(at, place_at(to), packet),
            Effect::Answer { reply, response } => self.answer(at, reply, response),
            Effect::Welcome(welcome) => self.welcome(at, &welcome),
            Effect::Links(wanted) => {
                let process = &mut self.processes[at];
                process.wishes = wanted.iter().map(|(node, _)| place(*node)).collect();
                process.dialled.retain(|to, _| process.wishes.contains(to));
                self.dial_wishes(at);
            }
            Effect::CloseLink(link) => self.close(at, link),
            Effect::Load { load, from, to, limit, contents } => {
                let process = &self.processes[at];
                let life = process.life;
                let (rows, end) = process.disk.read(&from, &to, limit);
                let damaged = match contents {
                    Contents::Checked => self.damaged(at, &rows),
                    Contents::LeftAlone => Vec::new(),
                };
                let done = self.now + self.draw(self.options.read);
                let event = Event::Loaded { load, rows, end, damaged };
                self.at(done, Happening::Event { at, life, event });
            }
            Effect::Drained => self.drained(at),
            Effect::Renewed => self.renewed(at),
            Effect::Stop(why) => panic!("node {} has to end: {why:?}", at + 1),
            Effect::Write(_) => unreachable!("a change is no word"),
        }
    }

    /// Whatever carries contents can be given them: the message lies on this node's disk.
    pub(crate) fn expect_contents(&self, at: usize, word: &Effect) {
        let disk = &self.processes[at].disk;
        let keys = match word {
            Effect::Send { envelope, .. } if !matches!(envelope, Envelope::Copy { .. }) => {
                envelope.messages().into_iter().map(|(key, _)| key).collect()
            }
            Effect::Answer { response: Response::Deliveries { deliveries }, .. } => {
                let own = |delivery: &&gaggle_wire::DeliveryLabel| {
                    delivery.receipt.custodian == node_id(at)
                };
                deliveries.iter().filter(own).map(|d| delivery_message(d).0).collect()
            }
            _ => Vec::new(),
        };
        for key in keys {
            assert!(
                disk.has(key) || disk.is_damaged(key),
                "P1: node {} gives {key:?} and does not have it",
                at + 1
            );
        }
    }

    fn send(&mut self, at: usize, link: LinkId, envelope: Envelope) {
        let Some(own) = self.network.end_of(link.0, at) else { return };
        let arrives = self.now + self.way();
        let end = 1 - own;
        if let Some((at, envelope)) = self.network.send(link.0, end, envelope, arrives) {
            self.at(at, Happening::Heard { link: link.0, end, envelope: Box::new(envelope) });
        }
    }

    pub(crate) fn heard(&mut self, link: u64, end: usize, envelope: Envelope) {
        let Some(at) = self.network.end(link, end).filter(|end| end.open) else { return };
        let at = at.node;
        if let Some(from) = self.network.end(link, 1 - end).map(|end| end.node) {
            self.goals_heard(at, from, &envelope);
        }
        self.feed(at, Event::Envelope { link: LinkId(link), envelope });
    }

    fn gossip(&mut self, at: usize, to: usize, packet: Bytes) {
        let lost = self.rng.random_range(0..1000) < self.options.gossip_loss;
        let arrives = self.now + self.way();
        self.plan_replay(at, to, &packet);
        if !lost && self.network.clog(at, to, &packet) {
            return;
        }
        if lost || !self.network.passes(at, to) || self.processes[to].node.is_none() {
            return;
        }
        let life = self.processes[to].life;
        let event = Event::Gossip { from: node_id(at), packet };
        self.at(arrives, Happening::Event { at: to, life, event });
    }

    /// Dials whoever is wished for and not connected; of two nodes the smaller one dials.
    pub(crate) fn dial_wishes(&mut self, from: usize) {
        let life = self.processes[from].life;
        let wishes: Vec<usize> = self.processes[from].wishes.range(from + 1..).copied().collect();
        for to in wishes {
            if !self.network.is_linked(from, to) && self.processes[from].dialling.insert(to) {
                let at = self.now + self.pause_before_dial(from, to) + self.way();
                self.at(at, Happening::Dial { from, to, life });
            }
        }
    }

    /// How long a node waits before it dials another one: not the first time, and then for longer
    /// and longer, as its runtime does, unless the last connection was a good one.
    fn pause_before_dial(&mut self, from: usize, to: usize) -> u64 {
        let last = self.processes[from].dialled.get(&to).copied();
        let pause = match last {
            Some((at, _)) if self.now - at > LASTED => PAUSE.0,
            Some((_, pause)) => pause,
            None => 0,
        };
        let waits = if pause > 0 { self.draw((pause / 2, pause)) } else { 0 };
        let next = (pause * 2).clamp(PAUSE.0, PAUSE.1);
        self.processes[from].dialled.insert(to, (self.now + waits, next));
        waits
    }

    pub(crate) fn dial(&mut self, from: usize, to: usize, life: u64) {
        let process = &mut self.processes[from];
        if process.life != life || process.node.is_none() {
            return;
        }
        if !process.wishes.contains(&to) || self.network.is_linked(from, to) {
            self.processes[from].dialling.remove(&to);
            return;
        }
        let passes = self.network.passes(from, to) && self.network.passes(to, from);
        if !passes || !self.processes[from].is_awake() || !self.processes[to].is_awake() {
            let again = self.now + self.draw(REDIAL);
            self.at(again, Happening::Dial { from, to, life });
            return;
        }
        self.processes[from].dialling.remove(&to);
        let opens = [0; 2].map(|_: u64| self.now + self.way());
        let ends = [(from, opens[0]), (to, opens[1])];
        let link = self.network.connect(ends);
        for (end, other) in [(0, to), (1, from)] {
            let node = self.processes[other].node.as_ref().expect("it is awake");
            let hello = Box::new(node.hello());
            self.at(opens[end], Happening::Opened { link, end, hello });
        }
    }

    /// A node closes a connection.
    fn close(&mut self, at: usize, link: LinkId) {
        let Some(own) = self.network.end_of(link.0, at) else { return };
        self.network.close(link.0, own);
        self.other_left(link.0, own, Goodbye::Said);
        self.dial_wishes(at);
    }

    /// One end of a connection is gone; the other is told, or has to find out.
    pub(crate) fn other_left(&mut self, link: u64, left: usize, goodbye: Goodbye) {
        let other = 1 - left;
        let Some(end) = self.network.end(link, other).filter(|end| end.open) else { return };
        let from = self.network.end(link, left).map_or(end.node, |end| end.node);
        if goodbye == Goodbye::Said && self.network.passes(from, end.node) {
            let at = self.now + self.way();
            self.at(at, Happening::Closed { link, end: other });
        } else {
            self.silence(link, other);
        }
    }

    pub(crate) fn silence(&mut self, link: u64, end: usize) {
        let since = self.now;
        if self.network.silence(link, end, since) {
            let at = since + self.options.idle + self.draw((0, self.options.idle / 4));
            self.at(at, Happening::Idle { link, end, since });
        }
    }

    pub(crate) fn idle(&mut self, link: u64, end: usize, since: u64) {
        let Some(silent) = self.network.end(link, end) else { return };
        if silent.silent_since == Some(since) {
            if self.processes[silent.node].suspended.is_some() {
                return;
            }
            self.closed(link, end);
            self.other_left(link, end, Goodbye::Unsaid);
        }
    }

    /// Two nodes have another connection.
    pub(crate) fn trouble(&mut self, link: u64) {
        let node = |end| self.network.end(link, end).map(|end| end.node);
        if let (Some(a), Some(b)) = (node(0), node(1)) {
            self.judge.weather.trouble(self.now, a, b);
        }
    }

    pub(crate) fn closed(&mut self, link: u64, end: usize) {
        let Some(at) = self.network.end(link, end).map(|end| end.node) else { return };
        if self.network.close(link, end) {
            self.feed(at, Event::LinkDown { link: LinkId(link) });
            self.dial_wishes(at);
        }
    }

    /// Cuts one direction between two nodes.
    pub fn cut_one_way(&mut self, from: usize, to: usize) {
        self.report.line(self.now, format_args!("cut {} -> {}", from + 1, to + 1));
        self.judge.weather.disturb();
        self.judge.weather.trouble(self.now, from, to);
        for (link, end) in self.network.cut(from, to) {
            self.silence(link, end);
        }
        if !self.network.passes(to, from) {
            self.judge.goals.cut(from, to);
        }
    }

    /// What is said from one node to another gathers, gossip as well, and comes in a burst when the
    /// way is free again.
    pub(crate) fn clog(&mut self, from: usize, to: usize) {
        self.cut_one_way(from, to);
        self.network.begin_clog(from, to);
    }

    /// The connection of two nodes breaks: both learn of it at once, and what is under way on it is
    /// lost.
    pub(crate) fn break_link(&mut self, a: usize, b: usize) {
        self.report.line(self.now, format_args!("break {} - {}", a + 1, b + 1));
        self.judge.weather.disturb();
        self.judge.weather.trouble(self.now, a, b);
        for (link, end) in self.network.of(a) {
            if self.network.end(link, 1 - end).is_some_and(|other| other.node == b) {
                self.judge.goals.note(Goal::LinkBroken);
                self.closed(link, end);
                self.closed(link, 1 - end);
            }
        }
    }

    /// A packet of gossip may come once more, much later.
    fn plan_replay(&mut self, from: usize, to: usize, packet: &Bytes) {
        let replays = self.options.replays;
        if replays > 0 && self.rng.random_range(0..1000) < replays {
            let at = self.now + self.draw((0, self.options.replay_after));
            self.at(at, Happening::Replayed { from, to, packet: packet.clone() });
        }
    }

    pub(crate) fn replayed(&mut self, from: usize, to: usize, packet: Bytes) {
        if self.options.replays > 0 && self.processes[to].node.is_some() {
            self.judge.goals.note(Goal::Replayed);
            self.judge.weather.disturb();
            self.judge.weather.trouble_all(self.now);
            self.feed(to, Event::Gossip { from: node_id(from), packet });
        }
    }

    /// Nothing that lasts is left of what was done to the network.
    pub(crate) fn calm_network(&mut self) {
        (self.options.tail, self.options.replays) = (0, 0);
        self.heal_all();
        self.heal_clients();
    }

    /// Cuts two nodes from each other.
    pub fn cut(&mut self, a: usize, b: usize) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Cuts a node from all others.
    pub fn isolate(&mut self, node: usize) {
        for other in (0..self.processes.len()).filter(|other| *other != node) {
            self.cut(node, other);
        }
    }

    /// Heals a cut.
    pub fn heal(&mut self, from: usize, to: usize) {
        self.report.line(self.now, format_args!("heal {} -> {}", from + 1, to + 1));
        self.judge.goals.healed(from, to);
        self.judge.weather.trouble(self.now, from, to);
        for (link, end, envelopes) in self.network.heal(from, to) {
            self.let_go(link, end, envelopes);
        }
        for packet in self.network.unclog(from, to) {
            self.judge.goals.note(Goal::Burst);
            self.gossip(from, to, packet);
        }
    }

    /// What was held goes on its way.
    pub(crate) fn let_go(&mut self, link: u64, end: usize, envelopes: Vec<Envelope>) {
        for envelope in envelopes {
            let arrives = self.now + self.way();
            if let Some((at, envelope)) = self.network.send(link, end, envelope, arrives) {
                let envelope = Box::new(envelope);
                self.at(at, Happening::Heard { link, end, envelope });
            }
        }
    }

    /// Heals all cuts.
    pub fn heal_all(&mut self) {
        for (from, to) in self.network.cuts() {
            self.heal(from, to);
        }
    }
}

/// Whether a closed connection was closed with a word to the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goodbye {
    Said,
    Unsaid,
}

/// How long a node waits at least and at most before it dials again.
const PAUSE: (u64, u64) = (50_000_000, 1_000_000_000);
/// After how long a connection was a good one.
const LASTED: u64 = 5_000_000_000;
/// How long it takes to find out that nobody answers.
const REDIAL: (u64, u64) = (100_000_000, 300_000_000);

/// What a word tells of leases when it has waited for so long: a runtime says what is left.
pub(crate) fn waited(word: &mut Effect, time: std::time::Duration) {
    if let Effect::Answer { response: Response::Deliveries { deliveries }, .. }
    | Effect::Send { envelope: Envelope::Grant { deliveries, .. }, .. } = word
    {
        deliveries.iter_mut().for_each(|delivery| delivery.waited(time));
    }
}
