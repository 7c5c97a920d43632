//! From a seed to a plan.
//!
//! First the classes of faults are drawn, then the cluster and its clients, then one fault after
//! the other with the end that belongs to it. A quarter of the seeds are calm: nodes join and
//! nothing fails.
//!
//! What this file does not do: it knows no world; a deed may come when it has nothing to do.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{
    Class, ClientName, ConsumerPlan, Deed, ModePlan, Plan, ProducerPlan, QueuePlan, Timed,
};
use crate::options::{Options, Span};

/// Draws the plan of a seed.
#[must_use]
pub fn draw(seed: u64) -> Plan {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
    let calm = rng.random_bool(0.25);
    let drawn = Class::ALL.iter().filter(|(_, chance)| rng.random_range(0..100) < *chance);
    let drawn: Vec<Class> = drawn.map(|(class, _)| *class).collect();
    let strict = is_strict(seed);
    let drawn = drawn.into_iter().filter(|class| !calm || class.is_calm());
    let classes: Vec<Class> = drawn.filter(|class| !strict || !class.loses_disks()).collect();
    let options = options(seed, &classes, &mut rng);
    let nodes = options.nodes;
    let founders = if nodes > 3 && rng.random_bool(0.3) { nodes - 1 } else { nodes };
    let queue = queue(seed, founders, &mut rng);
    let plan = Plan {
        calm,
        storm_ms: rng.random_range(3_000..=15_000),
        founders,
        classes,
        options,
        queue,
        producers: Vec::new(),
        consumers: Vec::new(),
        deeds: Vec::new(),
    };
    let mut draw = Draw { plan, rng };
    draw.clients();
    draw.joins();
    draw.faults();
    draw.own();
    draw.plan.deeds.sort_by_key(|timed| timed.at_ms);
    draw.plan
}

/// A plan while it is drawn.
pub(super) struct Draw {
    pub(super) plan: Plan,
    pub(super) rng: Pcg64Mcg,
}

fn options(seed: u64, classes: &[Class], rng: &mut Pcg64Mcg) -> Options {
    let has = |class| classes.contains(&class);
    let nodes = [1, 2, 3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 7][rng.random_range(0..16)];
    let mut options = Options::calm(nodes, seed);
    options.idle = rng.random_range(500..=3000) * MS;
    options.serve_alone_after = Duration::from_millis(rng.random_range(1000..=4000));
    options.resend_window = Duration::from_millis(rng.random_range(4000..=8000));
    options.window_max = [4, 32, 4096][rng.random_range(0..3)];
    options.page_rows = [3, 20, 1000][rng.random_range(0..3)];
    options.replace_after = Duration::from_millis(rng.random_range(500..=6000));
    options.scrub_every = Duration::from_millis(rng.random_range(500..=6000));
    options.scrub_rate = [5_000, 1_000_000][rng.random_range(0..2)];
    options.replace_rate = [500, 20_000, 1_000_000][rng.random_range(0..3)];
    if has(Class::Skew) {
        options.skew = rng.random_range(1..=100) * MS;
    }
    if has(Class::SlowDisk) {
        options.commit = (200_000, rng.random_range(5..=60) * MS);
    }
    if has(Class::Delay) {
        options.delay = (100_000, rng.random_range(3..=30) * MS);
    }
    if has(Class::Loss) {
        options.gossip_loss = rng.random_range(10..=300);
    }
    // A cluster of a simulation has few ranges. This draws nothing, so that the rest of a seed's
    // plan is as it was without it.
    options.inventory_part = [50_000, 3, 12][usize::try_from(seed % 3).expect("it is below 3")];
    options.waiting_max = [8, 100_000, 100_000][rng.random_range(0..3)];
    options
}

/// Whether the queue of a seed's plan is a strict one.
fn is_strict(seed: u64) -> bool {
    seed >= STRICT_FROM
}

