//! The golden bytes of every envelope, and of the hello between nodes.
//!
//! A line of `golden.txt` is a name and the hex of a header. Whoever changes one on purpose raises
//! [`PEER_VERSION`] and takes the new lines from the failing test.

use std::fmt::Write as _;

use gaggle_wire::{ArrivalSkew, QueueCounts, Settings};

use super::*;
use crate::rounds::Word;
use crate::table::Stage;

const STAMP: Stamp = Stamp { time: 300, count: 1, process: ProcessId(7) };
const QUEUE: QueueId = QueueId(STAMP);

fn label() -> Label {
    Label {
        number: 1,
        stamp: STAMP,
        head_length: 2,
        body_length: 300,
        crc: 77,
        delay_ms: 5,
        key: 0,
    }
}

fn entry() -> Entry {
    Entry::new(QUEUE, QueueName::parse("orders").unwrap(), Settings::default())
}

fn nodes() -> Vec<NodeId> {
    vec![NodeId(1), NodeId(200)]
}

fn numbers() -> Vec<(ProcessId, Ranges)> {
    vec![(ProcessId(7), Ranges::of(1, 300))]
}

fn removal() -> Removal {
    Removal { node: NodeId(3), store: 7, stage: Stage::Leaves, changed: STAMP }
}

fn place() -> Place {
    Place { queue: QUEUE, partition: 3, process: ProcessId(7), number: 300 }
}

fn receipt() -> Receipt {
    Receipt {
        queue: QUEUE,
        partition: 3,
        number: 1,
        stamp: STAMP,
        holders: nodes(),
        custodian: NodeId(1),
        boot: 4,
        delivery: 2,
    }
}

fn deliveries() -> Vec<DeliveryLabel> {
    vec![DeliveryLabel {
        receipt: receipt(),
        label: label(),
        accepted: STAMP,
        lease_ms: 30_000,
        position: None,
    }]
}

fn about_queues() -> Vec<Envelope> {
    let name = QueueName::parse("orders").unwrap();
    vec![
        Envelope::Table { call: 1, entries: vec![entry()], removals: vec![removal()] },
        Envelope::TableHeld { call: 1 },
        Envelope::AskQueue { call: 1, name },
        Envelope::KnownQueue { call: 1, entries: vec![] },
        Envelope::Mark,
        Envelope::AskMark,
        Envelope::Yield,
        Envelope::Leaving,
    ]
}

fn about_copies() -> Vec<Envelope> {
    let (batch, queue, partition, accepted) = (1, QUEUE, 3, STAMP);
    let item = |lease| CopyItem { label: label(), accepted, holders: nodes(), lease };
    let exceptions = vec![
        (0, CopyException::Gone),
        (1, CopyException::Clash),
        (2, CopyException::Purged(STAMP)),
    ];
    let messages = vec![(QUEUE, 3, ProcessId(7), Ranges::of(1, 300))];
    let processes = vec![(ProcessId(7), Ranges::of(1, 300), Ranges::of(5, 5))];
    let lease = DeliveryRef { custodian: NodeId(1), boot: 4, delivery: 2 };
    let (holders, labels) = (nodes(), vec![label()]);
    vec![
        Envelope::Copy {
            batch,
            queue,
            partition,
            accepted,
            holders: holders.clone(),
            attempt: Attempt::Again,
            labels: labels.clone(),
        },
        Envelope::MakeUp {
            batch,
            queue,
            partition,
            items: vec![item(None), item(Some(lease_told()))],
        },
        Envelope::Held { batch, exceptions, commits: 300 },
        Envelope::Relist { batch, version: 1, queue, partition, labels, accepted, holders },
        Envelope::Relisted { batch, version: 1, commits: 300 },
        Envelope::Settled { messages, lacking: vec![] },
        Envelope::Listed { queue, partition, holders: nodes(), messages: numbers() },
        Envelope::Ask { call: 1, lost: Lost::Lacks, queue, partition, messages: numbers() },
        Envelope::Inventory {
            call: 0,
            partitions: vec![PartitionInventory { queue, partition, processes }],
            span: Span { after: place(), until: Some(place()) },
        },
        Envelope::Tombstones {
            batch,
            queue,
            partition,
            holders: nodes(),
            messages: numbers(),
            stamps: vec![STAMP],
            leases: vec![lease],
            known: nodes(),
        },
        Envelope::Buried { batch, older: vec![3], commits: 300 },
        Envelope::BuriedAt { batches: vec![(1, nodes())], commits: 300 },
    ]
}

fn lease_told() -> LeaseTold {
    let (custodian, boot, delivery) = (NodeId(1), 4, 2);
    LeaseTold { number: 1, stamp: STAMP, remaining_ms: 500, custodian, boot, delivery }
}

