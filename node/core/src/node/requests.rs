//! Where each request and each envelope goes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::{NodeId, QueueId, QueueName, RECEIVE_MAX, Refusal, Request, Response};

use super::Node;
use super::asking::Question;
use super::copies::{NewCopies, Relisting};
use super::deleting::NewTombstones;
use super::making_up::MAKE_UP;
use super::peeking::Peek;
use super::sending::NewSend;
use super::status::AskedStatus;
use crate::calls::Parked;
use crate::effect::Effects;
use crate::envelope::{Envelope, LeaseChange, Wanted};
use crate::event::Reply;
use crate::now::Now;
use crate::ranges::Ranges;
use crate::reception::{Kind, Stream};
use crate::table::Entry;
use crate::timer::Timer;

/// Whether the other nodes were asked for a queue that this one does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    No,
    Yes,
}

impl Node {
    pub(super) fn request(
        &mut self,
        now: Now,
        reply: Reply,
        request: Request,
        effects: &mut Effects,
    ) {
        self.request_asked(now, Parked { reply, request }, Asked::No, effects);
    }

    /// The other nodes have said what they know.
    pub(super) fn request_again(&mut self, now: Now, parked: Parked, effects: &mut Effects) {
        self.request_asked(now, parked, Asked::Yes, effects);
    }

    fn request_asked(&mut self, now: Now, parked: Parked, asked: Asked, effects: &mut Effects) {
        let reply = parked.reply;
        if let Some(name) = named(&parked.request) {
            let name = name.clone();
            if self.table.named(&name).is_empty() && asked == Asked::No {
                return self.ask_for_queue(now, &name, parked, effects);
            }
        }
        match parked.request {
            Request::Hello { .. } => effects.answer(reply, Response::Welcome(self.welcome())),
            request @ (Request::CreateQueue { .. }
            | Request::SetQueue { .. }
            | Request::DeleteQueue { .. }
            | Request::PurgeQueue { .. }
            | Request::RemoveNode { .. }
            | Request::KeepNode { .. }) => self.table_request(now, reply, request, effects),
            Request::ListQueues { prefix, after } => {
                self.list_queues(reply, (&prefix, after.as_ref()), effects);
            }
            Request::DescribeQueue { name } => self.describe_queue(reply, &name, effects),
            Request::Send { queue, partition, attempt, within_ms, labels } => {
                let within = Duration::from_millis(u64::from(within_ms));
                let (id, gone, held) = ((queue, partition), Ranges::default(), BTreeMap::new());
                let silent = BTreeSet::new();
                let new = NewSend { reply, id, attempt, within, labels, gone, held, silent };
                self.send_requested(now, new, effects);
            }
            Request::Receive { queue, max, wait_ms, visibility_ms } => {
                let until =
                    now.mono.plus(Duration::from_millis(wait_ms.clamp(WAIT_MIN_MS, WAIT_MAX_MS)));
                let kind = Kind::Once { max, until };
                self.receive(now, reply, (&queue, visibility_ms, kind), effects);
            }
            Request::Consume { queue, visibility_ms, credit } => {
                let kind = Kind::Stream(Stream { limit: credit, ..Stream::default() });
                self.receive(now, reply, (&queue, visibility_ms, kind), effects);
            }
            Request::Credit { consumer, limit, taken } => {
                self.credit_came(reply.client, consumer, (limit, taken));
            }
            Request::StopConsume { consumer, taken } => {
                self.stop_requested(now, reply, (consumer, taken), effects);
            }
            Request::Peek { queue, max } => {
                if let Some(queues) = self.queues_named(reply, &queue, effects) {
                    self.peek_requested(now, reply, (queues, max), effects);
                }
            }
            Request::Delete { receipts } if receipts.len() <= RECEIVE_MAX => {
                self.delete_requested(now, reply, &receipts, effects);
            }
            Request::Extend { receipts, visibility_ms } if receipts.len() <= RECEIVE_MAX => {
                let change = LeaseChange::Extend(visibility_ms);
                self.change_requested(now, reply, (change, receipts), effects);
            }
            Request::Release { receipts, delay_ms } if receipts.len() <= RECEIVE_MAX => {
                let change = LeaseChange::Release(delay_ms);
                self.change_requested(now, reply, (change, receipts), effects);
            }
            Request::Delete { .. } | Request::Extend { .. } | Request::Release { .. } => {
                let why = "a request names at most 1,000 receipts".to_owned();
                effects.answer(reply, Response::Refused(Refusal::BadRequest { why }));
            }
            Request::Status { prefix, after } => {
                self.status_requested(now, reply, (&prefix, after.as_ref()), effects);
            }
        }
    }

