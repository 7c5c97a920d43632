//! A swarm: many seeds at once, on as many threads as told.
//!
//! Each seed is a run of its own; nothing is shared but the sums. A failed seed is run once more
//! with its report kept, which is the same run, so that the last lines can be shown.
//!
//! What this file does not do: it does not know the command line.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::goals::Goal;
use crate::plan::{self, Plan};
use crate::report::Detail;
use crate::storm::{self, Outcome};

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// On how many threads.
    pub jobs: usize,
}

/// What a swarm came to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Seeds that were run.
    pub seeds: u64,
    /// Those that failed.
    pub failed: u64,
    /// Things that happened in them.
    pub steps: u64,
    /// Virtual time that passed in them, in nanoseconds.
    pub nanos: u64,
    /// Faults that were in their plans.
    pub faults: u64,
    /// How many of them met each goal.
    pub met: BTreeMap<Goal, u64>,
}

impl Totals {
    /// The goals that no seed met; none are missed by a swarm that is too small for that.
    #[must_use]
    pub fn missed(&self) -> Vec<&'static str> {
        let missed = Goal::ALL.iter().filter(|(goal, _)| !self.met.contains_key(goal));
        let names = missed.map(|(_, name)| *name).collect();
        if self.seeds < ENOUGH { Vec::new() } else { names }
    }
}

impl Swarm {
    /// Runs the seeds. What there is to say is told as it comes, by line.
    ///
    /// # Panics
    /// Never by a run that fails: that is counted.
    pub fn run(&self, tell: impl Fn(&str) + Sync) -> Totals {
        let next = AtomicU64::new(0);
        let progress = Progress::new();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.seeds {
                            break;
                        }
                        let plan = plan::draw(self.from.wrapping_add(number));
                        let outcome = storm::run(&plan, Detail::Off);
                        if outcome.failure.is_some() {
                            tell(&failed(&plan));
                        }
                        if let Some(line) = progress.add(&plan, &outcome) {
                            tell(&line);
                        }
                    }
                });
            }
        });
        progress.state.into_inner().expect("nobody panicked with it").totals
    }
}

/// What is said of a seed that fails: the promise and the facts, the last lines, how to see more.
fn failed(plan: &Plan) -> String {
    let seed = plan.options.seed;
    let again = storm::run(plan, Detail::Hash);
    let Some(failure) = again.failure else {
        return format!("seed {seed} FAILED: once, and passed when it was run again");
    };
    let last = again.last.len().saturating_sub(LINES);
    let lines: String = again.last[last..].iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "seed {seed} FAILED {}: {}\n{lines}again: cargo run --release -p gaggle-sim -- run \
         --seed {seed} --report",
        failure.promise, failure.why
    )
}

/// Sums, and when they are said next.
struct Progress {
    begun: Instant,
    state: Mutex<State>,
}

struct State {
    totals: Totals,
    due: Instant,
}

impl Progress {
    fn new() -> Self {
        let begun = Instant::now();
        let state = State { totals: Totals::default(), due: begun + TELL_EVERY };
        Self { begun, state: Mutex::new(state) }
    }

    /// Adds a run; a line, now and then.
    fn add(&self, plan: &Plan, outcome: &Outcome) -> Option<String> {
        let mut state = self.state.lock().expect("nobody panicked with it");
        let State { totals, due } = &mut *state;
        totals.seeds += 1;
        totals.failed += u64::from(outcome.failure.is_some());
        totals.steps += outcome.steps;
        totals.nanos += outcome.nanos;
        totals.faults += plan.faults() as u64;
        for goal in outcome.goals.met() {
            *totals.met.entry(goal).or_default() += 1;
        }
        if Instant::now() < *due {
            return None;
        }
        *due += TELL_EVERY;
        let rate = totals.seeds as f64 / self.begun.elapsed().as_secs_f64();
        Some(format!("{} seeds, {} failed, {rate:.1} per second", totals.seeds, totals.failed))
    }
}

/// Lines of the report that are shown of a seed that fails.
const LINES: usize = 40;
const TELL_EVERY: Duration = Duration::from_secs(5);
/// Seeds in which every goal has to be met at least once.
const ENOUGH: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_comes_to_the_same_sums_whatever_the_number_of_threads() {
        let sums = |jobs| {
            let totals = Swarm { from: 1, seeds: 4, jobs }.run(|_| {});
            (totals.seeds, totals.failed, totals.steps, totals.nanos, totals.faults, totals.met)
        };
        let one = sums(1);
        assert_eq!(one, sums(3));
        assert_eq!((one.0, one.1), (4, 0));
        assert!(one.5.values().all(|seeds| (1..=4).contains(seeds)), "{:?}", one.5);
    }

    #[test]
    fn a_large_swarm_that_never_met_a_goal_misses_it() {
        let all = Goal::ALL.iter().map(|(goal, _)| (*goal, 1));
        let mut totals = Totals { seeds: ENOUGH, met: all.collect(), ..Totals::default() };
        assert_eq!(totals.missed(), [""; 0]);
        totals.met.remove(&Goal::StandIn);
        assert_eq!(totals.missed(), ["stand-in"]);
        totals.seeds -= 1;
        assert_eq!(totals.missed(), [""; 0]);
    }
}
