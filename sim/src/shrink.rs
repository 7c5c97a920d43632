//! Making a plan that fails smaller, as long as it breaks the same promise.
//!
//! Delta debugging: halves, quarters, and so on, of the deeds are left out, then clients, nodes,
//! messages, time and whatever is not as in a calm cluster, again and again until nothing can be
//! left out any more. Small changes of a plan change every delay in it, so each candidate gets
//! more than one seed to fail with.
//!
//! What this file does not do: it does not look for the smallest plan of all, only for one from
//! which nothing can be taken.

use crate::failure::Failure;
use crate::options::Options;
use crate::plan::{ClientName, ConsumerPlan, Plan};
use crate::report::Detail;
use crate::storm;

/// Makes a plan smaller; `None` if it does not fail. What is tried is told by line.
pub fn shrink(plan: &Plan, tell: &mut dyn FnMut(&str)) -> Option<(Plan, Failure)> {
    let failure = storm::run(plan, Detail::Off).failure?;
    let mut shrink = Shrink { best: plan.clone(), failure, runs: 0, tell };
    loop {
        let before = shrink.best.clone();
        shrink.deeds();
        shrink.clients();
        shrink.nodes();
        shrink.options();
        shrink.sizes();
        if shrink.best == before || shrink.runs >= RUNS_MAX {
            break;
        }
    }
    Some((shrink.best, shrink.failure))
}

struct Shrink<'a> {
    best: Plan,
    failure: Failure,
    runs: u32,
    tell: &'a mut dyn FnMut(&str),
}

