//! One pinned host of one strict partition: its log, its acceptor, and its sequencer together.
//!
//! Everything comes in as a call, everything goes out as [`Act`]s. The host is called with each
//! word of another one ([`Rounds::handle`]), from time to time ([`Rounds::tick`]), when it has
//! looked up what it holds ([`Rounds::gathered`]) and when a session ends ([`Rounds::ended`]).
//! What others asked of it is answered in `answering`, what it does as the sequencer is in
//! `proposing`, what it learns in `learning`.
//!
//! Invariant: the acceptor of this host is asked like any other: the sequencer's own promise,
//! turn and acceptance bind it, too. What this file does not do: it does not know messages,
//! leases or sessions; it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{LateBy, NodeId, Position, ProcessId, Stamp};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::acceptor::Acceptor;
use super::log::{Log, Verdict};
use super::sequencer::{Phase, Sequencer, Work};
use super::word::{Act, Asked, Origin, Row, Word};
use super::{Ballot, Entry, Here, Hosts, Name, Pinned, Round, Rows, Seat, Sum, Told};
use crate::now::{Mono, Now};
use crate::ranges::Ranges;

/// Times and rules of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a message is waited for after its stamp.
    pub window: Duration,
    /// How far the watermark may be beyond a host's own wall when it reports.
    pub drift_max: Duration,
    /// How long a turn is.
    pub turn: Duration,
    /// How long a question waits for a majority before it is asked anew, and an answer to a
    /// proposed round before it is proposed once more.
    pub patience: Duration,
    /// How long after a round that was not needed the next question is asked.
    pub pause: Duration,
    /// What makes a message late.
    pub late_by: LateBy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(1),
            drift_max: Duration::from_millis(500),
            turn: Duration::from_secs(2),
            patience: Duration::from_millis(500),
            pause: Duration::from_millis(100),
            late_by: LateBy::Key,
        }
    }
}

/// What this host sees of the others just now. It comes from sessions and custody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Whether custody of what all pinned hosts hold is with this host, and its clock is well.
    pub serving: bool,
    /// Who is in session.
    pub peers: BTreeMap<NodeId, Peer>,
}

/// One node in session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name of its store.
    pub store: u128,
    /// Whether it has yielded to this host.
    pub yielded: bool,
    /// Whether it is clock-sick.
    pub sick: bool,
}

/// What a call is made in.
pub struct Around<'a> {
    /// The time.
    pub now: Now,
    /// The others.
    pub sight: &'a Sight,
    /// What is held.
    pub here: &'a dyn Fn(&Entry) -> Here,
}

/// One host of one strict partition.
#[derive(Debug)]
pub struct Rounds {
    pub(super) me: Seat,
    pub(super) settings: Settings,
    pub(super) log: Log,
    pub(super) acceptor: Acceptor,
    pub(super) told: Told,
    pub(super) sequencer: Sequencer,
    /// The last round that each host is known to know.
    pub(super) reached: BTreeMap<Seat, u64>,
    /// Under which ballot each node has said last that it stopped: that stays true.
    pub(super) stopped: BTreeMap<NodeId, Ballot>,
    /// When the others are told next how far this host is.
    pub(super) tell_at: Mono,
    rng: Pcg64Mcg,
}

impl Rounds {
    /// Opens a partition that began with these hosts, as it was written down.
    #[must_use]
    pub fn open(first: Pinned, me: Seat, settings: Settings, rows: Rows, opened: Opened) -> Self {
        let sum = rows.sum.unwrap_or_else(|| Sum::first(Hosts::first(first)));
        let log = Log::open(sum, rows.rounds);
        let mut acceptor = Acceptor::open(me, rows.acceptor, opened.at, settings.turn);
        acceptor.chosen(log.last());
        Self {
            me,
            settings,
            log,
            acceptor,
            told: Told::open(me, rows.told),
            sequencer: Sequencer::default(),
            reached: BTreeMap::new(),
            stopped: BTreeMap::new(),
            tell_at: opened.at,
            rng: Pcg64Mcg::seed_from_u64(opened.seed),
        }
    }

