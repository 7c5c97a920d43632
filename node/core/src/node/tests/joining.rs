//! What a node is asked for between its first sessions and the moment when gossip knows of its
//! peers: they are members for it all the same.

use super::*;
use crate::envelope::DeliveryRef;
use crate::event::LinkId;
use crate::table::Entry;

const PEER: NodeId = NodeId(2);
const STRANGER: NodeId = NodeId(3);
const LINK: LinkId = LinkId(1);

/// A node that has met one other, who told it of a queue that wants two copies and is content with
/// one while only one host is there.
fn joined() -> (Bench, QueueId) {
    let mut bench = Bench::new();
    let hello = PeerHello { node: PEER, store: 9, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LINK, hello: Box::new(hello) });
    assert_eq!(bench.node.membership.view().member(PEER), None, "gossip has not told of it");
    let settings = Settings { replicas: 2, confirms: 2, at_least: 1, ..Settings::default() };
    let settings = Settings { partitions: 1, ..settings };
    let queue = QueueId(Stamp { time: at(0).wall.0, count: 0, process: ProcessId(5) });
    let entry = Entry::new(queue, QueueName::parse("orders").unwrap(), settings);
    bench.met_says(Envelope::Table { call: 0, entries: vec![entry], removals: Vec::new() });
    (bench, queue)
}

impl Bench {
    fn met_says(&mut self, envelope: Envelope) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LINK, envelope })
    }

    fn receipt(&self, queue: QueueId, holders: Vec<NodeId>) -> Receipt {
        let (number, stamp) = (1, self.label(1).stamp);
        let (partition, custodian, boot, delivery) = (0, PEER, 1, 1);
        Receipt { queue, partition, number, stamp, holders, custodian, boot, delivery }
    }

    fn reply(&self) -> Reply {
        Reply { client: ClientId(1), stream: 0, request: self.request }
    }
}

/// A message lay at a node and another one, and its consumer deleted it at one that had just
/// joined. That one was in session with both, and took them for nobody: it kept the tombstone for
/// itself, as enough for such a queue, and said that it was done. Its lease over, the message came
/// again.
#[test]
fn a_delete_goes_to_who_is_in_session_before_gossip_knows_of_it() {
    let (mut bench, queue) = joined();
    let receipt = bench.receipt(queue, vec![PEER]);
    let (answer, effects) = bench.ask(Request::Delete { receipts: vec![receipt.clone()] });
    let Receipt { stamp, custodian, boot, delivery, .. } = receipt;
    let told = Envelope::Tombstones {
        batch: 1,
        queue,
        partition: 0,
        holders: vec![PEER],
        messages: vec![(PRODUCER, Ranges::of(1, 1))],
        stamps: vec![stamp],
        leases: vec![DeliveryRef { custodian, boot, delivery }],
        known: Vec::new(),
    };
    assert_eq!(effects, [Effect::SendNow { link: LINK, envelope: told }], "P4");
    assert_eq!(answer, None);
    let response = Response::Deleted(vec![DeleteResult::Deleted]);
    let buried = Envelope::Buried { batch: 1, older: Vec::new(), commits: 1 };
    let effects = bench.met_says(buried);
    let reply = bench.reply();
    assert!(effects.contains(&Effect::Answer { reply, response }), "{effects:?}");
}

#[test]
fn a_delete_that_names_only_nodes_not_heard_of_yet_is_for_another_node_to_do() {
    let (mut bench, queue) = joined();
    let receipts = vec![bench.receipt(queue, vec![STRANGER])];
    let (_, effects) = bench.ask(Request::Delete { receipts });
    let refused = vec![DeleteResult::Refused(Refusal::NotReady)];
    let (reply, response) = (bench.reply(), Response::Deleted(refused));
    assert_eq!(effects, [Effect::Answer { reply, response }], "P4: nobody would hear of it");
}

#[test]
fn a_send_is_confirmed_by_who_is_in_session_before_gossip_knows_of_it() {
    let (mut bench, queue) = joined();
    let effects = bench.send(queue, 1..=1);
    let copied = |effect: &Effect| {
        matches!(effect, Effect::SendNow { envelope: Envelope::Copy { holders, .. }, .. }
            if holders.len() == 2 && holders.contains(&PEER))
    };
    assert!(effects.iter().any(copied), "{effects:?}");
    let answers = |effects: &[Effect]| {
        effects.iter().filter(|effect| matches!(effect, Effect::Answer { .. })).count()
    };
    assert_eq!(answers(&effects), 0, "P1: two hosts are there");
    let effects = bench.met_says(Envelope::Held { batch: 1, exceptions: Vec::new(), commits: 1 });
    assert_eq!(answers(&effects), 1, "{effects:?}");
}
