//! Further holders of what is being deleted: a receipt names those that its custodian knew when it
//! handed the message out, and the lists of the holders may have grown since. Whoever of them hears
//! of the delete says so before it says that it has the tombstone; then they are told as well, and
//! waited for like the first ones (P4).
//!
//! Invariant: a node is told of a delete once by its coordinator. What this file does not do: it
//! does not know who is in session.

use std::collections::BTreeSet;

use gaggle_wire::{NodeId, Stamp};

use super::{BlockRecord, Burials, Numbers};
use crate::envelope::DeliveryRef;
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::table::rendezvous::{self, Slot};

/// What the holders are told of a delete.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) partition: PartitionId,
    pub(crate) holders: Vec<NodeId>,
    pub(crate) messages: Numbers,
    pub(crate) stamps: Vec<Stamp>,
    pub(crate) leases: Vec<DeliveryRef>,
}

impl Burials {
    /// Those of these blocks whose list names others than who told of them did.
    pub(crate) fn longer<'a>(
        &'a self,
        blocks: &'a [u64],
        named: &'a [NodeId],
    ) -> impl Iterator<Item = &'a BlockRecord> {
        let records = blocks.iter().filter_map(|block| Some(&self.blocks.get(block)?.record));
        records.filter(|record| record.holders.iter().any(|node| !named.contains(node)))
    }

    /// A node that a delete waits for names holders of messages: the deletes of any of these, each
    /// with who has not been told of it yet.
    pub(crate) fn further(
        &self,
        by: NodeId,
        partition: PartitionId,
        (holders, messages): (&[NodeId], &Numbers),
    ) -> Vec<(u64, BTreeSet<NodeId>)> {
        let mut further = Vec::new();
        for (batch, burying) in &self.under_way {
            let of = |(process, numbers): &(_, Ranges)| {
                let mut same = burying.told.messages.iter().filter(|(of, _)| of == process);
                same.any(|(_, told)| !told.is_disjoint(numbers))
            };
            if burying.told.partition == partition
                && burying.waiting.contains(&by)
                && messages.iter().any(of)
            {
                let known = |node: &NodeId| {
                    burying.waiting.contains(node)
                        || burying.buried.contains(node)
                        || burying.told.holders.contains(node)
                };
                further.push((*batch, holders.iter().copied().filter(|n| !known(n)).collect()));
            }
        }
        further
    }

    /// These are holders as well of what is deleted, and those of them that are waited for are
    /// told: what they are told.
    pub(crate) fn tell_further(
        &mut self,
        batch: u64,
        further: &BTreeSet<NodeId>,
        waiting: &[NodeId],
    ) -> Option<Told> {
        let burying = self.under_way.get_mut(&batch)?;
        let partition = burying.told.partition;
        burying.told.holders.extend(further);
        rendezvous::order(Slot::of(partition.0, partition.1), &mut burying.told.holders);
        burying.waiting.extend(waiting);
        Some(burying.told.clone())
    }
}
