//! The keys of all rows. The order of their bytes is the order of scans.
//!
//! ```text
//!  0   meta       | name                                                 |
//!  1   queue      | queue id 20 |
//!  2   member     | node 8 |
//!  3   tombstone  | queue id 20 | partition 2 | block 8 |
//!  4   settled    | queue id 20 | partition 2 | process 8 |
//!  5   message    | queue id 20 | partition 2 | stamp 20 |
//!  5   deliveries | queue id 20 | partition 2 | stamp 20 | 1 |
//!  6   due        | queue id 20 | partition 2 | due 8 | stamp 20 |
//!  7   disk       | node 8 |
//!  8   removal    | node 8 | disk 16 |
//!  9   agreed     | queue id 20 | partition 2 | what 1 | round 8, of a round |
//!  ^ one byte of kind; all numbers big-endian
//! ```
//!
//! Messages of a partition lie in the order in which they are handed out, and the count of a
//! message's deliveries lies right behind it, so that one scan brings both. What this file does
//! not do: it does not know the values.

use gaggle_wire::{NodeId, ProcessId, QueueId, Stamp};

/// The key of any row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A single value of the node, by name.
    Meta(&'static str),
    /// The table entry of a queue.
    Queue(QueueId),
    /// A member that was met.
    Member(NodeId),
    /// A block of tombstones.
    Tombstones(QueueId, u16, u64),
    /// Which messages of a process are known to be at enough hosts.
    Settled(QueueId, u16, ProcessId),
    /// A message.
    Message(MessageKey),
    /// How often a message was delivered, from the second time on.
    Deliveries(MessageKey),
    /// A delayed message, by the time it is due in milliseconds since 1970.
    Due(QueueId, u16, u64, Stamp),
    /// With which disk a node was met last.
    Disk(NodeId),
    /// How far the removal of a node with this disk is.
    Removal(NodeId, u128),
    /// What a pinned host of a strict partition has promised, learned and been told.
    Agreed(QueueId, u16, Agreed),
}

/// Which row of what was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreed {
    /// Of the acceptor.
    Acceptor,
    /// Of the rounds that were trimmed.
    Sum,
    /// What this host was told since the hosts changed last.
    Told,
    /// A chosen round.
    Round(u64),
}

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    /// Its queue.
    pub queue: QueueId,
    /// Its partition.
    pub partition: u16,
    /// Its stamp.
    pub stamp: Stamp,
}

/// Names of the single values.
pub mod meta {
    /// How often the store was opened.
    pub const BOOT: &str = "boot";
    /// The time up to which stamps may have been made.
    pub const CEILING: &str = "ceiling";
    /// Which disk this is.
    pub const STORE: &str = "store";
    /// Under which name others know it, once it was put back to an earlier state.
    pub const RENAMED: &str = "renamed";
    /// How many commits were made.
    pub const COMMITS: &str = "commits";
}

const META: u8 = 0;
const QUEUE: u8 = 1;
const MEMBER: u8 = 2;
const TOMBSTONES: u8 = 3;
const SETTLED: u8 = 4;
const MESSAGE: u8 = 5;
const DUE: u8 = 6;
const DISK: u8 = 7;
const REMOVAL: u8 = 8;
const AGREED: u8 = 9;

/// Kinds whose rows belong to one queue and go with it.
const QUEUE_KINDS: [u8; 5] = [TOMBSTONES, SETTLED, MESSAGE, DUE, AGREED];

const PARTITION_LENGTH: usize = 1 + Stamp::LENGTH + 2;
const MESSAGE_LENGTH: usize = PARTITION_LENGTH + Stamp::LENGTH;

