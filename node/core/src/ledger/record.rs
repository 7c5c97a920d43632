//! The values of all rows, each with a version byte in front.
//!
//! A message:
//!
//! ```text
//!  0       1        2             4             8      12      16       24       32
//!  +-------+--------+-------------+-------------+------+-------+--------+--------+
//!  | ver 2 | holders| head length | body length | crc  | crc   | number | delay  |
//!  |       | n      |             |             | cont.| header|        | ms     |
//!  +-------+--------+-------------+-------------+------+-------+--------+--------+
//!  32                     52           60                    60 + 8n
//!  +----------------------+------------+-------- 8 n --------+------------ ... ----+
//!  | accept stamp, 20     | hash of    | holders, 8 each     | content, put by the |
//!  |                      | the key    |                     | runtime             |
//!  +----------------------+------------+---------------------+---------------------+
//!   "crc header" covers the key and the header with these four bytes zero
//! ```
//!
//! The version is one for all rows: whoever changes what a row says raises it. A node writes rows
//! of its own before any message as it starts, so an earlier Gaggle refuses the store of a later
//! one as a whole, at its first row.
//!
//! Invariant: a record that does not check is an error, never a default. What this file does not
//! do: it does not decide what a bad record means.

use gaggle_wire::{Label, NodeId, Stamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::MessageKey;

/// Why a value is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// A later version of Gaggle wrote it.
    #[error("the record has version {0}, which is not known here")]
    UnknownVersion(u8),
    /// It does not check, or has the wrong length.
    #[error("the record is damaged")]
    Damaged,
}

/// The header of a stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// What is known of the content.
    pub label: Label,
    /// When its coordinator accepted it.
    pub accepted: Stamp,
    /// Who should hold it.
    pub holders: Vec<NodeId>,
}

impl MessageRecord {
    /// The most holders that a row can name: their number is one byte.
    pub const HOLDERS_MAX: usize = u8::MAX as usize;

    /// Encodes the header for this key.
    ///
    /// # Panics
    /// With more than [`Self::HOLDERS_MAX`] holders.
    #[must_use]
    pub fn encode(&self, key: &MessageKey) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + 8 * self.holders.len());
        bytes.push(VERSION);
        bytes.push(u8::try_from(self.holders.len()).expect("holders are limited"));
        bytes.extend(self.label.head_length.to_be_bytes());
        bytes.extend(self.label.body_length.to_be_bytes());
        bytes.extend(self.label.crc.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.label.number.to_be_bytes());
        bytes.extend(self.label.delay_ms.to_be_bytes());
        bytes.extend(self.accepted.to_bytes());
        bytes.extend(self.label.key.to_be_bytes());
        for holder in &self.holders {
            bytes.extend(holder.0.to_be_bytes());
        }
        let crc = header_crc(key, &bytes);
        bytes[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Decodes the header at the front of a stored message.
    ///
    /// # Errors
    /// See [`RecordError`]; a damaged one is to be fetched from another holder.
    pub fn decode(key: &MessageKey, value: &[u8]) -> Result<Self, RecordError> {
        let version = *value.first().ok_or(RecordError::Damaged)?;
        if version != VERSION {
            return Err(RecordError::UnknownVersion(version));
        }
        let mut header =
            value.get(..Self::header_length(value)).ok_or(RecordError::Damaged)?.to_vec();
        let crc = u32_at(&header, CRC);
        header[CRC..CRC + 4].fill(0);
        if header_crc(key, &header) != crc {
            return Err(RecordError::Damaged);
        }
        let label = Label {
            number: u64_at(&header, 16),
            stamp: key.stamp,
            head_length: u16::from_be_bytes([header[2], header[3]]),
            body_length: u32_at(&header, 4),
            crc: u32_at(&header, 8),
            delay_ms: u64_at(&header, 24),
            key: u64_at(&header, KEY_AT),
        };
        let accepted = header[32..KEY_AT].try_into().expect("the header has its fixed part");
        let holders = header[FIXED..].chunks_exact(8).map(|bytes| NodeId(u64_at(bytes, 0)));
        Ok(Self { label, accepted: Stamp::from_bytes(accepted), holders: holders.collect() })
    }

    /// Bytes of the header at the front of a stored message; what follows is the content.
    #[must_use]
    pub fn header_length(value: &[u8]) -> usize {
        FIXED + 8 * value.get(1).map_or(0, |holders| usize::from(*holders))
    }
}

