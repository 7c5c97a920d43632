//! What two hosts hold, compared: at the start of a session, and for what stays open.
//!
//! Each side says what it holds and what it knows to be gone, as ranges, part by part. What the
//! other lacks and should have is read from disk, page by page, and given to it; what both hold is
//! settled; what one knows to be gone is gone for both. The next part is asked for at once, and
//! nothing is handed out before the last one has come: a part may tell of a delete that no
//! tombstone told of, because its list did not name this host (P4). The same comparison, for a few
//! ids, is what a holder asks for when its coordinator does not say that enough hosts have them.
//!
//! Invariant: a part counts only behind the one before it, in its session. What this file does not
//! do: it does not ask (`asking.rs`) and does not tell (`telling.rs`).

use std::collections::BTreeMap;

use gaggle_wire::{NodeId, ProcessId};

use super::Node;
use super::asking::{ASK_WITHIN, Question};
use super::deleting::NewTombstones;
use crate::custody::burial::{Numbers, merge_numbers};
use crate::effect::Effects;
use crate::envelope::{CopyException, Envelope, PartitionInventory, Span};
use crate::now::Now;
use crate::ranges::Ranges;
use crate::session::{Inventoried, PartitionId};
use crate::table::Stage;

/// Of which messages that both have the other is told the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// Of those that are settled by it.
    Settled,
    /// Of all.
    All,
}

impl Node {
    /// A node tells what it holds and knows to be gone.
    pub(super) fn inventory_came(
        &mut self,
        now: Now,
        peer: NodeId,
        (call, partitions, span): (u64, Vec<PartitionInventory>, Span),
        effects: &mut Effects,
    ) {
        if call == 0 {
            self.part_came(now, peer, (&partitions, span), effects);
        } else {
            self.answer_came(now, peer, (call, &partitions, span), effects);
        }
    }

    /// A part of all that a node has: what it does not name there, it does not have.
    fn part_came(
        &mut self,
        now: Now,
        peer: NodeId,
        (partitions, span): (&[PartitionInventory], Span),
        effects: &mut Effects,
    ) {
        let Some(session) = self.sessions.with(peer) else { return };
        let comes_on = span.until.is_none_or(|until| until > span.after);
        if session.inventoried != Inventoried::Coming(span.after) || !comes_on {
            return;
        }
        for inventory in partitions {
            // Lists are told beside it.
            self.learn(now, peer, (inventory, Listed::Settled), effects);
        }
        self.note_lacking(peer, partitions, span);
        let Some(session) = self.sessions.with_mut(peer) else { return };
        match span.until {
            Some(after) => {
                session.inventoried = Inventoried::Coming(after);
                self.say(peer, Envelope::More { after }, effects);
            }
            None => session.inventoried = Inventoried::All,
        }
        self.make_up(now, peer, effects);
        self.custody_changed(now, effects);
    }

    /// Notes what a node lacks of this span that should have it.
    fn note_lacking(&mut self, peer: NodeId, partitions: &[PartitionInventory], span: Span) {
        let named = partitions.iter().map(|named| ((named.queue, named.partition), named));
        let named: BTreeMap<PartitionId, &PartitionInventory> = named.collect();
        let mut make_up = Vec::new();
        for (id, _) in self.partitions.range(span.partitions()) {
            let none = PartitionInventory::nothing(*id);
            let inventory = named.get(id).copied().unwrap_or(&none);
            let within = |process, numbers: &Ranges| span.of(*id, process, numbers);
            let lacking = self.lacking(peer, (*id, inventory), within);
            if !lacking.is_empty() {
                make_up.push((*id, lacking));
            }
        }
        let Some(session) = self.sessions.progress_mut(peer) else { return };
        for (id, lacking) in make_up {
            match session.make_up.back_mut() {
                // One look through a partition finds what all its parts showed.
                Some((last, numbers)) if *last == id => merge_numbers(numbers, &lacking),
                _ => session.make_up.push_back((id, lacking)),
            }
        }
    }

    /// The answer to an `Ask`, a `Fetch` or a `Compare`, or a part of it.
    fn answer_came(
        &mut self,
        now: Now,
        peer: NodeId,
        (call, partitions, span): (u64, &[PartitionInventory], Span),
        effects: &mut Effects,
    ) {
        let Some(asked) = self.desk.calls.waits_for(call, peer) else { return };
        let Some((id, numbers, words)) = asked.kind.messages() else { return };
        let covered = span.cut(id, &numbers);
        let rest = span.until.map(|after| Span { after, until: None }.cut(id, &numbers));
        let rest = rest.filter(|rest| !rest.is_empty());
        let resent = matches!(asked.kind, Question::Resend(_));
        if rest.is_some() && !covered.is_empty() && !resent {
            asked.deadline = asked.deadline.max(now.mono.plus(ASK_WITHIN));
        }
        let processes = partitions.iter().flat_map(|inventory| &inventory.processes);
        let gives = matches!(asked.kind, Question::Open(..) | Question::Compare(..));
        match &mut asked.kind {
            Question::Resend(new) => {
                for (_, held, buried) in processes {
                    new.gone.merge(buried);
                    new.held.entry(peer).or_default().merge(held);
                }
            }
            Question::Lost { found, .. } => {
                for (process, held, _) in processes {
                    merge_numbers(found, &[(*process, held.clone())]);
                }
            }
            _ => {}
        }
        for inventory in partitions {
            self.learn(now, peer, (inventory, Listed::All), effects);
            if gives {
                let id = (inventory.queue, inventory.partition);
                self.give_lacking(peer, id, inventory, &covered);
            }
        }
        self.make_up(now, peer, effects);
        match rest {
            Some(rest) => self.ask_about(peer, call, (id, rest, words), effects),
            None => {
                self.desk.calls.answer(call, peer);
                if let Some(Question::Resend(new)) = self.desk.calls.kind(call)
                    && self.is_placed(new)
                {
                    self.desk.calls.suffices(call);
                }
                self.call_over(now, call, effects);
            }
        }
    }

