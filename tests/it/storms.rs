//! Storms of the simulator on the real store: what a node is opened on and reads is what redb gives
//! back on a disk that loses, tears and refuses writes, and fails again while it is opened.
//!
//! The simulator compares the store with its model at every read and every death, and watches the
//! promises as ever. `GAGGLE_STORE_SEEDS=1000` runs more seeds than every change must pass.

use gaggle_sim::medium::Medium;
use gaggle_sim::storm::{self, Outcome};
use gaggle_sim::{Detail, plan};
use gaggle_support::store_medium::StoreMedium;

fn run(seed: u64) -> Outcome {
    let mut media =
        |at: usize| -> Box<dyn Medium> { Box::new(StoreMedium::new((seed << 8) | at as u64)) };
    storm::run_on(&plan::draw(seed), &mut media, Detail::Hash)
}

#[test]
fn nodes_on_the_real_store_keep_every_promise_through_storms() {
    let seeds = std::env::var("GAGGLE_STORE_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let (mut failed, mut confirmed) = (Vec::new(), 0);
    for seed in 0..seeds {
        let outcome = run(seed);
        confirmed += outcome.confirmed;
        failed.extend(outcome.failure.map(|failure| (seed, failure)));
    }
    assert!(failed.is_empty(), "{failed:?}");
    assert!(confirmed > 100 * seeds, "{confirmed} messages say little");
}

#[test]
fn a_storm_on_the_real_store_is_the_same_storm_when_it_is_run_again() {
    for seed in 100..102 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!((first.hash, first.steps), (second.hash, second.steps), "seed {seed}");
    }
}

/// Some seconds.
const SEEDS: u64 = 24;
