//! Holders compare in the background, partition by partition, what both should have.
//!
//! A host that is met says what it holds. After that its copies are known from what is said to it
//! and by it; should that ever be wrong, or a new holder was listed and its copy never left, this
//! finds it. A digest is sent; who has another one says so, is asked for its ranges, and is given
//! what it lacks, holes in the middle included. Only what is settled is compared: it is not under
//! way.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use gaggle_wire::{NodeId, ProcessId};

use super::Node;
use super::asking::Question;
use crate::custody::digest::Digest;
use crate::effect::Effects;
use crate::envelope::{Envelope, Place, Span};
use crate::now::Now;
use crate::ranges::Ranges;
use crate::session::{PartitionId, Session};
use crate::timer::Timer;

impl Node {
    /// Compares the next partition with every node in session.
    pub(super) fn compare_next(&mut self, now: Now, effects: &mut Effects) {
        let peers: Vec<NodeId> = self.sessions.iter().map(|(node, _)| node).collect();
        for peer in peers {
            // Who is still being given copies lacks them: that is no news.
            let idle = |session: &&Session| session.yielded && session.is_given();
            let Some(session) = self.sessions.with(peer).filter(idle) else { continue };
            let from = session.compared.map_or(Bound::Unbounded, Bound::Excluded);
            let mut rest = self.partitions.range((from, Bound::Unbounded));
            let next = rest.find(|(_, partition)| partition.lists.listed().contains(&peer));
            let next = next.map(|(id, _)| *id);
            if let Some(session) = self.sessions.progress_mut(peer) {
                session.compared = next;
            }
            if let Some(id) = next {
                self.compare(now, peer, id, effects);
            }
        }
    }

    fn compare(&mut self, now: Now, peer: NodeId, id: PartitionId, effects: &mut Effects) {
        let messages = self.settled_for(peer, id);
        let digest = Digest::of(&messages);
        let deadline = now.mono.plus(ANSWER_WITHIN);
        self.timers.at_latest(Timer::Deadlines, deadline);
        let kind = Question::Compare(id, messages.into_iter().collect());
        let call = self.desk.calls.start([peer], deadline, kind);
        let (queue, partition) = id;
        self.say(peer, Envelope::Compare { call, queue, partition, digest }, effects);
    }

    /// Another holder compares: if anything differs, it asks what is here.
    pub(super) fn compared(
        &mut self,
        peer: NodeId,
        (call, id, digest): (u64, PartitionId, Digest),
        effects: &mut Effects,
    ) {
        let after = Place::before(id);
        let equal = Digest::of(&self.settled_for(peer, id)) == digest;
        self.count(if equal { "compared_equal" } else { "compared_different" });
        let span = Span { after, until: (!equal).then_some(after) };
        let partitions = Vec::new();
        self.say(peer, Envelope::Inventory { call, partitions, span }, effects);
    }

    /// What is settled here and should be at that node as well.
    fn settled_for(&self, peer: NodeId, id: PartitionId) -> BTreeMap<ProcessId, Ranges> {
        let Some(partition) = self.partitions.get(&id) else { return BTreeMap::new() };
        let mut messages = partition.lists.held_for(peer);
        for (process, numbers) in &mut messages {
            if let Some(known) = partition.known.of(*process) {
                numbers.subtract(&known.unsettled);
                numbers.subtract(&known.lost);
            }
        }
        messages
    }
}

/// How long the other has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
