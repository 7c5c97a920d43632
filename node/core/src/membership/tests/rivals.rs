//! Two processes under one name.

use super::super::*;
use super::flock::*;

/// Three nodes, and room for one more that runs under the name of the third one.
fn with_room_for_a_twin(seed: u64) -> Flock {
    let mut flock = Flock::formed(4, seed);
    flock.kill(3);
    flock.run(SECOND * 5);
    flock.geese[3].node = node(2);
    flock
}

fn is_settled(flock: &Flock) -> bool {
    (0..2).all(|who| flock.state(who, 2) == Some(MemberState::Alive))
}

#[test]
fn of_two_living_processes_under_one_name_the_later_one_ends() {
    for (seed, boot) in (0..10).zip([1, 1, 1, 2, 2, 2, 9, 9, 9, 9]) {
        let mut flock = with_room_for_a_twin(seed);
        flock.start_as(3, boot);
        let before = flock.packets;
        flock.until(SECOND * 10, |flock| flock.geese[3].outlived == Some(peer(2)));
        flock.run(SECOND * 10);
        let rate = (flock.packets - before) / 10;
        assert!(rate < 500, "seed {seed}: {rate} packets/s");
        assert_eq!(flock.geese[2].outlived, None, "seed {seed}: the earlier one goes on");
        flock.until(SECOND * 20, is_settled);
    }
}

#[test]
fn a_node_that_comes_back_elsewhere_does_not_end_because_of_its_dead_self() {
    for seed in 0..10 {
        let mut flock = with_room_for_a_twin(seed);
        flock.kill(2);
        // With a wiped disk: what is said of its dead self is newer than what it says.
        flock.start_as(3, 1);
        flock.run(SECOND * 20);
        assert_eq!(flock.geese[3].outlived, None, "seed {seed}");
        let there = flock.view(0).member(node(2)).map(|member| member.peer_address);
        assert_eq!(there, Some(peer(3)), "seed {seed}");
    }
}

#[test]
fn the_later_process_goes_on_until_the_earlier_one_can_answer() {
    let mut flock = with_room_for_a_twin(7);
    flock.cuts.extend([(2, 3), (3, 2)]);
    flock.start_as(3, 5);
    flock.run(SECOND * 10);
    assert!(flock.geese.iter().any(|goose| !goose.rivals.is_empty()));
    assert_eq!((flock.geese[2].outlived, flock.geese[3].outlived), (None, None));
    flock.cuts.clear();
    flock.until(SECOND * 10, |flock| flock.geese[3].outlived.is_some());
    assert_eq!(flock.geese[2].outlived, None);
}

#[test]
fn of_two_processes_that_start_together_exactly_one_ends() {
    for seed in 0..20 {
        let mut flock = Flock::new(4, seed);
        flock.geese[3].node = node(2);
        for who in 0..4 {
            flock.start(who);
        }
        flock.run(SECOND * 20);
        let ended = flock.geese.iter().filter(|goose| goose.outlived.is_some()).count();
        assert_eq!(ended, 1, "seed {seed}");
        flock.until(SECOND * 20, is_settled);
    }
}

#[test]
fn two_processes_that_know_only_each_other_find_out() {
    let mut flock = Flock::new(2, 3);
    flock.geese[1].node = node(0);
    flock.start(0);
    flock.run(SECOND * 5);
    flock.start(1);
    flock.until(SECOND * 5, |flock| flock.geese[1].outlived == Some(peer(0)));
    assert_eq!(flock.geese[0].outlived, None);
}

#[test]
fn an_answer_that_is_no_answer_ends_nobody() {
    let mut flock = with_room_for_a_twin(9);
    flock.trace = Some(Vec::new());
    flock.start_as(3, 5);
    flock.until(SECOND * 10, |flock| flock.geese[3].outlived.is_some());
    // What ended it, and everything else that was said in between, comes to a third process.
    let said: Vec<Bytes> = flock
        .trace
        .take()
        .unwrap()
        .into_iter()
        .filter_map(|(_, _, output)| match output {
            Output::Packet { data, .. } => Some(data),
            _ => None,
        })
        .collect();
    flock.start_as(3, 6);
    for data in said {
        flock.call(3, |membership, now, out| {
            // Most of it is refused.
            let _ = membership.received(now, node(2), &data, out);
        });
        assert!(flock.geese[3].membership.is_some());
    }
}