    /// Takes in what another holder knows: what both hold is at two hosts; what it knows to be
    /// gone is gone.
    pub(super) fn learn(
        &mut self,
        now: Now,
        peer: NodeId,
        (inventory, listed): (&PartitionInventory, Listed),
        effects: &mut Effects,
    ) {
        let id = (inventory.queue, inventory.partition);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let mut gone: Numbers = Vec::new();
        let (mut common, mut settled): (Numbers, bool) = (Vec::new(), false);
        for (process, theirs, buried) in &inventory.processes {
            let Some(known) = partition.known.of(*process) else { continue };
            let mut dead = known.held.intersection(buried);
            dead.merge(&known.lost.intersection(buried));
            if !dead.is_empty() {
                gone.push((*process, dead));
            }
            let both = known.unsettled.intersection(theirs);
            match listed {
                Listed::All => common.push((*process, known.held.intersection(theirs))),
                Listed::Settled => common.push((*process, both.clone())),
            }
            if !both.is_empty() {
                partition.known.settle(*process, &both);
                settled = true;
            }
        }
        if settled {
            self.reconsider(id);
        }
        // Nobody said that these copies are of one send, and so under one list.
        self.tell_lists(id, &common, effects);
        if !gone.is_empty() {
            let listed = [self.config.node, peer];
            let new = NewTombstones {
                id,
                holders: listed.into_iter().collect(),
                messages: gone,
                stamps: Vec::new(),
                leases: Vec::new(),
                known: vec![peer],
            };
            self.bury(now, new, effects);
        }
    }

    /// Notes what a host lacks that should have it and this node holds, of these ids.
    pub(super) fn give_lacking(
        &mut self,
        peer: NodeId,
        id: PartitionId,
        inventory: &PartitionInventory,
        only: &Numbers,
    ) {
        let lacking = self.lacking(peer, (id, inventory), |process, numbers| {
            let asked = only.iter().find(|(of, _)| *of == process);
            asked.map_or_else(Ranges::default, |(_, asked)| numbers.intersection(asked))
        });
        if !lacking.is_empty()
            && let Some(session) = self.sessions.progress_mut(peer)
        {
            session.make_up.push_back((id, lacking));
        }
    }

    /// What a host lacks that should have it and this node holds, of what `within` picks.
    fn lacking(
        &self,
        peer: NodeId,
        (id, inventory): (PartitionId, &PartitionInventory),
        within: impl Fn(ProcessId, &Ranges) -> Ranges,
    ) -> Numbers {
        let mut lacking: Numbers = Vec::new();
        let Some(partition) = self.partitions.get(&id) else { return lacking };
        if self.table.live(id.0).is_none() || self.stage(peer) != Stage::Stays {
            return lacking;
        }
        for (process, numbers) in partition.lists.held_for(peer) {
            let mut lacks = within(process, &numbers);
            if let Some(known) = partition.known.of(process) {
                lacks.subtract(&known.lost);
            }
            let named = inventory.processes.iter().find(|(of, ..)| *of == process);
            if let Some((_, theirs, gone)) = named {
                lacks.subtract(theirs);
                lacks.subtract(gone);
            }
            if !lacks.is_empty() {
                lacking.push((process, lacks));
            }
        }
        lacking
    }

    /// Goes on giving a node what it lacks, one read at a time, as long as its disk has room. Where
    /// neither has any, custody cannot go to another for it: it is given all the same (P10).
    pub(super) fn make_up(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        let takes = !self.is_full(peer) || self.is_full(self.config.node);
        let Some(session) = self.sessions.progress_mut(peer) else { return };
        if takes
            && session.make_up_pending == 0
            && let Some((id, lacking)) = session.make_up.pop_front()
        {
            session.make_up_pending += 1;
            self.read_lacking(peer, (id, lacking), None, effects);
        }
        self.pass_custody(now, peer, effects);
    }

    /// A node has the made-up copies on disk (or knows better).
    pub(super) fn made_up(
        &mut self,
        now: Now,
        peer: NodeId,
        exceptions: &[(u32, CopyException)],
        effects: &mut Effects,
    ) {
        self.count_more("make_up_exceptions", exceptions.len() as u64);
        if let Some(session) = self.sessions.progress_mut(peer) {
            session.make_up_pending = session.make_up_pending.saturating_sub(1);
        }
        self.make_up(now, peer, effects);
    }
}
