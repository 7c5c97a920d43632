//! Why a connection is closed: one code for each reason, told to the other end and counted.
//!
//! Codes are part of both protocols and never change their meaning. What this file does not do:
//! it judges nobody; the door and the corridor do.

use std::sync::atomic::{AtomicU64, Ordering};

use quinn::{Connection, VarInt};

/// Why a connection is closed by this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Close {
    /// The node is being stopped, or the connection has served its purpose.
    Stopping,
    /// The certificate does not allow this protocol.
    NotAllowed,
    /// No hello came in time.
    NoHello,
    /// The first frame was not a hello.
    BadHello,
    /// The other end speaks another version.
    BadVersion,
    /// Bytes on a stream were not a frame, or not one that may stand there.
    BadFrame,
    /// The other end does not read what it asked for.
    NotReading,
    /// The other end began a large frame and does not finish it.
    NotSending,
    /// There are as many connections as there may be.
    TooMany,
    /// The store failed: outcomes are unknown.
    StoreFailed,
    /// A newer connection to the same node took its place.
    Replaced,
    /// The connection is not wanted (any more), or the other end should not have dialled.
    NotWanted,
    /// Too many connections came from one address in too short a time.
    TooOften,
}

impl Close {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Stopping,
        Self::NotAllowed,
        Self::NoHello,
        Self::BadHello,
        Self::BadVersion,
        Self::BadFrame,
        Self::NotReading,
        Self::NotSending,
        Self::TooMany,
        Self::StoreFailed,
        Self::Replaced,
        Self::NotWanted,
        Self::TooOften,
    ];

    /// The number that the other end sees.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32 + 1
    }

    /// The counter's name in the status.
    #[must_use]
    pub const fn counter(self) -> &'static str {
        match self {
            Self::Stopping => "closed_stopping",
            Self::NotAllowed => "closed_not_allowed",
            Self::NoHello => "closed_no_hello",
            Self::BadHello => "closed_bad_hello",
            Self::BadVersion => "closed_bad_version",
            Self::BadFrame => "closed_bad_frame",
            Self::NotReading => "closed_not_reading",
            Self::NotSending => "closed_not_sending",
            Self::TooMany => "closed_too_many",
            Self::StoreFailed => "closed_store_failed",
            Self::Replaced => "closed_replaced",
            Self::NotWanted => "closed_not_wanted",
            Self::TooOften => "closed_too_often",
        }
    }

    /// In words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Stopping => "the node is being stopped",
            Self::NotAllowed => "the certificate does not allow this protocol",
            Self::NoHello => "no hello in time",
            Self::BadHello => "the first frame is not a hello",
            Self::BadVersion => "another version of the protocol",
            Self::BadFrame => "bad frame",
            Self::NotReading => "answers are not read",
            Self::NotSending => "a large frame was not whole in time",
            Self::TooMany => "too many connections",
            Self::StoreFailed => "the store failed, outcomes are unknown",
            Self::Replaced => "replaced by a newer connection",
            Self::NotWanted => "not wanted",
            Self::TooOften => "too many connections from one address",
        }
    }
}

/// How often connections were closed, by reason, and frames refused that ended with their stream.
#[derive(Debug, Default)]
pub struct Closes {
    by_reason: [AtomicU64; Close::ALL.len()],
    /// Their connections stay, so there is no reason to close one.
    frames_cut: AtomicU64,
}

impl Closes {
    /// Closes a connection that is not closed yet, and counts it.
    pub(crate) fn close(&self, connection: &Connection, why: Close) {
        self.close_saying(connection, why, why.reason());
    }

    /// The same, with more exact words.
    pub(crate) fn close_saying(&self, connection: &Connection, why: Close, words: &str) {
        if connection.close_reason().is_some() {
            return;
        }
        self.count(why);
        tracing::debug!(peer = %connection.remote_address(), why = words, "closing");
        connection.close(VarInt::from_u32(why.code()), words.as_bytes());
    }

    /// Counts one that never became a connection.
    pub(crate) fn count(&self, why: Close) {
        self.by_reason[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a frame of a client whose stream ended inside it: it is as if never sent.
    pub(crate) fn count_cut(&self) {
        self.frames_cut.fetch_add(1, Ordering::Relaxed);
    }

    /// How many frames of clients ended with their stream.
    #[must_use]
    pub fn frames_cut(&self) -> u64 {
        self.frames_cut.load(Ordering::Relaxed)
    }

    /// Those that happened, by name, for the status.
    pub(crate) fn counted(&self) -> Vec<(&'static str, u64)> {
        let closes = Close::ALL.into_iter().map(|why| (why.counter(), self.of(why)));
        let all = closes.chain([(FRAMES_CUT, self.frames_cut())]);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// How often this was the reason.
    #[must_use]
    pub fn of(&self, why: Close) -> u64 {
        self.by_reason[why as usize].load(Ordering::Relaxed)
    }
}

/// The counter's name in the status.
const FRAMES_CUT: &str = "frames_cut";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_number_and_words() {
        for (at, why) in Close::ALL.into_iter().enumerate() {
            assert_eq!(why.code() as usize, at + 1);
            assert!(Close::ALL.iter().filter(|other| other.reason() == why.reason()).count() == 1);
            assert!(
                Close::ALL.iter().filter(|other| other.counter() == why.counter()).count() == 1
            );
        }
    }

    #[test]
    fn what_happened_is_told_by_name_and_nothing_else() {
        let closes = Closes::default();
        assert_eq!(closes.counted(), []);
        closes.count(Close::NotSending);
        closes.count_cut();
        closes.count_cut();
        assert_eq!(closes.counted(), [("closed_not_sending", 1), ("frames_cut", 2)]);
    }
}