/// Encodes a small value: a version byte, postcard and a crc32c over both.
#[must_use]
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(postcard::to_stdvec(value).expect("records are plain data"));
    bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
    bytes
}

/// Decodes a small value.
///
/// # Errors
/// See [`RecordError`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(RecordError::Damaged)?;
    if crc32c::crc32c(body) != u32::from_be_bytes(*crc) {
        return Err(RecordError::Damaged);
    }
    let (version, fields) = body.split_first().ok_or(RecordError::Damaged)?;
    if *version != VERSION {
        return Err(RecordError::UnknownVersion(*version));
    }
    match postcard::take_from_bytes(fields) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(RecordError::Damaged),
    }
}

fn header_crc(key: &MessageKey, header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&key.encode()), header)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*bytes[at..].first_chunk().expect("the header has its fixed part"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(*bytes[at..].first_chunk().expect("the header has its fixed part"))
}

/// Of all rows.
pub(crate) const VERSION: u8 = 2;
const CRC: usize = 12;
const KEY_AT: usize = 52;
const FIXED: usize = 60;

#[cfg(test)]
mod tests {
    use gaggle_wire::{ProcessId, QueueId};

    use super::*;

    const STAMP: Stamp = Stamp { time: 5, count: 1, process: ProcessId(7) };
    const KEY: MessageKey = MessageKey { queue: QueueId(STAMP), partition: 3, stamp: STAMP };

    fn record() -> MessageRecord {
        MessageRecord {
            label: Label {
                number: 3,
                stamp: STAMP,
                head_length: 2,
                body_length: 5,
                crc: 77,
                delay_ms: 9,
                key: 0,
            },
            accepted: Stamp { time: 6, ..STAMP },
            holders: vec![NodeId(1), NodeId(2)],
        }
    }

    #[test]
    fn a_message_is_read_back_and_its_content_left_alone() {
        let mut value = record().encode(&KEY);
        let header = value.len();
        value.extend(b"contents");
        assert_eq!(MessageRecord::header_length(&value), header);
        assert_eq!(MessageRecord::decode(&KEY, &value), Ok(record()));
        assert_eq!(MessageRecord::decode(&KEY, &value[..header]), Ok(record()));
    }

    #[test]
    fn a_flipped_bit_or_another_key_is_found() {
        let value = record().encode(&KEY);
        for bit in 0..value.len() * 8 {
            let mut bad = value.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(MessageRecord::decode(&KEY, &bad).is_err(), "bit {bit}");
        }
        let other = MessageKey { partition: 4, ..KEY };
        assert_eq!(MessageRecord::decode(&other, &value), Err(RecordError::Damaged));
        assert_eq!(MessageRecord::decode(&KEY, &value[..20]), Err(RecordError::Damaged));
        assert_eq!(MessageRecord::decode(&KEY, &[]), Err(RecordError::Damaged));
    }

    #[test]
    fn a_row_of_another_version_is_named_as_one_and_no_value_is_made_of_it() {
        let mut bytes = encode(&7_u64);
        bytes[0] = VERSION + 1;
        let body = bytes.len() - 4;
        let crc = crc32c::crc32c(&bytes[..body]).to_be_bytes();
        bytes[body..].copy_from_slice(&crc);
        assert_eq!(decode::<u64>(&bytes), Err(RecordError::UnknownVersion(VERSION + 1)));
        let mut message = record().encode(&KEY);
        message[0] = VERSION + 1;
        let read = MessageRecord::decode(&KEY, &message);
        assert_eq!(read, Err(RecordError::UnknownVersion(VERSION + 1)));
    }

    #[test]
    fn small_values_are_checked() {
        let bytes = encode(&(1_u64, "x"));
        assert_eq!(decode(&bytes), Ok((1_u64, "x".to_owned())));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<(u64, String)>(&bad).is_err(), "bit {bit}");
        }
    }
}