    /// Takes what another host says.
    #[must_use]
    pub fn handle(&mut self, around: &Around<'_>, from: Seat, word: Word) -> Vec<Act> {
        let node = from.node;
        if let Word::Prepare { ballot, .. }
        | Word::Ask { ballot, .. }
        | Word::Propose { ballot, .. } = &word
            && self.stopped.get(&node).is_some_and(|stopped| stopped >= ballot)
        {
            // It has lost its store since, and with it what it had said.
            self.stopped.remove(&node);
        }
        match word {
            Word::Prepare { ballot, known, stopped, sent } => {
                let mut acts = self.level(from, known);
                acts.extend(self.prepare_asked(around, from, (ballot, stopped, sent)));
                acts
            }
            Word::Promise { ballot, known, accepted, sent } => {
                self.promised(from, ballot, super::sequencer::Promise { known, accepted, sent });
                self.level(from, known)
            }
            Word::Refuse { ballot, promised } => self.refused(around.now.mono, ballot, promised),
            Word::Ask { ballot, known, up_to, sent } => {
                let mut acts = self.level(from, known);
                acts.extend(self.asked(around.now, Asked { by: node, ballot, up_to, sent }));
                acts
            }
            Word::Report { ballot, known, up_to, held, sent } => {
                let asked = Asked { by: self.me.node, ballot, up_to, sent };
                let mut acts = self.level(from, known);
                acts.extend(self.reported(around, from, asked, held));
                acts
            }
            Word::Propose { ballot, round, origin, sent } => {
                self.proposed(around, from, (ballot, round, origin, sent))
            }
            Word::Accept { ballot, n, sent } => self.accepted(around, from, (ballot, n, sent)),
            Word::Stopped { ballot } => {
                self.stopped.insert(node, ballot);
                Vec::new()
            }
            Word::Known { n } => self.level(from, n),
            Word::Learn { sum, rounds } => self.learn(sum, rounds),
            Word::TellAll { changed } => self.tell_all(node, changed),
            Word::ToldAll { changed, by } => self.told_all(changed, by),
        }
    }

    /// The session with a node has ended.
    pub fn ended(&mut self, node: NodeId) {
        self.sequencer.ended(node);
    }

    /// Custody goes away, or this host was paused and does not know for how long: it has no turn
    /// any more. To be called before the yield is sent. The others are told, so that whoever goes
    /// on need not wait for the end of the turn.
    #[must_use]
    pub fn stop(&mut self, sight: &Sight) -> Vec<Act> {
        let Some(ballot) = self.sequencer.ballot() else { return Vec::new() };
        self.sequencer.stop();
        let say = |node| Act::Say(node, Word::Stopped { ballot });
        self.peers(sight).into_iter().map(say).collect()
    }

    /// Whether what is released may be handed out now: by the sequencer, in its turn, unless the
    /// round is open that it found and that may be chosen already (P5, P9).
    #[must_use]
    pub fn may_hand_out(&self, now: Mono, sight: &Sight) -> bool {
        let is_clear = match self.sequencer.phase() {
            Phase::Idle | Phase::Preparing(_) => false,
            Phase::Sequencing(_, Work::Open(open)) => open.origin == Origin::Built,
            Phase::Sequencing(..) => true,
        };
        let ends = self.sequencer.turn.ends(&self.log.hosts().pinned, self.settings.turn);
        is_clear && self.may_sequence(sight) && ends.is_some_and(|ends| now < ends)
    }

    /// What the open round would take out: it is not handed out meanwhile.
    pub fn withheld(&self) -> impl Iterator<Item = Name> {
        let open = self.sequencer.open().into_iter();
        open.flat_map(|open| open.round.out.iter().map(|(entry, _)| entry.name))
    }

