//! Dead, paused and lame nodes, and who is blamed.

use std::time::Duration;

use super::super::*;
use super::flock::*;

#[test]
fn a_dead_host_is_out_of_every_view_in_time() {
    for size in [3, 5] {
        let mut times: Vec<Duration> = (0..200).map(|seed| detection(size, seed)).collect();
        times.sort();
        let (median, p99) = (times[100], times[197]);
        println!("{size} nodes: p50 {median:?} p99 {p99:?} max {:?}", times[199]);
        assert!(median <= MS * 1_500, "{size} nodes: median {median:?}");
        assert!(p99 <= MS * 2_500, "{size} nodes: p99 {p99:?}");
    }
}

fn detection(size: usize, seed: u64) -> Duration {
    let mut flock = Flock::formed(size, seed);
    flock.run(MS * (seed as u32 * 37 % 1_000));
    flock.kill(seed as usize % size);
    let took = flock.until(SECOND * 5, |flock| {
        let living = flock.living();
        living.iter().all(|who| flock.view(*who).present().count() == living.len())
    });
    assert_eq!(flock.rejoined(), 0, "seed {seed}");
    took
}

#[test]
fn lost_packets_and_short_stalls_raise_no_false_alarm() {
    for seed in 0..10 {
        let mut flock = Flock::formed(3, seed);
        flock.loss = 20;
        for round in 0..40 {
            let who = (seed as usize + round) % 3;
            flock.stop(who);
            flock.run(MS * (50 + 35 * (round as u32 % 10)));
            flock.resume(who, round % 2 == 0);
            flock.run(MS * 150);
        }
        flock.run(SECOND * 3);
        assert_eq!(flock.rejoined(), 0, "seed {seed}");
        assert!(flock.is_complete(), "{}", flock.picture());
    }
}

#[test]
fn after_a_stall_nobody_is_even_suspected() {
    for seed in 0..10 {
        let mut flock = Flock::formed(5, seed);
        for round in 0..20 {
            flock.run(MS * (seed as u32 * 13 + round * 41).rem_euclid(400));
            flock.stop(4);
            // No longer than the others take to declare it down.
            flock.run(MS * (60 + 30 * round));
            flock.resume(4, true);
            for _ in 0..100 {
                let calm = (0..4).all(|who| flock.state(4, who) == Some(MemberState::Alive));
                assert!(calm, "seed {seed} round {round}\n{}", flock.picture());
                flock.run(MS * 5);
            }
        }
    }
}

#[test]
fn a_node_paused_for_a_minute_accuses_nobody() {
    for seed in 0..20 {
        let mut flock = Flock::formed(5, seed);
        flock.stop(4);
        flock.run(SECOND * 60);
        flock.trace = Some(Vec::new());
        assert_eq!(flock.state(0, 4), Some(MemberState::Down));
        flock.resume(4, seed % 2 == 0);
        assert_eq!(flock.geese[4].paused, 1);
        // Every connection timed out meanwhile.
        for other in 0..4 {
            flock.call(4, |membership, now, out| membership.link_lost(now, node(other), out));
        }
        flock.until(SECOND * 10, |flock| {
            for me in 0..4 {
                for who in 0..4 {
                    assert_eq!(flock.state(me, who), Some(MemberState::Alive), "seed {seed}");
                }
            }
            flock.is_complete()
        });
        let others: usize = flock.geese[..4].iter().map(|goose| goose.rejoined).sum();
        assert_eq!(others, 0, "seed {seed}: healthy members rejoined");
    }
}

