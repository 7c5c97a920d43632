//! Connections: made, kept, given up; and who is asked.

use super::*;
use crate::Target;

#[test]
fn a_client_dials_its_seeds_and_then_the_nodes_it_learned_of() {
    let config = Config { seeds: 2, ..Config::default() };
    let mut f = Fixture::opened(config, 1);
    let dial = |link, position| Effect::Dial { link, target: Target::Seed(position) };
    assert_eq!(f.tick(), [dial(1, 0), dial(2, 1)]);
    f.handle(Event::Lost { link: 1 });
    assert_eq!(f.welcome(2, 1, 4), [Effect::Connected]);
    let dials = f.tick();
    let targets: Vec<Target> = dials
        .iter()
        .map(|effect| match effect {
            Effect::Dial { target, .. } => *target,
            other => panic!("{other:?}"),
        })
        .collect();
    // Three are wanted, and whether node 1 is among them is up to the lot.
    assert!((2..=3).contains(&targets.len()), "{targets:?}");
    assert!(targets.iter().all(|target| matches!(target, Target::Address(_))));
}

#[test]
fn a_node_that_says_nowhere_where_it_is_is_not_dialled_once_its_connection_has_ended() {
    let mut f = Fixture::opened(Config::default(), 1);
    f.tick();
    f.handle(Event::Dialled { link: 1 });
    // The seed was removed from the cluster: it lists the others, and not itself.
    let members = [2, 3, 4].map(|node| member(node, Standing::Ready)).to_vec();
    let welcome = Welcome { version: VERSION, node: NodeId(1), members };
    f.answer(1, 1, Response::Welcome(welcome));
    let mut dialled = f.tick();
    f.handle(Event::Lost { link: 1 });
    dialled.extend(f.pass(s(2)));
    let mut ports = BTreeMap::new();
    for effect in dialled {
        match effect {
            Effect::Dial { target: Target::Address(at), .. } => {
                *ports.entry(at.port()).or_insert(0) += 1;
            }
            Effect::Dial { target: Target::Seed(0), .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ports, BTreeMap::from([(2, 1), (3, 1), (4, 1)]));
}

#[test]
fn a_seed_that_does_not_answer_is_dialled_again_later_and_later() {
    let mut f = Fixture::opened(Config::default(), 1);
    let mut waits = Vec::new();
    for link in 1..=8 {
        let before = f.now;
        while !matches!(f.tick()[..], [Effect::Dial { .. }]) {
            f.now = f.core.next_wakeup().unwrap();
        }
        waits.push(f.now - before);
        f.handle(Event::Lost { link });
    }
    assert_eq!(waits[0], Duration::ZERO);
    assert!(waits[1] >= ms(25) && waits[1] <= ms(50), "{waits:?}");
    assert!(waits[7] >= s(1) && waits[7] <= s(2), "{waits:?}");
}

#[test]
fn a_connection_that_says_nothing_is_given_up() {
    let mut f = Fixture::opened(Config::default(), 1);
    f.tick();
    f.handle(Event::Dialled { link: 1 });
    f.now = s(5);
    assert_eq!(f.tick(), [Effect::HangUp { link: 1 }]);
}

#[test]
fn a_second_connection_to_one_node_is_closed() {
    let config = Config { seeds: 2, ..Config::default() };
    let mut f = Fixture::opened(config, 1);
    f.tick();
    f.welcome(1, 1, 1);
    assert_eq!(f.welcome(2, 1, 1), [Effect::HangUp { link: 2 }]);
    assert_eq!(f.tick(), []);
}

#[test]
fn a_node_that_owes_an_answer_and_is_silent_is_given_up() {
    let mut f = Fixture::connected(1).knowing();
    f.send_one(1, s(30));
    let effects = f.pass(ms(5100));
    assert_eq!(effects[0], Effect::HangUp { link: 1 });
    assert!(matches!(effects[1], Effect::Dial { link: 2, .. }));
}

#[test]
fn a_node_that_others_call_down_must_prove_itself_quickly() {
    let mut f = Fixture::connected(2).knowing();
    let (accuser, accused) = (f.links[&1], f.links[&2]);
    let members = vec![member(1, Standing::Ready), member(2, Standing::Down)];
    let welcome = Welcome { version: VERSION, node: NodeId(1), members };
    let (link, request, probe, _) = only(f.answer(accuser, 0, Response::Welcome(welcome.clone())));
    assert_eq!(link, accused);
    assert!(matches!(probe, Request::ListQueues { .. }));
    let alive = Response::Queues { queues: Vec::new(), more: false };
    assert_eq!(f.answer(accused, request, alive), []);
    assert_eq!(f.pass(s(1)), []);

    only(f.answer(accuser, 0, Response::Welcome(welcome)));
    assert_eq!(f.pass(s(1)), [Effect::HangUp { link: accused }]);
}

#[test]
fn work_leaves_a_node_that_is_not_ready() {
    let mut f = Fixture::connected(2).knowing();
    let (link, request, ..) = f.send_one(1, s(30));
    f.answer(link, request, sent(2));
    let (left, other) = (f.node_of(link), 3 - f.node_of(link));
    let members = vec![member(left, Standing::NotReady), member(other, Standing::Ready)];
    // Others may be mistaken: what counts is what it says itself.
    for says in [other, left] {
        assert_eq!(f.send_and_confirm(2), f.links[&left]);
        let welcome = Welcome { version: VERSION, node: NodeId(says), members: members.clone() };
        f.answer(f.links[&says], 0, Response::Welcome(welcome));
    }
    assert_eq!(f.send_one(2, s(30)).0, f.links[&other]);
}

#[test]
fn a_node_that_calls_all_others_down_is_not_believed() {
    let mut f = Fixture::connected(3).knowing();
    let used = f.send_and_confirm(1);
    let cut_off = (1..=3).find(|node| f.links[node] != used).unwrap();
    let standing = |node| if node == cut_off { Standing::Ready } else { Standing::Down };
    let members = (1..=3).map(|node| member(node, standing(node))).collect();
    let welcome = Welcome { version: VERSION, node: NodeId(cut_off), members };
    let probes = asked(&f.answer(f.links[&cut_off], 0, Response::Welcome(welcome)));
    assert_eq!(probes.len(), 2);
    for (link, request, ..) in probes {
        f.answer(link, request, Response::Queues { queues: Vec::new(), more: false });
    }
    assert_eq!(f.send_and_confirm(2), used);
}

#[test]
fn a_node_that_cannot_is_not_asked_first_for_a_while() {
    let mut f = Fixture::connected(2).knowing();
    let used = f.send_and_confirm(1);
    let (link, request, ..) = f.send_one(2, s(30));
    f.answer(link, request, refused(few()));
    let (other, request, ..) = only(f.wake(ms(60)));
    assert_ne!(other, used);
    f.answer(other, request, sent(2));
    assert_eq!(f.send_and_confirm(3), other);
    f.pass(s(1));
    assert_eq!(f.send_and_confirm(4), used);
}

#[test]
fn a_version_that_is_not_spoken_is_told() {
    let mut f = Fixture::opened(Config::default(), 1);
    f.tick();
    f.handle(Event::Dialled { link: 1 });
    let refusal = Refusal::UnsupportedVersion { version: 9 };
    let wanted = [Effect::Rejected(refusal.clone()), Effect::HangUp { link: 1 }];
    assert_eq!(f.answer(1, 1, refused(refusal)), wanted);
}
