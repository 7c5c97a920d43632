//! What comes again: other hosts are asked for it, and who may have been killed is not waited for
//! longer than it takes.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;

use super::*;
use crate::envelope::{PartitionInventory, Place, Span};
use crate::event::LinkId;

pub(super) const OTHERS: [NodeId; 2] = [NodeId(2), NodeId(3)];

/// The address of a node, at which it hears gossip.
fn address(node: NodeId) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7400 - ME.0 as u16 + node.0 as u16))
}

/// Gossips with two others until it has them in view; what it did of itself meanwhile is left out.
pub(super) fn meets_others(bench: &mut Bench) {
    meets(bench, &mut OTHERS.map(another));
}

/// Gossips with others until it has them in view, and what they say of themselves.
pub(super) fn meets(bench: &mut Bench, others: &mut [Bench]) {
    let mut packets = VecDeque::new();
    for other in others.iter_mut() {
        packets.extend(gossip(other.node.config.node, other.handle(Event::Started)));
    }
    for _ in 0..20 {
        while let Some((from, to, packet)) = packets.pop_front() {
            let others = others.iter_mut().find(|other| address(other.node.config.node) == to);
            let hears = others.unwrap_or(&mut *bench);
            let node = hears.node.config.node;
            packets.extend(gossip(node, hears.handle(Event::Gossip { from, packet })));
        }
        for each in others.iter_mut().chain([&mut *bench]) {
            packets.extend(gossip(each.node.config.node, each.pass(100)));
        }
    }
    assert!(others.iter().all(|other| bench.node.is_member(other.node.config.node)));
}

pub(super) fn another(node: NodeId) -> Bench {
    let config = Config::new(node, address(node), address(node));
    let config = Config { seeds: vec![address(ME)], ..config };
    let node = Node::open(config, at(0), &mut std::iter::empty()).unwrap();
    Bench::with(node, BTreeMap::new(), 0)
}

/// The packets of gossip among these effects: from whom, where to, and what.
fn gossip(from: NodeId, effects: Vec<Effect>) -> Vec<(NodeId, SocketAddr, Bytes)> {
    let packets = effects.into_iter().filter_map(|effect| match effect {
        Effect::Gossip { to, packet, .. } => Some((from, to, packet)),
        _ => None,
    });
    packets.collect()
}

/// A node that holds a message and is in session with two others, whom it has asked for it as it
/// came again.
fn asked() -> (Bench, QueueId, u64) {
    asked_of(one_partition())
}

/// The same, of a queue with these settings.
fn asked_of(change: SettingsChange) -> (Bench, QueueId, u64) {
    let mut bench = Bench::new();
    let queue = bench.queue(change);
    bench.send(queue, 1..=1);
    meets_others(&mut bench);
    for node in OTHERS {
        let hello = PeerHello { node, store: node.0.into(), ..bench.node.hello() };
        bench.handle(Event::LinkUp { link: LinkId(node.0), hello: Box::new(hello) });
    }
    let labels = vec![bench.label(1)];
    let (attempt, partition, within_ms) = (Attempt::Again, 0, 1000);
    let send = Request::Send { queue, partition, attempt, within_ms, labels };
    let (answer, effects) = bench.ask(send);
    assert_eq!(answer, None);
    let asks = effects.iter().filter_map(|effect| match effect {
        Effect::Send { envelope: Envelope::Ask { call, .. }, .. } => Some(*call),
        _ => None,
    });
    let asks: Vec<u64> = asks.collect();
    assert_eq!(asks.len(), OTHERS.len(), "{effects:?}");
    (bench, queue, asks[0])
}

/// What a node says that it has of what was asked. Who has nothing knows nothing of its process.
fn told((queue, call): (QueueId, u64), from: NodeId, held: Ranges) -> Event {
    let mut processes = vec![(PRODUCER, held, Ranges::default())];
    processes.retain(|(_, held, _)| !held.is_empty());
    let partitions = vec![PartitionInventory { queue, partition: 0, processes }];
    let place = |number| Place { queue, partition: 0, process: PRODUCER, number };
    let span = Span { after: place(0), until: Some(place(1)) };
    let envelope = Envelope::Inventory { call, partitions, span };
    Event::Envelope { link: LinkId(from.0), envelope }
}

