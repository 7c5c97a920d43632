//! What strangers and sick members cannot do.

use foca::State;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::super::identity::Identity;
use super::super::*;
use super::flock::*;
use super::forged::*;

/// The first of three knows the others; what does it say to a packet of the second?
fn judge(flock: &mut Flock, from: usize, bytes: &[u8]) -> Result<(), PacketRefused> {
    let mut verdict = Ok(());
    flock.call(0, |membership, now, out| {
        verdict = membership.received(now, node(from), bytes, out);
    });
    verdict
}

#[test]
fn a_packet_speaks_only_for_the_node_of_its_certificate() {
    let mut flock = Flock::formed(3, 1);
    let (zero, two) = (own(&flock, 0), own(&flock, 2));
    let refused = PacketRefused::ForeignSource { claimed: node(2), actual: node(1) };
    assert_eq!(judge(&mut flock, 1, &packet(two, zero, &[])), Err(refused));
    assert_eq!(
        judge(&mut flock, 0, &packet(zero, zero, &[])),
        Err(PacketRefused::OwnName(peer(0)))
    );
    let one = own(&flock, 1);
    let misdirected = Err(PacketRefused::Misdirected(node(2)));
    assert_eq!(judge(&mut flock, 1, &packet(one, two, &[])), misdirected);
    assert_eq!(judge(&mut flock, 1, &packet(one, zero, &[])), Ok(()));
}

#[test]
fn a_forged_generation_is_refused() {
    let mut flock = Flock::formed(3, 1);
    let (zero, one) = (own(&flock, 0), own(&flock, 1));
    let before = flock.view(0).clone();
    for forged in [u64::MAX, 1 << 48, 1 << 40] {
        for who in [2, 0] {
            let update = foca::Member::alive(identity(who, forged));
            let bytes = packet(one, zero, &[update]);
            let refused = Err(PacketRefused::BadGeneration(node(who)));
            assert_eq!(judge(&mut flock, 1, &bytes), refused);
        }
    }
    let bytes = packet(identity(1, u64::MAX), zero, &[]);
    assert_eq!(judge(&mut flock, 1, &bytes), Err(PacketRefused::BadGeneration(node(1))));
    assert_eq!(*flock.view(0), before);
}

#[test]
fn a_generation_made_up_within_bounds_does_not_lock_its_victim_out() {
    for seed in 0..10 {
        let mut flock = Flock::formed(3, seed);
        let (zero, one, two) = (own(&flock, 0), own(&flock, 1), own(&flock, 2));
        let forged = Generation::of_boot(4_000);
        let update = foca::Member::new(Identity { generation: forged, ..two }, 0, State::Alive);
        assert_eq!(judge(&mut flock, 1, &packet(one, zero, &[update])), Ok(()));
        assert_eq!(flock.view(0).member(node(2)).unwrap().generation, forged);
        flock.run(SECOND * 15);
        assert!(flock.is_complete(), "seed {seed}\n{}", flock.picture());
        assert!(flock.view(0).member(node(2)).unwrap().generation > forged);
        assert_eq!(flock.geese[0].rejoined + flock.geese[1].rejoined, 0);
    }
}

#[test]
fn a_living_claim_to_the_own_name_elsewhere_is_told() {
    let mut flock = Flock::formed(3, 1);
    let (zero, one) = (own(&flock, 0), own(&flock, 1));
    let twin = Identity { generation: Generation::of_boot(9), address: peer(77), ..zero };
    let bytes = packet(one, zero, &[foca::Member::alive(twin)]);
    assert_eq!(judge(&mut flock, 1, &bytes), Ok(()));
    assert_eq!(flock.geese[0].rivals, [peer(77)]);
    assert_eq!(flock.geese[0].rejoined, 1);
    assert!(own(&flock, 0).generation > twin.generation);
    // A second claim right after it waits: two processes would top each other without end.
    let again = Identity { generation: Generation::of_boot(12), ..twin };
    let zero = own(&flock, 0);
    let bytes = packet(one, zero, &[foca::Member::alive(again)]);
    assert_eq!(judge(&mut flock, 1, &bytes), Ok(()));
    assert_eq!(flock.geese[0].rejoined, 1);
}

#[test]
fn claims_of_several_earlier_runs_are_topped_one_after_the_other() {
    let mut flock = Flock::formed(3, 1);
    for boot in [9, 12, 15] {
        let (zero, one) = (own(&flock, 0), own(&flock, 1));
        let dead = Identity { generation: Generation::of_boot(boot), ..zero };
        let update = foca::Member::new(dead, 0, State::Down);
        assert_eq!(judge(&mut flock, 1, &packet(one, zero, &[update])), Ok(()));
        assert!(own(&flock, 0).generation > dead.generation, "boot {boot}");
    }
    assert_eq!(flock.geese[0].rejoined, 3, "not one by one up to each of them");
    assert!(flock.geese[0].rivals.is_empty());
}

