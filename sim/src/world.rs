//! The world: virtual time and everything that happens in it, in order. The second runtime of
//! the core.
//!
//! All that will happen stands on one agenda by time. Every number is drawn from one generator. So
//! a run is a function of its options and of what a scenario does to it, and the same seed gives
//! the same run.
//!
//! Invariants: time never goes back; after every event the node that had it is checked. What this
//! file does not do: carrying (`carrier.rs`), processes' lives (`lives.rs`), clients (`town.rs`).

use bytes::Bytes;
use gaggle_core::effect::{Effect, Effects};
use gaggle_core::envelope::{Envelope, PeerHello};
use gaggle_core::event::{Event, LinkId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::agenda::Agenda;
use crate::goals::Goal;
use crate::judge::Judge;
use crate::lines::News;
use crate::network::Network;
use crate::options::{Options, Span};
use crate::oracle::Fact;
use crate::planted::border::{Border, Said};
use crate::process::Process;
use crate::report::{Detail, Report};
use crate::town::Town;
use crate::wall::WallClock;

/// A simulated cluster with its clients.
pub struct World {
    pub(crate) options: Options,
    pub(crate) now: u64,
    agenda: Agenda,
    pub(crate) rng: Pcg64Mcg,
    pub(crate) processes: Vec<Process>,
    /// A planted bug, which every node has.
    pub(crate) border: Option<&'static Border>,
    pub(crate) network: Network,
    pub(crate) town: Town,
    /// What clients know, and what goes against a promise.
    pub judge: Judge,
    /// When the weather is looked at next.
    look_at: u64,
    pub(crate) report: Report,
    pub(crate) effects: Effects,
    /// Room for what wall clocks say.
    pub(crate) walls: Vec<u64>,
    pub(crate) steps: u64,
    /// Whether the run is over, and violations have been told.
    pub(crate) over: bool,
}

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Happening {
    /// To a node, unless it has died meanwhile.
    Event { at: usize, life: u64, event: Event },
    /// Something is heard at an end of a connection.
    Heard { link: u64, end: usize, envelope: Box<Envelope> },
    /// A packet of gossip comes once more.
    Replayed { from: usize, to: usize, packet: Bytes },
    /// An end of a connection opens.
    Opened { link: u64, end: usize, hello: Box<PeerHello> },
    /// An end of a connection learns that the other side closed it.
    Closed { link: u64, end: usize },
    /// An end of a connection has been silent for long.
    Idle { link: u64, end: usize, since: u64 },
    /// A node tries to connect to another.
    Dial { from: usize, to: usize, life: u64 },
    /// A commit is done.
    Committed { at: usize, life: u64 },
    /// The runtime of a node measures its disk.
    Measure { at: usize, life: u64 },
    /// A node wanted to be woken.
    Wake { at: usize, life: u64 },
    /// A node stops for a moment, as it does again and again.
    Stall { at: usize, life: u64 },
    /// A paused node goes on.
    Resume { at: usize, life: u64 },
    /// A node that was stopped is started again.
    Start { at: usize },
    /// To a client.
    Client(usize, News),
}

impl World {
    /// A cluster of which no node is started.
    #[must_use]
    pub fn new(options: Options, detail: Detail) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(options.seed);
        let processes = (0..options.nodes)
            .map(|_| {
                let skew = rng.random_range(0..=2 * options.skew);
                let drift = match options.drift {
                    0 => 0,
                    drift => rng.random_range(-drift..=drift),
                };
                let off = skew.cast_signed() - options.skew.cast_signed();
                Process::new(WallClock::new(off, drift))
            })
            .collect();
        Self {
            options,
            now: 0,
            agenda: Agenda::default(),
            rng,
            processes,
            border: None,
            network: Network::default(),
            town: Town::default(),
            judge: Judge::default(),
            look_at: 0,
            report: Report::new(detail),
            effects: Effects::new(),
            walls: Vec::new(),
            steps: 0,
            over: false,
        }
    }

    /// Virtual time since the beginning, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many things have happened.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The hash of all that was reported.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.report.hash()
    }

    /// Lets time pass.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn run(&mut self, nanos: u64) {
        let until = self.now + nanos;
        while self.step_before(until) {}
        self.now = until;
    }

    /// Lets time pass until something holds, at most so long; whether it does.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn run_until(&mut self, nanos: u64, holds: impl Fn(&Self) -> bool) -> bool {
        let until = self.now + nanos;
        loop {
            if holds(self) {
                return true;
            }
            if !self.step_before(until) {
                self.now = until;
                return holds(self);
            }
        }
    }

    fn step_before(&mut self, until: u64) -> bool {
        let due = self.agenda.next().is_some_and(|at| at <= until);
        if due {
            self.step();
        }
        due
    }

    fn step(&mut self) {
        let Some((at, what)) = self.agenda.take() else { return };
        assert!(at >= self.now, "time never goes back");
        self.now = at;
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "L6: the run comes to no end");
        if self.now >= self.look_at {
            self.look_around();
        }
        self.happen(what);
        if let (Some(violation), false) = (self.judge.violations().first(), self.over) {
            panic!("{violation} (at {:.6})", self.now as f64 / 1e9);
        }
    }

    /// Looks at the weather.
    fn look_around(&mut self) {
        self.look_at = self.now + LOOK_EVERY;
        if self.options.tail > 0 {
            self.judge.weather.disturb();
            self.judge.weather.trouble_all(self.now);
        }
        if self.judge.weather.fair_since().is_none() {
            let well = self.is_well();
            self.judge.weather.looks(self.now, well);
        }
        self.judge(&Fact::Later);
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Event { at, life, event } => {
                if self.processes[at].life == life {
                    self.feed(at, event);
                }
            }
            Happening::Heard { link, end, envelope } => self.heard(link, end, *envelope),
            Happening::Replayed { from, to, packet } => self.replayed(from, to, packet),
            Happening::Opened { link, end, hello } => {
                if let Some(at) = self.network.meet(self.now, link, end) {
                    self.trouble(link);
                    self.feed(at, Event::LinkUp { link: LinkId(link), hello });
                }
            }
            Happening::Closed { link, end } => self.closed(link, end),
            Happening::Idle { link, end, since } => self.idle(link, end, since),
            Happening::Dial { from, to, life } => self.dial(from, to, life),
            Happening::Committed { at, life } => self.committed(at, life),
            Happening::Measure { at, life } => self.measure(at, life),
            Happening::Wake { at, life } => self.wake(at, life),
            Happening::Stall { at, life } => self.stall(at, life),
            Happening::Resume { at, life } => self.resume(at, life),
            Happening::Start { at } => self.start(at),
            Happening::Client(actor, news) => self.client_news(actor, news),
        }
    }

    /// Puts something on the agenda.
    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.agenda.put(at.max(self.now), what);
    }

    /// Draws a number within the span.
    pub(crate) fn draw(&mut self, (low, high): Span) -> u64 {
        self.rng.random_range(low..=high)
    }

    /// How long something is on its way now.
    pub(crate) fn way(&mut self) -> u64 {
        let usual = self.draw(self.options.delay);
        let tail = self.options.tail;
        if tail == 0 || self.rng.random_range(0..1000) >= tail {
            return usual;
        }
        self.judge.goals.note(Goal::LongWay);
        usual + self.draw((0, self.options.tail_delay))
    }

    /// Gives a node an event, and does what it asks for.
    pub(crate) fn feed(&mut self, at: usize, event: Event) {
        let process = &mut self.processes[at];
        if let Some(backlog) = &mut process.backlog {
            backlog.push_back(event);
            return;
        }
        match self.border {
            None => self.handle(at, event),
            Some(border) => {
                for event in (border.hears)(event) {
                    self.handle(at, event);
                }
            }
        }
    }

    fn handle(&mut self, at: usize, event: Event) {
        let process = &mut self.processes[at];
        let now = process.clocks(self.now);
        let Some(node) = &mut process.node else { return };
        if !matches!(event, Event::Gossip { .. } | Event::Wakeup) {
            self.report.line(self.now, format_args!("{} <- {event:?}", at + 1));
        }
        let mut effects = std::mem::take(&mut self.effects);
        let guest = if let Event::ClientOpened(client) = event { Some(client) } else { None };
        node.handle(now, event, &mut effects);
        node.check();
        if let Some(client) = guest {
            self.let_in(at, client);
        }
        match self.border {
            None => effects.drain().for_each(|effect| self.effect(at, effect)),
            Some(border) => self.said(at, (border.says)(effects.drain().collect())),
        }
        self.effects = effects;
        self.watch(at);
        self.watch_put_back(at);
        if self.processes[at].disk.start() {
            self.commit_begins(at);
        }
        self.plan_wake(at);
    }

    /// What a planted bug made of what a node says.
    fn said(&mut self, at: usize, Said { effects, at_once, heard }: Said) {
        at_once.into_iter().for_each(|word| self.speak(at, word));
        effects.into_iter().for_each(|effect| self.effect(at, effect));
        let life = self.processes[at].life;
        for event in heard {
            self.at(self.now, Happening::Event { at, life, event });
        }
    }

    fn effect(&mut self, at: usize, effect: Effect) {
        if self.processes[at].node.is_none() {
            // It died of an effect before this one.
            return;
        }
        match effect {
            Effect::Write(write) => {
                self.watch_removals(at, &write);
                self.watch_strikes(&write);
                self.processes[at].disk.write(write);
                self.written(at);
            }
            Effect::SendNow { .. } | Effect::Gossip { .. } | Effect::Stop(_) => {
                self.speak(at, effect);
            }
            Effect::Send { .. }
            | Effect::Answer { .. }
            | Effect::Welcome(_)
            | Effect::Links(_)
            | Effect::CloseLink(_)
            | Effect::Load { .. }
            | Effect::Drained
            | Effect::Renewed => {
                self.watch_copies(at, &effect);
                self.watch_load(at, &effect);
                self.watch_hand_outs(at, &effect);
                self.watch_counts(&effect);
                self.expect_contents(at, &effect);
                if let Some(word) = self.processes[at].disk.say(effect, self.now) {
                    self.speak(at, word);
                }
            }
        }
    }

    fn plan_wake(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some(node) = &process.node else { return };
        let Some(next) = node.next_wakeup() else { return };
        let next = (next.0 + process.stood).max(self.now + 1);
        if process.wake_at.is_none_or(|present| present > next || present <= self.now) {
            process.wake_at = Some(next);
            let life = process.life;
            self.at(next, Happening::Wake { at, life });
        }
    }

    fn wake(&mut self, at: usize, life: u64) {
        let process = &mut self.processes[at];
        if process.life == life && process.is_awake() && process.wake_at == Some(self.now) {
            process.wake_at = None;
            self.record_lateness(at, Some(self.now));
            self.feed(at, Event::Wakeup);
        }
    }

    fn committed(&mut self, at: usize, life: u64) {
        if self.processes[at].life != life || self.commits_later(at) || self.commit_fails(at) {
            return;
        }
        for (mut word, since) in self.processes[at].disk.end() {
            crate::carrier::waited(&mut word, std::time::Duration::from_nanos(self.now - since));
            self.speak(at, word);
            if self.processes[at].life != life {
                // Its last word: who has ended says nothing more.
                return;
            }
        }
        if self.processes[at].disk.start() {
            self.commit_begins(at);
        }
    }
}

/// Far beyond the longest run that comes to its end.
const STEPS_MAX: u64 = 500_000;
/// How often the weather is looked at.
const LOOK_EVERY: u64 = 50_000_000;