    /// What may be handed out of, in this order, as far as it has neither moved nor gone. Of what
    /// is missing here the key waits.
    pub fn released(&self) -> impl Iterator<Item = &Entry> {
        self.log.released()
    }

    /// What is to be handed out, in order or as late, and was not trimmed.
    pub fn given(&self) -> impl Iterator<Item = &Entry> {
        self.log.given()
    }

    /// What was agreed on about an entry, unless it was trimmed.
    #[must_use]
    pub fn verdict(&self, name: Name) -> Option<Verdict> {
        self.log.verdict(name)
    }

    /// Where an entry stands that may be handed out.
    #[must_use]
    pub fn position(&self, name: Name) -> Option<Position> {
        self.log.position(name)
    }

    /// Whether a verdict on any of these messages is kept.
    #[must_use]
    pub fn knows_any(&self, messages: &[(ProcessId, Ranges)]) -> bool {
        self.log.knows_any(messages)
    }

    /// Changes the times and rules.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The last chosen round that is known.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.log.last()
    }

    /// The watermark (P7).
    #[must_use]
    pub fn up_to(&self) -> Stamp {
        self.log.up_to()
    }

    /// The pinned hosts.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        self.log.hosts()
    }

    /// Whether this host knows all that the pinned hosts before the last change held.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.told.is_enough(self.log.hosts())
    }

    /// The ballot under which this host is the sequencer, or would be.
    #[must_use]
    pub fn ballot(&self) -> Option<Ballot> {
        self.sequencer.ballot()
    }

    /// The round that is open, if this host has proposed one.
    #[must_use]
    pub fn open_round(&self) -> Option<&Round> {
        self.sequencer.open().map(|open| &open.round)
    }

    /// Trims the rounds that all pinned hosts are known to have and of whose entries `is_over`
    /// says that every listed host knows them to have moved or gone.
    #[must_use]
    pub fn trim(&mut self, is_over: impl Fn(&Entry) -> bool) -> Vec<Act> {
        let reached = |seat: Seat| {
            if seat == self.me {
                self.log.last()
            } else {
                self.reached.get(&seat).copied().unwrap_or(0)
            }
        };
        let known = self.log.hosts().pinned.seats().map(reached).min().unwrap_or(0);
        let sum = self.log.trim(known, is_over).cloned();
        sum.map(|sum| Act::Write(Row::Sum(sum))).into_iter().collect()
    }

    pub(super) fn is_seated(&self) -> bool {
        self.log.hosts().pinned.has(self.me)
    }

    pub(super) fn may_sequence(&self, sight: &Sight) -> bool {
        sight.serving && self.is_seated()
    }

    /// The other pinned hosts in session.
    pub(super) fn peers(&self, sight: &Sight) -> Vec<NodeId> {
        let seats = self.log.hosts().pinned.seats().filter(|seat| *seat != self.me);
        let here =
            |seat: &Seat| sight.peers.get(&seat.node).is_some_and(|peer| peer.store == seat.store);
        seats.filter(here).map(|seat| seat.node).collect()
    }

    /// A while after now, of half a turn to two: two hosts that refuse each other come apart.
    pub(super) fn after_a_while(&mut self, now: Mono) -> Mono {
        let turn = u64::try_from(self.settings.turn.as_nanos()).expect("a turn is short");
        now.plus(Duration::from_nanos(self.rng.random_range(turn / 2..=turn * 2)))
    }

    pub(super) fn write_acceptor(&self) -> Act {
        Act::Write(Row::Acceptor(self.acceptor.record().clone()))
    }

    /// Who came with the last change of hosts and those who were there before: all that can tell.
    pub(super) fn tellers(&self) -> BTreeSet<Seat> {
        let hosts = self.log.hosts();
        hosts.pinned.seats().chain(hosts.former.seats()).filter(|seat| *seat != self.me).collect()
    }
}

/// When a host opens its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The time.
    pub at: Mono,
    /// For jitter.
    pub seed: u64,
}
