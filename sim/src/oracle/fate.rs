//! What is known of one message.
//!
//! A lease ends at its custodian, unseen: what clients know are bounds. What this file does not
//! do: it does not know other messages.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::{Label, NodeId, Receipt};

use super::{Delivered, FullName, Place};
use crate::judge::{Subject, Witness};

/// What is known of one message.
#[derive(Clone, Debug)]
pub struct Fate {
    /// As it was sent.
    pub label: Label,
    /// How often it was sent.
    pub sends: u32,
    /// When it was last sent again.
    pub resent_at: Option<u64>,
    /// How many of those sends are without an answer: each may be done later than all that is
    /// known.
    pub unheard: u32,
    /// When its send was confirmed first, and with how many copies.
    pub confirmed: Option<(u64, u8)>,
    /// Its deliveries, in the order in which they came.
    pub deliveries: Vec<Seen>,
    /// The delivery that each run of a custodian gave last, and when: what says so waits for its
    /// disk, and another may give it meanwhile.
    pub given: BTreeMap<(NodeId, u64), (Receipt, u64)>,
    /// The delivery that was handed out last and has not come, and until when it hides the message.
    pub under_way: Option<(Receipt, u64)>,
    /// When anybody asked for its deletion first.
    pub delete_asked: Option<u64>,
    /// Whose disks were known to have it then.
    pub asked_of: BTreeSet<usize>,
    /// When its deletion was confirmed first.
    pub deleted: Option<u64>,
    /// Whether a queue's own rule may have taken it (purge, retention, deletion of the queue), or
    /// every host that had it has lost its disk.
    pub excused: bool,
    /// Whose disks have had it, from its confirm on, and were not lost since.
    pub kept_at: BTreeSet<usize>,
    /// When it was answered that a purge or the deletion of its queue has taken it.
    pub taken: Option<u64>,
    /// Who has lost its copy or its disk at some time, and with it what was known of leases.
    pub lost_by: BTreeSet<usize>,
    /// Those of them that had it on disk, and so may have said that they have it.
    pub had_by: BTreeSet<usize>,
    /// Whose disks have lost its row: once started anew they do not know that they had it.
    pub row_lost_by: BTreeSet<usize>,
    /// When the disk of a host last lost the copy that it had, with its row or only the content.
    pub copy_lost_at: BTreeMap<usize, u64>,
    /// Whether, after its deletion was confirmed, a disk was lost that may have had its tombstone,
    /// and nobody that is up has it on disk.
    pub unburied: bool,
    /// Whether, after its deletion was confirmed, a disk was put back that has it, and nobody could
    /// tell that it was deleted.
    pub revived: bool,
    /// Who had it when its disk was put back to an earlier state.
    pub put_back: BTreeSet<usize>,
    /// On whose disks its tombstone lay when its deletion was confirmed, and who has kept them
    /// since.
    pub buried_at: BTreeSet<usize>,
    /// Who had its tombstone on disk and has lost that, and when last.
    pub unburied_by: BTreeMap<usize, u64>,
}

/// One delivery as a client saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its node handed it over.
    pub at: u64,
    /// Who got it from where.
    pub place: Place,
    /// Until when it stays hidden at least.
    pub until: u64,
    /// The same by what its custodian itself has said. Behind a cut another holder extends, and may
    /// die before the two meet.
    pub until_there: u64,
    /// When it is over at the latest, if it was not given back before.
    pub over_by: u64,
    /// Whether it was given back, or may have been.
    pub ended: bool,
    /// Its receipt.
    pub receipt: Receipt,
}

impl Fate {
    pub(super) fn new(label: Label) -> Self {
        Self {
            label,
            sends: 0,
            resent_at: None,
            unheard: 0,
            confirmed: None,
            deliveries: Vec::new(),
            given: BTreeMap::new(),
            under_way: None,
            delete_asked: None,
            asked_of: BTreeSet::new(),
            deleted: None,
            excused: false,
            kept_at: BTreeSet::new(),
            taken: None,
            lost_by: BTreeSet::new(),
            had_by: BTreeSet::new(),
            row_lost_by: BTreeSet::new(),
            copy_lost_at: BTreeMap::new(),
            unburied: false,
            revived: false,
            put_back: BTreeSet::new(),
            buried_at: BTreeSet::new(),
            unburied_by: BTreeMap::new(),
        }
    }

    /// A node that may have it or its tombstone loses its disk.
    pub(super) fn lost_at(&mut self, (now, at): (u64, usize), mut witness: Witness) {
        self.lost_copy(at, &witness);
        self.lost_tombstone((now, at), &mut witness);
        self.unburied |= self.deleted.is_some() && witness.buried.is_disjoint(&witness.up);
    }

