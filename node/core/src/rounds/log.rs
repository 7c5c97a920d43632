//! The log: the chosen rounds of a partition in order, and what follows from them.
//!
//! Each host keeps it, and each has the same, or the beginning of the same. From it come the
//! verdict on each entry, the watermark, the pinned hosts, and the newest stamp that was released
//! of each key, by which lateness is judged. Rounds that nobody needs any more are trimmed: their
//! [`Sum`] stays, and a host that knows nothing is told the sum first and then the rounds behind
//! it.
//!
//! The newest stamps of keys are kept for [`NEWEST_KEPT`] of stamps below the watermark. What is
//! older than that is late without a look: the horizon only rises, so this errs on one side.
//!
//! Invariants: the watermark never goes back (P7); an entry gets one verdict, and one more only
//! if it was released and is taken out, or was lost and turns up again (P6). What this file does
//! not do: it does not agree on anything, and it holds no messages.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{LateBy, MessageId, Position, ProcessId, Stamp};
use serde::{Deserialize, Serialize};

use super::{Entry, Hosts, Name, Round, Why};
use crate::ranges::Ranges;

/// What trimmed rounds leave behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The last round that is in it; 0 for none.
    pub n: u64,
    /// The watermark after it.
    pub up_to: Stamp,
    /// The pinned hosts after it.
    pub hosts: Hosts,
    /// The newest stamp that was released of each key.
    pub newest: BTreeMap<u64, Stamp>,
}

impl Sum {
    /// Of no rounds at all: with these hosts a partition begins.
    #[must_use]
    pub fn first(hosts: Hosts) -> Self {
        Self { n: 0, up_to: Stamp::ZERO, hosts, newest: BTreeMap::new() }
    }

    fn add(&mut self, round: &Round) {
        assert_eq!(round.n, self.n + 1, "P6: rounds follow each other");
        assert!(round.up_to >= self.up_to, "P7: the watermark never goes back");
        self.n = round.n;
        self.up_to = round.up_to;
        for entry in &round.released {
            let newest = self.newest.entry(entry.key).or_insert(entry.stamp);
            *newest = entry.stamp.max(*newest);
        }
        let horizon = self.horizon();
        self.newest.retain(|_, newest| *newest >= horizon);
        if let Some(pinned) = &round.change {
            let former = std::mem::replace(&mut self.hosts.pinned, pinned.clone());
            self.hosts.former = former;
            self.hosts.changed = round.n;
        }
    }

    /// Below it the newest stamp of a key is not known any more.
    fn horizon(&self) -> Stamp {
        let kept = u64::try_from(NEWEST_KEPT.as_nanos()).expect("minutes are few nanoseconds");
        Stamp { time: self.up_to.time.saturating_sub(kept), ..Stamp::ZERO }
    }
}

/// What was agreed on about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To be handed out in its turn.
    Released,
    /// Moved to the late queue.
    Late,
    /// Taken out.
    Out(Why),
}

/// What should become of an entry that was reported and is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It has its verdict.
    Settled,
    /// It may be released.
    Release,
    /// It is late.
    Late,
}

/// The log of one partition at one host.
#[derive(Debug)]
pub(crate) struct Log {
    /// Of what was trimmed.
    trimmed: Sum,
    rounds: BTreeMap<u64, Round>,
    /// Of all rounds.
    sum: Sum,
    verdicts: BTreeMap<Name, (Verdict, Option<Position>)>,
}

impl Log {
    /// The log as it was written down; what does not follow is dropped.
    pub(crate) fn open(trimmed: Sum, rounds: impl IntoIterator<Item = Round>) -> Self {
        let sum = trimmed.clone();
        let mut log = Self { trimmed, rounds: BTreeMap::new(), sum, verdicts: BTreeMap::new() };
        for round in rounds {
            if log.admits(&round) {
                log.add(round);
            }
        }
        log
    }

    /// The last chosen round that is known.
    pub(crate) fn last(&self) -> u64 {
        self.sum.n
    }

    /// The watermark.
    pub(crate) fn up_to(&self) -> Stamp {
        self.sum.up_to
    }

