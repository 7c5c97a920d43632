//! What comes again: other hosts are asked for it, and who may have been killed is not waited for
//! longer than it takes.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;

use super::*;
use crate::envelope::{LeaseTold, PartitionInventory, Place, Span};
use crate::event::LinkId;
use crate::table::rendezvous::{self, Slot};

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

/// Who is asked, by which call, about what.
type Asked = (LinkId, u64, Vec<(ProcessId, Ranges)>);

/// A session with a node begins; what is asked then.
fn linked(bench: &mut Bench, node: NodeId) -> Vec<Asked> {
    let hello = PeerHello { node, store: node.0.into(), ..bench.node.hello() };
    asks(&bench.handle(Event::LinkUp { link: LinkId(node.0), hello: Box::new(hello) }))
}

fn asks(effects: &[Effect]) -> Vec<Asked> {
    let asks = effects.iter().filter_map(|effect| match effect {
        Effect::Send { link, envelope: Envelope::Ask { call, messages, .. } } => {
            Some((*link, *call, messages.clone()))
        }
        _ => None,
    });
    asks.collect()
}

/// The first message comes again.
fn again(bench: &Bench, queue: QueueId) -> Request {
    let labels = vec![bench.label(1)];
    let (attempt, partition, within_ms) = (Attempt::Again, 0, 1000);
    Request::Send { queue, partition, attempt, within_ms, labels }
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
        linked(&mut bench, node);
    }
    let (answer, effects) = bench.ask(again(&bench, queue));
    assert_eq!(answer, None);
    let asks = asks(&effects);
    assert_eq!(asks.len(), OTHERS.len(), "{effects:?}");
    (bench, queue, asks[0].1)
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

/// A node had just joined, and was the home host of a message that came again to it. It was linked
/// with another one, but not yet with the one that had the message, whose disk was slow: so it took
/// it for a new one, and it was delivered twice in a run without faults.
#[test]
fn who_is_yet_to_be_met_is_asked_as_it_is_for_what_came_again() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    meets_others(&mut bench);
    let about = vec![(PRODUCER, Ranges::of(1, 1))];
    let (answer, effects) = bench.ask(again(&bench, queue));
    assert_eq!((answer, effects), (None, Vec::new()), "P3: nobody was there to be asked");
    let [(LinkId(2), call, asked)] = &linked(&mut bench, OTHERS[0])[..] else { panic!() };
    assert_eq!(asked, &about);
    assert_eq!(bench.handle(told((queue, *call), OTHERS[0], Ranges::default())), []);
    assert_eq!(linked(&mut bench, OTHERS[1]), [(LinkId(3), *call, about)]);
    let effects = bench.handle(told((queue, *call), OTHERS[1], Ranges::of(1, 1)));
    let [ceiling, Effect::SendNow { envelope: Envelope::Copy { accepted, .. }, .. }] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    let (batch, partition, accepted, attempt) = (1, 0, *accepted, Attempt::Again);
    let (holders, labels) = (vec![OTHERS[1]], vec![bench.label(1)]);
    let copy = Envelope::Copy { batch, queue, partition, accepted, holders, attempt, labels };
    let link = LinkId(OTHERS[1].0);
    assert_eq!(effects, [ceiling.clone(), Effect::SendNow { link, envelope: copy }]);
}

#[test]
fn who_was_waited_for_long_enough_is_not_waited_for_by_what_comes_again() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    meets_others(&mut bench);
    bench.pass(10_000);
    let (answer, effects) = bench.ask(again(&bench, queue));
    assert!(answer.is_some(), "{effects:?}");
}

/// All disks were slow: the one that had a message which came again did not say so in time. It was
/// stored at another one, under a list that named that one alone, and both handed it out.
#[test]
fn who_has_not_said_in_time_whether_it_has_what_came_again_is_in_its_list() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    meets_others(&mut bench);
    for node in OTHERS {
        linked(&mut bench, node);
    }
    let home = bench.node.homes((queue, 0))[0];
    let [told_so, silent] = if home == OTHERS[1] { [OTHERS[1], OTHERS[0]] } else { OTHERS };
    let (_, effects) = bench.ask(again(&bench, queue));
    let call = asks(&effects)[0].1;
    bench.handle(told((queue, call), told_so, Ranges::default()));
    let effects = bench.pass(100);
    let to_silent = effects.iter().find_map(|effect| match effect {
        Effect::SendNow { link, envelope: Envelope::Copy { holders, attempt, .. } }
            if *link == LinkId(silent.0) =>
        {
            Some((holders.iter().copied().collect(), *attempt))
        }
        _ => None,
    });
    let both = BTreeSet::from([home, silent]);
    assert_eq!(to_silent, Some((both, Attempt::Again)), "P3: {effects:?}");
}

#[test]
fn who_is_new_to_the_list_of_a_message_in_flight_hears_so_before_it_hears_that_it_is_held() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    meets_others(&mut bench);
    for node in OTHERS {
        linked(&mut bench, node);
        let has_nothing =
            Envelope::Inventory { call: 0, partitions: Vec::new(), span: Span::all() };
        for envelope in [Envelope::Mark, has_nothing] {
            bench.handle(Event::Envelope { link: LinkId(node.0), envelope });
        }
    }
    let receipt = bench.receive(1, 0).unwrap().remove(0).receipt;
    bench.pass(400);
    let label = bench.label(1);
    let key = MessageKey { queue, partition: 0, stamp: label.stamp };
    let mut holders = vec![ME, OTHERS[0]];
    rendezvous::order(Slot::of(queue, 0), &mut holders);
    let (batch, partition, accepted, attempt) = (9, 0, at(500).wall.0, Attempt::Again);
    let accepted = Stamp { time: accepted, ..label.stamp };
    let labels = vec![label];
    let named = holders.clone();
    let copy = Envelope::Copy { batch, queue, partition, accepted, holders, attempt, labels };
    let effects = bench.handle(Event::Envelope { link: LinkId(OTHERS[1].0), envelope: copy });
    let [Effect::Write(Write::PutHeader { header, .. }), rest @ ..] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(MessageRecord::decode(&key, header).unwrap().holders, named);
    let told = LeaseTold {
        number: 1,
        stamp: label.stamp,
        remaining_ms: 29_600,
        custodian: ME,
        boot: receipt.boot,
        delivery: 1,
    };
    let leases = Envelope::Leases { queue, partition, leases: vec![told] };
    let commits = bench.node.run.commits.told();
    let held = Envelope::Held { batch, exceptions: Vec::new(), commits };
    assert_eq!(
        rest,
        [
            Effect::Send { link: LinkId(OTHERS[0].0), envelope: leases },
            Effect::Send { link: LinkId(OTHERS[1].0), envelope: held },
        ],
        "P3: it is handed out by who hears that it is held"
    );
}
