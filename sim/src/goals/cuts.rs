//! Cuts that last, and what each side does meanwhile.
//!
//! What this file does not do: it cuts nothing; see `network.rs`.

use std::collections::BTreeMap;

use super::{Goal, Goals};

/// All pairs of nodes that are cut from each other, the smaller place first.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(BTreeMap<(usize, usize), [Side; 2]>);

/// What a side of a cut has confirmed since it began.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    stored: bool,
    deleted: bool,
}

/// Something that a node confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Stored,
    Deleted,
}

impl Goals {
    /// Nothing comes through between two nodes any more.
    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        self.cuts.0.entry((a.min(b), a.max(b))).or_default();
    }

    /// Two nodes reach each other again, in one direction at least.
    pub(crate) fn healed(&mut self, a: usize, b: usize) {
        let sides = self.cuts.0.remove(&(a.min(b), a.max(b)));
        if sides.is_some_and(|sides| sides.iter().all(|side| side.stored && side.deleted)) {
            self.note(Goal::BothSidesWent);
        }
    }

    /// A node has confirmed something.
    pub(super) fn worked(&mut self, node: usize, work: Work) {
        for ((a, b), sides) in &mut self.cuts.0 {
            let side = match node {
                node if node == *a => &mut sides[0],
                node if node == *b => &mut sides[1],
                _ => continue,
            };
            side.stored |= work == Work::Stored;
            side.deleted |= work == Work::Deleted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_counts_when_both_sides_stored_and_deleted_while_it_lasted() {
        let all = [(0, Work::Stored), (0, Work::Deleted), (2, Work::Stored), (2, Work::Deleted)];
        for left_out in 0..=all.len() {
            let mut goals = Goals::default();
            all.iter().for_each(|(node, work)| goals.worked(*node, *work));
            goals.cut(2, 0);
            for (at, (node, work)) in all.iter().enumerate() {
                if at != left_out {
                    goals.worked(*node, *work);
                }
            }
            assert_eq!(goals.met().count(), 0);
            goals.healed(0, 2);
            assert_eq!(goals.met().count(), usize::from(left_out == all.len()));
        }
    }
}
