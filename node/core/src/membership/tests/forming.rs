//! Coming together, and what the members learn of each other.

use std::time::Duration;

use super::super::*;
use super::flock::*;
use crate::space::Space;

#[test]
fn three_and_five_nodes_form_from_one_seed() {
    for size in [1, 2, 3, 5] {
        for seed in 0..20 {
            let mut flock = Flock::new(size, seed);
            flock.loss = 50;
            for who in 0..size {
                flock.start(who);
            }
            flock.until(SECOND * 10, Flock::is_complete);
            assert_eq!(flock.rejoined(), 0, "seed {seed}");
        }
    }
}

#[test]
fn forty_nodes_form_though_a_feed_holds_half_of_them() {
    let mut flock = Flock::new(40, 1);
    (0..40).for_each(|who| flock.start(who));
    let took = flock.until(SECOND * 60, Flock::is_complete);
    println!("forty nodes: {took:?}");
    assert_eq!(flock.rejoined(), 0);
}

/// As many as a cluster may have, started at once; each packet is checked for its size as it goes.
#[test]
fn a_hundred_nodes_form_and_gossip_no_more_than_a_few() {
    let mut flock = Flock::new(100, 1);
    (0..100).for_each(|who| flock.start(who));
    let mut took = Duration::ZERO;
    while !flock.is_complete() {
        assert!(took < SECOND * 60, "{}", flock.picture());
        flock.run(SECOND / 2);
        took += SECOND / 2;
    }
    flock.run(SECOND * 30);
    let before = (flock.packets, flock.bytes);
    flock.run(SECOND * 10);
    let (packets, bytes) = ((flock.packets - before.0) / 1000, (flock.bytes - before.1) / 1000);
    println!("a hundred nodes: {took:?}, then {packets} packets, {bytes} bytes a second and node");
    assert!(packets < 60, "{packets} packets a second and node");
    assert!(flock.is_complete() && flock.rejoined() == 0);
    assert_eq!(flock.refusals, []);
}

/// A certificate is what lets a node in: no number of members is refused below that of the view.
#[test]
fn who_comes_as_the_hundred_and_first_is_a_member_like_any_other() {
    let mut flock = Flock::new(101, 2);
    (0..100).for_each(|who| flock.start(who));
    flock.run(SECOND * 20);
    flock.start(100);
    flock.run(SECOND * 20);
    assert!(flock.is_complete(), "{}", flock.picture());
}

#[test]
fn a_seed_that_comes_last_is_found_by_those_that_wait_for_it() {
    let mut flock = Flock::new(3, 7);
    flock.start(1);
    flock.start(2);
    flock.run(SECOND * 60);
    assert_eq!(flock.view(1).present().count(), 1);
    flock.start(0);
    let took = flock.until(SECOND * 8, Flock::is_complete);
    assert!(took < SECOND * 8);
}

#[test]
fn two_halves_that_started_apart_meet_at_the_seed() {
    let mut flock = Flock::new(4, 3);
    for who in 0..4 {
        flock.start(who);
        for other in 0..4 {
            if who / 2 != other / 2 {
                flock.cuts.insert((who, other));
            }
        }
    }
    // The second half knows nobody but the seed, which it cannot reach: its members remain alone.
    flock.run(SECOND * 30);
    assert_eq!(flock.view(0).present().count(), 2);
    flock.cuts.clear();
    flock.until(SECOND * 10, Flock::is_complete);
}

#[test]
fn a_late_joiner_learns_every_profile() {
    for seed in 0..20 {
        let mut flock = Flock::new(5, seed);
        (0..4).for_each(|who| flock.start(who));
        flock.run(SECOND * 60);
        flock.start(4);
        let took = flock.until(SECOND * 12, Flock::is_complete);
        assert!(took < SECOND * 12, "{took:?}");
    }
}

#[test]
fn ready_and_slow_are_everywhere_within_a_second() {
    for seed in 0..20 {
        let mut flock = Flock::formed(5, seed);
        flock.loss = 50;
        let all = Readiness { ready: true, slow: true, space: Space::Full };
        let changed = Profile { readiness: all, ..profile(2) };
        flock.call(2, |membership, now, out| membership.set_profile(now, changed, out));
        flock.until(SECOND, |flock| {
            flock.living().iter().all(|who| {
                flock.view(*who).member(node(2)).is_some_and(|member| member.readiness == all)
            })
        });
    }
}

