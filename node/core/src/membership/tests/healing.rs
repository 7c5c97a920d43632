//! Cuts of any shape and length heal within a bound.

use std::time::Duration;

use super::super::*;
use super::flock::*;

const HOUR: Duration = Duration::from_secs(3_600);
/// The longest pause alone is 4.8 s with jitter, in company 6 s; then a few round trips.
const HEALED_WITHIN: Duration = Duration::from_secs(12);

#[test]
fn both_of_two_apart_for_25_hours_find_each_other_again() {
    for seed in 0..3 {
        let mut flock = Flock::formed(2, seed);
        flock.isolate(0);
        flock.run(HOUR * 25);
        assert_eq!(flock.state(0, 1), Some(MemberState::Down));
        assert_eq!(flock.state(1, 0), Some(MemberState::Down));
        flock.cuts.clear();
        let took = flock.until(HEALED_WITHIN, Flock::is_complete);
        println!("both of two: {took:?}");
    }
}

#[test]
fn all_of_five_apart_for_25_hours_find_each_other_again() {
    for seed in 0..2 {
        let mut flock = Flock::formed(5, seed);
        (0..5).for_each(|who| flock.isolate(who));
        flock.run(HOUR * 25);
        for who in 0..5 {
            assert_eq!(flock.view(who).present().count(), 1);
            assert_eq!(flock.view(who).len(), 5, "members once seen stay");
        }
        flock.cuts.clear();
        let took = flock.until(HEALED_WITHIN, Flock::is_complete);
        println!("all of five: {took:?}");
    }
}

/// One hour and not 25: the others go on probing each other, which takes long even in virtual time.
/// Nothing in the room forgets by age, so the length makes no difference.
#[test]
fn an_isolated_one_comes_back_without_making_the_others_rejoin() {
    for seed in 0..3 {
        let mut flock = Flock::formed(3, seed);
        flock.isolate(2);
        flock.run(HOUR);
        assert_eq!(flock.state(0, 2), Some(MemberState::Down));
        assert_eq!(flock.view(2).present().count(), 1);
        flock.cuts.clear();
        let took = flock.until(HEALED_WITHIN, Flock::is_complete);
        println!("isolated one: {took:?}");
        flock.run(SECOND * 20);
        assert_eq!(flock.geese[0].rejoined + flock.geese[1].rejoined, 0, "seed {seed}");
    }
}

#[test]
fn a_cut_through_the_middle_heals() {
    for seed in 0..10 {
        let mut flock = Flock::formed(5, seed);
        for one in 0..3 {
            for other in 3..5 {
                flock.cuts.extend([(one, other), (other, one)]);
            }
        }
        flock.run(SECOND * 60);
        assert_eq!(flock.view(0).present().count(), 3);
        assert_eq!(flock.view(4).present().count(), 2);
        flock.cuts.clear();
        let took = flock.until(HEALED_WITHIN * 2, Flock::is_complete);
        println!("middle: {took:?}, rejoins {}", flock.rejoined());
        let before = flock.rejoined();
        flock.run(SECOND * 60);
        assert!(flock.is_complete(), "{}", flock.picture());
        assert_eq!(flock.rejoined(), before, "seed {seed}: no rest after healing");
    }
}

#[test]
fn a_cut_heals_without_any_seed() {
    for seed in 0..10 {
        let mut flock = Flock::formed(5, seed);
        flock.kill(0);
        flock.cuts.extend([(1, 3), (3, 1), (1, 4), (4, 1), (2, 3), (3, 2), (2, 4), (4, 2)]);
        flock.run(SECOND * 60);
        assert_eq!(flock.view(1).present().count(), 2);
        assert_eq!(flock.view(4).present().count(), 2);
        flock.cuts.clear();
        flock.until(HEALED_WITHIN, Flock::is_complete);
    }
}

#[test]
fn a_wiped_disk_takes_the_boot_counter_back_and_the_node_still_comes_in() {
    for seed in 0..10 {
        let mut flock = Flock::bereaved(seed);
        flock.run(SECOND * (seed as u32 % 4));
        flock.start_as(2, 1);
        flock.until(SECOND * 2, Flock::is_complete);
        assert!(flock.view(0).member(node(2)).unwrap().generation > Generation::of_boot(500));
        let before = flock.rejoined();
        flock.run(SECOND * 20);
        assert_eq!(flock.rejoined(), before, "seed {seed}");
    }
}

#[test]
fn heavy_loss_only_delays() {
    for seed in 0..5 {
        let mut flock = Flock::formed(5, seed);
        flock.loss = 300;
        flock.run(SECOND * 120);
        flock.loss = 0;
        flock.until(HEALED_WITHIN * 2, Flock::is_complete);
        let before = flock.rejoined();
        flock.run(SECOND * 60);
        assert_eq!(flock.rejoined(), before, "seed {seed}");
    }
}
