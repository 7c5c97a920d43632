//! The golden bytes of every client frame: what is on the wire changes only with its version.
//!
//! A line of `golden.txt` is a name and the hex of a header. Whoever changes one on purpose raises
//! [`crate::VERSION`] and takes the new lines from the failing test.

use std::fmt::Write as _;

use serde::Serialize;

use crate::*;

const STAMP: Stamp = Stamp { time: 300, count: 1, process: ProcessId(7) };

fn name() -> QueueName {
    QueueName::parse("orders").unwrap()
}

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

fn receipt() -> Receipt {
    Receipt {
        queue: QueueId(STAMP),
        partition: 3,
        number: 1,
        stamp: STAMP,
        holders: vec![NodeId(1), NodeId(200)],
        custodian: NodeId(1),
        boot: 4,
        delivery: 2,
    }
}

fn requests() -> Vec<Request> {
    let change = SettingsChange { confirms: Some(1), ..SettingsChange::default() };
    let receipts = vec![receipt()];
    vec![
        Request::Hello { version: VERSION, process: ProcessId(7) },
        Request::CreateQueue { name: name(), change },
        Request::SetQueue { name: name(), change, mode: ChangeMode::DryRun },
        Request::ListQueues { prefix: "o".to_owned(), after: Some(name()) },
        Request::DescribeQueue { name: name() },
        Request::DeleteQueue { name: name() },
        Request::PurgeQueue { name: name() },
        Request::Send {
            queue: QueueId(STAMP),
            partition: 3,
            attempt: Attempt::Again,
            within_ms: 1000,
            labels: vec![label()],
        },
        Request::Receive { queue: name(), max: 10, wait_ms: 20_000, visibility_ms: Some(5) },
        Request::Consume { queue: name(), visibility_ms: None, credit: 64 },
        Request::Credit { consumer: 9, limit: 128, taken: 60 },
        Request::StopConsume { consumer: 9, taken: 61 },
        Request::Peek { queue: name(), max: 10 },
        Request::Delete { receipts: receipts.clone() },
        Request::Extend { receipts: receipts.clone(), visibility_ms: 30_000 },
        Request::Release { receipts, delay_ms: 100 },
        Request::Status { prefix: "o".to_owned(), after: Some(name()) },
        Request::RemoveNode { node: NodeId(3), loss: Loss::Accepted },
        Request::KeepNode { node: NodeId(3) },
    ]
}

fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::BadRequest { why: "why".to_owned() },
        Refusal::UnsupportedVersion { version: 1 },
        Refusal::QueueNotFound { queue: "orders".to_owned() },
        Refusal::QueueExists { differs: vec!["delay".to_owned()] },
        Refusal::BadSetting { setting: "delay".to_owned(), why: "why".to_owned() },
        Refusal::ReservedName,
        Refusal::NotEnoughHosts { wanted: 2, reachable: 1 },
        Refusal::ClockAhead { by_ms: 900 },
        Refusal::MessageTooLarge { limit: 1024, length: 1025 },
        Refusal::IdClash,
        Refusal::ContentDamaged,
        Refusal::StaleReceipt,
        Refusal::NotReady,
        Refusal::Draining,
        Refusal::LimitReached { what: "queues".to_owned(), limit: 100 },
        Refusal::OutcomeUnknown,
        Refusal::NodeNotFound { node: NodeId(3) },
        Refusal::NodeAway { node: NodeId(3) },
        Refusal::DiskFull,
    ]
}