#[test]
fn names_and_addresses_that_cannot_be_are_refused() {
    let mut flock = Flock::formed(3, 1);
    let (zero, one) = (own(&flock, 0), own(&flock, 1));
    let nobody = Identity { node: identity::ANYONE, ..own(&flock, 2) };
    let nowhere = Identity { address: "0.0.0.0:1".parse().unwrap(), ..own(&flock, 2) };
    for bad in [nobody, nowhere] {
        let bytes = packet(one, zero, &[foca::Member::alive(bad)]);
        let refused = PacketRefused::BadIdentity { node: bad.node, address: bad.address };
        assert_eq!(judge(&mut flock, 1, &bytes), Err(refused));
    }
}

#[test]
fn the_view_takes_in_no_more_nodes_than_it_may() {
    let mut flock = Flock::new(3, 1);
    flock.config.members_max = 10;
    (0..3).for_each(|who| flock.start(who));
    flock.until(SECOND * 10, Flock::is_complete);
    let (zero, one) = (own(&flock, 0), own(&flock, 1));
    let strangers = |range: std::ops::Range<usize>| -> Vec<foca::Member<Identity>> {
        range.map(|who| foca::Member::down(identity(who, 1 << 16))).collect()
    };
    let seven = packet(one, zero, &strangers(100..107));
    assert_eq!(judge(&mut flock, 1, &seven), Ok(()));
    let eighth = packet(one, zero, &strangers(107..108));
    assert_eq!(judge(&mut flock, 1, &eighth), Err(PacketRefused::TooManyMembers));
    assert_eq!(flock.view(0).len(), 10);
}

#[test]
fn a_removed_node_is_in_the_view_only_while_it_is_there() {
    let mut flock = Flock::formed(3, 1);
    flock.call(0, |membership, _, out| membership.remove(node(2), out));
    flock.run(SECOND);
    assert_eq!(flock.state(0, 2), Some(MemberState::Alive), "it may be another disk");
    flock.kill(2);
    flock.until(SECOND * 10, |flock| flock.view(0).member(node(2)).is_none());
    flock.run(SECOND * 2);
    assert_eq!(flock.state(1, 2), Some(MemberState::Down), "who knows of no removal keeps it");
    flock.start_as(2, 2);
    flock.until(SECOND * 20, Flock::is_complete);
    flock.call(0, |membership, _, _| membership.readmit(node(2)));
    flock.kill(2);
    flock.until(SECOND * 10, |flock| flock.state(0, 2) == Some(MemberState::Down));
}

/// A new disk counts its runs from anywhere, and the old one may have been heard just before.
#[test]
fn what_a_run_says_of_itself_is_not_outdone_by_one_of_another_disk() {
    let mut flock = Flock::formed(3, 1);
    flock.call(0, |membership, _, out| membership.learn(node(2), 900, profile(2), out));
    let ready = ready_profile(2);
    flock.call(2, |membership, now, out| membership.set_profile(now, ready, out));
    flock.run(SECOND * 5);
    assert!(flock.view(0).member(node(2)).unwrap().readiness.ready);
}

#[test]
fn a_packet_above_the_size_limit_is_refused() {
    let mut flock = Flock::formed(3, 1);
    assert_eq!(judge(&mut flock, 1, &[0; 1_101]), Err(PacketRefused::TooBig(1_101)));
}

#[test]
fn garbage_never_panics_and_is_refused() {
    let mut flock = Flock::formed(3, 1);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let before = flock.view(0).clone();
    for _ in 0..100_000 {
        let length = rng.random_range(0..200);
        let bytes: Vec<u8> = (0..length).map(|_| rng.random()).collect();
        assert!(judge(&mut flock, 1, &bytes).is_err());
    }
    assert_eq!(*flock.view(0), before);
}

#[test]
fn damaged_packets_never_panic() {
    let mut flock = Flock::formed(3, 1);
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    flock.trace = Some(Vec::new());
    flock.start(2);
    flock.run(SECOND * 5);
    let packets: Vec<Bytes> = flock.trace.take().unwrap().into_iter().filter_map(sent).collect();
    assert!(packets.len() > 100);
    let mut taken = 0;
    for round in 0..60_000 {
        let mut bytes = packets[round % packets.len()].to_vec();
        for _ in 0..rng.random_range(0..4) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        if rng.random_range(0..4) == 0 {
            bytes.truncate(rng.random_range(0..bytes.len()));
        }
        let from = rng.random_range(0..3);
        taken += usize::from(judge(&mut flock, from, &bytes).is_ok());
        flock.call(0, Membership::wakeup);
        flock.now = flock.now.plus(MS);
    }
    assert!(taken > 1_000, "{taken} of 60000 taken");
}

fn sent((_, _, output): (Mono, usize, Output)) -> Option<Bytes> {
    match output {
        Output::Packet { data, .. } => Some(data),
        _ => None,
    }
}
