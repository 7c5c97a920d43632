//! What the sequencer does: prepares, asks, builds, proposes, and sees its rounds chosen.
//!
//! Invariants: it prepares only when the host of the highest ballot is away, has yielded or is
//! clock-sick; it asks for the watermark that its own wall allows, never below the present one
//! (P7); a round is chosen once a majority has accepted it durably under one ballot, itself
//! counted like any other (P6). What this file does not do: it does not hand out.

use gaggle_wire::{NodeId, ProcessId, Stamp};

use super::building::{Building, Wishes};
use super::sequencer::{Asking, Open, Phase, Promise, Work};
use super::word::{Act, Asked, Origin, Sent, Word};
use super::{Around, Ballot, Entry, Here, Round, Rounds, Seat};
use crate::now::{Mono, Wall};

impl Rounds {
    /// Does what is due. To be called from time to time, and whenever something has changed.
    #[must_use]
    pub fn tick(&mut self, around: &Around<'_>, wishes: &Wishes) -> Vec<Act> {
        let mut acts = self.tell(around);
        if !self.may_sequence(around.sight) {
            acts.extend(self.stop(around.sight));
            return acts;
        }
        acts.extend(match self.sequencer.phase() {
            Phase::Idle => self.prepare(around),
            Phase::Preparing(_) => self.begin(around),
            Phase::Sequencing(_, Work::Open(_)) => self.propose_again(around),
            Phase::Sequencing(ballot, Work::Resting(until)) => {
                let ballot = *ballot;
                if around.now.mono < *until { Vec::new() } else { self.ask(around, ballot) }
            }
            Phase::Sequencing(ballot, Work::Asking(asking)) => {
                let (ballot, at) = (*ballot, asking.at);
                let is_answered = self.has_majority_reported();
                if is_answered {
                    self.build(around, ballot, wishes)
                } else if around.now.mono >= at.plus(self.settings.patience) {
                    self.ask(around, ballot)
                } else {
                    Vec::new()
                }
            }
        });
        acts
    }

    fn prepare(&mut self, around: &Around<'_>) -> Vec<Act> {
        let now = around.now.mono;
        let holder = self.acceptor.promised().node;
        let peer =
            self.log.hosts().pinned.seats().find(|seat| seat.node == holder).and_then(|seat| {
                around.sight.peers.get(&holder).filter(|peer| peer.store == seat.store)
            });
        let is_others = ![self.me.node, Ballot::NONE.node].contains(&holder);
        let is_theirs = is_others && peer.is_some_and(|p| !p.yielded && !p.sick);
        if now < self.sequencer.quiet_until() || is_theirs {
            return Vec::new();
        }
        let promised = self.acceptor.promised();
        let stopped = self.stopped.get(&holder).copied().filter(|stopped| *stopped >= promised);
        let ballot = self.acceptor.promised().next(self.me.node);
        if self.acceptor.prepare(now, ballot, stopped).is_err() {
            return Vec::new();
        }
        let quiet_until = self.after_a_while(now);
        self.sequencer.rest(quiet_until);
        self.sequencer.prepare(ballot);
        let (known, sent) = (self.log.last(), Sent::from(now));
        let accepted = self.acceptor.accepted().cloned();
        self.promised(self.me, ballot, Promise { known, accepted, sent });
        let word = Word::Prepare { ballot, known, stopped, sent };
        let mut acts = vec![self.write_acceptor()];
        acts.extend(self.to_peers(around, &word));
        acts
    }

    pub(super) fn promised(&mut self, from: Seat, ballot: Ballot, promise: Promise) {
        self.sequencer.promised(from, ballot, promise);
    }

    /// Something higher was promised than what this host prepared or proposes under.
    pub(super) fn refused(&mut self, now: Mono, ballot: Ballot, promised: Ballot) -> Vec<Act> {
        if self.sequencer.ballot() == Some(ballot) {
            self.sequencer.stop();
            let quiet_until = self.after_a_while(now);
            self.sequencer.rest(quiet_until);
        }
        let is_new = self.acceptor.has_seen(promised);
        is_new.then(|| self.write_acceptor()).into_iter().collect()
    }

    /// Goes on once a majority has promised, with what it found first.
    fn begin(&mut self, around: &Around<'_>) -> Vec<Act> {
        let Phase::Preparing(preparing) = self.sequencer.phase() else { return Vec::new() };
        let ballot = preparing.ballot;
        let n = self.log.last() + 1;
        if preparing.is_promised(&self.log.hosts().pinned) && preparing.known < n {
            if let Some(round) = preparing.adopted(n) {
                return self.propose(around, ballot, round, Origin::Adopted);
            }
            return self.ask(around, ballot);
        }
        if around.now.mono >= self.sequencer.quiet_until() {
            self.sequencer.stop();
        }
        Vec::new()
    }

    fn ask(&mut self, around: &Around<'_>, ballot: Ballot) -> Vec<Act> {
        let (now, known) = (around.now, self.log.last());
        let up_to = self.log.up_to().max(self.passed(now.wall));
        let asking = Asking { up_to, at: now.mono, reports: [].into() };
        self.sequencer.work(ballot, Work::Asking(asking));
        let sent = Sent::from(now.mono);
        let mut acts = self.asked(now, Asked { by: self.me.node, ballot, up_to, sent });
        if self.acceptor.promised() != ballot {
            self.sequencer.stop();
            return Vec::new();
        }
        self.sequencer.answered(self.me, ballot, sent);
        acts.extend(self.to_peers(around, &Word::Ask { ballot, known, up_to, sent }));
        acts
    }