    /// Something in the table is to be changed.
    fn table_request(&mut self, now: Now, reply: Reply, request: Request, effects: &mut Effects) {
        match request {
            Request::CreateQueue { name, change } => {
                self.create_queue(now, reply, (name, change), effects);
            }
            Request::SetQueue { name, change, mode } => {
                self.set_queue(now, reply, (&name, change, mode), effects);
            }
            Request::DeleteQueue { name } => {
                self.change_named(now, reply, (&name, Entry::delete), effects);
            }
            Request::PurgeQueue { name }
                if self.table.named(&name).into_iter().any(Entry::is_strict) =>
            {
                let why = "a strict queue cannot be purged".to_owned();
                effects.answer(reply, Response::Refused(Refusal::BadRequest { why }));
            }
            Request::PurgeQueue { name } => {
                self.change_named(now, reply, (&name, Entry::purge), effects);
            }
            Request::RemoveNode { node, loss } => {
                self.removal_requested(now, reply, (node, loss), effects);
            }
            Request::KeepNode { node } => self.keep_requested(now, reply, node, effects),
            _ => unreachable!("the caller sorts requests"),
        }
    }

    fn receive(
        &mut self,
        now: Now,
        reply: Reply,
        (queue, visibility_ms, kind): (&QueueName, Option<u64>, Kind),
        effects: &mut Effects,
    ) {
        if let Some(queues) = self.queues_named(reply, queue, effects) {
            self.receive_requested(now, reply, (queues, visibility_ms, kind), effects);
        }
    }

    /// The queues of a name; refuses the request if there are none.
    fn queues_named(
        &self,
        reply: Reply,
        name: &QueueName,
        effects: &mut Effects,
    ) -> Option<Vec<QueueId>> {
        let queues: Vec<QueueId> = self.table.named(name).iter().map(|entry| entry.id).collect();
        if queues.is_empty() {
            effects.answer(reply, not_found(name));
            return None;
        }
        Some(queues)
    }

