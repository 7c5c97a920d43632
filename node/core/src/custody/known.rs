//! What a host knows of the messages of a partition, by process, as ranges.
//!
//! An id is *held* (its row is here), *gone* (there is a tombstone for it), *lost* (its row was
//! here and cannot be read any more) or unknown. A held id
//! is *unsettled* until enough hosts are known to have it: its coordinator says so in bulk, and
//! if that does not come, the holder asks the other hosts itself. This is what makes a second
//! send of an id harmless (P11), what two hosts compare when they meet, and what tells a copy
//! that was never confirmed from one that was.
//!
//! Invariants: an id is one of held, gone and lost; unsettled ids are held. What this file does not
//! do: it does not know rows, lists or stamps.

mod inventory;
mod unconfirmed;

use std::collections::BTreeMap;

use gaggle_wire::{Attempt, ProcessId};
use serde::{Deserialize, Serialize};

use crate::ranges::Ranges;

/// What is known of one process's messages.
#[derive(Debug, Default)]
pub(crate) struct OfProcess {
    pub(crate) held: Ranges,
    pub(crate) gone: Ranges,
    /// Held and not known to be at enough hosts.
    pub(crate) unsettled: Ranges,
    /// Unsettled, and sent again, or given to this host when another one failed in mid-send: some
    /// may have been handed out and deleted by then.
    repeated: Ranges,
    /// Given to this host by another holder, and lacking: of those that others can be asked about.
    given: Ranges,
    /// Unsettled, and accepted by this node in this run: no confirm counts on them so far.
    unconfirmed: Ranges,
    /// Held or lost, with a row that counts their deliveries.
    counted: Ranges,
    /// What was unsettled at the last look; what still is, is open.
    looked_at: Ranges,
    /// What somebody wanted stored since the last look, though it was here.
    wanted: Ranges,
    /// Stored in this run within the last resend window, and in the one before it: whoever sends
    /// them may still count this host. By the steady clock, as a wall clock that is set right makes
    /// what came just now look old.
    young: [Ranges; 2],
    /// Held, be it settled, and perhaps not at every host of its list that can be reached.
    lacking: Ranges,
    /// Was held, and its row is damaged or has vanished: another holder is asked for it.
    pub(crate) lost: Ranges,
    /// Lost, and when all other holders were asked last, none had it.
    nowhere: Ranges,
    /// Held since the scrub began with the partition, and not seen by it yet.
    unseen: Ranges,
    /// The highest number that was ever held.
    highest: u64,
    /// Whether `unsettled` differs from what is written down.
    dirty: bool,
}

/// What is written down of which messages are settled: all up to `up_to`, but for these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettledRecord {
    pub(crate) up_to: u64,
    pub(crate) except: Ranges,
}

/// What is known of a partition.
#[derive(Debug, Default)]
pub(crate) struct Known {
    processes: BTreeMap<ProcessId, OfProcess>,
}

/// How a message came that is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// It was sent, and this node has accepted it.
    Accepted(Attempt),
    /// It was sent, and another node has accepted it.
    Sent(Attempt),
    /// Another holder gave it, and there are more to ask.
    Given,
}

/// What became of an id that somebody wants stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Never seen: it is to be stored.
    New,
    /// It is here.
    Held,
    /// It was here, and is to be stored again.
    Lost,
    /// It is gone.
    Gone,
}

impl Known {
    /// What is known of an id.
    pub(crate) fn seen(&self, process: ProcessId, number: u64) -> Seen {
        match self.processes.get(&process) {
            Some(known) if known.gone.contains(number) => Seen::Gone,
            Some(known) if known.held.contains(number) => Seen::Held,
            Some(known) if known.lost.contains(number) => Seen::Lost,
            _ => Seen::New,
        }
    }

    /// Takes a stored message in, unsettled.
    pub(crate) fn hold(&mut self, process: ProcessId, number: u64) {
        let known = self.processes.entry(process).or_default();
        assert!(!known.gone.contains(number), "P4: what is gone is not held again");
        known.held.insert(number);
        known.unsettled.insert(number);
        known.young[0].insert(number);
        known.lost.remove(number);
        known.nowhere.remove(number);
        known.highest = known.highest.max(number);
        known.dirty = true;
    }