    /// The last stamp that the window has passed.
    fn passed(&self, wall: Wall) -> Stamp {
        let window = u64::try_from(self.settings.window.as_nanos()).unwrap_or(u64::MAX);
        let time = wall.0.saturating_sub(window);
        Stamp { time, count: u32::MAX, process: ProcessId(u64::MAX) }
    }

    pub(super) fn reported(
        &mut self,
        around: &Around<'_>,
        from: Seat,
        asked: Asked,
        held: Option<Vec<Entry>>,
    ) -> Vec<Act> {
        if from != self.me {
            self.sequencer.answered(from, asked.ballot, asked.sent);
        }
        let Some(held) = held else { return Vec::new() };
        let lacks = |entry: &&Entry| {
            self.log.verdict(entry.name).is_none() && (around.here)(entry) == Here::Missing
        };
        let missing: Vec<_> = held.iter().filter(lacks).cloned().collect();
        if self.sequencer.reported(from, asked, held) && !missing.is_empty() {
            return vec![Act::Fetch(from.node, missing)];
        }
        Vec::new()
    }

    fn has_majority_reported(&self) -> bool {
        let Phase::Sequencing(_, Work::Asking(asking)) = self.sequencer.phase() else {
            return false;
        };
        self.log.hosts().pinned.is_majority(&asking.reports.keys().copied().collect())
    }

    fn build(&mut self, around: &Around<'_>, ballot: Ballot, wishes: &Wishes) -> Vec<Act> {
        let Phase::Sequencing(_, Work::Asking(asking)) = self.sequencer.phase() else {
            return Vec::new();
        };
        let (log, late_by, here) = (&self.log, self.settings.late_by, around.here);
        let round = Building { log, late_by, here, wishes }.round(asking.up_to, &asking.reports);
        match round {
            Some(round) if !round.is_empty() || wishes.advance => {
                self.propose(around, ballot, round, Origin::Built)
            }
            Some(_) | None => {
                let until = around.now.mono.plus(self.settings.pause);
                self.sequencer.work(ballot, Work::Resting(until));
                Vec::new()
            }
        }
    }

    fn propose(
        &mut self,
        around: &Around<'_>,
        ballot: Ballot,
        round: Round,
        origin: Origin,
    ) -> Vec<Act> {
        let now = around.now.mono;
        if self.acceptor.accept(now, ballot, round.clone()).is_err() {
            self.sequencer.stop();
            return Vec::new();
        }
        let accepted = [self.me].into();
        let open = Open { round, origin, accepted, sent: [].into() };
        self.sequencer.work(ballot, Work::Open(open));
        self.sequencer.answered(self.me, ballot, Sent::from(now));
        let mut acts = vec![self.write_acceptor()];
        acts.extend(self.propose_again(around));
        acts.extend(self.choose(around));
        acts
    }

    /// Proposes the open round to whoever has not accepted it and has not been asked for a while.
    fn propose_again(&mut self, around: &Around<'_>) -> Vec<Act> {
        let (peers, now) = (self.peers(around.sight), around.now.mono);
        let Some(ballot) = self.sequencer.ballot() else { return Vec::new() };
        let pinned = self.log.hosts().pinned.clone();
        let patience = self.settings.patience;
        let Some(open) = self.sequencer.open_mut() else { return Vec::new() };
        let has_accepted = |open: &Open, node: NodeId| {
            pinned.seats().any(|seat| seat.node == node && open.accepted.contains(&seat))
        };
        let mut acts = Vec::new();
        for node in peers {
            let is_due = open.sent.get(&node).is_none_or(|sent| now >= sent.plus(patience));
            if is_due && !has_accepted(open, node) {
                open.sent.insert(node, now);
                let (round, origin, sent) = (open.round.clone(), open.origin, Sent::from(now));
                acts.push(Act::Say(node, Word::Propose { ballot, round, origin, sent }));
            }
        }
        acts
    }

    pub(super) fn accepted(
        &mut self,
        around: &Around<'_>,
        from: Seat,
        (ballot, n, sent): (Ballot, u64, Sent),
    ) -> Vec<Act> {
        let is_ours = self.sequencer.answered(from, ballot, sent);
        let Some(open) = self.sequencer.open_mut().filter(|open| is_ours && open.round.n == n)
        else {
            return Vec::new();
        };
        open.accepted.insert(from);
        self.choose(around)
    }

    /// The open round is chosen once a majority has accepted it: all who voted on it learn it.
    fn choose(&mut self, around: &Around<'_>) -> Vec<Act> {
        let before = self.log.hosts().pinned.clone();
        let Some(open) = self.sequencer.open() else { return Vec::new() };
        if !before.is_majority(&open.accepted) {
            return Vec::new();
        }
        let round = open.round.clone();
        let mut acts = self.apply(round.clone());
        let word = Word::Learn { sum: None, rounds: vec![round] };
        let voters = before.seats().chain(self.log.hosts().pinned.seats());
        let nodes: std::collections::BTreeSet<_> = voters.map(|seat| seat.node).collect();
        let here = nodes.into_iter().filter(|node| around.sight.peers.contains_key(node));
        acts.extend(here.map(|node| Act::Say(node, word.clone())));
        acts
    }

    pub(super) fn to_peers(&self, around: &Around<'_>, word: &Word) -> Vec<Act> {
        let say = |node| Act::Say(node, word.clone());
        self.peers(around.sight).into_iter().map(say).collect()
    }
}
