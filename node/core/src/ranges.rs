//! Sets of message numbers as ranges.
//!
//! Producers number densely, so what a host holds or has deleted of one process is a few ranges
//! however many messages there are. That is what keeps memory, tombstones and the comparison of
//! two hosts small.
//!
//! Invariant: ranges are not empty, do not touch and are sorted. What this file does not do: it
//! does not limit how many ranges there are; who lets others grow a set checks [`Ranges::count`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Ranges {
    /// First to last, both in the set.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    /// The set of these numbers, first to last.
    #[must_use]
    pub fn of(first: u64, last: u64) -> Self {
        let mut set = Self::default();
        set.insert_range(first, last);
        set
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges it takes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// How many numbers are in the set, or one less than there are in all.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.iter()
            .fold(0, |size, (first, last)| (last - first).saturating_add(1).saturating_add(size))
    }

    /// First to last of each range, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    /// Every number, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().flat_map(|(first, last)| first..=last)
    }

    /// The highest number.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, last)| *last)
    }

    /// The first number of each range, as far as it lies from this number on; ascending.
    pub fn firsts(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        self.overlapping(from, u64::MAX).map(move |(first, _)| first.max(from))
    }

    /// Whether the number is in the set.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Whether no number is in both sets.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let (few, many) = if self.count() <= other.count() { (self, other) } else { (other, self) };
        // Of those that begin before the end of one, the last one reaches farthest.
        few.iter().all(|(first, last)| {
            many.ranges.range(..=last).next_back().is_none_or(|(_, to)| *to < first)
        })
    }

    /// Whether every number of this set is in the other as well.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        // Ranges do not touch, so one of the other's has all of one of ours or not all are there.
        self.iter().all(|(first, last)| {
            other.ranges.range(..=first).next_back().is_some_and(|(_, to)| last <= *to)
        })
    }

    /// Adds a number; whether it was new.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        self.insert_range(number, number);
        true
    }

    /// Adds all numbers from first to last.
    pub fn insert_range(&mut self, mut first: u64, mut last: u64) {
        if first > last {
            return;
        }
        if let Some((before, end)) = self.ranges.range(..=first).next_back() {
            if *end >= last {
                return;
            }
            if end.saturating_add(1) >= first {
                first = *before;
            }
        }
        while let Some((next, end)) = self.ranges.range(first..).next() {
            if *next > last.saturating_add(1) {
                break;
            }
            let (next, end) = (*next, *end);
            last = last.max(end);
            self.ranges.remove(&next);
        }
        self.ranges.insert(first, last);
    }

    /// Removes a number; whether it was there.
    pub fn remove(&mut self, number: u64) -> bool {
        let Some((first, last)) = self.ranges.range(..=number).next_back() else { return false };
        let (first, last) = (*first, *last);
        if last < number {
            return false;
        }
        if first == number {
            self.ranges.remove(&first);
        } else {
            self.ranges.insert(first, number - 1);
        }
        if last > number {
            self.ranges.insert(number + 1, last);
        }
        true
    }

    /// Adds all numbers of another set.
    pub fn merge(&mut self, other: &Self) {
        for (first, last) in other.iter() {
            self.insert_range(first, last);
        }
    }

    /// Removes all numbers of another set.
    pub fn subtract(&mut self, other: &Self) {
        for (first, last) in other.iter() {
            self.remove_range(first, last);
        }
    }

    /// The numbers that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.count() <= other.count() { (self, other) } else { (other, self) };
        let mut both = Self::default();
        for (first, last) in few.iter() {
            for (from, to) in many.overlapping(first, last) {
                both.insert_range(first.max(from), last.min(to));
            }
        }
        both
    }

    /// The numbers of this set that are not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let start = self.ranges.range(..=first).next_back().map_or(first, |(start, _)| *start);
        self.ranges
            .range(start..=last)
            .map(|(from, to)| (*from, *to))
            .filter(move |(_, to)| *to >= first)
    }

    fn remove_range(&mut self, first: u64, last: u64) {
        // What is put back below lies outside, so each turn finds the next one.
        loop {
            let Some((from, to)) = self.overlapping(first, last).next() else { return };
            self.ranges.remove(&from);
            if from < first {
                self.ranges.insert(from, first - 1);
            }
            if to > last {
                self.ranges.insert(last + 1, to);
            }
        }
    }
}

impl FromIterator<u64> for Ranges {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        let mut set = Self::default();
        for number in numbers {
            set.insert(number);
        }
        set
    }
}

impl From<Vec<(u64, u64)>> for Ranges {
    fn from(ranges: Vec<(u64, u64)>) -> Self {
        let mut set = Self::default();
        for (first, last) in ranges {
            set.insert_range(first, last);
        }
        set
    }
}

impl From<Ranges> for Vec<(u64, u64)> {
    fn from(set: Ranges) -> Self {
        set.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn model(set: &Ranges) -> BTreeSet<u64> {
        let ranges: Vec<_> = set.iter().collect();
        assert!(ranges.iter().all(|(first, last)| first <= last));
        assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{ranges:?}");
        set.numbers().collect()
    }

    proptest! {
        #[test]
        fn ranges_behave_as_a_set_of_numbers(
            steps in proptest::collection::vec((0..4_u8, 0..40_u64, 0..8_u64), 0..60),
            others in proptest::collection::vec((0..40_u64, 0..8_u64), 0..6),
        ) {
            let (mut set, mut truth) = (Ranges::default(), BTreeSet::new());
            for (step, first, more) in steps {
                match step {
                    0 => prop_assert_eq!(set.insert(first), truth.insert(first)),
                    1 => prop_assert_eq!(set.remove(first), truth.remove(&first)),
                    2 => {
                        set.insert_range(first, first + more);
                        truth.extend(first..=first + more);
                    }
                    _ => {
                        set.subtract(&Ranges::of(first, first + more));
                        truth.retain(|number| !(first..=first + more).contains(number));
                    }
                }
                prop_assert_eq!(&model(&set), &truth);
                prop_assert_eq!(set.contains(first), truth.contains(&first));
                prop_assert_eq!(set.size(), truth.len() as u64);
            }
            let mut other = Ranges::default();
            for (first, more) in others {
                other.insert_range(first, first + more);
            }
            let numbers = model(&other);
            prop_assert_eq!(
                model(&set.intersection(&other)),
                truth.intersection(&numbers).copied().collect::<BTreeSet<_>>()
            );
            prop_assert_eq!(set.is_disjoint(&other), truth.is_disjoint(&numbers));
            prop_assert_eq!(other.is_disjoint(&set), truth.is_disjoint(&numbers));
            prop_assert_eq!(set.is_subset(&other), truth.is_subset(&numbers));
            prop_assert_eq!(other.is_subset(&set), numbers.is_subset(&truth));
            prop_assert!(set.intersection(&other).is_subset(&set));
            prop_assert!(set.without(&other).is_disjoint(&other));
            prop_assert_eq!(
                model(&set.without(&other)),
                truth.difference(&numbers).copied().collect::<BTreeSet<_>>()
            );
        }
    }
}
