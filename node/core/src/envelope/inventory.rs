//! What a node says it holds, in parts.
//!
//! An inventory is told in order: by queue, partition, process and number. A part says how far it
//! comes, and whoever was told it asks for what lies behind that *place*. So neither side keeps
//! anything for the other between two parts, and no part is longer than its teller has room for.
//!
//! Invariant: a part says all that its teller knows between the place that was asked from and the
//! one it comes to. What this file does not do: it does not say how much room a part has.

use std::cmp::Ordering;
use std::ops::Bound;

use gaggle_wire::{ProcessId, QueueId};
use serde::{Deserialize, Serialize};

use crate::ranges::Ranges;
use crate::session::PartitionId;

/// What a node holds of a partition, and knows to be gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionInventory {
    /// The queue.
    pub queue: QueueId,
    /// The partition.
    pub partition: u16,
    /// By process: held, gone.
    pub processes: Vec<(ProcessId, Ranges, Ranges)>,
}

impl PartitionInventory {
    /// Of a partition of which nothing is held and nothing known.
    pub(crate) fn nothing((queue, partition): PartitionId) -> Self {
        Self { queue, partition, processes: Vec::new() }
    }
}

/// Whether copies that a node has lost count among what it says it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lost {
    /// It had them, and will have them: it does not deny that they were confirmed.
    Counts,
    /// It lacks them.
    Lacks,
}

/// A message's place in the order in which inventories are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The queue.
    pub queue: QueueId,
    /// Its partition.
    pub partition: u16,
    /// Who sent it.
    pub process: ProcessId,
    /// Its number; that of a message is never 0.
    pub number: u64,
}

impl Place {
    pub(crate) fn of((queue, partition): PartitionId, process: ProcessId, number: u64) -> Self {
        Self { queue, partition, process, number }
    }

    /// Before everything in a partition.
    pub(crate) fn before(id: PartitionId) -> Self {
        Self::of(id, ProcessId(0), 0)
    }

    /// Before everything.
    pub(crate) fn first() -> Self {
        Self::before((QueueId(gaggle_wire::Stamp::ZERO), 0))
    }

    /// The partition in which it lies.
    pub(crate) fn id(&self) -> PartitionId {
        (self.queue, self.partition)
    }
}

/// What lies behind one place and up to another, or to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// It begins behind this place.
    pub after: Place,
    /// It ends with this place; `None`: it has no end.
    pub until: Option<Place>,
}

impl Span {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self { after: Place::first(), until: None }
    }

    /// The partitions in it.
    pub(crate) fn partitions(&self) -> (Bound<PartitionId>, Bound<PartitionId>) {
        let (first, last) = (self.after.id(), self.until.map(|place| place.id()));
        // A tree panics at bounds that cross.
        let last = last.map_or(Bound::Unbounded, |last| Bound::Included(last.max(first)));
        (Bound::Included(first), last)
    }

    /// Which of these messages of a process lie in it.
    pub(crate) fn of(&self, id: PartitionId, process: ProcessId, numbers: &Ranges) -> Ranges {
        let against = |place: &Place| (id, process).cmp(&(place.id(), place.process));
        let first = match against(&self.after) {
            Ordering::Less => None,
            Ordering::Equal => self.after.number.checked_add(1),
            Ordering::Greater => Some(0),
        };
        let last = match self.until.map(|until| (against(&until), until.number)) {
            None | Some((Ordering::Less, _)) => Some(u64::MAX),
            Some((Ordering::Equal, number)) => Some(number),
            Some((Ordering::Greater, _)) => None,
        };
        match (first, last) {
            (Some(first), Some(last)) => numbers.intersection(&Ranges::of(first, last)),
            _ => Ranges::default(),
        }
    }

    /// Which of these messages lie in it.
    pub(crate) fn cut(
        &self,
        id: PartitionId,
        numbers: &[(ProcessId, Ranges)],
    ) -> Vec<(ProcessId, Ranges)> {
        let each = numbers.iter().map(|(process, of)| (*process, self.of(id, *process, of)));
        each.filter(|(_, of)| !of.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use gaggle_wire::Stamp;

    use super::*;

    const ID: PartitionId = (QueueId(Stamp::ZERO), 1);
    const P: ProcessId = ProcessId(7);

    fn at(process: u64, number: u64) -> Place {
        Place::of(ID, ProcessId(process), number)
    }

    #[test]
    fn a_span_begins_behind_one_place_and_ends_with_the_other() {
        let all = Ranges::of(1, 9);
        for (after, until, of) in [
            (Place::first(), None, Ranges::of(1, 9)),
            (at(7, 3), None, Ranges::of(4, 9)),
            (at(7, 3), Some(at(7, 5)), Ranges::of(4, 5)),
            (at(6, 9), Some(at(7, 5)), Ranges::of(1, 5)),
            (at(6, 9), Some(at(8, 1)), Ranges::of(1, 9)),
            (at(8, 0), None, Ranges::default()),
            (Place::first(), Some(at(6, 9)), Ranges::default()),
            (at(7, u64::MAX), None, Ranges::default()),
            (at(7, 5), Some(at(7, 3)), Ranges::default()),
        ] {
            let span = Span { after, until };
            assert_eq!(span.of(ID, P, &all), of, "{span:?}");
        }
    }
}