    /// The pinned hosts from the next round on.
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.sum.hosts
    }

    pub(crate) fn verdict(&self, name: Name) -> Option<Verdict> {
        self.verdicts.get(&name).map(|(verdict, _)| *verdict)
    }

    /// Where an entry stands that may be handed out.
    pub(crate) fn position(&self, name: Name) -> Option<Position> {
        self.verdicts.get(&name)?.1
    }

    /// Whether there is a verdict on any of these messages.
    pub(crate) fn knows_any(&self, messages: &[(ProcessId, Ranges)]) -> bool {
        let name = |process, number, moves| Name { id: MessageId { process, number }, moves };
        messages.iter().any(|(process, numbers)| {
            numbers.iter().any(|(first, last)| {
                let within = name(*process, first, 0)..=name(*process, last, u32::MAX);
                self.verdicts.range(within).next().is_some()
            })
        })
    }

    /// Whether this round can be the next one.
    pub(crate) fn admits(&self, round: &Round) -> bool {
        let released = round.released.iter().all(|entry| self.verdict(entry.name).is_none());
        let late = round
            .late
            .iter()
            .all(|entry| matches!(self.verdict(entry.name), None | Some(Verdict::Out(Why::Lost))));
        let out = round
            .out
            .iter()
            .all(|(entry, _)| matches!(self.verdict(entry.name), None | Some(Verdict::Released)));
        let once: std::collections::BTreeSet<_> = round.entries().map(|entry| entry.name).collect();
        let change =
            round.change.as_ref().is_none_or(|pinned| pinned.follows(&self.sum.hosts.pinned));
        round.n == self.sum.n + 1
            && round.up_to >= self.sum.up_to
            && released
            && late
            && out
            && once.len() == round.entries().count()
            && change
    }

    /// Adds a chosen round that is admitted.
    pub(crate) fn add(&mut self, round: Round) {
        assert!(self.admits(&round), "P6: each entry is settled once");
        let (n, watermark) = (round.n, self.sum.up_to);
        self.sum.add(&round);
        for (entry, index) in round.released.iter().zip(0..) {
            let position = Position::InOrder { round: n, index };
            self.verdicts.insert(entry.name, (Verdict::Released, Some(position)));
        }
        for entry in &round.late {
            let position = Position::Late { round: n, watermark };
            self.verdicts.insert(entry.name, (Verdict::Late, Some(position)));
        }
        for (entry, why) in &round.out {
            self.verdicts.insert(entry.name, (Verdict::Out(*why), None));
        }
        self.rounds.insert(round.n, round);
    }

    /// Takes over a sum that reaches further than this log. Whether it does.
    pub(crate) fn skip_to(&mut self, sum: &Sum) -> bool {
        let is_ahead = sum.n > self.sum.n && sum.up_to >= self.sum.up_to;
        if is_ahead {
            *self = Self::open(sum.clone(), []);
        }
        is_ahead
    }

    /// What a host lacks that knows all up to `last`: a sum if that much was trimmed, and rounds.
    pub(crate) fn after(&self, last: u64) -> (Option<Sum>, Vec<Round>) {
        let sum = (last < self.trimmed.n).then(|| self.trimmed.clone());
        (sum, self.rounds.range(last + 1..).map(|(_, round)| round.clone()).collect())
    }

    /// What is released and was not taken out, in the order in which it is handed out.
    pub(crate) fn released(&self) -> impl Iterator<Item = &Entry> {
        let released = self.rounds.values().flat_map(|round| &round.released);
        released.filter(|entry| self.verdict(entry.name) == Some(Verdict::Released))
    }

    /// What is to be handed out, in order or as late.
    pub(crate) fn given(&self) -> impl Iterator<Item = &Entry> {
        let late = self.rounds.values().flat_map(|round| &round.late);
        self.released().chain(late)
    }

    /// What should become of an entry that is there and has not gone.
    pub(crate) fn judge(&self, entry: &Entry, late_by: LateBy) -> Judgement {
        match self.verdict(entry.name) {
            Some(Verdict::Out(Why::Lost)) => return Judgement::Late,
            Some(_) => return Judgement::Settled,
            None => {}
        }
        let newest = self.sum.newest.get(&entry.key);
        let in_order = match late_by {
            LateBy::Watermark => false,
            LateBy::Key => {
                entry.stamp >= self.sum.horizon() && newest.is_none_or(|n| *n < entry.stamp)
            }
        };
        if entry.stamp > self.sum.up_to || in_order { Judgement::Release } else { Judgement::Late }
    }

    /// Trims the rounds up to `known`, which all pinned hosts have, as far as `is_over` says of
    /// all their entries that every listed host knows them to have moved or gone. The sum that is
    /// left, if anything was trimmed.
    pub(crate) fn trim(&mut self, known: u64, is_over: impl Fn(&Entry) -> bool) -> Option<&Sum> {
        let before = self.trimmed.n;
        while let Some((n, round)) = self.rounds.first_key_value()
            && *n <= known
            && round.entries().all(&is_over)
        {
            let (_, round) = self.rounds.pop_first().expect("there is a first one");
            self.trimmed.add(&round);
            for entry in round.entries() {
                self.verdicts.remove(&entry.name);
            }
        }
        (self.trimmed.n > before).then_some(&self.trimmed)
    }
}

/// The newest stamp of a key is known for this long, in stamps: the longest that a message is on
/// its way is the resend window of 2 min; five times that leaves room for slow producers.
pub(crate) const NEWEST_KEPT: Duration = Duration::from_secs(600);
