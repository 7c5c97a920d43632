//! A run of a plan: a storm of faults under load, and then fair weather in which everything must
//! come out.
//!
//! A run has three parts. *Storm*: the deeds of the plan are done at their times while producers
//! send and consumers receive and delete; every promise that holds at any time is checked after
//! every step. *Heal*, *drain*, *empty*: what must come right within bounds, see `liveness.rs`.
//!
//! What this file does not do: it draws nothing and prints nothing; see [`crate::plan`] and
//! `main.rs`.

use gaggle_wire::{NodeId, Request, Response};

use crate::failure::{Failure, caught};
use crate::goals::Goals;
use crate::liveness;
use crate::medium::Media;
use crate::options::place;
use crate::plan::{ClientName, ConsumerPlan, Deed, ModePlan, Plan};
use crate::planted::border::Border;
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
    /// What happened of all that must happen sometimes.
    pub goals: Goals,
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
    let (producers, consumers) = (Vec::new(), Vec::new());
    let mut storm = Storm { world, plan, producers, consumers, guest: None };
    let failure = caught(|| storm.run()).err();
    let mut world = storm.world;
    (0..plan.options.nodes).for_each(|at| world.goals_counted(at));
    let confirmed = world.judge.oracle.fates().filter(|(_, fate)| fate.confirmed.is_some()).count();
    Outcome {
        steps: world.steps(),
        nanos: world.now(),
        hash: world.hash(),
        confirmed: confirmed as u64,
        goals: world.judge.goals.clone(),
        failure,
        last: world.report.last(),
    }
}

struct Storm<'a> {
    world: World,
    plan: &'a Plan,
    producers: Vec<usize>,
    consumers: Vec<usize>,
    /// Who asks for what none of the plan's clients does.
    guest: Option<usize>,
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
        let create = Request::CreateQueue {
            name: crate::plan::queue_name(),
            change: self.plan.queue.change(),
        };
        let Response::Queue(_) = self.world.call(0, create) else {
            panic!("the queue is not created");
        };
        for plan in &self.plan.producers {
            let producer = self.world.producer(plan.plan(), &plan.traits());
            self.producers.push(producer);
        }
        for plan in &self.plan.consumers {
            self.move_in_consumer(plan);
        }
    }

    fn move_in_consumer(&mut self, plan: &ConsumerPlan) {
        let consumer = self.world.consumer(plan.habits(), &plan.traits());
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
            Deed::ClientDies { client } => {
                let actor = *self.actor(client);
                let successor = self.world.die(actor);
                *self.actor(client) = successor;
            }
            Deed::ClientPauses { client, ms } => {
                let actor = *self.actor(client);
                self.world.pause_client(actor, ms * MS);
            }
            Deed::CutClient { client, node } => {
                let actor = *self.actor(client);
                self.world.cut_client(actor, place(NodeId(node)));
            }
            Deed::BreakClient { client, node } => {
                let actor = *self.actor(client);
                self.world.break_line(actor, place(NodeId(node)));
            }
            Deed::HealClient { client, node } => {
                let actor = *self.actor(client);
                self.world.heal_client(actor, place(NodeId(node)));
            }
            Deed::Guest { node, errand } => {
                let guest = *self.guest.get_or_insert_with(|| self.world.hand());
                let visit = (errand, self.plan.queue.change());
                self.world.visit(guest, place(NodeId(node)), visit);
            }
            _ => self.world.deed(deed),
        }
    }

    fn actor(&mut self, client: ClientName) -> &mut usize {
        match client {
            ClientName::Producer(at) => &mut self.producers[at],
            ClientName::Consumer(at) => &mut self.consumers[at],
        }
    }

    fn drain(&mut self) {
        for actor in self.producers.iter().chain(&self.consumers) {
            self.world.behave(*actor);
        }
        if self.plan.is_lone() {
            // Before others come to help.
            self.world.run(LULL);
        }
        for node in 1..=self.world.options.nodes as u64 {
            self.move_in_consumer(&good_consumer(node));
        }
        liveness::drain(&mut self.world, &self.producers);
    }
}

/// A consumer that takes what comes at this node and deletes it.
fn good_consumer(node: u64) -> ConsumerPlan {
    ConsumerPlan::good(Some(node), ModePlan::Stream(10))
}

/// Long enough for every lease of a storm to end in fair weather, and a moment.
const LULL: u64 = 8_500_000_000;
const MS: u64 = 1_000_000;
