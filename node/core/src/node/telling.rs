//! What this node holds and knows to be gone, as it tells it to others.
//!
//! All of it is told as a session begins: a first part at once, each further one when the other
//! asks what lies behind the last. Beside a part go the lists of its messages, where they are not
//! the ones that the other would think. The same is told, of some messages, to whoever asks.
//!
//! Invariant: nothing is kept between two parts. So what changes meanwhile needs no care: where the
//! other was told already it hears of it as of all that happens in a session. What this file does
//! not do: what is done with what others tell is in `inventory.rs`.

use gaggle_wire::{NodeId, ProcessId};

use super::Node;
use super::copies::lists_of;
use crate::custody::burial::{Numbers, merge_numbers};
use crate::custody::part::Room;
use crate::effect::Effects;
use crate::envelope::{Envelope, Lost, PartitionInventory, Place, Span};
use crate::now::Now;
use crate::queue::{Partition, Told};
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::rendezvous::{self, Slot};

impl Node {
    /// A node asks for what lies behind the part of the inventory that it was told last. After the
    /// last part it may be what custody waited for.
    pub(super) fn more_asked(
        &mut self,
        now: Now,
        peer: NodeId,
        after: Place,
        effects: &mut Effects,
    ) {
        self.tell_inventory(peer, after, effects);
        self.pass_custody(now, peer, effects);
    }

    /// Tells a node what this one holds and knows to be gone behind a place, as much as a part has
    /// room for.
    pub(super) fn tell_inventory(&mut self, peer: NodeId, after: Place, effects: &mut Effects) {
        let mut room = Room::new(self.config.inventory_part);
        let (mut partitions, mut lists) = (Vec::new(), Vec::new());
        let mut span = Span { after, until: None };
        for (id, partition) in self.partitions.range(span.partitions()) {
            if partition.known.is_empty() {
                continue;
            }
            if room.is_used_up() {
                span.until = Some(Place::before(*id));
                break;
            }
            room.take_one();
            let listed = self.lists_for(peer, *id, partition);
            let beside: Vec<&Numbers> = listed.iter().map(|(_, numbers)| numbers).collect();
            let (inventory, until) = partition.known.inventory((*id, after), &beside, &mut room);
            if !inventory.processes.is_empty() {
                partitions.push(inventory);
            }
            let told = Span { after, until };
            for (nodes, numbers) in listed {
                let numbers = told.cut(*id, &numbers);
                if !numbers.is_empty() {
                    lists.push(lists_of(*id, (nodes, numbers)));
                }
            }
            if until.is_some() {
                span.until = until;
                break;
            }
        }
        self.say(peer, Envelope::Inventory { call: 0, partitions, span }, effects);
        for listed in lists {
            self.say(peer, listed, effects);
        }
        if let (None, Some(session)) = (span.until, self.sessions.progress_mut(peer)) {
            session.told = true;
        }
    }

    /// Which messages are here under other lists than a node would think that is on them.
    fn lists_for(
        &self,
        peer: NodeId,
        id: PartitionId,
        partition: &Partition,
    ) -> Vec<(Vec<NodeId>, Numbers)> {
        let mut homes = self.homes(id);
        rendezvous::order(Slot::of(id.0, id.1), &mut homes);
        let mut listed = partition.lists.told(Told::Except(&homes));
        listed.retain(|(nodes, _)| nodes.contains(&peer));
        listed
    }

    /// A node asks which of these messages this one knows. Which of them it was told of.
    pub(super) fn asked(
        &self,
        peer: NodeId,
        call: u64,
        (id, messages, lost): (PartitionId, &[(ProcessId, Ranges)], Lost),
        effects: &mut Effects,
    ) -> Numbers {
        let mut asked = Numbers::new();
        merge_numbers(&mut asked, messages);
        asked.retain(|(_, numbers)| !numbers.is_empty());
        asked.sort_by_key(|(process, _)| *process);
        let mut room = Room::new(self.config.inventory_part);
        let (inventory, until) = match self.partitions.get(&id) {
            Some(partition) => partition.known.asked((id, &asked), lost, &mut room),
            None => (PartitionInventory::nothing(id), None),
        };
        let first = asked.first().map(|(process, numbers)| (*process, numbers.firsts(0).next()));
        let last = asked.last().map(|(process, numbers)| (*process, numbers.last()));
        let place = |of: Option<(ProcessId, Option<u64>)>, less: u64| {
            let (process, number) = of.unwrap_or((ProcessId(0), None));
            Place::of(id, process, number.unwrap_or(0).saturating_sub(less))
        };
        let until = until.unwrap_or_else(|| place(last, 0));
        let span = Span { after: place(first, 1), until: Some(until) };
        let partitions = vec![inventory];
        self.say(peer, Envelope::Inventory { call, partitions, span }, effects);
        span.cut(id, &asked)
    }
}
