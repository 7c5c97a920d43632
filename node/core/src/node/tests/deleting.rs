//! Deletes that other holders have to know of before they are confirmed.

use super::*;
use crate::event::LinkId;

const PEER: NodeId = NodeId(2);

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
