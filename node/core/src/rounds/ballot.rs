//! The ballot: under which number a host asks for promises and proposes, and whose it is.
//!
//! Two hosts may propose at once, both in good faith: each believes that the other is away. The
//! ballot orders them. It carries the node, so no two hosts ever have the same one, and a host
//! takes the number above the highest it has seen.
//!
//! Invariant: a host uses no ballot twice, for its own are promised durably before they are
//! spoken. What this file does not do: it grants nothing; see the acceptor.

use gaggle_wire::NodeId;
use serde::{Deserialize, Serialize};

/// A number and the host that uses it, ordered by number first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    /// One more than the highest number that its host had seen.
    pub number: u64,
    /// Who asks or proposes under it.
    pub node: NodeId,
}

impl Ballot {
    /// Below every ballot that a host uses.
    pub const NONE: Self = Self { number: 0, node: NodeId(0) };

    /// The ballot of a host that has seen no higher one than this.
    #[must_use]
    pub fn next(self, node: NodeId) -> Self {
        Self { number: self.number.saturating_add(1), node }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_comes_before_the_node_and_the_next_one_is_above() {
        let first = Ballot::NONE.next(NodeId(9));
        assert_eq!(first, Ballot { number: 1, node: NodeId(9) });
        let second = first.next(NodeId(2));
        assert!(second > first && first > Ballot::NONE);
        assert!(Ballot { number: 2, node: NodeId(3) } > second, "of one number the node decides");
    }
}
