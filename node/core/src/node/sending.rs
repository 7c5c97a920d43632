//! Sends, at their coordinator: check, stamp, place, count, answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{
    Attempt, Label, NodeId, ProcessId, Refusal, Response, SEND_MAX, Stamp, VISIBILITY_MAX_MS,
};
use rand::RngExt;

use super::asking::{Question, Words};
use super::copies::Stored;
use super::deleting::NewTombstones;
use super::twins::AfterTwins;
use super::{Drain, Node};
use crate::custody::burial::Numbers;
use crate::custody::known::{Came, OfProcess};
use crate::custody::sending::{Sending, Verdict};
use crate::effect::Effects;
use crate::envelope::{CopyException, Envelope, Lost};
use crate::event::Reply;
use crate::now::Now;
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::rendezvous::{self, Slot};
use crate::timer::Timer;

/// A send that passed the door's checks.
#[derive(Debug)]
pub(super) struct NewSend {
    pub(super) reply: Reply,
    pub(super) id: PartitionId,
    pub(super) attempt: Attempt,
    pub(super) within: Duration,
    pub(super) labels: Vec<Label>,
    /// Numbers of those that are known to be gone.
    pub(super) gone: Ranges,
    /// Numbers of those that other nodes said they hold.
    pub(super) held: BTreeMap<NodeId, Ranges>,
    /// Who was asked and has not said in time what it has of them.
    pub(super) silent: BTreeSet<NodeId>,
}

impl NewSend {
    /// Its messages: all are of one process.
    pub(super) fn numbers(&self) -> Numbers {
        let process = self.labels.first().map(|label| label.stamp.process);
        let numbers = self.labels.iter().map(|label| label.number).collect();
        process.map(|process| (process, numbers)).into_iter().collect()
    }
}

impl Node {
    pub(super) fn send_requested(&mut self, now: Now, mut new: NewSend, effects: &mut Effects) {
        if let Err(refusal) = self.check_send(now, &mut new) {
            effects.answer(new.reply, Response::Refused(refusal));
            return;
        }
        if new.attempt == Attempt::Again && self.ask_homes(now, &new, effects) {
            return;
        }
        self.send_on(now, new, effects);
    }

    fn check_send(&mut self, now: Now, new: &mut NewSend) -> Result<(), Refusal> {
        let bad = |why: &str| Err(Refusal::BadRequest { why: why.to_owned() });
        if self.run.drain != Drain::No {
            return Err(Refusal::Draining);
        }
        if self.is_full(self.config.node) {
            self.count("sends_refused_full");
            return Err(Refusal::DiskFull);
        }
        // A send that came before waits for the home hosts' word among the questions.
        let waiting = self.sends.under_way.len() + self.desk.calls.len();
        if waiting >= self.config.waiting_max {
            let limit = self.config.waiting_max as u64;
            return Err(Refusal::LimitReached { what: "sends under way".to_owned(), limit });
        }
        let (queue, partition) = new.id;
        let Some(entry) = self.table.live(queue) else {
            // A queue that was deleted is known to be gone; another may be known elsewhere.
            return Err(match self.table.entry(queue) {
                Some(_) => Refusal::QueueNotFound { queue: queue.to_string() },
                None => Refusal::NotReady,
            });
        };
        let settings = entry.settings();
        if partition >= settings.partitions {
            return bad("the queue has no such partition");
        }
        let [first, ..] = new.labels[..] else { return bad("there is no message in it") };
        let rising = new.labels.windows(2).all(|pair| {
            pair[0].number < pair[1].number
                && pair[0].stamp < pair[1].stamp
                && pair[0].stamp.process == pair[1].stamp.process
        });
        if !rising || first.number == 0 || new.labels.len() > SEND_MAX {
            return bad("a batch is of one process, by rising number and stamp from 1");
        }
        for label in &mut new.labels {
            if label.body_length > settings.message_size_max {
                let (limit, length) = (settings.message_size_max, label.body_length);
                return Err(Refusal::MessageTooLarge { limit, length });
            }
            if label.delay_ms == 0 {
                label.delay_ms = settings.delay_ms;
            } else if entry.is_strict() || label.delay_ms > gaggle_wire::DELAY_MAX_MS {
                return bad("a delay is at most 14 days, and there is none in a strict queue");
            }
            if let Err(refusal) = self.clock.gate(label.stamp, now.wall) {
                self.count("stamps_refused");
                return Err(refusal);
            }
        }
        let last = new.labels.last().map_or(Stamp::ZERO, |label| label.stamp);
        self.clock.observe(last);
        Ok(())
    }

