//! What is said to a packet comes to an end by itself.

use foca::{Message, State};

use super::super::identity::Identity;
use super::super::*;
use super::flock::*;
use super::forged::*;

/// All that comes out of a node when it is told something.
fn heard(flock: &mut Flock, who: usize, from: usize, bytes: &[u8]) -> Vec<Output> {
    let now = flock.now;
    let mut out = Vec::new();
    let membership = flock.geese[who].membership.as_mut().unwrap();
    membership.received(now, node(from), bytes, &mut out).unwrap();
    out
}

fn says(to: Identity, data: Vec<u8>) -> Output {
    Output::Packet { to: to.address, node: Some(to.node), data: data.into() }
}

/// Every kind of packet that nodes send each other.
fn all_kinds(third: Identity) -> Vec<Message<Identity>> {
    vec![
        Message::Ping(1),
        Message::Ack(1),
        Message::PingReq { target: third, probe_number: 1 },
        Message::IndirectPing { origin: third, probe_number: 1 },
        Message::IndirectAck { target: third, probe_number: 1 },
        Message::ForwardedAck { origin: third, probe_number: 1 },
        Message::Announce,
        Message::Feed,
        Message::Gossip,
        Message::Broadcast,
        Message::TurnUndead,
    ]
}

fn is_verdict(message: &Message<Identity>) -> bool {
    matches!(message, Message::Broadcast | Message::TurnUndead)
}

fn later(identity: Identity) -> Identity {
    Identity { generation: identity.generation.next().unwrap(), ..identity }
}

#[test]
fn who_speaks_under_an_outdated_identity_is_told_so_in_one_packet_or_none() {
    let mut flock = Flock::formed(3, 1);
    let (zero, one, two) = (own(&flock, 0), own(&flock, 1), own(&flock, 2));
    let newer = later(later(one));
    heard(&mut flock, 0, 1, &packet(newer, zero, &[]));
    let elsewhere = Identity { generation: Generation::of_boot(0), ..zero };
    for message in all_kinds(two) {
        for dst in [zero, elsewhere] {
            let bytes = bare(one, dst, message.clone());
            let correction = says(one, bare(zero, newer, Message::Broadcast));
            let right = if is_verdict(&message) { vec![] } else { vec![correction] };
            assert_eq!(heard(&mut flock, 0, 1, &bytes), right, "{message:?} to {dst:?}");
        }
    }
}

#[test]
fn who_is_held_to_be_down_is_told_so_in_one_packet() {
    let mut flock = Flock::formed(3, 1);
    let (zero, one, two) = (own(&flock, 0), own(&flock, 1), own(&flock, 2));
    let down = foca::Member::new(one, 0, State::Down);
    heard(&mut flock, 0, 2, &packet(two, zero, &[down]));
    for message in all_kinds(two) {
        if message != Message::TurnUndead {
            let told = says(one, bare(zero, one, Message::TurnUndead));
            assert_eq!(heard(&mut flock, 0, 1, &bare(one, zero, message)), [told]);
        }
    }
}

#[test]
fn a_correction_that_comes_to_who_has_the_newer_claim_is_a_sign_of_life_and_not_answered() {
    let mut flock = Flock::formed(3, 1);
    let (zero, one) = (own(&flock, 0), own(&flock, 1));
    let correction = bare(one, zero, Message::Broadcast);
    assert_eq!(heard(&mut flock, 0, 1, &correction), []);
    assert_eq!(own(&flock, 0), zero);
}

#[test]
fn packets_make_a_node_renew_itself_a_few_times_a_second_and_no_more() {
    let mut flock = Flock::formed(3, 1);
    let (start, one) = (own(&flock, 0).generation, own(&flock, 1));
    let turned = |flock: &mut Flock| {
        let zero = own(flock, 0);
        heard(flock, 0, 1, &bare(one, zero, Message::TurnUndead))
    };
    for _ in 0..4 {
        assert!(turned(&mut flock).contains(&Output::Rejoined));
    }
    for _ in 0..100 {
        assert_eq!(turned(&mut flock), [], "told that it is down");
    }
    let zero = own(&flock, 0);
    for state in [State::Down, State::Suspect] {
        let last = foca::Member::new(zero, u16::MAX, state);
        assert_eq!(heard(&mut flock, 0, 1, &packet(one, zero, &[last])), [], "{state:?}");
    }
    assert_eq!(heard(&mut flock, 0, 1, &packet(one, later(zero), &[])), [], "a newer claim");
    assert_eq!(own(&flock, 0), zero);
    assert!(start < zero.generation);
    flock.now = flock.now.plus(SECOND);
    assert!(turned(&mut flock).contains(&Output::Rejoined), "it can be told again");
}

/// Makes a node top claims to its name until it may not for a while.
fn wear_out(flock: &mut Flock, who: usize, told_by: usize) {
    let from = own(flock, told_by);
    for _ in 0..4 {
        let newer = later(own(flock, who));
        heard(flock, who, told_by, &bare(from, newer, Message::Gossip));
    }
}

/// Runs for a little less than it takes until nodes may renew themselves again.
#[track_caller]
fn is_quiet(flock: &mut Flock) {
    let most = flock.packets + 150;
    let end = flock.now.plus(MS * 900);
    assert!(!flock.advance(end, |flock| flock.packets > most), "too many packets");
}

#[test]
fn two_that_know_newer_claims_of_each_other_do_not_answer_each_other_for_ever() {
    for seed in 0..5 {
        let mut flock = Flock::formed(2, seed);
        wear_out(&mut flock, 0, 1);
        wear_out(&mut flock, 1, 0);
        for (who, other) in [(0, 1), (1, 0)] {
            let me = own(&flock, who);
            heard(&mut flock, who, other, &packet(identity(other, 9 << 16), me, &[]));
        }
        for (who, other) in [(0, 1), (1, 0)] {
            let to = own(&flock, other);
            flock.call(who, |membership, now, out| membership.announce(now, to, out));
        }
        is_quiet(&mut flock);
        flock.until(SECOND * 12, Flock::is_complete);
    }
}

/// A node lost its disk again and again, and is told by who was away of each of its lives; it tops
/// the first few, and counts for nothing until it may top the highest.
#[test]
fn a_node_of_many_lost_lives_is_not_answered_for_ever() {
    for seed in 0..5 {
        let mut flock = Flock::bereaved(seed);
        flock.run(SECOND * 3);
        flock.start_as(2, 10);
        wear_out(&mut flock, 2, 0);
        is_quiet(&mut flock);
        flock.until(SECOND * 12, Flock::is_complete);
    }
}
