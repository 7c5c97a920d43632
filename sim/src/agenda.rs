//! The agenda: all that will happen, by time; ties go by who was first to be put in.
//!
//! What happens is large and lies still; what is sorted are numbers. Invariant: nothing is given
//! out twice. What this file does not do: it keeps no time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::world::Happening;

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Agenda {
    /// When, the how-manieth to be put in, and where it lies.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    places: Vec<Option<Happening>>,
    free: Vec<usize>,
    order: u64,
}

impl Agenda {
    /// Puts something in.
    pub(crate) fn put(&mut self, at: u64, what: Happening) {
        self.order += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(what);
                place
            }
            None => {
                self.places.push(Some(what));
                self.places.len() - 1
            }
        };
        self.heap.push(Reverse((at, self.order, place)));
    }

    /// When the next thing happens.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the next thing out, and when it happens.
    pub(crate) fn take(&mut self) -> Option<(u64, Happening)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        self.free.push(place);
        Some((at, self.places[place].take().expect("it is taken out once")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_by_time_and_then_in_the_order_in_which_they_were_put_in() {
        let mut agenda = Agenda::default();
        for (time, at) in [(5, 0), (3, 1), (5, 2), (1, 3)] {
            agenda.put(time, Happening::Start { at });
        }
        let mut seen = Vec::new();
        while let Some((time, what)) = agenda.take() {
            let Happening::Start { at } = what else { panic!("{what:?}") };
            seen.push((time, at));
            if at == 3 {
                assert_eq!(agenda.next(), Some(3));
                agenda.put(5, Happening::Start { at: 4 });
            }
        }
        assert_eq!(seen, [(1, 3), (3, 1), (5, 0), (5, 2), (5, 4)]);
    }
}
