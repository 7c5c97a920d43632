//! Copies that another holder gives: who else is asked before they are handed out.

use super::*;
use crate::envelope::{CopyItem, LeaseTold, Lost, PartitionInventory, Place, Span};
use crate::event::LinkId;
use crate::table::rendezvous::{self, Slot};

const GIVER: NodeId = NodeId(2);
const OTHER: NodeId = NodeId(3);

/// A node that a client waits at, in session with two others, and a partition that it is the first
/// holder of.
fn first_of_three() -> (Bench, PartitionId) {
    let mut bench = Bench::new();
    let queue = bench.queue(SettingsChange { partitions: Some(64), ..Default::default() });
    for node in [GIVER, OTHER] {
        let hello = PeerHello { node, store: node.0.into(), ..bench.node.hello() };
        bench.handle(Event::LinkUp { link: LinkId(node.0), hello: Box::new(hello) });
        let inventory = Envelope::Inventory { call: 0, partitions: vec![], span: Span::all() };
        for envelope in [Envelope::Mark, inventory, Envelope::Yield] {
            bench.is_told_by(node, envelope);
        }
    }
    assert_eq!(bench.receive(1, 600_000), None);
    let is_first = |partition: &u16| {
        let mut order = vec![ME, GIVER, OTHER];
        rendezvous::order(Slot::of(queue, *partition), &mut order);
        order[0] == ME
    };
    let partition = (0..64).find(is_first).expect("it is first somewhere");
    (bench, (queue, partition))
}

impl Bench {
    fn is_told_by(&mut self, from: NodeId, envelope: Envelope) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LinkId(from.0), envelope })
    }

    /// One message is given under this list.
    fn is_given_one(&mut self, (queue, partition): PartitionId, holders: &[NodeId]) -> Vec<Effect> {
        let label = self.label(1);
        let holders = holders.to_vec();
        let items = vec![CopyItem { label, accepted: label.stamp, holders, lease: None }];
        self.is_told_by(GIVER, Envelope::MakeUp { batch: 7, queue, partition, items })
    }
}

/// The other says that it holds this, and that this is gone.
fn told((id, call): (PartitionId, u64), held: Ranges, gone: Ranges) -> Envelope {
    let place = |number| Place::of(id, PRODUCER, number);
    let span = Span { after: place(0), until: Some(place(1)) };
    let (queue, partition) = id;
    let processes = vec![(PRODUCER, held, gone)];
    let partitions = vec![PartitionInventory { queue, partition, processes }];
    Envelope::Inventory { call, partitions, span }
}

/// The number of the last question to a node.
fn asked(effects: &[Effect], node: NodeId) -> Option<u64> {
    let asks = effects.iter().filter_map(|effect| match effect {
        Effect::Send { link, envelope: Envelope::Ask { call, .. } } if link.0 == node.0 => {
            Some(*call)
        }
        _ => None,
    });
    asks.last()
}

fn delivers(effects: &[Effect]) -> bool {
    let delivers = |effect: &Effect| {
        let Effect::Answer { response, .. } = effect else { return false };
        matches!(response, Response::Deliveries { .. })
    };
    effects.iter().any(delivers)
}