    /// A stamp of acceptance, above the purge of its queue. One that a wrong clock made may lie
    /// where no stamp of this process may be yet: what comes after it is another process's (P8).
    fn accept_stamp(&mut self, now: Now, purged: Stamp, effects: &mut Effects) -> Stamp {
        if self.clock.gate(purged, now.wall).is_ok() {
            self.clock.observe(purged);
        }
        let stamp = self.stamp(now, effects);
        if stamp > purged {
            return stamp;
        }
        let process = ProcessId(self.run.rng.random());
        Stamp { time: purged.time.saturating_add(1), count: 0, process }
    }

    /// Asks the home hosts, and who was one a moment ago, whether they know the ids; whether
    /// anybody is there to ask, or about to be: who is yet to be met is asked as it is.
    fn ask_homes(&mut self, now: Now, new: &NewSend, effects: &mut Effects) -> bool {
        let mut asked = self.may_have(new.id);
        let me = self.config.node;
        asked.retain(|node| *node != me && !self.sessions.is_missed(*node));
        if asked.is_empty() || new.labels.is_empty() {
            return false;
        }
        let (id, messages) = (new.id, new.numbers());
        let new = NewSend {
            reply: new.reply,
            id: new.id,
            attempt: Attempt::Again,
            within: new.within,
            labels: new.labels.clone(),
            gone: Ranges::default(),
            held: BTreeMap::new(),
            silent: BTreeSet::new(),
        };
        let kind = Question::Resend(Box::new(new));
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let call = self.desk.calls.start(asked.iter().copied(), deadline, kind);
        for node in asked {
            let again = Words::Ask(Lost::Counts);
            self.ask_about(node, call, (id, messages.clone(), again), effects);
        }
        true
    }

    /// A session begins: who may have what came again, and was not there to be asked for it, is
    /// asked now. Who has just come knows few, and takes the place of one who has it (P3, P11).
    pub(super) fn ask_met(&mut self, peer: NodeId, effects: &mut Effects) {
        let mut asked = Vec::new();
        for (call, kind) in self.desk.calls.unanswered_by(peer) {
            if let Question::Resend(new) = kind
                && self.may_have(new.id).contains(&peer)
                && let Some(messages) = kind.messages()
            {
                asked.push((call, messages));
            }
        }
        for (call, messages) in asked {
            self.desk.calls.wait_for(call, peer);
            self.ask_about(peer, call, messages, effects);
        }
    }

    /// Whether enough nodes have all of what is sent again, another one than this among them. Then
    /// it goes to nobody else, and whoever has not answered yet is not waited for: it may have been
    /// killed.
    pub(super) fn is_placed(&self, new: &NewSend) -> bool {
        let Some(entry) = self.table.live(new.id.0) else { return false };
        let own = self.known_of(new.id, &new.labels);
        let gone = |label: &&Label| {
            new.gone.contains(label.number)
                || own.is_some_and(|own| own.gone.contains(label.number))
        };
        let labels: Vec<Label> = new.labels.iter().filter(|label| !gone(label)).copied().collect();
        let hosts = usize::from(entry.settings().confirms.max(2));
        self.having((new.id, &labels), new.held.clone()).len() >= hosts
    }

