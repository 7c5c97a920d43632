//! What a peer or a client may say that none of ours would: nothing of it panics a node, keeps it
//! busy, or makes it write what it cannot read. Most of it was found by the fuzzer's walks.

use super::*;
use crate::envelope::Span;
use crate::event::LinkId;

const PEER: NodeId = NodeId(2);
const LINK: LinkId = LinkId(1);

/// A node with a queue and a session.
fn in_session() -> (Bench, QueueId) {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    let hello = PeerHello { node: PEER, store: 9, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LINK, hello: Box::new(hello) });
    (bench, queue)
}

impl Bench {
    fn hear(&mut self, envelope: Envelope) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LINK, envelope })
    }
}

/// A message under a list of 300 hosts panicked the node that was to store it, and one of 17 was
/// stored and could not be read any more.
#[test]
fn a_message_is_stored_and_read_again_however_many_hosts_its_list_names() {
    for hosts in [17, 300] {
        let (mut bench, queue) = in_session();
        let holders = (1..=hosts).map(NodeId).collect();
        let (label, partition) = (bench.label(1), 0);
        let labels = vec![label];
        bench.hear(copy_of((queue, partition), holders, labels));
        let key = MessageKey { queue, partition, stamp: label.stamp };
        let record = MessageRecord::decode(&key, &bench.rows[&key.encode()]).unwrap();
        assert_eq!(record.holders.len(), usize::try_from(hosts).unwrap().min(255));
    }
}

/// One word too many that copies are held made the count of those under way run below zero, and the
/// node gave that peer nothing any more.
#[test]
fn who_says_that_it_has_copies_before_they_were_read_is_given_copies_all_the_same() {
    let (mut bench, queue) = in_session();
    let label = bench.label(1);
    let (partition, holders) = (0, vec![ME, PEER]);
    let labels = vec![label];
    bench.hear(copy_of((queue, partition), holders, labels));
    let envelope = Envelope::Inventory { call: 0, partitions: Vec::new(), span: Span::all() };
    let (now, mut effects) = (bench.now(), Effects::new());
    bench.node.handle(now, Event::Envelope { link: LINK, envelope }, &mut effects);
    let load = effects.drain().find_map(|effect| match effect {
        Effect::Load { load, .. } => Some(load),
        _ => None,
    });
    let load = load.expect("what it lacks is read");
    bench.hear(Envelope::Held { batch: 0, exceptions: Vec::new(), commits: 9 });
    let (rows, damaged) = (Vec::new(), Vec::new());
    bench.handle(Event::Loaded { load, rows, end: ScanEnd::Reached, damaged });
    let messages = vec![(PRODUCER, Ranges::of(1, 1))];
    let effects = bench.hear(Envelope::Fetch { call: 7, queue, partition, messages });
    let given = |effect: &Effect| {
        matches!(effect, Effect::Send { envelope: Envelope::MakeUp { items, .. }, .. }
            if items.len() == 1)
    };
    assert!(effects.iter().any(given), "P10: {effects:?}");
}

/// A consumer that streams and asked to hide messages for no time got the same one without end.
#[test]
fn a_lease_of_no_time_does_not_keep_a_node_busy() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    let name = QueueName::parse("orders").unwrap();
    bench.ask(Request::Consume { queue: name, visibility_ms: Some(0), credit: u64::MAX });
    let effects = bench.pass(1000);
    let given = effects.iter().filter(|effect| {
        matches!(effect, Effect::Answer { response: Response::Deliveries { .. }, .. })
    });
    assert!((5..=10).contains(&given.count()), "{effects:?}");
}

/// Rows that no node wrote, with good checksums: their numbers had no successor, and the node
/// panicked when it was opened.
#[test]
fn numbers_at_their_end_on_a_disk_are_refused_and_named() {
    let queue = QueueId(Stamp::ZERO);
    let record = BlockRecord { messages: Vec::new(), holders: Vec::new(), expires_ms: 0 };
    for (key, value) in [
        (Key::Meta(meta::BOOT), record::encode(&u64::MAX)),
        (Key::Tombstones(queue, 0, u64::MAX), record::encode(&record)),
    ] {
        let address = "127.0.0.1:7400".parse().unwrap();
        let mut rows = std::iter::once(Row { key: key.encode(), value });
        let opened = Node::open(Config::new(ME, address, address), at(0), &mut rows);
        assert_eq!(opened.err(), Some(OpenError::BadRow(key.encode())));
    }
}
