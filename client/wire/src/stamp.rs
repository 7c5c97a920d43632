//! The stamp: hybrid time, count and process, and with them a total order over every message.
//!
//! A server-side counter orders what arrives, not what was produced; a raw timestamp repeats and
//! goes back. A hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014) keeps a
//! physical time that never runs behind what was seen, and a count for what happens within one
//! tick. The process id at the end makes stamps of different processes differ, whatever their
//! clocks say.
//!
//! ```text
//!  0               8       12              20
//!  +---------------+-------+---------------+
//!  | time, ns      | count | process       |   big-endian: byte order is stamp order
//!  +---------------+-------+---------------+
//! ```
//!
//! Invariant: `to_bytes` orders as `Ord` does. What this file does not do: it does not make
//! stamps and does not judge them; see the clock of the node and of the client.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// A point in the order of everything: unique, and increasing per process (P8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Nanoseconds since 1970, by a clock that never goes back.
    pub time: u64,
    /// Order among stamps of the same time.
    pub count: u32,
    /// Who made the stamp.
    pub process: ProcessId,
}

impl Stamp {
    /// Bytes of an encoded stamp.
    pub const LENGTH: usize = 20;
    /// The least stamp there is; nobody makes it.
    pub const ZERO: Self = Self { time: 0, count: 0, process: ProcessId(0) };
    /// The greatest stamp there is; nobody makes it.
    pub const MAX: Self = Self { time: u64::MAX, count: u32::MAX, process: ProcessId(u64::MAX) };
    /// The greatest count a healthy clock makes. A stamp above it is refused: one step more would
    /// overflow the count of whoever observed it (hybrid-clocks adds without a check).
    pub const COUNT_MAX: u32 = 1 << 31;

    /// The stamp in 20 bytes whose order is the order of stamps.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.time.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_be_bytes());
        bytes[12..].copy_from_slice(&self.process.0.to_be_bytes());
        bytes
    }

    /// The stamp in these bytes: every 20 bytes are one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let (time, rest) = bytes.split_at(8);
        let (count, process) = rest.split_at(4);
        Self {
            time: u64::from_be_bytes(time.try_into().expect("split at 8")),
            count: u32::from_be_bytes(count.try_into().expect("split at 4")),
            process: ProcessId(u64::from_be_bytes(process.try_into().expect("8 are left"))),
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}-{}", self.time, self.count, self.process)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamps() -> impl Strategy<Value = Stamp> {
        (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(time, count, process)| Stamp {
            time,
            count,
            process: ProcessId(process),
        })
    }

    proptest! {
        #[test]
        fn bytes_order_as_stamps_do(a in stamps(), b in stamps()) {
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
            prop_assert_eq!(Stamp::from_bytes(&a.to_bytes()), a);
        }
    }
}