    /// What is known here of the process whose messages these are.
    fn known_of(&self, id: PartitionId, labels: &[Label]) -> Option<&OfProcess> {
        self.partitions.get(&id)?.known.of(labels.first()?.stamp.process)
    }

    /// The nodes that have all of a batch that is sent again, as others said and as it is here.
    fn having(
        &self,
        (id, labels): (PartitionId, &[Label]),
        mut held: BTreeMap<NodeId, Ranges>,
    ) -> BTreeSet<NodeId> {
        if labels.is_empty() {
            return BTreeSet::new();
        }
        if let Some(own) = self.known_of(id, labels) {
            held.insert(self.config.node, own.held.clone());
        }
        let has_all = |held: &Ranges| labels.iter().all(|label| held.contains(label.number));
        held.retain(|node, held| self.sessions.reaches(*node) && has_all(held));
        held.into_keys().collect()
    }

    /// Places a send and starts it.
    pub(super) fn send_on(&mut self, now: Now, new: NewSend, effects: &mut Effects) {
        let NewSend { reply, id, attempt, within, labels, gone, held, silent } = new;
        let Some(entry) = self.table.live(id.0) else {
            let queue = id.0.to_string();
            effects.answer(reply, Response::Refused(Refusal::QueueNotFound { queue }));
            return;
        };
        let (settings, purged) = (entry.settings(), entry.purged);
        let holders = self.holders(id, usize::from(settings.replicas));
        let reachable = holders.iter().filter(|node| self.sessions.reaches(**node)).count();
        if reachable < usize::from(settings.at_least) {
            let reachable = u8::try_from(reachable).unwrap_or(u8::MAX);
            let refusal = Refusal::NotEnoughHosts { wanted: settings.confirms, reachable };
            effects.answer(reply, Response::Refused(refusal));
            return;
        }
        let accepted = self.accept_stamp(now, purged, effects);
        let deadline = now.mono.plus(within.min(self.config.resend_window));
        self.timers.at_latest(Timer::Deadlines, deadline);
        self.sends.next += 1;
        let batch = self.sends.next;
        let mut sending = Sending::new(reply, id, labels, accepted, deadline);
        sending.holders = holders;
        sending.confirms = settings.confirms;
        sending.at_least = settings.at_least;
        sending.attempt = attempt;
        sending.leave_out(&gone);
        if let Some(known) = self.known_of(id, &sending.labels) {
            sending.leave_out(&known.gone);
        }
        if attempt == Attempt::Again {
            self.keep_placed(&mut sending, held, &silent);
        }
        let skew = self.run.skews.entry(id.0).or_default();
        for label in &sending.labels {
            skew.count(label.stamp.time, accepted.time);
        }
        if !sending.labels.is_empty() {
            self.spread(now, batch, &mut sending, effects);
        }
        self.sends.under_way.insert(batch, sending);
        self.judge_send(now, batch, effects);
    }

    /// A message that is sent again goes to no further host if those who have it are enough: a
    /// further one would take it for a new one (P3, P11). If they are too few it goes to them as
    /// well, and to those who may have it and have not said so in time: under a list without them
    /// nobody would hear that they have it.
    fn keep_placed(
        &self,
        sending: &mut Sending,
        held: BTreeMap<NodeId, Ranges>,
        silent: &BTreeSet<NodeId>,
    ) {
        let id = sending.partition;
        let mut holders = self.having((id, &sending.labels), held);
        sending.placed_before = holders.len() >= usize::from(sending.confirms);
        if !sending.placed_before {
            holders.extend(&sending.holders);
            holders.extend(silent);
        }
        sending.holders = holders.into_iter().collect();
        rendezvous::order(Slot::of(id.0, id.1), &mut sending.holders);
    }