impl Key {
    /// The bytes of the key.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Meta(name) => [&[META], name.as_bytes()].concat(),
            Self::Queue(queue) => [&[QUEUE][..], &queue.0.to_bytes()].concat(),
            Self::Member(node) => [&[MEMBER][..], &node.0.to_be_bytes()].concat(),
            Self::Tombstones(queue, partition, block) => {
                in_partition(TOMBSTONES, *queue, *partition, &block.to_be_bytes())
            }
            Self::Settled(queue, partition, process) => {
                in_partition(SETTLED, *queue, *partition, &process.0.to_be_bytes())
            }
            Self::Message(key) => key.encode(),
            Self::Deliveries(key) => {
                let mut bytes = key.encode();
                bytes.push(1);
                bytes
            }
            Self::Due(queue, partition, due, stamp) => {
                let tail = [&due.to_be_bytes()[..], &stamp.to_bytes()].concat();
                in_partition(DUE, *queue, *partition, &tail)
            }
            Self::Disk(node) => [&[DISK][..], &node.0.to_be_bytes()].concat(),
            Self::Removal(node, store) => {
                [&[REMOVAL][..], &node.0.to_be_bytes(), &store.to_be_bytes()].concat()
            }
            Self::Agreed(queue, partition, what) => {
                in_partition(AGREED, *queue, *partition, &what.encode())
            }
        }
    }

    /// Whether these bytes are the key of a disk.
    #[must_use]
    pub fn is_disk(bytes: &[u8]) -> bool {
        bytes.first() == Some(&DISK)
    }

    /// Parses the bytes of a key; `None` for bytes that no key has.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            META => [meta::BOOT, meta::CEILING, meta::STORE, meta::RENAMED, meta::COMMITS]
                .into_iter()
                .find(|name| name.as_bytes() == rest)
                .map(Self::Meta),
            QUEUE => Some(Self::Queue(QueueId(Stamp::from_bytes(rest.try_into().ok()?)))),
            MEMBER => Some(Self::Member(NodeId(u64::from_be_bytes(rest.try_into().ok()?)))),
            DISK => Some(Self::Disk(NodeId(u64::from_be_bytes(rest.try_into().ok()?)))),
            REMOVAL => {
                let (node, store) = rest.split_first_chunk::<8>()?;
                let store = u128::from_be_bytes(store.try_into().ok()?);
                Some(Self::Removal(NodeId(u64::from_be_bytes(*node)), store))
            }
            TOMBSTONES => {
                let (queue, partition, rest) = partition_of(rest)?;
                let block = u64::from_be_bytes(rest.try_into().ok()?);
                Some(Self::Tombstones(queue, partition, block))
            }
            SETTLED => {
                let (queue, partition, rest) = partition_of(rest)?;
                let process = ProcessId(u64::from_be_bytes(rest.try_into().ok()?));
                Some(Self::Settled(queue, partition, process))
            }
            MESSAGE if bytes.len() == MESSAGE_LENGTH + 1 && bytes[MESSAGE_LENGTH] == 1 => {
                MessageKey::parse(&bytes[..MESSAGE_LENGTH]).map(Self::Deliveries)
            }
            MESSAGE => MessageKey::parse(bytes).map(Self::Message),
            DUE => {
                let (queue, partition, rest) = partition_of(rest)?;
                let (due, stamp) = rest.split_first_chunk::<8>()?;
                let stamp = Stamp::from_bytes(stamp.try_into().ok()?);
                Some(Self::Due(queue, partition, u64::from_be_bytes(*due), stamp))
            }
            AGREED => {
                let (queue, partition, rest) = partition_of(rest)?;
                Some(Self::Agreed(queue, partition, Agreed::parse(rest)?))
            }
            _ => None,
        }
    }
}

impl Agreed {
    fn encode(self) -> Vec<u8> {
        match self {
            Self::Acceptor => vec![0],
            Self::Sum => vec![1],
            Self::Told => vec![2],
            Self::Round(n) => [&[3][..], &n.to_be_bytes()].concat(),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(Self::Acceptor),
            [1] => Some(Self::Sum),
            [2] => Some(Self::Told),
            [3, n @ ..] => Some(Self::Round(u64::from_be_bytes(n.try_into().ok()?))),
            _ => None,
        }
    }
}

impl MessageKey {
    /// The bytes of the key.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        in_partition(MESSAGE, self.queue, self.partition, &self.stamp.to_bytes())
    }

    /// Parses the bytes of a key; `None` for what is not the key of a message.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if !Self::is_message(bytes) {
            return None;
        }
        let (queue, partition, rest) = partition_of(&bytes[1..])?;
        Some(Self { queue, partition, stamp: Stamp::from_bytes(rest.try_into().ok()?) })
    }

    /// Whether these bytes are the key of a message.
    #[must_use]
    pub fn is_message(bytes: &[u8]) -> bool {
        bytes.len() == MESSAGE_LENGTH && bytes[0] == MESSAGE
    }
}

/// The keys of all messages of a partition whose stamp is above `after`: first and end.
#[must_use]
pub fn messages_after(queue: QueueId, partition: u16, after: Stamp) -> (Vec<u8>, Vec<u8>) {
    let mut from = MessageKey { queue, partition, stamp: after }.encode();
    from.push(u8::MAX);
    (from, messages(queue, partition).1)
}

/// The keys of the messages from the first one to the last one, both among them: first and end.
#[must_use]
pub fn messages_between(first: MessageKey, last: MessageKey) -> (Vec<u8>, Vec<u8>) {
    let mut to = last.encode();
    to.push(0);
    (first.encode(), to)
}