fn queue(seed: u64, founders: usize, rng: &mut Pcg64Mcg) -> QueuePlan {
    let window_ms =
        is_strict(seed).then(|| [20, 100, 500][usize::try_from(seed % 3).expect("it is below 3")]);
    let founders = u8::try_from(founders).expect("a cluster is small");
    let replicas = [1, 2, 3, 3, 3, 3, 3, 4, 5][rng.random_range(0..9)];
    let replicas = if founders < 3 { founders } else { replicas };
    let replicas = if window_ms.is_some() { replicas.min(founders) } else { replicas };
    let most = replicas.min(founders);
    let confirms = if rng.random_bool(0.2) { rng.random_range(1..=most) } else { most.min(2) };
    let at_least = if rng.random_bool(0.4) { 1 } else { confirms };
    QueuePlan {
        partitions: rng.random_range(1..=3),
        replicas,
        confirms,
        at_least,
        visibility_timeout_ms: rng.random_range(1500..=5000),
        window_ms,
    }
}

impl Draw {
    pub(super) fn has(&self, class: Class) -> bool {
        self.plan.classes.contains(&class)
    }

    fn clients(&mut self) {
        for _ in 0..self.rng.random_range(1..=3) {
            let producer = ProducerPlan {
                messages: self.rng.random_range(20..=150),
                batch: (1, self.rng.random_range(1..=8)),
                every_ms: (1, self.rng.random_range(10..=400)),
                open_max: [1, 8, 100][self.rng.random_range(0..3)],
                keyed: [0, 500, 1000][self.rng.random_range(0..3)],
                within_ms: (200, self.rng.random_range(1000..=8000)),
                skew_ms: self.rng.random_range(-5000..=5000),
                drift: self.rng.random_range(-100..=100),
            };
            self.plan.producers.push(producer);
        }
        for _ in 0..self.rng.random_range(1..=4) {
            let consumer = self.consumer();
            self.plan.consumers.push(consumer);
        }
    }

    fn consumer(&mut self) -> ConsumerPlan {
        let bad = self.has(Class::Consumers);
        let rng = &mut self.rng;
        let mode = if rng.random_bool(0.6) {
            ModePlan::Stream(rng.random_range(1..=20))
        } else {
            ModePlan::Poll(rng.random_range(1..=10))
        };
        let founders = self.plan.founders as u64;
        ConsumerPlan {
            node: rng.random_bool(0.2).then(|| rng.random_range(1..=founders)),
            mode,
            workers: [1, 4, 20][rng.random_range(0..3)],
            think_ms: rng.random_range(1..=300),
            keeps: [0, 500, 1000][rng.random_range(0..3)],
            forgets: if bad { rng.random_range(0..=100) } else { 0 },
            releases: if bad { rng.random_range(0..=100) } else { 0 },
            delay_ms: [0, 500][rng.random_range(0..2)],
            late: if bad { rng.random_range(0..=20) } else { 0 },
            twice: rng.random_range(0..=100),
        }
    }

    /// Those who were not there at the beginning join: that is no fault.
    fn joins(&mut self) {
        for node in self.plan.founders..self.plan.options.nodes {
            let at = self.rng.random_range(0..=self.plan.storm_ms / 2);
            self.add(at, Deed::Start { node: node as u64 + 1 });
        }
    }

    fn faults(&mut self) {
        let mut ways: Vec<Class> = Vec::new();
        for (class, weight) in STRIKES {
            if self.has(class) {
                ways.extend(vec![class; weight]);
            }
        }
        if ways.is_empty() {
            return;
        }
        let every: Span = (20, self.rng.random_range(200..=2000));
        let mut at = self.within(every);
        while at < self.plan.storm_ms {
            let class = ways[self.rng.random_range(0..ways.len())];
            self.strike(class, at);
            at += self.within(every);
        }
    }

    fn strike(&mut self, class: Class, at: u64) {
        let node = self.node();
        match class {
            Class::Crashes => {
                let down = self.short_or_long((20, 400), (800, 6000));
                self.add(at, Deed::Crash { node });
                self.add(at + down, Deed::Start { node });
            }
            Class::Pauses => {
                let ms = self.short_or_long((1, 400), (400, 3000));
                self.add(at, Deed::Pause { node, ms });
            }
            Class::Cuts | Class::OneWayCuts => {
                let Some(other) = self.other(node) else { return };
                let lasts = self.short_or_long((50, 1000), (1000, 10_000));
                let cut = match class {
                    Class::Cuts => Deed::Cut { a: node, b: other },
                    _ => Deed::CutOneWay { from: node, to: other },
                };
                self.add(at, cut);
                self.add(at + lasts, Deed::Heal { a: node, b: other });
            }
            Class::Isolation => {
                let lasts = self.short_or_long((300, 2000), (2000, 10_000));
                self.add(at, Deed::Isolate { node });
                self.add(at + lasts, Deed::HealAll);
            }
            Class::Clients => self.strike_client(node, at),
            _ => unreachable!("it does not strike"),
        }
    }