    /// Sends the batch to every listed host in session, and keeps it here if this is one.
    fn spread(&mut self, now: Now, batch: u64, sending: &mut Sending, effects: &mut Effects) {
        for node in sending.holders.clone() {
            if let Some(session) = self.sessions.with(node) {
                effects.send_now(session.link, copy_of(batch, sending));
                sending.ask(node);
            }
        }
        if sending.holders.contains(&self.config.node) {
            self.keep_here(now, batch, sending, effects);
        }
    }

    /// Stores a batch here. It counts at once, unless ids came again: those are compared first.
    pub(super) fn keep_here(
        &mut self,
        now: Now,
        batch: u64,
        sending: &mut Sending,
        effects: &mut Effects,
    ) {
        let (id, holders) = (sending.partition, sending.holders.clone());
        let came = Came::Accepted(sending.copy_attempt());
        let items = sending.labels.iter().map(|label| (*label, sending.accepted)).collect();
        let Stored { exceptions, twins } = self.store(now, (id, &holders, came), items, effects);
        for (at, exception) in exceptions {
            sending.except(at, &exception);
        }
        if twins.is_empty() {
            sending.held_here(self.config.node);
        } else {
            sending.ask(self.config.node);
            self.compare_twins(now, (id, twins, holders), AfterTwins::Send { batch }, effects);
        }
    }

    /// This node holds a batch, as its comparison showed.
    pub(super) fn held_here(
        &mut self,
        now: Now,
        (batch, clashes): (u64, &[(u32, CopyException)]),
        effects: &mut Effects,
    ) {
        if let Some(sending) = self.sends.under_way.get_mut(&batch) {
            sending.held_by(self.config.node, clashes);
            if let Some(sending) = self.sends.under_way.remove(&batch) {
                if sending.version > 0 {
                    self.relist_here(now, batch, &sending, effects);
                }
                self.sends.under_way.insert(batch, sending);
            }
            self.judge_send(now, batch, effects);
        }
    }

    /// Has the longer list of a batch in the rows here; it counts when they have it.
    pub(super) fn relist_here(
        &mut self,
        now: Now,
        batch: u64,
        sending: &Sending,
        effects: &mut Effects,
    ) {
        let (labels, holders) = (sending.labels.clone(), sending.holders.clone());
        let after = AfterTwins::SendRelisted { batch, version: sending.version };
        self.relist(now, (sending.partition, labels, holders), after, effects);
    }

    /// A host says that it has a batch on disk.
    pub(super) fn held(
        &mut self,
        now: Now,
        peer: NodeId,
        (batch, exceptions): (u64, &[(u32, CopyException)]),
        effects: &mut Effects,
    ) {
        let Some(sending) = self.sends.under_way.get_mut(&batch) else {
            self.moved(now, peer, (batch, exceptions), effects);
            return;
        };
        if exceptions.iter().any(|(_, exception)| matches!(exception, CopyException::Purged(_))) {
            // A purge that this node does not know of yet overtook the batch. Its table entry
            // comes; the client sends again, and it is accepted above the purge.
            let sending = self.sends.under_way.remove(&batch).expect("it is there");
            if !sending.answered {
                effects.answer(sending.reply, Response::Refused(Refusal::OutcomeUnknown));
            }
            return;
        }
        sending.held_by(peer, exceptions);
        let (id, holders) = (sending.partition, sending.holders.clone());
        let gone = sending.gone_at(exceptions);
        let relist = (sending.version > 0).then(|| relist_of(batch, sending));
        if let Some(relist) = relist {
            self.say(peer, relist, effects);
        }
        self.judge_send(now, batch, effects);
        if let Some((process, (numbers, stamps))) = gone {
            // Some of them were deleted before. Who stored them now, unknowing, has to know.
            let (messages, known) = (vec![(process, numbers)], vec![peer]);
            let leases = Vec::new();
            let new = NewTombstones { id, holders, messages, stamps, leases, known };
            self.bury(now, new, effects);
        }
    }