fn about_deliveries() -> Vec<Envelope> {
    let (call, queue) = (1, QUEUE);
    let lease = lease_told();
    let report = NodeReport {
        age_ms: 1,
        boot: 2,
        ready: true,
        sessions: nodes(),
        clock_offset_ns: None,
        disk_bytes: 6,
        disk_free_bytes: 66,
        socket_buffer_bytes: 7,
        counters: vec![],
    };
    let mut skew = ArrivalSkew::default();
    skew.count(0, 2_000_000);
    let counts = QueueCounts { messages: 1, in_flight: 2, oldest_age_ms: 3, age_ms: 4 };
    vec![
        Envelope::Leases { queue, partition: 3, leases: vec![lease] },
        Envelope::Want { queue, wanted: Wanted::No },
        Envelope::Offer { queue, oldest: 300 },
        Envelope::Take { call, queue, max: 10, visibility_ms: Some(5) },
        Envelope::Grant { call, queue, deliveries: deliveries(), more: Some(300) },
        Envelope::GrantBack { receipts: vec![receipt()], heard: Heard::Perhaps },
        Envelope::Change { call, change: LeaseChange::Extend(5), receipts: vec![receipt()] },
        Envelope::Changed { call, results: vec![Ok(5), Err(Refusal::StaleReceipt)] },
        Envelope::AskPeek { call, queue, max: 10 },
        Envelope::Peeked { call, deliveries: deliveries() },
        Envelope::AskStatus { call, queues: vec![QUEUE] },
        Envelope::StatusTold {
            call,
            report: Box::new(report),
            queues: vec![QueueTold { queue: QUEUE, held: counts, own: counts, skew }],
        },
        Envelope::Clock { wall: 300, correction: -5, commits: 300 },
        Envelope::Fetch { call, queue, partition: 3, messages: numbers() },
        Envelope::Compare { call, queue, partition: 3, digest: Digest { count: 300, sum: 7 } },
        Envelope::Fit { fit: true },
        Envelope::HandOver,
        Envelope::PutBack,
        Envelope::Declined { batch: 9 },
        Envelope::AskDependence { call: 1, node: NodeId(3) },
        Envelope::Dependence { call: 1, messages: 300 },
        Envelope::AskDeleted { call: 1, queues: vec![QUEUE] },
        Envelope::Alive { call: 1, queues: vec![QUEUE] },
        Envelope::More { after: place() },
        Envelope::Away { members: vec![(NodeId(3), "127.0.0.1:7400".parse().unwrap())] },
        Envelope::Lacks { queue: QUEUE, partition: 1, messages: numbers() },
        Envelope::Rounds { queue: QUEUE, partition: 1, word: Box::new(Word::Known { n: 7 }) },
    ]
}

fn line(value: &(impl Serialize + std::fmt::Debug)) -> String {
    let text = format!("{value:?}");
    let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let mut line = format!("{name} ");
    for byte in postcard::to_stdvec(value).unwrap() {
        write!(line, "{byte:02x}").unwrap();
    }
    line
}

#[test]
fn what_nodes_say_to_each_other_has_not_changed() {
    let address = "127.0.0.1:7400".parse().unwrap();
    let hello = PeerHello {
        version: PEER_VERSION,
        node: NodeId(1),
        boot: 2,
        store: 3,
        process: ProcessId(4),
        commits: 300,
        peer_address: address,
        client_address: address,
        zone: "z".to_owned(),
        space: crate::space::Space::Plenty,
    };
    let mut lines = vec![line(&hello)];
    let all = [about_queues(), about_copies(), about_deliveries()].concat();
    lines.extend(all.iter().map(line));
    let golden: Vec<&str> = include_str!("golden.txt").lines().collect();
    assert_eq!(lines, golden, "the wire changed; all lines:\n{}", lines.join("\n"));
    for envelope in all {
        let bytes = postcard::to_stdvec(&envelope).unwrap();
        assert_eq!(postcard::from_bytes::<Envelope>(&bytes).unwrap(), envelope);
    }
}

/// What a later version may add: another envelope, or another case of what is in one.
#[test]
fn an_envelope_that_is_not_known_is_refused_as_a_whole() {
    let all = [about_queues(), about_copies(), about_deliveries()].concat();
    let known = u8::try_from(all.len()).unwrap();
    assert_eq!(postcard::to_stdvec(all.last().unwrap()).unwrap()[0], known - 1, "all are there");
    for envelope in &all {
        let mut bytes = postcard::to_stdvec(envelope).unwrap();
        for later in [known, known + 1, 127] {
            bytes[0] = later;
            assert!(postcard::from_bytes::<Envelope>(&bytes).is_err(), "{later}");
        }
    }
    for later in [2, 3, 127] {
        let wanted = postcard::to_stdvec(&(21_u8, QUEUE, later)).unwrap();
        assert!(postcard::from_bytes::<Envelope>(&wanted).is_err(), "wanted {later}");
    }
}
