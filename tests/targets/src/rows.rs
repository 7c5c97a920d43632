//! What lies on a disk: keys, records, and all rows of a node at its opening.

use gaggle_core::ledger::{Key, MessageKey, MessageRecord, Row, record, row_part};
use gaggle_core::table::Entry;
use gaggle_core::{Node, OpenError};
use gaggle_wire::{Label, NodeId, ProcessId, QueueId, QueueName, Settings, Stamp};

use crate::state;

const STAMP: Stamp = Stamp { time: 300, count: 1, process: ProcessId(7) };
const KEY: MessageKey = MessageKey { queue: QueueId(STAMP), partition: 3, stamp: STAMP };

/// Bytes are a key in one spelling, and no others.
pub(crate) fn key(data: &[u8]) {
    let parsed = Key::parse(data);
    if let Some(key) = &parsed {
        assert_eq!(key.encode(), data, "a key has one spelling");
    }
    let is_message = matches!(parsed, Some(Key::Message(_)));
    assert_eq!(MessageKey::is_message(data), is_message);
    assert_eq!(MessageKey::parse(data).is_some(), is_message);
}

/// The value of a message, as it is and with the right checksum.
pub(crate) fn record(data: &[u8]) {
    message_record(data);
    let mut bytes = data.to_vec();
    let length = MessageRecord::header_length(&bytes);
    if bytes.len() >= length {
        bytes[12..16].fill(0);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&KEY.encode()), &bytes[..length]);
        bytes[12..16].copy_from_slice(&crc.to_be_bytes());
        message_record(&bytes);
    }
    let _ = record::decode::<Entry>(data);
    if let Ok(entry) = record::decode::<Entry>(&checked(data)) {
        let again = record::decode::<Entry>(&record::encode(&entry));
        assert_eq!(again, Ok(entry), "an entry changed on disk");
    }
}

fn message_record(bytes: &[u8]) {
    let part = row_part(&KEY.encode(), bytes);
    let decoded = MessageRecord::decode(&KEY, bytes);
    assert_eq!(MessageRecord::decode(&KEY, part), decoded, "the content plays no part");
    if let Ok(record) = decoded {
        assert_eq!(record.encode(&KEY), part, "a record has one spelling");
    }
}

/// Rows of any bytes, each with a good checksum: the node opens or says which row is bad, and what
/// it opened on it can be opened on again.
pub(crate) fn opening(data: &[u8]) {
    let mut rows: Vec<Row> = data
        .split(|byte| *byte == SEPARATOR)
        .filter_map(|row| {
            let (length, rest) = row.split_first()?;
            let (key, value) = rest.split_at_checked(usize::from(*length))?;
            Some(Row { key: key.to_vec(), value: checked(value) })
        })
        .collect();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows.dedup_by(|a, b| a.key == b.key);
    let bad: Vec<&Row> = rows.iter().filter(|row| Key::parse(&row.key).is_none()).collect();
    let opened = Node::open(state::config(1), state::at(0, 0), &mut rows.iter().cloned());
    match opened {
        Ok(node) => {
            node.check();
            assert!(bad.is_empty(), "a row that is none was passed over");
            state::House::on(1, rows).start();
        }
        Err(OpenError::BadRow(key) | OpenError::OtherVersion(key, _)) => {
            assert!(rows.iter().any(|row| row.key == key));
        }
        Err(OpenError::Removed(node)) => assert_eq!(node, NodeId(1), "another node was removed"),
        Err(OpenError::BadZone(zone)) => panic!("{zone} stands in no row"),
    }
}

/// A small record with this text.
fn checked(fields: &[u8]) -> Vec<u8> {
    let body = [&[1], fields].concat();
    [&body[..], &crc32c::crc32c(&body).to_be_bytes()].concat()
}

/// Between two rows of an input: no row of the seeds has it.
const SEPARATOR: u8 = 0xee;

pub(crate) fn keys() -> Vec<Vec<u8>> {
    let queue = QueueId(STAMP);
    let keys = [
        Key::Meta("boot"),
        Key::Queue(queue),
        Key::Member(NodeId(9)),
        Key::Tombstones(queue, 3, 8),
        Key::Settled(queue, 3, ProcessId(1)),
        Key::Message(KEY),
        Key::Deliveries(KEY),
        Key::Due(queue, 3, 77, STAMP),
        Key::Disk(NodeId(9)),
        Key::Removal(NodeId(9), 7),
    ];
    keys.iter().map(Key::encode).collect()
}

pub(crate) fn records() -> Vec<Vec<u8>> {
    let label = Label {
        number: 3,
        stamp: STAMP,
        head_length: 2,
        body_length: 5,
        crc: 77,
        delay_ms: 9,
        key: 0,
    };
    let message = MessageRecord { label, accepted: STAMP, holders: vec![NodeId(1), NodeId(2)] };
    vec![message.encode(&KEY), postcard::to_stdvec(&entry()).expect("it is plain data")]
}

fn entry() -> Entry {
    let name = QueueName::parse("orders").expect("it is a good name");
    Entry::new(QueueId(STAMP), name, Settings::standalone())
}

/// The rows of a node that has a queue, a member and tombstones.
pub(crate) fn openings() -> Vec<Vec<u8>> {
    let row = |key: Key, fields: &[u8]| {
        let key = key.encode();
        let length = u8::try_from(key.len()).expect("keys are short");
        [&[length][..], &key, fields].concat()
    };
    let fields = postcard::to_stdvec(&entry()).expect("it is plain data");
    let numbers = [(ProcessId(7), vec![(1_u64, 5_u64)])];
    let block = postcard::to_stdvec(&(numbers, [NodeId(1)], 9_u64)).expect("it is plain data");
    let rows = [
        row(Key::Meta("boot"), &[3]),
        row(Key::Queue(QueueId(STAMP)), &fields),
        row(Key::Member(NodeId(9)), &[0, 127, 0, 0, 1, 0xe8, 0x39]),
        row(Key::Tombstones(QueueId(STAMP), 3, 8), &block),
    ];
    vec![rows.join(&SEPARATOR)]
}
