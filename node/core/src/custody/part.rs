//! Parts: how much of what two hosts compare is said in one piece.
//!
//! Ranges are few as long as producers number densely and messages go in order. Where they do not,
//! a partition may have any number of them. So whatever is told by ranges has *room* for so many,
//! and is cut where they are used up: at a number of one process, which goes for all that is told
//! of that process.
//!
//! Invariant: a cut leaves at least one number before it, or nothing would ever come to an end.
//! What this file does not do: it does not say who asks for the rest.

use gaggle_wire::ProcessId;

use super::burial::Numbers;
use crate::ranges::Ranges;

/// How many ranges there is still room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    left: usize,
}

impl Room {
    /// Room for so many ranges, or for the fewest that come on.
    pub(crate) fn new(ranges: usize) -> Self {
        Self { left: ranges.max(ROOM_MIN) }
    }

    /// Whether there is none left.
    pub(crate) fn is_used_up(self) -> bool {
        self.left == 0
    }

    /// Takes room for what must be said beside ranges, and is as long as one.
    pub(crate) fn take_one(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Takes room for what these sets have of one process behind a number; the number that there
    /// is room up to, if there is not for all.
    pub(crate) fn take(&mut self, sets: &[&Ranges], after: Option<u64>) -> Option<u64> {
        let from = after.map_or(Some(0), |after| after.checked_add(1))?;
        let room = self.left.max(1);
        let each = sets.iter().flat_map(|set| set.firsts(from).take(room + 1));
        let mut firsts: Vec<u64> = each.collect();
        firsts.sort_unstable();
        let Some(beyond) = firsts.get(room) else {
            self.left = self.left.saturating_sub(firsts.len());
            return None;
        };
        self.left = 0;
        Some(firsts[0].max(beyond.saturating_sub(1)))
    }

    /// Keeps of these messages what there is room for; the last one that was kept, if that is not
    /// all.
    pub(crate) fn cut(&mut self, numbers: &mut Numbers) -> Option<(ProcessId, u64)> {
        let mut kept = None;
        for at in 0..numbers.len() {
            let (process, of) = &mut numbers[at];
            let Some(last) = of.last() else { continue };
            if self.is_used_up() && kept.is_some() {
                numbers.truncate(at);
                return kept;
            }
            let (process, cut) = (*process, self.take(&[of], None));
            if let Some(cut) = cut {
                *of = of.intersection(&Ranges::of(0, cut));
                numbers.truncate(at + 1);
                return Some((process, cut));
            }
            kept = Some((process, last));
        }
        None
    }
}

/// Messages in pieces of so many ranges.
pub(crate) fn pieces(numbers: Numbers, ranges: usize) -> Vec<Numbers> {
    let (mut pieces, mut rest) = (Vec::new(), numbers);
    loop {
        let mut piece = rest.clone();
        let cut = Room::new(ranges).cut(&mut piece);
        pieces.push(piece);
        let Some((last, number)) = cut else { return pieces };
        rest.retain(|(process, _)| *process >= last);
        if let Some((_, of)) = rest.iter_mut().find(|(process, _)| *process == last) {
            of.subtract(&Ranges::of(0, number));
        }
    }
}

/// A partition, a process of it, and one range.
const ROOM_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn every_other(count: u64) -> Ranges {
        (1..=count).map(|number| number * 2).collect()
    }

    #[test]
    fn what_there_is_room_for_is_cut_for_all_sets_at_one_number() {
        let (even, odd) = (every_other(5), [1, 7].into_iter().collect::<Ranges>());
        assert_eq!(Room::new(7).take(&[&even, &odd], None), None, "there are seven in all");
        assert_eq!(Room::new(6).take(&[&even, &odd], None), Some(9));
        assert_eq!(Room::new(3).take(&[&even, &odd], None), Some(5), "1, 2 and 4");
        assert_eq!(Room::new(3).take(&[&even, &odd], Some(5)), Some(9), "6, 7 and 8");
        assert_eq!(Room::new(3).take(&[&even, &odd], Some(9)), None);
        assert_eq!(Room::new(3).take(&[&even, &odd], Some(u64::MAX)), None);
    }

    #[test]
    fn a_cut_always_comes_on() {
        let all = Ranges::of(5, 100);
        let mut room = Room::new(1);
        assert_eq!(room.take(&[&all; 4], None), Some(5), "all four begin there");
        assert!(room.is_used_up());
        assert_eq!(room.take(&[&all, &all], Some(5)), Some(6), "and so without any room");
    }

    #[test]
    fn messages_are_cut_behind_the_last_that_there_is_room_for() {
        let all = [(ProcessId(1), every_other(3)), (ProcessId(2), every_other(3))];
        for (room, last, kept) in
            [(3, Some((ProcessId(1), 6)), 3), (4, Some((ProcessId(2), 3)), 4), (6, None, 6)]
        {
            let mut numbers = all.to_vec();
            assert_eq!(Room::new(room).cut(&mut numbers), last);
            assert_eq!(numbers.iter().map(|(_, of)| of.count()).sum::<usize>(), kept);
        }
        let told: Numbers = pieces(all.to_vec(), 4).concat();
        let mut numbers = Numbers::new();
        crate::custody::burial::merge_numbers(&mut numbers, &told);
        assert_eq!(numbers, all);
        assert_eq!(pieces(all.to_vec(), 4).len(), 2);
    }
}