impl Shrink<'_> {
    /// Takes a candidate if it breaks the same promise; whether it does.
    fn try_plan(&mut self, candidate: &Plan, what: &str) -> bool {
        if *candidate == self.best || self.runs >= RUNS_MAX {
            return false;
        }
        for turn in 0..SEEDS {
            self.runs += 1;
            let mut plan = candidate.clone();
            plan.options.seed = plan.options.seed.wrapping_add(turn);
            let Some(failure) = storm::run(&plan, Detail::Off).failure else { continue };
            if failure.promise == self.failure.promise {
                let (deeds, nodes) = (plan.deeds.len(), plan.options.nodes);
                (self.tell)(&format!("{deeds} deeds, {nodes} nodes, without {what}"));
                (self.best, self.failure) = (plan, failure);
                return true;
            }
        }
        false
    }

    fn deeds(&mut self) {
        let mut size = self.best.deeds.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.best.deeds.len() {
                let mut plan = self.best.clone();
                let to = (from + size).min(plan.deeds.len());
                plan.deeds.drain(from..to);
                if !self.try_plan(&plan, "some deeds") {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    fn clients(&mut self) {
        for at in (0..self.best.producers.len()).rev() {
            let plan = without_client(&self.best, ClientName::Producer(at));
            self.try_plan(&plan, "a producer");
        }
        for at in (0..self.best.consumers.len()).rev() {
            let plan = without_client(&self.best, ClientName::Consumer(at));
            self.try_plan(&plan, "a consumer");
        }
    }

    fn nodes(&mut self) {
        for node in (1..=self.best.options.nodes as u64).rev() {
            if let Some(plan) = without_node(&self.best, node) {
                self.try_plan(&plan, "a node");
            }
        }
    }

    /// One thing after the other as in a calm cluster.
    fn options(&mut self) {
        let calm = Options::calm(self.best.options.nodes, self.best.options.seed);
        let resets: [Reset; 18] = [
            ("its delay", |to, calm| to.delay = calm.delay),
            ("its tail", |to, calm| to.tail = calm.tail),
            ("its replays", |to, calm| to.replays = calm.replays),
            ("its commits", |to, calm| to.commit = calm.commit),
            ("its reads", |to, calm| to.read = calm.read),
            ("its loss", |to, calm| to.gossip_loss = calm.gossip_loss),
            ("its skew", |to, calm| to.skew = calm.skew),
            ("its drift", |to, calm| to.drift = calm.drift),
            ("its idle time", |to, calm| to.idle = calm.idle),
            ("its patience", |to, calm| to.serve_alone_after = calm.serve_alone_after),
            ("its lag", |to, calm| to.slow_after = calm.slow_after),
            ("its resend window", |to, calm| to.resend_window = calm.resend_window),
            ("its haste to replace", |to, calm| to.replace_after = calm.replace_after),
            ("its slow copying", |to, calm| to.replace_rate = calm.replace_rate),
            ("its scrub", |to, calm| to.scrub_every = calm.scrub_every),
            ("its small windows", |to, calm| to.window_max = calm.window_max),
            ("its small pages", |to, calm| to.page_rows = calm.page_rows),
            ("its small parts", |to, calm| to.inventory_part = calm.inventory_part),
        ];
        for (what, reset) in resets {
            let mut plan = self.best.clone();
            reset(&mut plan.options, &calm);
            self.try_plan(&plan, what);
        }
    }

    /// Fewer messages, less time.
    fn sizes(&mut self) {
        for at in 0..self.best.producers.len() {
            while self.best.producers[at].messages > 1 {
                let mut plan = self.best.clone();
                plan.producers[at].messages /= 2;
                if !self.try_plan(&plan, "half of the messages") {
                    break;
                }
            }
            let mut plan = self.best.clone();
            plan.producers[at].batch = (1, 1);
            self.try_plan(&plan, "batches");
            let mut plan = self.best.clone();
            let producer = &mut plan.producers[at];
            (producer.skew_ms, producer.drift, producer.keyed) = (0, 0, 0);
            self.try_plan(&plan, "traits of a producer");
        }
        for at in 0..self.best.consumers.len() {
            let mut plan = self.best.clone();
            let consumer = &mut plan.consumers[at];
            *consumer = ConsumerPlan::good(consumer.node, consumer.mode);
            self.try_plan(&plan, "habits of a consumer");
        }
        if self.best.queue.partitions > 1 {
            let mut plan = self.best.clone();
            plan.queue.partitions = 1;
            self.try_plan(&plan, "partitions");
        }
        let last = self.best.deeds.last().map_or(0, |timed| timed.at_ms);
        let mut plan = self.best.clone();
        plan.storm_ms = plan.storm_ms.min(last + 1);
        self.try_plan(&plan, "what comes after the last deed");
        let mut plan = self.best.clone();
        plan.storm_ms /= 2;
        for timed in &mut plan.deeds {
            timed.at_ms /= 2;
        }
        self.try_plan(&plan, "half of the time");
    }
}

/// The plan without a client and all that is done to it; others move up.
fn without_client(plan: &Plan, client: ClientName) -> Plan {
    let mut plan = plan.clone();
    match client {
        ClientName::Producer(at) => drop(plan.producers.remove(at)),
        ClientName::Consumer(at) => drop(plan.consumers.remove(at)),
    }
    plan.deeds.retain_mut(|timed| match (timed.deed.client(), client) {
        (Some(named), client) if *named == client => false,
        (Some(ClientName::Producer(named)), ClientName::Producer(at))
        | (Some(ClientName::Consumer(named)), ClientName::Consumer(at)) => {
            *named -= usize::from(*named > at);
            true
        }
        _ => true,
    });
    plan
}

/// The plan without a node and all that is done to it; others move up. There must be enough left
/// for a confirm.
fn without_node(plan: &Plan, node: u64) -> Option<Plan> {
    let mut plan = plan.clone();
    plan.options.nodes -= 1;
    if node as usize <= plan.founders {
        plan.founders -= 1;
    }
    if plan.founders < usize::from(plan.queue.confirms) {
        return None;
    }
    plan.deeds.retain_mut(|timed| {
        timed.deed.nodes().into_iter().all(|named| {
            let kept = *named != node;
            *named -= u64::from(*named > node);
            kept
        })
    });
    for consumer in &mut plan.consumers {
        consumer.node = match consumer.node {
            Some(named) if named == node => None,
            named => named.map(|named| named - u64::from(named > node)),
        };
    }
    Some(plan)
}

/// What is made as it is in a calm cluster.
type Reset = (&'static str, fn(&mut Options, &Options));

/// Seeds that each candidate gets.
const SEEDS: u64 = 3;
/// Runs that are made at most: some minutes.
const RUNS_MAX: u32 = 3000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Deed, Timed, draw};

    #[test]
    fn a_node_that_is_left_out_takes_its_deeds_along_and_others_move_up() {
        let seed = (0..).find(|seed| draw(*seed).founders == 5).unwrap();
        let mut plan = draw(seed);
        let timed = |deed| Timed { at_ms: 0, deed };
        plan.deeds = vec![
            timed(Deed::Crash { node: 2 }),
            timed(Deed::Cut { a: 1, b: 5 }),
            timed(Deed::Cut { a: 2, b: 5 }),
        ];
        let less = without_node(&plan, 2).unwrap();
        assert_eq!(less.deeds, [timed(Deed::Cut { a: 1, b: 4 })]);
        assert_eq!(less.options.nodes, plan.options.nodes - 1);
    }

    #[test]
    fn a_plan_that_passes_is_not_made_smaller() {
        assert!(shrink(&draw(1), &mut |_| {}).is_none());
    }
}
