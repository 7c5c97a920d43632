//! Sends under way whose hosts fail, or whose coordinator was away: stand-ins, and time that is up.
//!
//! What this file does not do: how a send begins, counts and ends well is in `sending.rs`.

use std::collections::BTreeMap;

use gaggle_wire::{NodeId, Refusal, Response};

use super::Node;
use super::asking::Question;
use super::sending::{copy_of, relist_of};
use crate::custody::sending::Sending;
use crate::effect::{Effect, Effects};
use crate::event::Reply;
use crate::now::Now;
use crate::table::rendezvous::{self, Slot};

impl Node {
    /// A session ended: batches that wait for that host get a stand-in, or do without.
    pub(super) fn sends_lost(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        let waiting: Vec<u64> = self
            .sends
            .under_way
            .iter()
            .filter(|(_, sending)| sending.waiting.contains(&peer))
            .map(|(batch, _)| *batch)
            .collect();
        for batch in waiting {
            self.send_without(now, (peer, batch), effects);
        }
    }

    /// A host leaves the cluster, its disk is full, or it has lost some of a batch that came again:
    /// it does not take it.
    pub(super) fn declined(&mut self, now: Now, peer: NodeId, batch: u64, effects: &mut Effects) {
        let Some(sending) = self.sends.under_way.get_mut(&batch) else { return };
        if sending.waiting.contains(&peer) {
            sending.forget(peer);
            self.send_without(now, (peer, batch), effects);
        }
    }

    fn send_without(&mut self, now: Now, (peer, batch): (NodeId, u64), effects: &mut Effects) {
        let mut sending = self.sends.under_way.remove(&batch).expect("it is under way");
        sending.lost(peer);
        if !sending.answered {
            self.stand_in(now, batch, &mut sending, effects);
        }
        self.sends.under_way.insert(batch, sending);
        self.judge_send(now, batch, effects);
    }

    /// Replaces a host that failed in mid-send by the next one of the ranking, if there is one.
    fn stand_in(&mut self, now: Now, batch: u64, sending: &mut Sending, effects: &mut Effects) {
        let id = sending.partition;
        let next = self
            .placement(id)
            .into_iter()
            .find(|node| !sending.holders.contains(node) && self.sessions.reaches(*node));
        let Some(stand_in) = next else { return };
        let mut holders = sending.holders.clone();
        holders.push(stand_in);
        rendezvous::order(Slot::of(id.0, id.1), &mut holders);
        sending.extend_list(holders.clone());
        let (me, already) = (self.config.node, sending.holding().collect::<Vec<_>>());
        for node in already.iter().filter(|node| **node != me) {
            self.say(*node, relist_of(batch, sending), effects);
        }
        if already.contains(&me) {
            self.relist_here(now, batch, sending, effects);
        }
        if stand_in == me {
            self.keep_here(now, batch, sending, effects);
        } else if let Some(session) = self.sessions.with(stand_in) {
            effects.push(Effect::SendNow { link: session.link, envelope: copy_of(batch, sending) });
            sending.ask(stand_in);
        }
        self.count("stand_ins");
    }

    /// This node was away: what it was sending may have been stored by others since, and deleted,
    /// so it goes to nobody else, this node among them (P4). Its outcome is unknown; the client
    /// sends it again, and then others are asked.
    pub(super) fn give_up_sends(&mut self, effects: &mut Effects) {
        let sends = std::mem::take(&mut self.sends.under_way);
        let (answered, given_up) = sends.into_iter().partition(|(_, sending)| sending.answered);
        self.sends.under_way = answered;
        let given_up: BTreeMap<u64, Sending> = given_up;
        let mut replies: Vec<Reply> = given_up.into_values().map(|sending| sending.reply).collect();
        for call in self.desk.calls.take(|kind| matches!(kind, Question::Resend(_))) {
            if let Question::Resend(new) = call.kind {
                replies.push(new.reply);
            }
        }
        self.count_more("sends_unknown", replies.len() as u64);
        for reply in replies {
            effects.answer(reply, Response::Refused(Refusal::OutcomeUnknown));
        }
    }

    /// Sends whose time is up: their outcome is unknown, and stays so.
    pub(super) fn sends_overdue(&mut self, now: Now, effects: &mut Effects) {
        let due: Vec<u64> = self
            .sends
            .under_way
            .iter()
            .filter(|(_, sending)| sending.deadline <= now.mono)
            .map(|(batch, _)| *batch)
            .collect();
        for batch in due {
            let sending = self.sends.under_way.remove(&batch).expect("it was listed");
            if sending.answered {
                self.note_settled(now, &sending);
            } else {
                self.count("sends_unknown");
                effects.answer(sending.reply, Response::Refused(Refusal::OutcomeUnknown));
            }
        }
    }
}