#[test]
fn a_node_that_can_only_speak_does_not_take_the_others_down() {
    for seed in 0..20 {
        let mut flock = Flock::formed(5, seed);
        for other in 0..4 {
            flock.cuts.insert((other, 4));
        }
        for _ in 0..60 {
            flock.run(SECOND);
            for me in 0..4 {
                for who in 0..4 {
                    assert_ne!(flock.state(me, who), Some(MemberState::Down), "seed {seed}");
                }
            }
        }
        assert_eq!(flock.state(0, 4), Some(MemberState::Down));
        assert_eq!(flock.geese[..4].iter().map(|goose| goose.rejoined).sum::<usize>(), 0);
        flock.cuts.clear();
        flock.until(SECOND * 10, Flock::is_complete);
    }
}

#[test]
fn a_node_with_next_to_no_cpu_does_not_take_the_others_down() {
    for seed in 0..5 {
        let mut flock = Flock::formed(5, seed);
        for round in 0..500 {
            flock.stop(4);
            flock.run(MS * 580);
            flock.resume(4, round % 2 == 0);
            flock.run(MS * 20);
            for me in 0..4 {
                for who in 0..4 {
                    assert_ne!(flock.state(me, who), Some(MemberState::Down), "seed {seed}");
                }
            }
        }
        assert_eq!(flock.geese[..4].iter().map(|goose| goose.rejoined).sum::<usize>(), 0);
        flock.until(SECOND * 20, Flock::is_complete);
    }
}

#[test]
fn a_slow_node_that_lags_all_the_time_still_sees_the_dead() {
    let mut flock = Flock::formed(2, 4);
    flock.kill(1);
    for _ in 0..100 {
        flock.stop(0);
        flock.run(MS * 300);
        flock.resume(0, true);
        flock.run(MS * 100);
    }
    assert_eq!(flock.state(0, 1), Some(MemberState::Down));
}

#[test]
fn a_closed_connection_of_a_living_node_is_forgiven_once_it_objects() {
    for seed in 0..20 {
        let mut flock = Flock::formed(3, seed);
        flock.call(0, |membership, now, out| membership.link_lost(now, node(1), out));
        assert_eq!(flock.state(0, 1), Some(MemberState::Suspect));
        flock.run(SECOND * 5);
        assert!(flock.is_complete(), "{}", flock.picture());
        assert_eq!(flock.rejoined(), 0);
    }
}

#[test]
fn a_closed_connection_of_a_dead_node_shortens_the_wait_to_the_suspicion_time() {
    for seed in 0..20 {
        let mut flock = Flock::formed(3, seed);
        flock.kill(1);
        for who in [0, 2] {
            flock.call(who, |membership, now, out| membership.link_lost(now, node(1), out));
        }
        let took = flock.until(SECOND * 2, Flock::is_complete);
        assert!(took <= MS * 950, "{took:?}");
    }
}

#[test]
fn a_stale_suspicion_timer_is_swallowed() {
    for seed in 0..20 {
        let mut flock = Flock::formed(3, seed);
        // A short cut: suspected, the timer is set, and there is time enough to object.
        flock.cuts.extend([(1, 0), (0, 1), (2, 1), (1, 2)]);
        flock.until(SECOND * 2, |flock| flock.state(0, 1) == Some(MemberState::Suspect));
        flock.cuts.clear();
        flock.run(SECOND * 10);
        assert!(flock.is_complete(), "{}", flock.picture());
        assert_eq!(flock.rejoined(), 0, "seed {seed}: a healthy member was told that it is down");
    }
}

#[test]
fn a_goodbye_is_heard_at_once_and_nothing_follows_it() {
    for seed in 0..20 {
        let mut flock = Flock::formed(5, seed);
        flock.call(2, |membership, now, out| membership.leave(now, out));
        assert_eq!(flock.state(2, 2), Some(MemberState::Down));
        let gone = flock.geese[2].membership.take().unwrap();
        assert_eq!(gone.next_wakeup(), None);
        let took = flock.until(SECOND, Flock::is_complete);
        assert!(took < MS * 500, "{took:?}");
        assert_eq!(flock.rejoined(), 0);
        flock.start(2);
        flock.until(SECOND * 5, Flock::is_complete);
    }
}
