//! Deletes that other holders have to know of before they are confirmed.

use super::*;
use crate::envelope::DeliveryRef;
use crate::event::LinkId;
use crate::table::rendezvous::{self, Slot};

const PEER: NodeId = NodeId(2);
const THIRD: NodeId = NodeId(3);

/// A node in session with another one, which has handed a message out twice. The first receipt
/// names both as holders.
fn handed_out_twice() -> (Bench, Receipt) {
    let mut bench = Bench::new();
    let (two, at_least) = (Some(2), Some(1));
    let change = SettingsChange { replicas: two, confirms: two, at_least, ..one_partition() };
    let queue = bench.queue(change);
    bench.send(queue, 1..=1);
    let first = bench.receive(1, 0).unwrap();
    bench.pass(31_000);
    let second = bench.receive(1, 0).unwrap();
    assert_eq!(second[0].receipt.delivery, 2);
    let hello = PeerHello { node: PEER, store: 2, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LinkId(PEER.0), hello: Box::new(hello) });
    (bench, Receipt { holders: vec![ME, PEER], ..first[0].receipt.clone() })
}

/// It was confirmed as soon as it was known to be older, by whoever was asked first.
#[test]
fn a_delete_by_an_older_receipt_waits_for_the_other_holders_like_any() {
    for buried in [true, false] {
        let (mut bench, receipt) = handed_out_twice();
        let (answer, effects) = bench.ask(Request::Delete { receipts: vec![receipt] });
        assert_eq!(answer, None, "P4: the other one has no tombstone yet");
        let told = effects.iter().find_map(|effect| match effect {
            Effect::SendNow { envelope: Envelope::Tombstones { batch, .. }, .. } => Some(*batch),
            _ => None,
        });
        let (batch, link) = (told.expect("it is told"), LinkId(PEER.0));
        let commits = bench.node.run.commits.told();
        let envelope = Envelope::Buried { batch, older: Vec::new(), commits };
        let (event, result) = if buried {
            (Event::Envelope { link, envelope }, DeleteResult::DeletedByOlderReceipt)
        } else {
            (Event::LinkDown { link }, DeleteResult::Refused(Refusal::OutcomeUnknown))
        };
        let reply = Reply { client: ClientId(1), stream: 0, request: bench.request };
        let response = Response::Deleted(vec![result]);
        let answers = bench.handle(event);
        assert!(answers.contains(&Effect::Answer { reply, response }), "{answers:?}");
    }
}

/// A node in session with two others, which has a message under a list that names both.
fn one_of_three() -> (Bench, QueueId, Label) {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    for node in [PEER, THIRD] {
        let hello = PeerHello { node, store: node.0.into(), ..bench.node.hello() };
        bench.handle(Event::LinkUp { link: LinkId(node.0), hello: Box::new(hello) });
    }
    let label = bench.label(1);
    let envelope = copy_of((queue, 0), in_order(queue, &[ME, PEER, THIRD]), vec![label]);
    bench.handle(Event::Envelope { link: LinkId(PEER.0), envelope });
    (bench, queue, label)
}

fn in_order(queue: QueueId, nodes: &[NodeId]) -> Vec<NodeId> {
    let mut nodes = nodes.to_vec();
    rendezvous::order(Slot::of(queue, 0), &mut nodes);
    nodes
}

fn tombstones(queue: QueueId, batch: u64, holders: &[NodeId], stamps: Vec<Stamp>) -> Envelope {
    Envelope::Tombstones {
        batch,
        queue,
        partition: 0,
        holders: in_order(queue, holders),
        messages: vec![(PRODUCER, Ranges::of(1, 1))],
        leases: vec![DeliveryRef { custodian: PEER, boot: 1, delivery: 1 }; stamps.len()],
        stamps,
        known: Vec::new(),
    }
}

/// A list had grown after the message was handed out, and the receipt did not name the new holder.
#[test]
fn who_hears_of_a_delete_says_who_else_is_a_holder_before_it_says_that_it_knows() {
    let (mut bench, queue, label) = one_of_three();
    let link = LinkId(PEER.0);
    let envelope = tombstones(queue, 5, &[ME, PEER], vec![label.stamp]);
    let effects = bench.handle(Event::Envelope { link, envelope });
    let said = effects.into_iter().filter(|effect| matches!(effect, Effect::Send { .. }));
    let (holders, messages) =
        (in_order(queue, &[ME, PEER, THIRD]), vec![(PRODUCER, Ranges::of(1, 1))]);
    let listed = Envelope::Listed { queue, partition: 0, holders, messages };
    let commits = bench.node.run.commits.told();
    let buried = Envelope::Buried { batch: 5, older: Vec::new(), commits };
    let expected = [listed, buried].map(|envelope| Effect::Send { link, envelope });
    assert_eq!(said.collect::<Vec<_>>(), expected, "P4");
}

#[test]
fn a_holder_that_the_receipt_does_not_name_is_told_of_its_delete_and_waited_for() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    for node in [PEER, THIRD] {
        let hello = PeerHello { node, store: node.0.into(), ..bench.node.hello() };
        bench.handle(Event::LinkUp { link: LinkId(node.0), hello: Box::new(hello) });
    }
    let stamp = bench.label(1).stamp;
    let (partition, number, custodian, boot, delivery) = (0, 1, PEER, 1, 1);
    let holders = vec![PEER];
    let receipt = Receipt { queue, partition, number, stamp, holders, custodian, boot, delivery };
    assert_eq!(bench.ask(Request::Delete { receipts: vec![receipt] }).0, None);
    let reply = Reply { client: ClientId(1), stream: 0, request: bench.request };
    let mut says =
        |node: NodeId, envelope| bench.handle(Event::Envelope { link: LinkId(node.0), envelope });
    let messages = vec![(PRODUCER, Ranges::of(1, 1))];
    let holders = in_order(queue, &[PEER, THIRD]);
    let listed = Envelope::Listed { queue, partition, holders, messages };
    let told = Effect::SendNow {
        link: LinkId(THIRD.0),
        envelope: tombstones(queue, 1, &[PEER, THIRD], vec![stamp]),
    };
    assert_eq!(says(PEER, listed.clone()), [told], "P4: it has to know");
    assert_eq!(says(PEER, listed), [], "it was told");
    let buried = Envelope::Buried { batch: 1, older: Vec::new(), commits: 1 };
    assert_eq!(says(PEER, buried.clone()), [], "P4: the other one has no tombstone yet");
    let response = Response::Deleted(vec![DeleteResult::Deleted]);
    assert_eq!(says(THIRD, buried), [Effect::Answer { reply, response }]);
}
