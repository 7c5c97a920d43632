//! What a pinned host has written down of a partition, and how it lies on disk.
//!
//! There is one row of each kind, and one for each round that was not trimmed, under its number:
//! so the rows of a partition come in the order in which they are applied. What this file does not
//! do: it does not say when anything is written; see [`Act`](super::Act).

use super::{AcceptorRecord, Round, Row, Sum, Told};
use crate::ledger::key::{Agreed, rounds_up_to};
use crate::ledger::record::RecordError;
use crate::ledger::{Key, Write, record};
use crate::session::PartitionId;

/// What a host has written down of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Of its acceptor.
    pub acceptor: Option<AcceptorRecord>,
    /// Of the rounds that were trimmed.
    pub sum: Option<Sum>,
    /// In order.
    pub rounds: Vec<Round>,
    /// Since the last change of hosts.
    pub told: Option<Told>,
}

impl Rows {
    /// Reads one row.
    pub(crate) fn read(&mut self, what: Agreed, value: &[u8]) -> Result<(), RecordError> {
        match what {
            Agreed::Acceptor => self.acceptor = Some(record::decode(value)?),
            Agreed::Sum => self.sum = Some(record::decode(value)?),
            Agreed::Told => self.told = Some(record::decode(value)?),
            Agreed::Round(_) => self.rounds.push(record::decode(value)?),
        }
        Ok(())
    }
}

impl Row {
    /// The changes on disk that are this one of a partition.
    pub(crate) fn writes(&self, (queue, partition): PartitionId) -> Vec<Write> {
        let (what, value) = match self {
            Self::Acceptor(acceptor) => (Agreed::Acceptor, record::encode(acceptor)),
            Self::Told(told) => (Agreed::Told, record::encode(told)),
            Self::Round(round) => (Agreed::Round(round.n), record::encode(round)),
            Self::Sum(sum) => (Agreed::Sum, record::encode(sum)),
        };
        let put = Write::Put { key: Key::Agreed(queue, partition, what).encode(), value };
        match self {
            Self::Sum(sum) => {
                let (from, to) = rounds_up_to(queue, partition, sum.n);
                vec![put, Write::DeleteRange { from, to }]
            }
            Self::Acceptor(_) | Self::Told(_) | Self::Round(_) => vec![put],
        }
    }
}