#[test]
fn a_hello_tells_the_profile_of_its_own_run_only() {
    let mut flock = Flock::new(2, 1);
    (0..2).for_each(|who| flock.start(who));
    flock.until(SECOND * 5, |flock| flock.state(0, 1) == Some(MemberState::Alive));
    let said = ready_profile(1);
    flock.call(0, |membership, _, out| membership.learn(node(1), 9, said.clone(), out));
    assert!(!flock.view(0).member(node(1)).unwrap().readiness.ready, "another run said that");

    let mut flock = Flock::new(2, 1);
    (0..2).for_each(|who| flock.start(who));
    flock.call(0, |membership, _, out| membership.learn(node(1), 1, said, out));
    assert_eq!(flock.view(0).member(node(1)), None, "a hello alone makes no member");
    flock.until(SECOND * 5, |flock| flock.state(0, 1).is_some());
    assert_eq!(flock.view(0).member(node(1)).unwrap().zone, profile(1).zone);
}

#[test]
fn a_fast_restart_is_seen_as_a_newer_generation_that_is_not_ready() {
    let mut flock = Flock::formed(3, 5);
    let ready = ready_profile(2);
    flock.call(2, |membership, now, out| membership.set_profile(now, ready, out));
    flock.until(SECOND * 2, |flock| {
        flock.view(0).member(node(2)).is_some_and(|m| m.readiness.ready)
    });
    let before = flock.view(0).member(node(2)).unwrap().generation;
    flock.kill(2);
    flock.run(MS * 50);
    flock.start(2);
    flock.until(SECOND * 5, |flock| {
        flock.view(0).member(node(2)).is_some_and(|member| member.generation > before)
    });
    assert!(!flock.view(0).member(node(2)).unwrap().readiness.ready);
    flock.until(SECOND * 5, Flock::is_complete);
    assert_eq!(flock.geese[0].rejoined + flock.geese[1].rejoined, 0);
}

#[test]
fn the_view_version_rises_only_when_something_changed() {
    let mut flock = Flock::formed(3, 11);
    flock.run(SECOND * 15);
    let before = flock.view(0).version();
    flock.trace = Some(Vec::new());
    flock.run(SECOND * 60);
    assert_eq!(flock.view(0).version(), before);
    let told = flock.trace.unwrap();
    assert!(!told.iter().any(|(_, _, output)| *output == Output::ViewChanged));
}

#[test]
fn the_same_seed_twice_gives_the_same_outputs() {
    let run = || {
        let mut flock = Flock::new(5, 99);
        flock.trace = Some(Vec::new());
        flock.loss = 100;
        (0..5).for_each(|who| flock.start(who));
        flock.run(SECOND * 5);
        flock.kill(3);
        flock.run(SECOND * 5);
        flock.trace.unwrap()
    };
    let (one, other) = (run(), run());
    assert!(one.len() > 500);
    assert!(one == other);
}

#[test]
fn remembered_members_are_in_the_view_as_down_and_are_found_without_a_seed() {
    let mut flock = Flock::new(3, 2);
    flock.start(2);
    let me = Me { node: node(1), boot: 4, peer_address: peer(1), profile: profile(1) };
    let remembered = vec![(node(2), peer(2)), (node(0), peer(0)), (node(1), peer(9))];
    let contacts = Contacts { seeds: Vec::new(), remembered };
    let config = MembershipConfig::default();
    let membership = Membership::new(config, me, 1, contacts);
    flock.geese[1].membership = Some(membership);
    flock.call(1, |membership, now, out| membership.start(now, out));
    assert_eq!(flock.state(1, 2), Some(MemberState::Down));
    assert_eq!(flock.state(1, 1), Some(MemberState::Alive));
    flock.until(SECOND, |flock| flock.state(1, 2) == Some(MemberState::Alive));
    assert_eq!(flock.state(1, 0), Some(MemberState::Down));
}