    pub(super) fn relisted(
        &mut self,
        now: Now,
        peer: NodeId,
        (batch, version): (u64, u32),
        effects: &mut Effects,
    ) {
        if let Some(sending) = self.sends.under_way.get_mut(&batch) {
            sending.relisted_by(peer, version);
            self.judge_send(now, batch, effects);
        } else {
            self.move_listed(now, (peer, batch), effects);
        }
    }

    /// Answers a batch that may be answered, and ends one that nobody works on any more.
    pub(super) fn judge_send(&mut self, now: Now, batch: u64, effects: &mut Effects) {
        let Some(sending) = self.sends.under_way.get_mut(&batch) else { return };
        let confirmed = match sending.verdict() {
            Verdict::Confirm(sent) => {
                if !sending.answered {
                    sending.answered = true;
                    if let (Some(first), Some(partition)) =
                        (sending.labels.first(), self.partitions.get_mut(&sending.partition))
                    {
                        partition.known.count_on(first.stamp.process, &sending.stored());
                    }
                    effects.answer(sending.reply, Response::Sent(sent));
                    *self.run.counters.entry("sends_confirmed").or_default() += 1;
                }
                true
            }
            Verdict::Wait => false,
        };
        if confirmed && sending.is_over() {
            let sending = self.sends.under_way.remove(&batch).expect("it is there");
            self.note_settled(now, &sending);
            self.drained(now, effects);
        }
    }

    /// Enough hosts have a batch: they are to be told in bulk.
    pub(super) fn note_settled(&mut self, now: Now, sending: &Sending) {
        let nodes = sending.counted();
        if nodes.len() < usize::from(sending.confirms) {
            return;
        }
        let Some(first) = sending.labels.first() else { return };
        let numbers = sending.stored();
        let (queue, partition) = sending.partition;
        let lacking = sending.is_lacking();
        for node in nodes {
            if node == self.config.node {
                if let Some(partition) = self.partitions.get_mut(&sending.partition) {
                    partition.known.settle(first.stamp.process, &numbers);
                    if lacking {
                        let numbers = [(first.stamp.process, numbers.clone())];
                        partition.known.lacking_somewhere(&numbers);
                    }
                }
                self.reconsider(sending.partition);
                continue;
            }
            let key = (queue, partition, first.stamp.process);
            self.sends.settled.entry(node).or_default().entry(key).or_default().merge(&numbers);
            if lacking {
                self.sends.lacking.entry(node).or_default().entry(key).or_default().merge(&numbers);
            }
        }
        self.timers.at_latest(Timer::Bulk, now.mono.plus(BULK_AFTER));
    }
}

pub(super) fn copy_of(batch: u64, sending: &Sending) -> Envelope {
    Envelope::Copy {
        batch,
        queue: sending.partition.0,
        partition: sending.partition.1,
        accepted: sending.accepted,
        holders: sending.holders.clone(),
        attempt: sending.copy_attempt(),
        labels: sending.labels.clone(),
    }
}

pub(super) fn relist_of(batch: u64, sending: &Sending) -> Envelope {
    Envelope::Relist {
        batch,
        version: sending.version,
        queue: sending.partition.0,
        partition: sending.partition.1,
        labels: sending.labels.clone(),
        accepted: sending.accepted,
        holders: sending.holders.clone(),
    }
}

/// The longest that a consumer may hide a message, as a duration.
pub(super) fn visibility(ms: u64) -> Duration {
    Duration::from_millis(ms.min(VISIBILITY_MAX_MS))
}

/// How long the home hosts have to say whether they know an id. One that was just killed does not
/// answer, and a resend is what covers its death: it must not wait for its session to end. Who
/// answers later still says so to the copy itself.
const ASK_WITHIN: Duration = Duration::from_millis(100);
/// How long news in bulk are gathered: far below `open_after`, far above a commit.
const BULK_AFTER: Duration = Duration::from_millis(100);