    /// A message that was taken in just now may have been handed out by others before: they are
    /// asked.
    pub(crate) fn repeat(&mut self, process: ProcessId, number: u64) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.repeated.insert(number);
            known.lacking.insert(number);
        }
    }

    /// A message that was taken in just now was given by one of several holders: the others, who
    /// may not be in session with that one, may know that it is gone, and are asked.
    pub(crate) fn give(&mut self, process: ProcessId, number: u64) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.given.insert(number);
            known.lacking.insert(number);
        }
    }

    /// Whether a message was given by one of several holders, and not all others were asked since.
    pub(crate) fn is_given(&self, process: ProcessId, number: u64) -> bool {
        self.processes.get(&process).is_some_and(|known| known.given.contains(number))
    }

    /// Whether a message may have been handed out by others before it came, and is not known to be
    /// at enough hosts.
    pub(crate) fn is_repeated(&self, process: ProcessId, number: u64) -> bool {
        self.processes.get(&process).is_some_and(|known| known.repeated.contains(number))
    }

    /// Takes a row in that was read at open, unless its message is gone; whether it is not.
    pub(crate) fn hold_row(&mut self, process: ProcessId, number: u64) -> bool {
        let known = self.processes.entry(process).or_default();
        if known.gone.contains(number) {
            return false;
        }
        known.held.insert(number);
        known.highest = known.highest.max(number);
        true
    }

    /// After all rows were read: what is not written down as settled is unsettled. Of a process
    /// that nothing is known of, what is written down is over, and goes at the next look.
    pub(crate) fn rows_read(&mut self, settled: &BTreeMap<ProcessId, SettledRecord>) {
        for process in settled.keys() {
            self.processes.entry(*process).or_default();
        }
        for (process, known) in &mut self.processes {
            known.unsettled = match settled.get(process) {
                None => known.held.clone(),
                Some(record) => {
                    let settled = Ranges::of(1, record.up_to).without(&record.except);
                    known.held.without(&settled)
                }
            };
            known.looked_at = known.unsettled.clone();
        }
    }

    /// The deliveries of this one are counted in a row of their own from now on.
    pub(crate) fn count_row(&mut self, process: ProcessId, number: u64) {
        if let Some(known) = self.processes.get_mut(&process)
            && (known.held.contains(number) || known.lost.contains(number))
        {
            known.counted.insert(number);
        }
    }

    /// Whether the deliveries of any of these are counted in rows of their own.
    pub(crate) fn is_counted(&self, process: ProcessId, numbers: &Ranges) -> bool {
        let known = self.processes.get(&process);
        known.is_some_and(|known| !known.counted.is_disjoint(numbers))
    }

    /// Whether the deliveries of any message of a process are counted in a row of its own.
    pub(crate) fn counts_any(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|known| !known.counted.is_empty())
    }

    /// These are gone; which of them have rows here: those that were held, or lost.
    pub(crate) fn bury(&mut self, process: ProcessId, numbers: &Ranges) -> Ranges {
        let known = self.processes.entry(process).or_default();
        known.counted.subtract(numbers);
        let held = known.held.intersection(numbers);
        known.held.subtract(&held);
        known.lacking.subtract(&held);
        known.given.subtract(&held);
        known.unseen.subtract(&held);
        let mut rows = known.lost.intersection(numbers);
        known.lost.subtract(&rows);
        known.nowhere.subtract(&rows);
        if !held.is_empty() {
            known.unsettled.subtract(&held);
            known.unconfirmed.subtract(&held);
            known.repeated.subtract(&held);
            known.dirty = true;
        }
        known.gone.merge(numbers);
        rows.merge(&held);
        rows
    }

    /// Everybody who must know these tombstones does, or they expired.
    pub(crate) fn forget_gone(&mut self, process: ProcessId, numbers: &Ranges) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.gone.subtract(numbers);
        }
    }

    /// These were dropped: purged, or never confirmed.
    pub(crate) fn drop_held(&mut self, process: ProcessId, numbers: &Ranges) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.held.subtract(numbers);
            known.lacking.subtract(numbers);
            known.given.subtract(numbers);
            known.unseen.subtract(numbers);
            known.lost.subtract(numbers);
            known.nowhere.subtract(numbers);
            known.unsettled.subtract(numbers);
            known.unconfirmed.subtract(numbers);
            known.repeated.subtract(numbers);
            known.counted.subtract(numbers);
            known.dirty = true;
        }
    }

    /// The rows of these cannot be read any more; which of them were held. Their deliveries stay
    /// counted: they may be here again.
    pub(crate) fn lose(&mut self, process: ProcessId, numbers: &Ranges) -> Ranges {
        let Some(known) = self.processes.get_mut(&process) else { return Ranges::default() };
        let lost = known.held.intersection(numbers);
        let counted = known.counted.intersection(&lost);
        self.drop_held(process, &lost);
        if let (Some(known), false) = (self.processes.get_mut(&process), lost.is_empty()) {
            known.lost.merge(&lost);
            known.counted.merge(&counted);
        }
        lost
    }

    /// Whether anything was lost and is not here again.
    pub(crate) fn has_lost(&self) -> bool {
        self.processes.values().any(|known| !known.lost.is_empty())
    }

    /// What was lost and is not here again, by process.
    pub(crate) fn lost(&self) -> Vec<(ProcessId, Ranges)> {
        let lost = self.processes.iter().filter(|(_, known)| !known.lost.is_empty());
        lost.map(|(process, known)| (*process, known.lost.clone())).collect()
    }

    /// All other holders were asked for these, and none had any that is lost here but those
    /// found. Which of them nobody had the time before, either: only these are lost for good, for a
    /// copy may have been on its way from one to the other (P1).
    pub(crate) fn sought_in_vain(
        &mut self,
        process: ProcessId,
        (numbers, found): (&Ranges, Option<&Ranges>),
    ) -> Ranges {
        let Some(known) = self.processes.get_mut(&process) else { return Ranges::default() };
        let mut missing = known.lost.intersection(numbers);
        if let Some(found) = found {
            missing.subtract(found);
        }
        let again = known.nowhere.intersection(&missing);
        known.nowhere.subtract(numbers);
        known.nowhere.merge(&missing);
        again
    }

    /// The scrub begins: it has to see all that is held now.
    pub(crate) fn begin_scrub(&mut self) {
        for known in self.processes.values_mut() {
            known.unseen = known.held.clone();
        }
    }

    /// The scrub has read the row of this one.
    pub(crate) fn scrubbed(&mut self, process: ProcessId, number: u64) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.unseen.remove(number);
        }
    }

    /// The scrub has read all rows: what is held and has none.
    pub(crate) fn end_scrub(&mut self) -> Vec<(ProcessId, Ranges)> {
        let each = self.processes.iter_mut();
        let unseen = each.map(|(process, known)| (*process, std::mem::take(&mut known.unseen)));
        unseen.filter(|(_, unseen)| !unseen.is_empty()).collect()
    }

    /// These are known to be at enough hosts.
    pub(crate) fn settle(&mut self, process: ProcessId, numbers: &Ranges) {
        if let Some(known) = self.processes.get_mut(&process)
            && !known.unsettled.is_empty()
        {
            known.unsettled.subtract(numbers);
            known.unconfirmed.subtract(numbers);
            known.repeated.subtract(numbers);
            known.dirty = true;
        }
    }

    /// Nothing that is held is known to be at enough hosts any more, but for what is held alone.
    pub(crate) fn doubt(&mut self, alone: &BTreeMap<ProcessId, Ranges>) {
        for (process, known) in &mut self.processes {
            let mut doubted = known.held.clone();
            if let Some(alone) = alone.get(process) {
                doubted.subtract(alone);
            }
            known.unsettled.merge(&doubted);
            known.dirty = true;
        }
    }

    /// Some host that should have these was not known to have them: the others are asked.
    pub(crate) fn lacking_somewhere(&mut self, numbers: &[(ProcessId, Ranges)]) {
        for (process, numbers) in numbers {
            if let Some(known) = self.processes.get_mut(process) {
                known.lacking.merge(&known.held.intersection(numbers));
            }
        }
    }

    /// Of nothing that is held it is known that every host has it: all are asked.
    pub(crate) fn lack_all(&mut self) {
        for known in self.processes.values_mut() {
            known.lacking = known.held.clone();
        }
    }

    /// How many messages are held that some host may lack, as far as is known.
    pub(crate) fn open_count(&self) -> u64 {
        let open = |known: &OfProcess| {
            known.lacking.size() + known.unsettled.without(&known.lacking).size()
        };
        self.processes.values().map(open).sum()
    }

    /// Every host in session was asked for these, and has them or is given them.
    pub(crate) fn told_all(&mut self, numbers: &[(ProcessId, Ranges)]) {
        for (process, numbers) in numbers {
            if let Some(known) = self.processes.get_mut(process) {
                known.lacking.subtract(numbers);
                known.given.subtract(numbers);
            }
        }
    }

    /// Whether this id is held and not known to be at enough hosts.
    pub(crate) fn is_unsettled(&self, process: ProcessId, number: u64) -> bool {
        self.processes.get(&process).is_some_and(|known| known.unsettled.contains(number))
    }

    /// Whether some host that should have this one is not known to have it, nor to be given it.
    pub(crate) fn is_lacking(&self, process: ProcessId, number: u64) -> bool {
        self.processes.get(&process).is_some_and(|known| known.lacking.contains(number))
    }

    /// Somebody wants this one stored that is here: it may be counted for a confirm.
    pub(crate) fn want(&mut self, process: ProcessId, number: u64) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.looked_at.remove(number);
            known.wanted.insert(number);
        }
    }

    /// A resend window is over.
    pub(crate) fn grow_old(&mut self) {
        for known in self.processes.values_mut() {
            known.young[1] = std::mem::take(&mut known.young[0]);
        }
    }

    /// Which of these have been unsettled since before the last look, nobody has wanted them
    /// stored meanwhile, and whoever had them stored has given up (P1).
    pub(crate) fn forlorn(&self, process: ProcessId, numbers: &Ranges) -> Ranges {
        let known = self.processes.get(&process);
        known.map_or_else(Ranges::default, |known| {
            let [young, before] = &known.young;
            let unsettled = known.unsettled.intersection(&known.looked_at).intersection(numbers);
            unsettled.without(young).without(before)
        })
    }

    /// What was unsettled at the last look and still is, and what is lacking somewhere, by
    /// process; and looks.
    pub(crate) fn open(&mut self) -> Vec<(ProcessId, Ranges)> {
        let mut open = Vec::new();
        for (process, known) in &mut self.processes {
            if !known.unsettled.is_empty() || !known.lacking.is_empty() {
                let mut still = known.unsettled.intersection(&known.looked_at);
                still.merge(&known.lacking);
                if !still.is_empty() {
                    open.push((*process, still));
                }
            }
            known.looked_at = known.unsettled.without(&std::mem::take(&mut known.wanted));
        }
        open
    }

    /// What is to be written down of what is settled, since the last time; and processes of which
    /// nothing is known any more, whose row goes.
    pub(crate) fn write_settled(&mut self) -> Vec<(ProcessId, Option<SettledRecord>)> {
        let mut records = Vec::new();
        for (process, known) in &mut self.processes {
            if std::mem::take(&mut known.dirty) {
                let record =
                    SettledRecord { up_to: known.highest, except: known.unsettled.clone() };
                records.push((*process, Some(record)));
            }
        }
        self.processes.retain(|process, known| {
            let empty = known.held.is_empty() && known.gone.is_empty() && known.lost.is_empty();
            if empty {
                records.retain(|(written, _)| written != process);
                records.push((*process, None));
            }
            !empty
        });
        records
    }

    /// How many messages are held here.
    pub(crate) fn held_count(&self) -> u64 {
        self.processes.values().map(|known| known.held.size()).sum()
    }

    /// How many messages were lost here and are not here again.
    pub(crate) fn lost_count(&self) -> u64 {
        self.processes.values().map(|known| known.lost.size()).sum()
    }

    /// What is known of one process.
    pub(crate) fn of(&self, process: ProcessId) -> Option<&OfProcess> {
        self.processes.get(&process)
    }

    /// Whether nothing is known at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn check(&self) {
        for known in self.processes.values() {
            assert!(known.held.is_disjoint(&known.gone), "P4: held and gone");
            assert!(known.lost.is_disjoint(&known.gone), "P4: lost and gone");
            assert!(known.lost.is_disjoint(&known.held), "P1: lost and held");
            assert!(known.nowhere.is_subset(&known.lost), "P1: given up and not lost");
            assert!(known.unseen.is_subset(&known.held), "P1: scrubbed and not held");
            assert!(known.unsettled.is_subset(&known.held), "P1: unsettled and not held");
            let unconfirmed = &known.unconfirmed;
            assert!(unconfirmed.is_subset(&known.unsettled), "P4: settled and unconfirmed");
            assert!(known.given.is_subset(&known.lacking), "P4: given, and all were asked");
            assert!(known.repeated.is_subset(&known.unsettled), "P4: settled, in doubt");
        }
    }
}

#[cfg(test)]
mod tests;