/// The keys of all messages of a partition: first and end.
#[must_use]
pub fn messages(queue: QueueId, partition: u16) -> (Vec<u8>, Vec<u8>) {
    (
        in_partition(MESSAGE, queue, partition, &[]),
        in_partition(MESSAGE, queue, partition, &[u8::MAX; Stamp::LENGTH + 2]),
    )
}

/// The keys of all delayed messages of a partition that are due before this time in milliseconds:
/// first and end.
#[must_use]
pub fn due_before(queue: QueueId, partition: u16, due: u64) -> (Vec<u8>, Vec<u8>) {
    (
        in_partition(DUE, queue, partition, &[]),
        in_partition(DUE, queue, partition, &due.to_be_bytes()),
    )
}

/// The keys of the rounds of a partition up to this one, which is among them: first and end.
#[must_use]
pub fn rounds_up_to(queue: QueueId, partition: u16, n: u64) -> (Vec<u8>, Vec<u8>) {
    let round = |n| Key::Agreed(queue, partition, Agreed::Round(n)).encode();
    (round(0), round(n.saturating_add(1)))
}

/// The keys of all disks of nodes that were met: first and end.
#[must_use]
pub fn disks() -> (Vec<u8>, Vec<u8>) {
    (vec![DISK], vec![DISK + 1])
}

/// Ranges with every row of a queue but its table entry.
#[must_use]
pub fn rows_of_queue(queue: QueueId) -> Vec<(Vec<u8>, Vec<u8>)> {
    QUEUE_KINDS
        .iter()
        .map(|kind| {
            let from = [&[*kind][..], &queue.0.to_bytes()].concat();
            let to = [&from[..], &[u8::MAX; 2 + 8 + Stamp::LENGTH + 1]].concat();
            (from, to)
        })
        .collect()
}

fn in_partition(kind: u8, queue: QueueId, partition: u16, tail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PARTITION_LENGTH + tail.len() + 1);
    bytes.push(kind);
    bytes.extend(queue.0.to_bytes());
    bytes.extend(partition.to_be_bytes());
    bytes.extend(tail);
    bytes
}

fn partition_of(bytes: &[u8]) -> Option<(QueueId, u16, &[u8])> {
    let (queue, rest) = bytes.split_first_chunk::<{ Stamp::LENGTH }>()?;
    let (partition, rest) = rest.split_first_chunk::<2>()?;
    Some((QueueId(Stamp::from_bytes(queue)), u16::from_be_bytes(*partition), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { time: 5, count: 1, process: ProcessId(7) };
    const QUEUE_ID: QueueId = QueueId(STAMP);

    #[test]
    fn every_key_is_parsed_back() {
        let message = MessageKey { queue: QUEUE_ID, partition: 3, stamp: STAMP };
        let keys = [
            Key::Meta(meta::BOOT),
            Key::Meta(meta::COMMITS),
            Key::Meta(meta::RENAMED),
            Key::Queue(QUEUE_ID),
            Key::Member(NodeId(9)),
            Key::Tombstones(QUEUE_ID, 3, 8),
            Key::Settled(QUEUE_ID, 3, ProcessId(1)),
            Key::Message(message),
            Key::Deliveries(message),
            Key::Due(QUEUE_ID, 3, 77, STAMP),
            Key::Disk(NodeId(9)),
            Key::Removal(NodeId(9), 7),
            Key::Agreed(QUEUE_ID, 3, Agreed::Acceptor),
            Key::Agreed(QUEUE_ID, 3, Agreed::Sum),
            Key::Agreed(QUEUE_ID, 3, Agreed::Told),
            Key::Agreed(QUEUE_ID, 3, Agreed::Round(5)),
            Key::Agreed(QUEUE_ID, 3, Agreed::Round(256)),
        ];
        for key in &keys {
            assert_eq!(Key::parse(&key.encode()).as_ref(), Some(key));
        }
        assert!(keys.windows(2).all(|pair| pair[0].encode() < pair[1].encode()));
        assert_eq!(Key::parse(&[10]), None);
        assert_eq!(Key::parse(&[]), None);
    }

    #[test]
    fn the_range_after_a_message_leaves_it_and_its_count_out() {
        let key = MessageKey { queue: QUEUE_ID, partition: 3, stamp: STAMP };
        let (from, to) = messages_after(QUEUE_ID, 3, STAMP);
        assert!(Key::Deliveries(key).encode() < from);
        let next = MessageKey { stamp: Stamp { count: 2, ..STAMP }, ..key };
        assert!(from < next.encode() && next.encode() < to);
        let last = MessageKey { stamp: Stamp::MAX, ..key };
        assert!(Key::Deliveries(last).encode() < to);
        let other = MessageKey { partition: 4, stamp: Stamp::ZERO, ..key };
        assert!(to < other.encode());
    }
}
