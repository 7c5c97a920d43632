//! The storm: a random walk over faults under a random load, after model/custody.py, and then
//! fair weather in which everything must come out.
//!
//! A run has three parts. *Storm*: nodes crash, are cut off, pause and come back while producers
//! send and consumers receive and delete; every promise that holds at any time is checked after
//! every step. *Heal*: cuts are healed and nodes started; they must be whole again within a bound.
//! *Drain*: everything that was confirmed must reach a consumer and be deleted (P1, P10), nothing
//! that was deleted may come again (P4), and at the end no row of a message may be left on any
//! disk. A quarter of the seeds are calm: there nothing fails, and nothing may come twice (P3).
//!
//! What this file does not do: it prints nothing; see `main.rs`.

use std::time::Duration;

use gaggle_wire::{QueueName, Request, Response, SettingsChange};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::actor::Actor;
use crate::consumer::{Habits, Mode};
use crate::options::{Options, Span};
use crate::oracle::Weather;
use crate::producer::Plan;
use crate::report::Detail;
use crate::world::World;

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Things that happened.
    pub steps: u64,
    /// Virtual time that passed, in nanoseconds.
    pub nanos: u64,
    /// The hash of the report.
    pub hash: u64,
    /// Messages that were confirmed.
    pub confirmed: u64,
}

/// What a seed's run is like.
#[derive(Clone, Debug)]
struct Chart {
    calm: bool,
    /// How long the storm lasts.
    storm: u64,
    /// Pause between two faults.
    every: Span,
    crashes: u32,
    cuts: u32,
    one_way: u32,
    pauses: u32,
    queue: SettingsChange,
    producers: u64,
    consumers: u64,
}

/// Runs a seed to its end.
///
/// # Panics
/// When a promise is broken.
#[must_use]
pub fn run(seed: u64, detail: Detail) -> Outcome {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
    let options = draw_options(seed, &mut rng);
    let chart = draw_chart(&mut rng);
    let mut storm = Storm { world: World::new(options, detail), chart, rng, actors: Vec::new() };
    storm.begin();
    storm.blow();
    storm.heal();
    storm.drain();
    let world = storm.world;
    let confirmed = world.oracle.fates().filter(|(_, fate)| fate.confirmed.is_some()).count();
    Outcome {
        steps: world.steps(),
        nanos: world.now(),
        hash: world.hash(),
        confirmed: confirmed as u64,
    }
}

fn draw_options(seed: u64, rng: &mut Pcg64Mcg) -> Options {
    let mut options = Options::calm(rng.random_range(3..=5), seed);
    options.idle = rng.random_range(500..=3000) * MS;
    options.serve_alone_after = Duration::from_millis(rng.random_range(1000..=4000));
    options.resend_window = Duration::from_millis(rng.random_range(4000..=8000));
    options.window_max = [4, 32, 4096][rng.random_range(0..3)];
    options.page_rows = [3, 20, 1000][rng.random_range(0..3)];
    options.skew = rng.random_range(0..=100) * MS;
    if rng.random_bool(0.3) {
        options.commit = (200_000, 60 * MS);
    }
    if rng.random_bool(0.3) {
        options.delay = (100_000, 30 * MS);
    }
    options
}

fn draw_chart(rng: &mut Pcg64Mcg) -> Chart {
    let calm = rng.random_bool(0.25);
    let mut kind = |chance: f64| if rng.random_bool(chance) { 1 } else { 0 };
    let (crashes, cuts, one_way, pauses) = (4 * kind(0.7), 4 * kind(0.6), kind(0.2), kind(0.3));
    let at_least = if rng.random_bool(0.4) { 1 } else { 2 };
    let queue = SettingsChange {
        partitions: Some(rng.random_range(1..=3)),
        at_least: Some(at_least),
        visibility_timeout_ms: Some(rng.random_range(1500..=5000)),
        ..SettingsChange::default()
    };
    Chart {
        calm,
        storm: rng.random_range(3..=15) * SECOND,
        every: (20 * MS, rng.random_range(200..=2000) * MS),
        crashes,
        cuts,
        one_way,
        pauses,
        queue,
        producers: rng.random_range(1..=3),
        consumers: rng.random_range(1..=4),
    }
}

struct Storm {
    world: World,
    chart: Chart,
    rng: Pcg64Mcg,
    actors: Vec<usize>,
}

impl Storm {
    fn begin(&mut self) {
        let nodes = self.world.options.nodes;
        // In calm weather a node may join later: that is no fault.
        let first = if self.chart.calm && nodes > 3 { nodes - 1 } else { nodes };
        self.world.form(first);
        if !self.chart.calm {
            self.world.oracle.weather = Weather::Storm;
        }
        self.world.oracle.lone = self.chart.queue.at_least == Some(1);
        let name = queue_name();
        let create = Request::CreateQueue { name, change: self.chart.queue };
        let Response::Queue(queue) = self.world.call(0, create) else {
            panic!("the queue is not created");
        };
        for _ in 0..self.chart.producers {
            let window = self.world.options.resend_window.as_nanos() as u64;
            let plan = Plan {
                queue: queue.id,
                partitions: queue.settings.partitions,
                messages: self.rng.random_range(20..=150),
                batch: (1, self.rng.random_range(1..=8)),
                every: (MS, self.rng.random_range(10..=400) * MS),
                patience: self.rng.random_range(300..=1500) * MS,
                window: window * 3 / 4,
                twice: if self.rng.random_bool(0.3) { 100 } else { 0 },
            };
            let producer = self.world.producer(plan);
            self.actors.push(producer);
        }
        for _ in 0..self.chart.consumers {
            let node = self.rng.random_range(0..first);
            self.move_in_consumer(node, self.chart.calm);
        }
    }