    fn strike_client(&mut self, node: u64, at: u64) {
        let client = self.client();
        match self.rng.random_range(0..3) {
            0 => self.add(at, Deed::ClientDies { client }),
            1 => {
                let ms = self.short_or_long((1, 400), (400, 5000));
                self.add(at, Deed::ClientPauses { client, ms });
            }
            _ => {
                let lasts = self.short_or_long((50, 1000), (1000, 10_000));
                self.add(at, Deed::CutClient { client, node });
                self.add(at + lasts, Deed::HealClient { client, node });
            }
        }
    }

    pub(super) fn client(&mut self) -> ClientName {
        let producers = self.plan.producers.len();
        match self.rng.random_range(0..producers + self.plan.consumers.len()) {
            at if at < producers => ClientName::Producer(at),
            at => ClientName::Consumer(at - producers),
        }
    }

    /// Adds a deed, if the storm has not passed by then: its end undoes what is left.
    pub(super) fn add(&mut self, at_ms: u64, deed: Deed) {
        if at_ms < self.plan.storm_ms {
            self.plan.deeds.push(Timed { at_ms, deed });
        }
    }

    pub(super) fn node(&mut self) -> u64 {
        self.rng.random_range(1..=self.plan.options.nodes as u64)
    }

    pub(super) fn other(&mut self, node: u64) -> Option<u64> {
        let nodes = self.plan.options.nodes as u64;
        if nodes == 1 {
            return None;
        }
        Some((node - 1 + self.rng.random_range(1..nodes)) % nodes + 1)
    }

    pub(super) fn short_or_long(&mut self, short: Span, long: Span) -> u64 {
        let span = if self.rng.random_bool(0.5) { short } else { long };
        self.within(span)
    }

    pub(super) fn within(&mut self, (low, high): Span) -> u64 {
        self.rng.random_range(low..=high)
    }
}

/// How often a class strikes, against the others.
const STRIKES: [(Class, usize); 6] = [
    (Class::Crashes, 4),
    (Class::Cuts, 4),
    (Class::OneWayCuts, 1),
    (Class::Isolation, 1),
    (Class::Pauses, 1),
    (Class::Clients, 2),
];

const MS: u64 = 1_000_000;

/// From this seed on the queue of a plan is a strict one.
pub(crate) const STRICT_FROM: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_plan_and_its_deeds_are_in_order() {
        for seed in 0..300 {
            let plan = draw(seed);
            assert_eq!(plan, draw(seed));
            assert!(plan.deeds.is_sorted_by_key(|timed| timed.at_ms));
            assert!(!plan.calm || plan.faults() == 0, "nothing fails in a calm run");
        }
    }

    #[test]
    fn what_a_cut_holds_comes_within_the_resend_window_or_not_at_all() {
        for options in (0..300).map(|seed| draw(seed).options) {
            let held = Duration::from_nanos(options.client_idle() / 4 * 5);
            let window = options.resend_window;
            assert!(held < window, "{held:?} of {window:?} in seed {}", options.seed);
        }
    }

    #[test]
    fn every_class_and_every_size_is_drawn() {
        let plans: Vec<Plan> = (0..300).map(draw).collect();
        for (class, _) in Class::ALL.iter().chain(&Class::OWN) {
            let with = plans.iter().filter(|plan| plan.classes.contains(class)).count();
            assert!((5..290).contains(&with), "{class:?} is in {with} of 300 plans");
        }
        for nodes in 1..=7 {
            assert!(plans.iter().any(|plan| plan.options.nodes == nodes), "{nodes} nodes");
        }
    }
}