/// Who gave it was cut off from the other, which had buried it, and did not know of the new holder
/// that was in session with both.
#[test]
fn what_one_holder_gives_waits_for_the_word_of_the_others() {
    let one = Ranges::of(1, 1);
    for (held, gone) in [(Ranges::default(), one.clone()), (one.clone(), Ranges::default())] {
        let (mut bench, id) = first_of_three();
        let (queue, partition) = id;
        let effects = bench.is_given_one(id, &[ME, GIVER, OTHER]);
        let label = bench.label(1);
        let key = MessageKey { queue, partition, stamp: label.stamp };
        let header = bench.rows[&key.encode()].clone();
        let (call, lost) = (asked(&effects, OTHER).expect("P4: it may know better"), Lost::Counts);
        let commits = bench.node.run.commits.told();
        let held_here = Envelope::Held { batch: 7, exceptions: Vec::new(), commits };
        let messages = vec![(PRODUCER, one.clone())];
        let ask = Envelope::Ask { call, lost, queue, partition, messages };
        assert_eq!(
            effects,
            [
                Effect::Write(Write::PutMessage { key, header, label }),
                Effect::Send { link: LinkId(GIVER.0), envelope: held_here },
                Effect::Send { link: LinkId(OTHER.0), envelope: ask },
            ]
        );
        let messages = vec![(queue, partition, PRODUCER, one.clone())];
        let settled = Envelope::Settled { messages, lacking: Vec::new() };
        assert!(!delivers(&bench.is_told_by(GIVER, settled)), "P4: the other may know better");
        let is_gone = !gone.is_empty();
        let effects = bench.is_told_by(OTHER, told((id, call), held, gone));
        assert_eq!(delivers(&effects), !is_gone, "P4, P10: {effects:?}");
        assert_eq!(bench.rows.contains_key(&key.encode()), !is_gone);
    }
}

#[test]
fn who_does_not_answer_is_asked_again_and_waited_for_as_long_as_its_session_lasts() {
    let (mut bench, id) = first_of_three();
    bench.is_given_one(id, &[ME, GIVER, OTHER]);
    let messages = vec![(id.0, id.1, PRODUCER, Ranges::of(1, 1))];
    bench.is_told_by(GIVER, Envelope::Settled { messages, lacking: Vec::new() });
    assert!(!delivers(&bench.pass(2500)), "P4");
    bench.handle(Event::LinkDown { link: LinkId(OTHER.0) });
    bench.is_told_by(GIVER, Envelope::Mark);
    let call = asked(&bench.pass(2500), GIVER).expect("who is left is asked");
    let effects = bench.is_told_by(GIVER, told((id, call), Ranges::of(1, 1), Ranges::default()));
    assert!(delivers(&effects), "P10");
}

#[test]
fn what_the_only_other_holder_gives_is_handed_out_at_once() {
    let (mut bench, id) = first_of_three();
    assert!(delivers(&bench.is_given_one(id, &[ME, GIVER])), "P10");
}

/// Who gives a copy away, or counts the one that is here, may be gone a moment later.
#[test]
fn what_a_node_had_unconfirmed_is_counted_on_by_who_gives_it_or_sends_it_again() {
    for (given, sent) in [(false, false), (true, false), (false, true)] {
        let (mut bench, id) = first_of_three();
        bench.is_given_one(id, &[ME, GIVER]);
        bench.node.partitions.get_mut(&id).unwrap().known.accept(PRODUCER, 1);
        if given {
            bench.is_given_one(id, &[ME, GIVER]);
        }
        if sent {
            let labels = vec![bench.label(1)];
            bench.is_told_by(GIVER, copy_of(id, vec![ME, GIVER], labels));
        }
        bench.node.trust_copies(GIVER, &mut Effects::new());
        let unsettled = bench.node.partitions[&id].known.is_unsettled(PRODUCER, 1);
        assert_eq!(unsettled, !given && !sent, "P1, P4");
    }
}

/// A node that is new, or has lost its disk, hears of leases before it has anything of a partition.
#[test]
fn a_lease_that_was_told_before_anything_of_its_partition_came_hides_the_message() {
    let (mut bench, (queue, partition)) = first_of_three();
    let (number, stamp) = (1, bench.label(1).stamp);
    let leases = vec![LeaseTold {
        number,
        stamp,
        remaining_ms: 5000,
        custodian: GIVER,
        boot: 9,
        delivery: 1,
    }];
    bench.is_told_by(GIVER, Envelope::Leases { queue, partition, leases });
    bench.is_given_one((queue, partition), &[ME, GIVER]);
    let flight = bench.node.partitions[&(queue, partition)].flights.with(stamp);
    assert_eq!(flight.map(|flight| flight.lease.custodian), Some(GIVER), "P3");
}
