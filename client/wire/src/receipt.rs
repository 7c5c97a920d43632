//! The receipt: proof of one delivery, needed to delete, extend or release its message.
//!
//! A receipt says by itself where the message is, so that any node can act on it: queue and
//! partition, id and stamp, the holders at the time of delivery, and who handed it out as which
//! delivery. It is no secret and no capability: rights are checked by who asks. As text (for the
//! command line) it is base64url with a version in front and a checksum behind, so that a
//! mistyped receipt is refused and not misread.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{MessageId, NodeId, Stamp};

/// The stamp of a queue's creation: its id for ever, so that a queue which is deleted and made
/// again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QueueId(pub Stamp);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Proof of one delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The queue.
    pub queue: QueueId,
    /// The partition of the queue.
    pub partition: u16,
    /// The number of the message's id.
    pub number: u64,
    /// The stamp of the message.
    pub stamp: Stamp,
    /// The nodes that should hold it, as far as known at delivery; at most
    /// [`Receipt::HOLDERS_MAX`].
    pub holders: Vec<NodeId>,
    /// The node that handed it out.
    pub custodian: NodeId,
    /// The run of that node.
    pub boot: u64,
    /// Which delivery this is, from 1.
    pub delivery: u32,
}

/// Why a text is not a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReceiptError {
    /// Not base64url, or too short.
    #[error("this is not a receipt")]
    Malformed,
    /// A later version of Gaggle made it.
    #[error("the receipt has version {0}, which is not known here")]
    UnknownVersion(u8),
    /// The checksum does not match: a character was lost or changed.
    #[error("the receipt was changed on its way: copy all of it")]
    Damaged,
}

impl Receipt {
    /// The most holders that a message can have: replicas and stand-ins.
    pub const HOLDERS_MAX: usize = 16;

    /// The id of the message.
    #[must_use]
    pub fn id(&self) -> MessageId {
        MessageId { process: self.stamp.process, number: self.number }
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![VERSION];
        bytes.extend(postcard::to_stdvec(self).expect("a receipt is always encodable"));
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Receipt {
    type Err = ReceiptError;

    fn from_str(text: &str) -> Result<Self, ReceiptError> {
        if text.len() > TEXT_LENGTH_MAX {
            return Err(ReceiptError::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| ReceiptError::Malformed)?;
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(ReceiptError::Malformed)?;
        let (version, fields) = body.split_first().ok_or(ReceiptError::Malformed)?;
        if crc32c::crc32c(body) != u32::from_be_bytes(*crc) {
            return Err(ReceiptError::Damaged);
        }
        if *version != VERSION {
            return Err(ReceiptError::UnknownVersion(*version));
        }
        let (receipt, rest) =
            postcard::take_from_bytes::<Self>(fields).map_err(|_| ReceiptError::Malformed)?;
        if !rest.is_empty() || receipt.holders.len() > Self::HOLDERS_MAX {
            return Err(ReceiptError::Malformed);
        }
        Ok(receipt)
    }
}

const VERSION: u8 = 1;

/// Longer than any receipt with all its holders, short enough to decode without a thought.
const TEXT_LENGTH_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessId;

    fn receipt() -> Receipt {
        let stamp = Stamp { time: 1, count: 2, process: ProcessId(3) };
        Receipt {
            queue: QueueId(stamp),
            partition: 4,
            number: 5,
            stamp,
            holders: vec![NodeId(1), NodeId(2), NodeId(3)],
            custodian: NodeId(2),
            boot: 9,
            delivery: 1,
        }
    }

    #[test]
    fn a_receipt_survives_being_written_down() {
        assert_eq!(receipt().to_string().parse(), Ok(receipt()));
    }

    #[test]
    fn a_changed_receipt_is_refused() {
        let text = receipt().to_string();
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(changed.parse::<Receipt>().is_err(), "{changed}");
        }
        assert!(text[..text.len() - 3].parse::<Receipt>().is_err());
        assert!("".parse::<Receipt>().is_err());
    }
}
