//! Saying no: one stable numeric code for each reason, with what was left behind.
//!
//! A refusal answers the two questions a caller has: was anything done, and does it help to try
//! again, where and when. Codes never change their meaning; a variant is only ever appended.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::NodeId;

/// What is known of an operation that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not done and will not be.
    NotDone,
    /// It may have been done, or may yet be. Repeating it with the same id is safe.
    Unknown,
}

/// Whether it helps to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request will be refused again.
    Never,
    /// At any node, after so long at the least.
    Later(Duration),
    /// At another node, at once.
    Elsewhere,
}

impl Retry {
    /// How long to wait at the least.
    #[must_use]
    pub fn after(self) -> Duration {
        match self {
            Self::Later(after) => after,
            Self::Never | Self::Elsewhere => Duration::ZERO,
        }
    }
}

/// Why a node says no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The frame was well-formed but the request in it makes no sense.
    #[error("the request cannot be taken: {why}")]
    BadRequest {
        /// What is wrong with it.
        why: String,
    },
    /// The client speaks a version that this node does not.
    #[error("this node speaks version {version} of the protocol")]
    UnsupportedVersion {
        /// The version that the node speaks.
        version: u16,
    },
    /// No node that could be asked knows this queue.
    #[error("there is no queue {queue}")]
    QueueNotFound {
        /// The name, or the id of an incarnation that was deleted.
        queue: String,
    },
    /// A queue of this name exists with other settings.
    #[error("the queue exists with other settings: {}", differs.join(", "))]
    QueueExists {
        /// The settings that differ.
        differs: Vec<String>,
    },
    /// A setting is out of its limits.
    #[error("{setting} {why}")]
    BadSetting {
        /// Which one.
        setting: String,
        /// Its limits.
        why: String,
    },
    /// The name ends in a suffix that the cluster keeps for its own queues.
    #[error("names that end in .late, .dead or .reply are reserved")]
    ReservedName,
    /// Fewer hosts are in session than must have the message on disk.
    #[error("{wanted} hosts must store it and {reachable} can be reached")]
    NotEnoughHosts {
        /// How many it takes.
        wanted: u8,
        /// How many there are.
        reachable: u8,
    },
    /// The stamp lies further ahead of the node's clock than the drift bound allows.
    #[error("the producer's clock is {by_ms} ms ahead")]
    ClockAhead {
        /// By how much, in milliseconds.
        by_ms: u64,
    },
    /// The body is longer than the queue takes.
    #[error("the body has {length} bytes and the queue takes {limit}")]
    MessageTooLarge {
        /// The limit of the queue, in bytes.
        limit: u32,
        /// Bytes of the body.
        length: u32,
    },
    /// The id is known with another stamp, length or checksum.
    #[error("another message has this id")]
    IdClash,
    /// The content does not match the checksum of its label.
    #[error("the content was damaged on its way")]
    ContentDamaged,
    /// The receipt is not that of the present delivery.
    #[error("the receipt is stale: the message may be processed again by another consumer")]
    StaleReceipt,
    /// The node cannot serve yet: it waits for its peers or replays its disk.
    #[error("the node is not ready")]
    NotReady,
    /// The node is being stopped.
    #[error("the node is being stopped")]
    Draining,
    /// A limit of the node or the connection is reached.
    #[error("the limit of {limit} {what} is reached")]
    LimitReached {
        /// What there would be too many of.
        what: String,
        /// How many there may be.
        limit: u64,
    },
    /// Not enough hosts answered in time, or the disk failed under way.
    #[error("whether it was done is unknown")]
    OutcomeUnknown,
    /// No node of this name is or was a member, as far as this node knows.
    #[error("there is no node {node}")]
    NodeNotFound {
        /// The name.
        node: NodeId,
    },
    /// A member cannot be reached, and nobody knows what only it holds.
    #[error("node {node} is away, and nobody else knows what it holds")]
    NodeAway {
        /// Which one.
        node: NodeId,
    },
    /// The disk of the node is full: what is left is for deletes.
    #[error("the disk of this node is full")]
    DiskFull,
}

impl Refusal {
    /// The stable number of this reason.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest { .. } => 100,
            Self::UnsupportedVersion { .. } => 101,
            Self::BadSetting { .. } => 102,
            Self::ReservedName => 103,
            Self::MessageTooLarge { .. } => 104,
            Self::ContentDamaged => 105,
            Self::QueueNotFound { .. } => 200,
            Self::QueueExists { .. } => 201,
            Self::IdClash => 202,
            Self::StaleReceipt => 203,
            Self::NotEnoughHosts { .. } => 300,
            Self::NotReady => 301,
            Self::Draining => 302,
            Self::LimitReached { .. } => 303,
            Self::ClockAhead { .. } => 304,
            Self::NodeNotFound { .. } => 204,
            Self::NodeAway { .. } => 305,
            Self::DiskFull => 306,
            Self::OutcomeUnknown => 400,
        }
    }

    /// What was left behind.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::OutcomeUnknown => Outcome::Unknown,
            _ => Outcome::NotDone,
        }
    }

    /// Whether it helps to try again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::NotReady | Self::Draining | Self::DiskFull => Retry::Elsewhere,
            Self::NotEnoughHosts { .. } | Self::LimitReached { .. } => Retry::Later(ROOM_AFTER),
            // Whoever answered so has waited for as long as it makes sense.
            Self::OutcomeUnknown => Retry::Later(Duration::ZERO),
            _ => Retry::Never,
        }
    }
}

/// What a host needs to come back into session, or a full node to work something off: less is not
/// worth a request.
const ROOM_AFTER: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unknown_outcome_is_unknown() {
        assert_eq!(Refusal::OutcomeUnknown.outcome(), Outcome::Unknown);
        assert_eq!(Refusal::NotReady.outcome(), Outcome::NotDone);
        assert_eq!(Refusal::NotReady.retry(), Retry::Elsewhere);
        assert_eq!(Refusal::StaleReceipt.retry(), Retry::Never);
        let few = Refusal::NotEnoughHosts { wanted: 2, reachable: 1 };
        assert_eq!(few.retry(), Retry::Later(Duration::from_millis(50)));
        assert_eq!(Refusal::OutcomeUnknown.retry(), Retry::Later(Duration::ZERO));
    }
}
