//! What a pinned host answers: promises, reports, acceptances.
//!
//! Invariants: nothing is answered below the promised ballot; what the asker builds on is in the
//! rows of the same call. A host that does not know all that its predecessors held, or by whose
//! wall the watermark would be in the future, reports nothing, but grants its turn all the same.
//! What this file does not do: it proposes nothing; see `proposing`.

use super::word::{Act, Asked, Origin, Sent, Word};
use super::{Around, Ballot, Entry, Here, Round, Rounds, Seat};
use crate::now::Now;

impl Rounds {
    pub(super) fn prepare_asked(
        &mut self,
        around: &Around<'_>,
        from: Seat,
        (ballot, stopped, sent): (Ballot, Option<Ballot>, Sent),
    ) -> Vec<Act> {
        if !self.is_seated() || !self.log.hosts().pinned.has(from) {
            return Vec::new();
        }
        if let Err(refused) = self.acceptor.prepare(around.now.mono, ballot, stopped) {
            let word = Word::Refuse { ballot, promised: refused.promised };
            return vec![Act::Say(from.node, word)];
        }
        self.sequencer.stop();
        let accepted = self.acceptor.accepted().cloned();
        let word = Word::Promise { ballot, known: self.log.last(), accepted, sent };
        vec![self.write_acceptor(), Act::Say(from.node, word)]
    }

    /// Another host, or this one, asks what is held here.
    pub(super) fn asked(&mut self, now: Now, asked: Asked) -> Vec<Act> {
        if !self.is_seated() {
            return Vec::new();
        }
        let Asked { by, ballot, up_to, sent } = asked;
        let is_new = match self.acceptor.follow(now.mono, ballot) {
            Ok(is_new) => is_new,
            Err(refused) => {
                let word = Word::Refuse { ballot, promised: refused.promised };
                return vec![Act::Say(by, word)];
            }
        };
        if by != self.me.node {
            self.sequencer.stop();
        }
        let mut acts = Vec::new();
        acts.extend(is_new.then(|| self.write_acceptor()));
        let drift = u64::try_from(self.settings.drift_max.as_nanos()).unwrap_or(u64::MAX);
        let latest = now.wall.0.saturating_add(drift).max(self.log.up_to().time);
        let can_vouch = self.is_told() && up_to.time <= latest;
        if can_vouch {
            acts.push(Act::Gather(asked));
        } else if by != self.me.node {
            let known = self.log.last();
            acts.push(Act::Say(by, Word::Report { ballot, known, up_to, held: None, sent }));
        }
        acts
    }

    /// What this host holds up to where it was asked: all that has no verdict here, or that was
    /// lost and is here, and has neither moved nor gone.
    #[must_use]
    pub fn gathered(&mut self, around: &Around<'_>, asked: Asked, held: Vec<Entry>) -> Vec<Act> {
        let Asked { by, ballot, up_to, sent } = asked;
        if by == self.me.node {
            return self.reported(around, self.me, asked, Some(held));
        }
        let known = self.log.last();
        vec![Act::Say(by, Word::Report { ballot, known, up_to, held: Some(held), sent })]
    }

    /// Another host proposes a round.
    pub(super) fn proposed(
        &mut self,
        around: &Around<'_>,
        from: Seat,
        (ballot, round, origin, sent): (Ballot, Round, Origin, Sent),
    ) -> Vec<Act> {
        let node = from.node;
        if ballot < self.acceptor.promised() {
            let word = Word::Refuse { ballot, promised: self.acceptor.promised() };
            return vec![Act::Say(node, word)];
        }
        let n = round.n;
        if n != self.log.last() + 1 {
            return self.level(from, n.saturating_sub(1));
        }
        if !self.is_seated() || !self.log.admits(&round) {
            return Vec::new();
        }
        if origin == Origin::Built {
            let lacks = |entry: &&Entry| (around.here)(entry) == Here::Missing;
            let missing: Vec<_> = round.released.iter().filter(lacks).cloned().collect();
            if !missing.is_empty() {
                return vec![Act::Fetch(node, missing)];
            }
        }
        if self.acceptor.accept(around.now.mono, ballot, round).is_err() {
            return Vec::new();
        }
        self.sequencer.stop();
        vec![self.write_acceptor(), Act::Say(node, Word::Accept { ballot, n, sent })]
    }
}
