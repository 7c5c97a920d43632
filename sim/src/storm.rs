//! A run of a plan: a storm of faults under load, and then fair weather in which everything must
//! come out.
//!
//! A run has three parts. *Storm*: the deeds of the plan are done at their times while producers
//! send and consumers receive and delete; every promise that holds at any time is checked after
//! every step. *Heal*, *drain*, *empty*: what must come right within bounds, see `liveness.rs`.
//!
//! What this file does not do: it draws nothing and prints nothing; see [`crate::plan`] and
//! `main.rs`.

use gaggle_wire::{NodeId, QueueName, Request, Response};

use crate::actor::Actor;
use crate::consumer::{Habits, Mode};
use crate::failure::{Failure, caught};
use crate::liveness;
use crate::medium::Media;
use crate::options::place;
use crate::plan::{ConsumerPlan, Deed, ModePlan, Plan};
use crate::planted::border::Border;
use crate::producer;
use crate::report::Detail;
use crate::world::World;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Things that happened.
    pub steps: u64,
    /// Virtual time that passed, in nanoseconds.
    pub nanos: u64,
    /// The hash of the report.
    pub hash: u64,
    /// Messages that were confirmed.
    pub confirmed: u64,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The last lines of the report, if one was kept.
    pub last: Vec<String>,
}

/// Runs a plan to its end.
#[must_use]
pub fn run(plan: &Plan, detail: Detail) -> Outcome {
    run_with(plan, None, detail)
}

/// Runs a plan to its end on nodes that have this bug.
#[must_use]
pub fn run_with(plan: &Plan, bug: Option<&'static Border>, detail: Detail) -> Outcome {
    let mut world = World::new(plan.options.clone(), detail);
    world.border = bug;
    outcome(world, plan)
}

/// Runs a plan to its end on nodes whose disks lie on these media.
#[must_use]
pub fn run_on(plan: &Plan, media: Media<'_>, detail: Detail) -> Outcome {
    let mut world = World::new(plan.options.clone(), detail);
    for at in 0..plan.options.nodes {
        world.lay_on(at, media(at));
    }
    outcome(world, plan)
}

fn outcome(world: World, plan: &Plan) -> Outcome {
    let mut storm = Storm { world, plan, producers: Vec::new(), consumers: Vec::new() };
    let failure = caught(|| storm.run()).err();
    let world = storm.world;
    let confirmed = world.judge.oracle.fates().filter(|(_, fate)| fate.confirmed.is_some()).count();
    Outcome {
        steps: world.steps(),
        nanos: world.now(),
        hash: world.hash(),
        confirmed: confirmed as u64,
        failure,
        last: world.report.last(),
    }
}

struct Storm<'a> {
    world: World,
    plan: &'a Plan,
    producers: Vec<usize>,
    consumers: Vec<usize>,
}

impl Storm<'_> {
    fn run(&mut self) {
        self.begin();
        self.blow();
        liveness::heal(&mut self.world);
        self.drain();
        liveness::empty(&mut self.world);
        self.world.read_disks();
    }

    fn begin(&mut self) {
        self.world.form(self.plan.founders);
        let create = Request::CreateQueue { name: queue_name(), change: self.plan.queue.change() };
        let Response::Queue(queue) = self.world.call(0, create) else {
            panic!("the queue is not created");
        };
        let window = self.world.options.resend_window.as_nanos() as u64;
        for plan in &self.plan.producers {
            let plan = producer::Plan {
                queue: queue.id,
                partitions: queue.settings.partitions,
                messages: plan.messages,
                batch: plan.batch,
                every: (plan.every_ms.0 * MS, plan.every_ms.1 * MS),
                patience: plan.patience_ms * MS,
                window: window * 3 / 4,
                twice: plan.twice,
            };
            let producer = self.world.producer(plan);
            self.producers.push(producer);
        }
        for plan in &self.plan.consumers {
            self.move_in_consumer(plan);
        }
    }

    fn move_in_consumer(&mut self, plan: &ConsumerPlan) {
        let habits = Habits {
            queue: queue_name(),
            node: place(NodeId(plan.node)),
            mode: match plan.mode {
                ModePlan::Stream(credit) => Mode::Stream { credit },
                ModePlan::Poll(max) => Mode::Poll { max, wait_ms: 2000 },
            },
            think: (0, plan.think_ms * MS),
            forgets: plan.forgets,
            releases: plan.releases,
            strays: plan.strays,
        };
        let consumer = self.world.consumer(habits);
        self.consumers.push(consumer);
    }

    fn blow(&mut self) {
        let begun = self.world.now();
        for timed in &self.plan.deeds {
            let at = begun + timed.at_ms * MS;
            self.world.run(at.saturating_sub(self.world.now()));
            self.deed(&timed.deed);
        }
        let end = begun + self.plan.storm_ms * MS;
        self.world.run(end.saturating_sub(self.world.now()));
    }

    fn deed(&mut self, deed: &Deed) {
        match *deed {
            Deed::ConsumerDies { consumer } => {
                let actor = self.consumers[consumer];
                self.world.at_desk(actor, |actor, desk| {
                    if let Actor::Consumer(consumer) = actor {
                        consumer.die(desk);
                    }
                });
            }
            _ => self.world.deed(deed),
        }
    }

    fn drain(&mut self) {
        for actor in self.producers.iter().chain(&self.consumers) {
            self.world.at_desk(*actor, |actor, desk| match actor {
                Actor::Producer(producer) => producer.stop(),
                Actor::Consumer(consumer) => {
                    consumer.behave();
                    consumer.wake(desk);
                }
                Actor::Hand(_) => {}
            });
        }
        for node in 1..=self.world.options.nodes as u64 {
            self.move_in_consumer(&good_consumer(node));
        }
        liveness::drain(&mut self.world, &self.producers);
    }
}

/// A consumer that takes what comes and deletes it.
fn good_consumer(node: u64) -> ConsumerPlan {
    let (mode, think_ms) = (ModePlan::Stream(10), 100);
    ConsumerPlan { node, mode, think_ms, forgets: 0, releases: 0, strays: 200 }
}

fn queue_name() -> QueueName {
    QueueName::parse("q").expect("it is a name")
}

const MS: u64 = 1_000_000;