    fn ask_for_queue(&mut self, now: Now, name: &QueueName, parked: Parked, effects: &mut Effects) {
        let peers: Vec<NodeId> = self.sessions.iter().map(|(node, _)| node).collect();
        let deadline = now.mono.plus(ASK_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Queue(Box::new(parked));
        let call = self.desk.calls.start(peers, deadline, kind);
        self.say_all(&Envelope::AskQueue { call, name: name.clone() }, effects);
        self.call_over(now, call, effects);
    }

    /// Whether the queue that this call asks for has become known.
    pub(super) fn is_known_now(&self, call: u64) -> bool {
        let Some(Question::Queue(parked)) = self.desk.calls.kind(call) else { return false };
        named(&parked.request).is_some_and(|name| !self.table.named(name).is_empty())
    }

    pub(super) fn envelope(
        &mut self,
        now: Now,
        peer: NodeId,
        envelope: Envelope,
        effects: &mut Effects,
    ) {
        self.commits_told(peer, &envelope, effects);
        match envelope {
            Envelope::PutBack => self.renew(effects),
            Envelope::Table { .. }
            | Envelope::TableHeld { .. }
            | Envelope::AskQueue { .. }
            | Envelope::KnownQueue { .. } => self.table_envelope(now, peer, envelope, effects),
            Envelope::Away { members } => self.hear_of_members(now, members, effects),
            Envelope::Rounds { .. } | Envelope::Lacks { .. } => {
                self.word_came(now, peer, envelope, effects);
            }
            Envelope::Mark => self.marked(now, peer, effects),
            Envelope::AskMark => self.mark_asked(now, peer, effects),
            Envelope::Yield => self.yielded_by(now, peer, effects),
            Envelope::HandOver => self.handed_over(now, peer, effects),
            Envelope::Fit { fit } => self.fit_told(now, peer, fit, effects),
            Envelope::Leaving => self.leaves_soon(now, peer, effects),
            Envelope::Copy { .. }
            | Envelope::Declined { .. }
            | Envelope::MakeUp { .. }
            | Envelope::Held { .. }
            | Envelope::Relist { .. }
            | Envelope::Relisted { .. }
            | Envelope::Settled { .. }
            | Envelope::Listed { .. }
            | Envelope::Ask { .. }
            | Envelope::Fetch { .. }
            | Envelope::Compare { .. }
            | Envelope::More { .. }
            | Envelope::Inventory { .. } => self.copy_envelope(now, peer, envelope, effects),
            Envelope::Tombstones {
                batch,
                queue,
                partition,
                holders,
                messages,
                stamps,
                leases,
                known,
            } => {
                let id = (queue, partition);
                let new = NewTombstones { id, holders, messages, stamps, leases, known };
                self.tombstones_came(now, peer, (batch, new), effects);
            }
            Envelope::Buried { batch, older, .. } => {
                self.buried(now, peer, (batch, &older), effects);
            }
            Envelope::BuriedAt { batches, .. } => self.buried_at(now, peer, &batches, effects),
            Envelope::Leases { .. }
            | Envelope::Want { .. }
            | Envelope::Offer { .. }
            | Envelope::Take { .. }
            | Envelope::Grant { .. }
            | Envelope::GrantBack { .. }
            | Envelope::Change { .. }
            | Envelope::Changed { .. } => self.delivery_envelope(now, peer, envelope, effects),
            Envelope::AskPeek { .. }
            | Envelope::Peeked { .. }
            | Envelope::AskStatus { .. }
            | Envelope::StatusTold { .. }
            | Envelope::AskDependence { .. }
            | Envelope::Dependence { .. }
            | Envelope::AskDeleted { .. }
            | Envelope::Alive { .. }
            | Envelope::Clock { .. } => self.report_envelope(now, peer, envelope, effects),
        }
    }

    fn copy_envelope(&mut self, now: Now, peer: NodeId, envelope: Envelope, effects: &mut Effects) {
        match envelope {
            Envelope::Copy { batch, queue, partition, accepted, holders, attempt, labels } => {
                let items = labels.into_iter().map(|label| (label, accepted)).collect();
                let copies = NewCopies { batch, id: (queue, partition), holders, attempt, items };
                self.copies_came(now, peer, copies, effects);
            }
            Envelope::Declined { batch } => self.declined(now, peer, batch, effects),
            Envelope::MakeUp { batch, queue, partition, items } => {
                self.make_up_came(now, peer, (batch, (queue, partition), items), effects);
            }
            Envelope::Held { batch: MAKE_UP, exceptions, .. } => {
                self.made_up(now, peer, &exceptions, effects);
            }
            Envelope::Held { batch, exceptions, .. } => {
                self.held(now, peer, (batch, &exceptions), effects);
            }
            Envelope::Relist { batch, version, queue, partition, labels, holders, .. } => {
                let id = (queue, partition);
                let relisting = Relisting { batch, version, id, labels, holders };
                self.relist_came(now, peer, relisting, effects);
            }
            Envelope::Relisted { batch, version, .. } => {
                self.relisted(now, peer, (batch, version), effects);
            }
            Envelope::Settled { messages, lacking } => self.settled(messages, lacking),
            Envelope::Listed { queue, partition, holders, messages } => {
                let (id, list) = ((queue, partition), (&holders[..], &messages));
                self.further_listed(peer, id, list, effects);
                self.lists_came(id, list, effects);
            }
            Envelope::Ask { call, lost, queue, partition, messages } => {
                let asked = ((queue, partition), &messages[..], lost);
                self.asked(peer, call, asked, effects);
            }
            Envelope::Compare { call, queue, partition, digest } => {
                self.compared(peer, (call, (queue, partition), digest), effects);
            }
            Envelope::Fetch { call, queue, partition, messages } => {
                self.fetched(now, peer, (call, (queue, partition), &messages), effects);
            }
            Envelope::Inventory { call, partitions, span } => {
                self.inventory_came(now, peer, (call, partitions, span), effects);
            }
            Envelope::More { after } => self.more_asked(now, peer, after, effects),
            _ => unreachable!("the caller sorts envelopes"),
        }
    }

    fn delivery_envelope(
        &mut self,
        now: Now,
        peer: NodeId,
        envelope: Envelope,
        effects: &mut Effects,
    ) {
        match envelope {
            Envelope::Leases { queue, partition, leases } => {
                self.leases_told(now, (queue, partition), &leases, effects);
            }
            Envelope::Want { queue, wanted: Wanted::Yes } => {
                self.reception.wanted_by(queue, peer);
            }
            Envelope::Want { queue, wanted: Wanted::No } => {
                self.reception.unwanted_by(queue, peer);
            }
            Envelope::Offer { queue, oldest } => self.reception.offered_by(queue, peer, oldest),
            Envelope::Take { call, queue, max, visibility_ms } => {
                self.taken_by(now, peer, (call, queue, max, visibility_ms), effects);
            }
            Envelope::Grant { call, queue, deliveries, more } => {
                self.granted(peer, (call, deliveries), (queue, more), effects);
                self.let_go(now, peer, effects);
                self.drained(now, effects);
            }
            Envelope::GrantBack { receipts, heard } => {
                self.given_back(now, (&receipts, heard), effects);
            }
            Envelope::Change { call, change, receipts } => {
                self.change_asked(now, peer, (call, change, &receipts), effects);
            }
            Envelope::Changed { call, results: came } => {
                if let Some(asked) = self.desk.calls.answer(call, peer)
                    && let Question::Change { results, .. } = &mut asked.kind
                {
                    *results = came;
                }
                self.call_over(now, call, effects);
            }
            _ => unreachable!("the caller sorts envelopes"),
        }
    }

    fn report_envelope(
        &mut self,
        now: Now,
        peer: NodeId,
        envelope: Envelope,
        effects: &mut Effects,
    ) {
        match envelope {
            Envelope::AskPeek { call, queue, max } => {
                let peek = Peek { asker: peer, call, queues: vec![queue], max };
                self.peek_asked(now, peek, effects);
            }
            Envelope::Peeked { call, deliveries } => {
                self.peeked(now, peer, (call, deliveries), effects);
            }
            Envelope::AskStatus { call, queues } => {
                self.status_asked(now, AskedStatus { asker: peer, call, queues }, effects);
            }
            Envelope::AskDependence { call, node } => {
                self.dependence_asked(peer, (call, node), effects);
            }
            Envelope::AskDeleted { call, queues } => {
                self.deleted_asked(peer, (call, queues), effects);
            }
            Envelope::Alive { call, queues } => {
                self.alive_told(peer, call, &queues);
                self.call_over(now, call, effects);
            }
            Envelope::Dependence { call, messages } => {
                if let Some(call) = self.desk.calls.answer(call, peer)
                    && let Question::Dependence(dependence) = &mut call.kind
                {
                    dependence.messages = dependence.messages.saturating_add(messages);
                }
                self.call_over(now, call, effects);
            }
            Envelope::StatusTold { call, report, queues } => {
                self.status_told(now, (peer, call), *report, queues);
                self.call_over(now, call, effects);
            }
            Envelope::Clock { wall, correction, .. } => {
                self.clock_heard(now, peer, (wall, correction));
            }
            _ => unreachable!("the caller sorts envelopes"),
        }
    }
}

/// The queue that a request needs to be known by name.
fn named(request: &Request) -> Option<&QueueName> {
    match request {
        Request::CreateQueue { name, .. }
        | Request::SetQueue { name, .. }
        | Request::DescribeQueue { name }
        | Request::DeleteQueue { name }
        | Request::PurgeQueue { name }
        | Request::Receive { queue: name, .. }
        | Request::Consume { queue: name, .. }
        | Request::Peek { queue: name, .. } => Some(name),
        _ => None,
    }
}

pub(super) fn not_found(name: &QueueName) -> Response {
    Response::Refused(Refusal::QueueNotFound { queue: name.to_string() })
}

/// How long the others have to say whether they know a queue.
const ASK_WITHIN: Duration = Duration::from_millis(500);
/// The shortest wait of one receive: rows are read and the other nodes asked meanwhile, so that
/// who does not want to wait still gets what is there.
const WAIT_MIN_MS: u64 = 50;
/// The longest wait of one receive: the client asks again.
const WAIT_MAX_MS: u64 = 3600 * 1000;