/// A send that a killed node had passed on took a tenth of a second more: so long the killed one
/// was waited for, although those who have it had said so.
#[test]
fn once_enough_hosts_have_what_came_again_nobody_else_is_waited_for() {
    let (mut bench, queue, call) = asked();
    let effects = bench.handle(told((queue, call), OTHERS[0], Ranges::of(1, 1)));
    let [ceiling, Effect::SendNow { envelope: Envelope::Copy { accepted, .. }, .. }, header, _] =
        &effects[..]
    else {
        panic!("{effects:?}")
    };
    let Effect::Write(Write::PutHeader { key, header }) = header else { panic!("{header:?}") };
    let holders = MessageRecord::decode(key, header).unwrap().holders;
    assert_eq!(holders.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&ME, &OTHERS[0]]));
    let label = bench.label(1);
    let key = MessageKey { queue, partition: 0, stamp: label.stamp };
    let (batch, partition, accepted, attempt) = (2, 0, *accepted, Attempt::Again);
    let labels = vec![label];
    let copy = Envelope::Copy { batch, queue, partition, accepted, holders, attempt, labels };
    let reply = Reply { client: ClientId(1), stream: 0, request: 3 };
    let sent = SentBatch { accepted, copies: 1, exceptions: Vec::new() };
    assert_eq!(
        effects,
        [
            ceiling.clone(),
            Effect::SendNow { link: LinkId(OTHERS[0].0), envelope: copy },
            Effect::Write(Write::PutHeader { key, header: header.clone() }),
            Effect::Answer { reply, response: Response::Sent(sent) },
        ]
    );
}

#[test]
fn who_is_silent_is_waited_for_as_long_as_nobody_else_has_what_came_again() {
    let (mut bench, queue, call) = asked();
    let effects = bench.handle(told((queue, call), OTHERS[0], Ranges::default()));
    assert_eq!(effects, [], "P11: the other may know that it is gone");
    let answers = |effect: &Effect| matches!(effect, Effect::Answer { .. });
    assert!(!bench.pass(99).iter().any(answers));
    assert!(bench.pass(1).iter().any(answers));
}

#[test]
fn what_came_again_stays_with_who_has_it_though_others_are_its_home_hosts_now() {
    let (mut bench, queue, call) = asked();
    assert!(!bench.node.homes((queue, 0)).contains(&ME), "another one has joined");
    assert_eq!(bench.handle(told((queue, call), OTHERS[0], Ranges::default())), []);
    let effects = bench.handle(told((queue, call), OTHERS[1], Ranges::default()));
    let [ceiling, Effect::Answer { response: Response::Sent(sent), .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(matches!(ceiling, Effect::Write(Write::Put { .. })));
    assert_eq!(sent.copies, 1);
}

#[test]
fn where_too_few_have_what_came_again_they_are_in_the_list_of_those_who_get_it() {
    let two = SettingsChange { replicas: Some(2), confirms: Some(2), ..one_partition() };
    let (mut bench, queue, call) = asked_of(SettingsChange { at_least: Some(1), ..two });
    assert_eq!(BTreeSet::from_iter(bench.node.homes((queue, 0))), OTHERS.into());
    assert_eq!(bench.handle(told((queue, call), OTHERS[0], Ranges::default())), []);
    let effects = bench.handle(told((queue, call), OTHERS[1], Ranges::default()));
    let copies = effects.iter().filter_map(|effect| match effect {
        Effect::SendNow { link, envelope: Envelope::Copy { holders, .. } } => {
            Some((*link, holders.iter().copied().collect()))
        }
        _ => None,
    });
    let all = BTreeSet::from([ME, OTHERS[0], OTHERS[1]]);
    let each = OTHERS.map(|other| (LinkId(other.0), all.clone()));
    assert_eq!(copies.collect::<BTreeSet<_>>(), each.into());
}
