//! What a host learns: chosen rounds, and what the others held when the hosts changed.
//!
//! Hosts level each other: with most words a host says how far it knows the log, and whoever
//! knows more tells. Nothing that was chosen is lost with the words that were to tell of it.
//!
//! Invariant: rounds are added in order, none is skipped but by a sum. What this file does not
//! do: it does not agree on rounds.

use std::collections::BTreeSet;

use gaggle_wire::NodeId;

use super::word::{Act, Row, Word};
use super::{Around, Round, Rounds, Seat, Sum, Told};

impl Rounds {
    /// A host knows the log up to there: tells it more, or asks for more.
    pub(super) fn level(&mut self, from: Seat, known: u64) -> Vec<Act> {
        let reached = self.reached.entry(from).or_default();
        *reached = known.max(*reached);
        let last = self.log.last();
        if known == last {
            return Vec::new();
        }
        let word = if known > last {
            Word::Known { n: last }
        } else {
            let (sum, rounds) = self.log.after(known);
            Word::Learn { sum, rounds }
        };
        vec![Act::Say(from.node, word)]
    }

    pub(super) fn learn(&mut self, sum: Option<Sum>, rounds: Vec<Round>) -> Vec<Act> {
        let mut acts = Vec::new();
        if let Some(sum) = sum
            && self.log.skip_to(&sum)
        {
            self.told = Told::at_change(self.me, self.log.hosts());
            acts.push(Act::Write(Row::Sum(sum)));
            acts.push(Act::Write(Row::Told(self.told.clone())));
            self.moved_on();
        }
        for round in rounds {
            if self.log.admits(&round) {
                acts.extend(self.apply(round));
            }
        }
        acts
    }

    /// A round is chosen, and follows.
    pub(super) fn apply(&mut self, round: Round) -> Vec<Act> {
        let has_changed = round.change.is_some();
        self.log.add(round.clone());
        self.moved_on();
        let mut acts = vec![Act::Write(Row::Round(round.clone()))];
        if has_changed {
            self.told = Told::at_change(self.me, self.log.hosts());
            acts.push(Act::Write(Row::Told(self.told.clone())));
        }
        acts.push(Act::Chosen(round));
        acts
    }

    fn moved_on(&mut self) {
        let last = self.log.last();
        self.acceptor.chosen(last);
        self.sequencer.moved_on(last);
    }

    /// From time to time: tells the other pinned hosts how far this one is, and asks to be told
    /// what they hold until that is all that a new host needs.
    pub(super) fn tell(&mut self, around: &Around<'_>) -> Vec<Act> {
        let now = around.now.mono;
        if now < self.tell_at || !self.is_seated() {
            return Vec::new();
        }
        self.tell_at = now.plus(self.settings.patience);
        let mut acts = self.to_peers(around, &Word::Known { n: self.log.last() });
        if !self.told.is_all(self.log.hosts()) {
            let changed = self.log.hosts().changed;
            let here = |seat: &Seat| {
                around.sight.peers.get(&seat.node).is_some_and(|peer| peer.store == seat.store)
            };
            let tellers = self.tellers().into_iter().filter(here);
            acts.extend(tellers.map(|seat| Act::Say(seat.node, Word::TellAll { changed })));
        }
        acts
    }

    pub(super) fn tell_all(&self, to: NodeId, changed: u64) -> Vec<Act> {
        if self.log.hosts().changed != changed || self.told.changed != changed {
            return Vec::new();
        }
        let word = Word::ToldAll { changed, by: self.told.by.clone() };
        vec![Act::GiveAll(to, word)]
    }

    pub(super) fn told_all(&mut self, changed: u64, by: BTreeSet<Seat>) -> Vec<Act> {
        if self.log.hosts().changed != changed || self.told.changed != changed {
            return Vec::new();
        }
        self.told.by.extend(by);
        vec![Act::Write(Row::Told(self.told.clone()))]
    }
}
