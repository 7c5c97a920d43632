//! What is said of what is known: of all, or of what was asked; as much as there is room for.
//!
//! Invariants: what was not cut off is said whole; a part that was cut still comes on. What this
//! file does not do: it does not say who is told what.

use std::cmp::Ordering;

use super::Known;
use crate::custody::burial::Numbers;
use crate::custody::part::Room;
use crate::envelope::{Lost, PartitionInventory, Place, Span};
use crate::ranges::Ranges;
use crate::session::PartitionId;

impl Known {
    /// What is held and gone behind a place, as far as there is room for it and for what is told
    /// beside it of the same messages; where it was cut, if it was.
    pub(crate) fn inventory(
        &self,
        (id, after): (PartitionId, Place),
        beside: &[&Numbers],
        room: &mut Room,
    ) -> (PartitionInventory, Option<Place>) {
        let mut told = PartitionInventory::nothing(id);
        for (process, known) in &self.processes {
            let behind = match (id, *process).cmp(&(after.id(), after.process)) {
                Ordering::Less => continue,
                Ordering::Equal => Some(after.number),
                Ordering::Greater => None,
            };
            let beside = beside.iter().flat_map(|numbers| numbers.iter());
            let beside = beside.filter(|(of, _)| of == process).map(|(_, numbers)| numbers);
            let sets: Vec<&Ranges> = [&known.held, &known.gone].into_iter().chain(beside).collect();
            let from = behind.map_or(0, |number| number.saturating_add(1));
            if sets.iter().all(|set| set.firsts(from).next().is_none()) {
                continue;
            }
            if room.is_used_up() {
                return (told, Some(Place::of(id, *process, 0)));
            }
            room.take_one();
            let cut = room.take(&sets, behind).map(|number| Place::of(id, *process, number));
            let span = Span { after, until: cut };
            let (held, gone) = (&known.held, &known.gone);
            let told_of = (*process, span.of(id, *process, held), span.of(id, *process, gone));
            told.processes.push(told_of);
            if cut.is_some() {
                return (told, cut);
            }
        }
        (told, None)
    }

    /// What of these is held and gone, as far as there is room for it; where it was cut, if it was.
    pub(crate) fn asked(
        &self,
        (id, asked): (PartitionId, &Numbers),
        lost: Lost,
        room: &mut Room,
    ) -> (PartitionInventory, Option<Place>) {
        let mut told = PartitionInventory::nothing(id);
        for (process, numbers) in asked {
            let Some(known) = self.processes.get(process) else { continue };
            if room.is_used_up() {
                return (told, Some(Place::of(id, *process, 0)));
            }
            room.take_one();
            let (mut held, gone) =
                (known.held.intersection(numbers), known.gone.intersection(numbers));
            if lost == Lost::Counts {
                held.merge(&known.lost.intersection(numbers));
            }
            let cut =
                room.take(&[&held, &gone], None).map(|number| Place::of(id, *process, number));
            let span = Span { after: Place::before(id), until: cut };
            let (held, gone) = (span.of(id, *process, &held), span.of(id, *process, &gone));
            told.processes.push((*process, held, gone));
            if cut.is_some() {
                return (told, cut);
            }
        }
        (told, None)
    }
}