    /// A node that may have its tombstone loses it.
    pub(super) fn lost_tombstone(&mut self, (now, at): (u64, usize), witness: &mut Witness) {
        if witness.buried.remove(&at) {
            self.unburied_by.insert(at, now);
        }
        self.buried_at.remove(&at);
    }

    /// A node that may have it loses its copy.
    pub(super) fn lost_copy(&mut self, at: usize, witness: &Witness) {
        self.lost_by.insert(at);
        self.had_by.extend(witness.holders.contains(&at).then_some(at));
        if self.confirmed.is_some() {
            self.kept_at.extend(witness.holders.difference(&witness.damaged));
            // What lies on a disk that was put back is no evidence, and goes if nobody else has it;
            // who was removed is to be needed by nobody from then on, be its process still up.
            let counts =
                |kept: &usize| !self.put_back.contains(kept) && !witness.struck.contains(kept);
            self.kept_at.retain(|kept| *kept != at && counts(kept));
            self.excused |= self.kept_at.is_empty();
        }
    }

    /// Whether it was confirmed and lies at this node alone, and another that had it has lost its
    /// row and does not know that it had one. See [`super::lost_rows`].
    pub(crate) fn is_denied(&self, at: usize, witness: &Witness) -> bool {
        let mut unknowing = self.row_lost_by.difference(&witness.losers);
        let mut whole = witness.holders.difference(&witness.damaged);
        self.confirmed.is_some() && whole.all(|by| *by == at) && unknowing.any(|by| *by != at)
    }

    /// Since when it is certainly ready, if it certainly is to be consumed; its queue delays it by
    /// so much, in nanoseconds, if it does not say so itself.
    #[must_use]
    pub fn ready_since(&self, delay: u64) -> Option<u64> {
        let (at, _) = self.confirmed.filter(|_| self.is_open())?;
        let own = self.label.delay_ms.saturating_mul(1_000_000);
        let due = at.saturating_add(if own > 0 { own } else { delay });
        let unseen = self.under_way.as_ref().map(|(_, until)| *until);
        let hidden = self.deliveries.iter().map(|seen| seen.over_by).chain(unseen);
        Some(hidden.fold(due, u64::max))
    }

    /// Whether it is certainly still to be consumed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.confirmed.is_some() && self.delete_asked.is_none() && !self.excused
    }

    /// Whether it is certainly not to come any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.deleted.is_some() || self.excused
    }

    pub(crate) fn subject(&self, name: FullName) -> Subject {
        Subject { name, stamp: self.label.stamp, custodian: None }
    }

    /// Its deletion is asked for.
    pub(super) fn asked_to_delete(&mut self, now: u64) {
        if self.delete_asked.is_none() {
            self.delete_asked = Some(now);
            self.asked_of = self.kept_at.clone();
        }
    }

    /// A delivery was given back. What goes back uncounted comes again under the same receipt:
    /// the last one ended.
    pub(super) fn given_back(&mut self, receipt: &Receipt) {
        if let Some(seen) = self.last(receipt) {
            seen.ended = true;
        }
    }

    /// A delivery was given back, to be ready again then.
    pub(super) fn delayed(&mut self, receipt: &Receipt, until: u64) {
        if let Some(seen) = self.last(receipt) {
            seen.over_by = seen.over_by.max(until);
        }
    }

    /// A delivery may from now on end then, or as before, or when nobody knows: until it is heard
    /// how that went.
    pub(super) fn extend_asked(&mut self, receipt: &Receipt, until: u64) {
        if let Some(seen) = self.last(receipt) {
            seen.until = seen.until.min(until);
            seen.until_there = seen.until_there.min(until);
            seen.over_by = u64::MAX;
        }
    }

    /// A delivery ends between these two times, says this node.
    pub(super) fn extended(&mut self, receipt: &Receipt, (from, to): (u64, u64), by: NodeId) {
        if let Some(seen) = self.last(receipt) {
            (seen.until, seen.over_by) = (from, to);
            if by == receipt.custodian {
                seen.until_there = from;
            }
        }
    }

    fn last(&mut self, receipt: &Receipt) -> Option<&mut Seen> {
        self.deliveries.iter_mut().rev().find(|seen| seen.receipt == *receipt)
    }
}

impl Seen {
    pub(crate) fn new(delivered: &Delivered) -> Self {
        let lease = delivered.label.lease_ms.saturating_mul(1_000_000);
        Self {
            at: delivered.at,
            place: delivered.place,
            until: delivered.given.saturating_add(lease),
            until_there: delivered.given.saturating_add(lease),
            over_by: delivered.at.saturating_add(lease),
            ended: delivered.crossed,
            receipt: delivered.label.receipt.clone(),
        }
    }
}