    fn move_in_consumer(&mut self, node: usize, behaves: bool) {
        let mode = if self.rng.random_bool(0.6) {
            Mode::Stream { credit: self.rng.random_range(1..=20) }
        } else {
            Mode::Poll { max: self.rng.random_range(1..=10), wait_ms: 2000 }
        };
        let bad = |chance: u32| if behaves { 0 } else { chance };
        let habits = Habits {
            queue: queue_name(),
            node,
            mode,
            think: (0, self.rng.random_range(1..=300) * MS),
            forgets: bad(self.rng.random_range(0..=100)),
            releases: bad(self.rng.random_range(0..=100)),
            strays: self.rng.random_range(0..=500),
        };
        let consumer = self.world.consumer(habits);
        self.actors.push(consumer);
    }

    fn blow(&mut self) {
        let until = self.world.now() + self.chart.storm;
        if self.chart.calm {
            self.world.run(self.chart.storm / 2);
            let last = self.world.options.nodes - 1;
            self.world.start(last);
        }
        while self.world.now() < until {
            let (low, high) = self.chart.every;
            self.world.run(self.rng.random_range(low..=high));
            if !self.chart.calm {
                self.fault();
            }
        }
    }

    fn fault(&mut self) {
        let nodes = self.world.options.nodes;
        let at = self.rng.random_range(0..nodes);
        let other = (at + self.rng.random_range(1..nodes)) % nodes;
        let Chart { crashes, cuts, one_way, pauses, .. } = self.chart;
        let mut ways = vec![(crashes, 0), (2 * crashes, 1), (cuts, 2), (one_way, 3)];
        ways.extend([(2 * (cuts + one_way), 4), (pauses, 5), (1, 6), (cuts / 4, 7)]);
        let mut left = self.rng.random_range(0..ways.iter().map(|(w, _)| w).sum::<u32>());
        let way = ways.iter().find(|(weight, _)| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found
        });
        match way.map_or(6, |(_, way)| *way) {
            0 if self.world.is_up(at) => self.world.crash(at),
            1 => self.world.start(at),
            2 => self.world.cut(at, other),
            3 => self.world.cut_one_way(at, other),
            4 => {
                self.world.heal(at, other);
                self.world.heal(other, at);
            }
            5 => {
                let long = if self.rng.random_bool(0.5) { 400 } else { 3000 };
                let nanos = self.rng.random_range(1..=long) * MS;
                self.world.pause(at, nanos);
            }
            7 => self.world.isolate(at),
            _ => {
                let actor = self.actors[self.rng.random_range(0..self.actors.len())];
                self.world.at_desk(actor, |actor, desk| {
                    if let Actor::Consumer(consumer) = actor {
                        consumer.die(desk);
                    }
                });
            }
        }
    }

    fn heal(&mut self) {
        let nodes = self.world.options.nodes;
        self.world.heal_all();
        for at in 0..nodes {
            self.world.start(at);
        }
        let whole = self.world.run_until(30 * SECOND, |world| world.is_whole(nodes));
        assert!(whole, "L1: the nodes are not whole again");
        if !self.chart.calm {
            self.world.run(100 * MS);
            self.world.oracle.weather = Weather::Healed(self.world.now());
        }
    }

    fn drain(&mut self) {
        for actor in self.actors.clone() {
            self.world.at_desk(actor, |actor, desk| match actor {
                Actor::Producer(producer) => producer.stop(),
                Actor::Consumer(consumer) => {
                    consumer.behave();
                    consumer.wake(desk);
                }
                Actor::Hand(_) => {}
            });
        }
        for at in 0..self.world.options.nodes {
            self.move_in_consumer(at, true);
        }
        let actors = self.actors.clone();
        let out = self.world.run_until(60 * SECOND, |world| {
            let done = |actor: &usize| match &world.town.actors[*actor] {
                Actor::Producer(producer) => producer.is_done(),
                Actor::Hand(_) | Actor::Consumer(_) => true,
            };
            actors.iter().all(done) && !world.oracle.fates().any(|(_, fate)| fate.is_open())
        });
        self.world.oracle.settle();
        self.world.over = true;
        if let Some(lost) = self.world.oracle.violations().first().cloned() {
            panic!("{lost}; {}", self.world.counters());
        }
        assert!(out, "P10: not everything is consumed: {:?}", self.world.oracle.first_open());
        self.world.over = false;
        self.empty();
    }

    /// Disks are empty again once nobody sends again any more.
    fn empty(&mut self) {
        let nodes = self.world.options.nodes;
        let window = self.world.options.resend_window.as_nanos() as u64;
        let clean = self.world.run_until(window + 30 * SECOND, |world| {
            (0..nodes).all(|at| world.leftovers(at).is_empty())
        });
        let left: Vec<_> = (0..nodes).map(|at| (at + 1, self.world.leftovers(at))).collect();
        assert!(clean, "L5: rows are left: {left:?}");
    }
}

fn queue_name() -> QueueName {
    QueueName::parse("q").expect("it is a name")
}

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
