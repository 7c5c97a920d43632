//! Rules that are broken on purpose, one at a time, so that it is known that the walk notices.
//!
//! The hosts are not changed for it: the world around them lies to them, forgets for them, or
//! does not ask them.

use super::walk::{said, walk};
use super::world::{SICK, STEP, TURN, World};
use super::*;
use crate::now::Mono;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    None,
    /// Whoever is proposed to is said to have accepted.
    ChosenWithoutMajority,
    /// All are said to have promised, and to have accepted nothing.
    NoPrepare,
    /// Of what was accepted the one of the lowest ballot looks like the highest.
    LowerAdopted,
    /// The row of a chosen round is not written.
    WatermarkNotDurable,
    /// The row of the acceptor is not written.
    PromiseNotDurable,
    /// A wiped host keeps its seat.
    PromiseForgotten,
    /// Who opens its store grants at once.
    GrantedAtOpen,
    /// Hands out when its turn is over.
    AfterTurn,
    /// What was found is handed out before it is chosen.
    AdoptedHandedOut,
    /// The newest stamps of trimmed rounds are forgotten.
    TrimmedWithoutSum,
    /// Every watermark is vouched for.
    UpToUnchecked,
    /// Reports name nothing.
    HeldOmitted,
    /// A new host is told nothing, and believes that it was told all.
    ToldNothing,
}

impl Planted {
    /// Since when a host that opens now is said to be open.
    pub(super) fn opened(self, now: Mono) -> Mono {
        if self == Self::GrantedAtOpen { Mono(now.0 - TURN * STEP) } else { now }
    }

    /// How often nodes crash while they write. Two rounds with one number are rarely found.
    pub(super) fn brittle(self, drawn: f64) -> f64 {
        if self == Self::LowerAdopted { 0.2 } else { drawn }
    }

    /// When it is, for the turn.
    pub(super) fn turn(self, now: Mono) -> Mono {
        if self == Self::AfterTurn { Mono(0) } else { now }
    }

    /// By how much the wall of a host is fast while it hears this.
    pub(super) fn fast_by(self, word: &Word) -> i64 {
        let is_fast = self == Self::UpToUnchecked && matches!(word, Word::Ask { .. });
        if is_fast { 2 * SICK } else { 0 }
    }

    pub(super) fn sum(self, sum: Sum) -> Sum {
        let forgets = self == Self::TrimmedWithoutSum;
        if forgets { Sum { newest: [].into(), ..sum } } else { sum }
    }

    fn adopted(self, world: &World, n: usize) -> Option<&Round> {
        let open = world.nodes[n].rounds.open_round()?;
        let is_found = world.built.iter().any(|(built, _, by)| built == open && *by != n);
        (self == Self::AdoptedHandedOut && is_found).then_some(open)
    }

    /// Whether this host hands out although it may not.
    pub(super) fn hands_out(self, world: &World, n: usize) -> bool {
        world.nodes[n].is_up && world.serves(n) && self.adopted(world, n).is_some()
    }

    /// What is handed out of.
    pub(super) fn pending(self, world: &World, n: usize) -> Vec<usize> {
        let mut pending = world.pending(n);
        let found = self.adopted(world, n).into_iter().flat_map(|round| &round.released);
        pending.extend(found.map(World::number));
        pending
    }

    /// What is said instead of a word.
    pub(super) fn twisted(
        self,
        world: &World,
        from: usize,
        to: usize,
        word: Word,
    ) -> Vec<(usize, usize, Word)> {
        let said = (from, to, word.clone());
        match (self, word) {
            (Self::ChosenWithoutMajority, Word::Propose { ballot, round, sent, .. }) => {
                vec![said, (to, from, Word::Accept { ballot, n: round.n, sent })]
            }
            (Self::NoPrepare, Word::Prepare { ballot, known, sent, .. }) => {
                vec![(to, from, Word::Promise { ballot, known, accepted: None, sent })]
            }
            (Self::LowerAdopted, Word::Promise { ballot, known, accepted, sent }) => {
                let turned = |found: Accepted| {
                    let number = u64::MAX - found.ballot.number;
                    Accepted { ballot: Ballot { number, ..found.ballot }, ..found }
                };
                let accepted = accepted.map(turned);
                vec![(from, to, Word::Promise { ballot, known, accepted, sent })]
            }
            (Self::TrimmedWithoutSum, Word::Learn { sum, rounds }) => {
                let sum = sum.map(|sum| self.sum(sum));
                vec![(from, to, Word::Learn { sum, rounds })]
            }
            (Self::HeldOmitted, Word::Report { ballot, known, up_to, held, sent }) => {
                let held = held.map(|_| Vec::new());
                vec![(from, to, Word::Report { ballot, known, up_to, held, sent })]
            }
            (Self::ToldNothing, Word::TellAll { changed }) => {
                let by = [world.seat_of(to)].into();
                vec![(to, from, Word::ToldAll { changed, by })]
            }
            _ => vec![said],
        }
    }
}

/// Each rule that can be broken, a walk that notices, and what it notices. Whoever changes what
/// a walk draws finds another one with `GAGGLE_WALKS` (how many) and `GAGGLE_PLANTED` (which).
const TABLE: &[(Planted, u64, &str)] = &[
    (Planted::ChosenWithoutMajority, 351, "P6: two values of round"),
    (Planted::NoPrepare, 52, "P9: 3 and 0 have turns at once"),
    (Planted::LowerAdopted, 18_214, "P6: two values of round"),
    (Planted::WatermarkNotDurable, 0, "P6: two values of round"),
    (Planted::PromiseNotDurable, 9, "P6: two values of round"),
    (Planted::PromiseForgotten, 263, "P6: two values of round"),
    (Planted::GrantedAtOpen, 5_549, "P9: 3 and 0 have turns at once"),
    (Planted::AfterTurn, 523, "P9: 2 and 3 have turns at once"),
    (Planted::AdoptedHandedOut, 98, "P6: 1 was handed out and is None"),
    (Planted::TrimmedWithoutSum, 1_117, "P5: 0 came first after something newer"),
    (Planted::UpToUnchecked, 19, "P14: the watermark of round"),
    (Planted::HeldOmitted, 19, "P6: 3 was confirmed in time and left out"),
    (Planted::ToldNothing, 2_011, "not at rest"),
];

#[test]
fn each_planted_fault_is_found() {
    let count = said("GAGGLE_WALKS").and_then(|n| n.parse().ok());
    let only = said("GAGGLE_PLANTED").unwrap_or_default();
    let mut missed = Vec::new();
    for (planted, seed, what) in TABLE.iter().filter(|(p, ..)| format!("{p:?}").contains(&only)) {
        let mut seeds = count.map_or(*seed..seed + 1, |count: u64| 0..count);
        let found = seeds.find_map(|seed| walk(seed, *planted).wrong.map(|wrong| (seed, wrong)));
        match found {
            Some((seed, wrong)) if count.is_some() || wrong.starts_with(what) => {
                println!("{planted:?}: {seed}: {}", wrong.lines().next().unwrap_or_default());
            }
            found => missed.push(format!("{planted:?}: {found:?}")),
        }
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}