fn responses() -> Vec<Response> {
    let address = "127.0.0.1:7400".parse().unwrap();
    let member = ClusterMember { node: NodeId(1), address, standing: Standing::Ready };
    let settings = Settings::default();
    let queue = QueueDescription { id: QueueId(STAMP), name: name(), settings };
    let counts = QueueCounts { messages: 1, in_flight: 2, oldest_age_ms: 3, age_ms: 4 };
    let report = NodeReport {
        age_ms: 1,
        boot: 2,
        ready: true,
        sessions: vec![NodeId(2)],
        clock_offset_ns: Some(-5),
        disk_bytes: 6,
        disk_free_bytes: 66,
        socket_buffer_bytes: 7,
        counters: vec![("expired".to_owned(), 8)],
    };
    let member_status = MemberStatus {
        node: NodeId(1),
        client_address: address,
        peer_address: address,
        zone: "z".to_owned(),
        standing: Standing::Slow,
        report: Some(report),
    };
    let mut skew = ArrivalSkew::default();
    skew.count(0, 2_000_000);
    let queue_status = QueueStatus {
        name: name(),
        id: QueueId(STAMP),
        nodes: vec![(NodeId(1), counts)],
        total: counts,
        skew,
    };
    let exceptions = vec![(0, SendException::Gone), (1, SendException::Refused(Refusal::IdClash))];
    let delivery = DeliveryLabel {
        receipt: receipt(),
        label: label(),
        accepted: STAMP,
        lease_ms: 30_000,
        position: None,
    };
    vec![
        Response::Welcome(Welcome { version: VERSION, node: NodeId(1), members: vec![member] }),
        Response::Refused(Refusal::NotReady),
        Response::Queue(Box::new(queue.clone())),
        Response::QueueSet { before: settings, after: Settings::standalone() },
        Response::Queues { queues: vec![queue], more: true },
        Response::Done,
        Response::Sent(SentBatch { accepted: STAMP, copies: 2, exceptions }),
        Response::Deliveries { deliveries: vec![delivery] },
        Response::Deleted(vec![
            DeleteResult::Deleted,
            DeleteResult::DeletedByOlderReceipt,
            DeleteResult::Refused(Refusal::OutcomeUnknown),
        ]),
        Response::Extended(vec![Ok(30_000), Err(Refusal::StaleReceipt)]),
        Response::Released(vec![Ok(()), Err(Refusal::StaleReceipt)]),
        Response::Status(Box::new(Status {
            node: NodeId(1),
            members: vec![member_status],
            queues: vec![queue_status],
            more: true,
        })),
        Response::Leaving { left: Some(300) },
    ]
}

fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn line(kind: &str, value: &(impl Serialize + std::fmt::Debug)) -> String {
    let mut line = format!("{kind} {} ", variant(value));
    for byte in postcard::to_stdvec(value).unwrap() {
        write!(line, "{byte:02x}").unwrap();
    }
    line
}

#[test]
fn what_is_on_the_wire_has_not_changed() {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(requests().iter().map(|request| line("request", request)));
    lines.extend(responses().iter().map(|response| line("response", response)));
    lines.extend(refusals().iter().map(|refusal| line("refusal", refusal)));
    let golden: Vec<&str> = include_str!("golden.txt").lines().collect();
    assert_eq!(lines, golden, "the wire changed; all lines:\n{}", lines.join("\n"));
}

#[test]
fn every_header_is_decoded_as_it_was_encoded() {
    for body in requests() {
        let header = RequestFrame { request: 1, body };
        let bytes = postcard::to_stdvec(&header).unwrap();
        assert_eq!(postcard::from_bytes::<RequestFrame>(&bytes).unwrap(), header);
    }
    for body in responses() {
        let header = ResponseFrame { request: 1, clock: 300, body };
        let bytes = postcard::to_stdvec(&header).unwrap();
        assert_eq!(postcard::from_bytes::<ResponseFrame>(&bytes).unwrap(), header);
    }
}

#[test]
fn codes_are_distinct_and_for_ever() {
    let codes: Vec<u16> = refusals().iter().map(Refusal::code).collect();
    let golden = [
        100, 101, 200, 201, 102, 103, 300, 304, 104, 202, 105, 203, 301, 302, 303, 400, 204, 305,
        306,
    ];
    assert_eq!(codes, golden);
}
