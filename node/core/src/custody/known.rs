//! What a host knows of the messages of a partition, by process, as ranges.
//!
//! An id is *held* (its row is here), *gone* (there is a tombstone for it) or unknown. A held id
//! is *unsettled* until enough hosts are known to have it: its coordinator says so in bulk, and
//! if that does not come, the holder asks the other hosts itself. This is what makes a second
//! send of an id harmless (P11), what two hosts compare when they meet, and what tells a copy
//! that was never confirmed from one that was.
//!
//! Invariants: no id is both held and gone; unsettled ids are held. What this file does not do:
//! it does not know rows, lists or stamps.

use std::collections::BTreeMap;

use gaggle_wire::ProcessId;
use serde::{Deserialize, Serialize};

use crate::envelope::PartitionInventory;
use crate::ranges::Ranges;
use crate::session::PartitionId;

/// What is known of one process's messages.
#[derive(Debug, Default)]
pub(crate) struct OfProcess {
    pub(crate) held: Ranges,
    pub(crate) gone: Ranges,
    /// Held and not known to be at enough hosts.
    pub(crate) unsettled: Ranges,
    /// Held, with a row that counts their deliveries.
    counted: Ranges,
    /// What was unsettled at the last look; what still is, is open.
    looked_at: Ranges,
    /// Held, be it settled, and perhaps not at every host of its list that can be reached.
    lacking: Ranges,
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

/// What became of an id that somebody wants stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Never seen: it is to be stored.
    New,
    /// It is here.
    Held,
    /// It is gone.
    Gone,
}

impl Known {
    /// What is known of an id.
    pub(crate) fn seen(&self, process: ProcessId, number: u64) -> Seen {
        match self.processes.get(&process) {
            Some(known) if known.gone.contains(number) => Seen::Gone,
            Some(known) if known.held.contains(number) => Seen::Held,
            _ => Seen::New,
        }
    }

    /// Takes a stored message in, unsettled.
    pub(crate) fn hold(&mut self, process: ProcessId, number: u64) {
        let known = self.processes.entry(process).or_default();
        assert!(!known.gone.contains(number), "P4: what is gone is not held again");
        known.held.insert(number);
        known.unsettled.insert(number);
        known.highest = known.highest.max(number);
        known.dirty = true;
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

    /// After all rows were read: what is not written down as settled is unsettled.
    pub(crate) fn rows_read(&mut self, settled: &BTreeMap<ProcessId, SettledRecord>) {
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
            && known.held.contains(number)
        {
            known.counted.insert(number);
        }
    }

    /// Whether the deliveries of any of these are counted in rows of their own.
    pub(crate) fn is_counted(&self, process: ProcessId, numbers: &Ranges) -> bool {
        let known = self.processes.get(&process);
        known.is_some_and(|known| !known.counted.intersection(numbers).is_empty())
    }

    /// These are gone; which of them were held.
    pub(crate) fn bury(&mut self, process: ProcessId, numbers: &Ranges) -> Ranges {
        let known = self.processes.entry(process).or_default();
        known.counted.subtract(numbers);
        let held = known.held.intersection(numbers);
        known.held.subtract(&held);
        known.lacking.subtract(&held);
        if !held.is_empty() {
            known.unsettled.subtract(&held);
            known.dirty = true;
        }
        known.gone.merge(numbers);
        held
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
            known.unsettled.subtract(numbers);
            known.counted.subtract(numbers);
            known.dirty = true;
        }
    }

    /// These are known to be at enough hosts.
    pub(crate) fn settle(&mut self, process: ProcessId, numbers: &Ranges) {
        if let Some(known) = self.processes.get_mut(&process)
            && !known.unsettled.is_empty()
        {
            known.unsettled.subtract(numbers);
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

    /// Every host in session was asked for these, and has them or is given them.
    pub(crate) fn told_all(&mut self, numbers: &[(ProcessId, Ranges)]) {
        for (process, numbers) in numbers {
            if let Some(known) = self.processes.get_mut(process) {
                known.lacking.subtract(numbers);
            }
        }
    }

    /// Whether this id is held and not known to be at enough hosts.
    pub(crate) fn is_unsettled(&self, process: ProcessId, number: u64) -> bool {
        self.processes.get(&process).is_some_and(|known| known.unsettled.contains(number))
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
            known.looked_at = known.unsettled.clone();
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
            let empty = known.held.is_empty() && known.gone.is_empty();
            if empty {
                records.retain(|(written, _)| written != process);
                records.push((*process, None));
            }
            !empty
        });
        records
    }

    /// What is held and gone, of these ids or of all.
    pub(crate) fn inventory(
        &self,
        (queue, partition): PartitionId,
        of: Option<&[(ProcessId, Ranges)]>,
    ) -> PartitionInventory {
        let processes = match of {
            None => self
                .processes
                .iter()
                .map(|(process, known)| (*process, known.held.clone(), known.gone.clone()))
                .collect(),
            Some(asked) => asked
                .iter()
                .filter_map(|(process, numbers)| {
                    let known = self.processes.get(process)?;
                    let held = known.held.intersection(numbers);
                    Some((*process, held, known.gone.intersection(numbers)))
                })
                .collect(),
        };
        PartitionInventory { queue, partition, processes }
    }

    /// How many messages are held here.
    pub(crate) fn held_count(&self) -> u64 {
        self.processes.values().map(|known| known.held.size()).sum()
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
            assert!(known.held.intersection(&known.gone).is_empty(), "P4: held and gone");
            assert!(known.unsettled.without(&known.held).is_empty(), "P1: unsettled and not held");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: ProcessId = ProcessId(1);

    #[test]
    fn an_id_is_new_held_then_gone() {
        let mut known = Known::default();
        assert_eq!(known.seen(P, 1), Seen::New);
        known.hold(P, 1);
        assert_eq!(known.seen(P, 1), Seen::Held);
        assert_eq!(known.bury(P, &Ranges::of(1, 3)), Ranges::of(1, 1));
        assert_eq!(known.seen(P, 1), Seen::Gone);
        assert_eq!(known.seen(P, 3), Seen::Gone, "a delete that overtakes its message absorbs it");
        known.forget_gone(P, &Ranges::of(1, 3));
        assert_eq!(known.seen(P, 1), Seen::New);
        known.check();
    }

    #[test]
    fn what_stays_unsettled_from_one_look_to_the_next_is_open() {
        let mut known = Known::default();
        known.hold(P, 1);
        known.hold(P, 2);
        assert!(known.open().is_empty());
        known.settle(P, &Ranges::of(1, 1));
        known.hold(P, 3);
        assert_eq!(known.open(), [(P, Ranges::of(2, 2))]);
    }

    #[test]
    fn what_is_settled_is_read_back_after_a_restart() {
        let mut known = Known::default();
        for number in 1..=5 {
            known.hold(P, number);
        }
        known.settle(P, &Ranges::of(1, 3));
        let written = known.write_settled();
        let record = SettledRecord { up_to: 5, except: Ranges::of(4, 5) };
        assert_eq!(written, [(P, Some(record.clone()))]);
        assert!(known.write_settled().is_empty());

        let mut read = Known::default();
        for number in 2..=6 {
            read.hold_row(P, number);
        }
        read.rows_read(&[(P, record)].into());
        assert_eq!(read.of(P).unwrap().unsettled, Ranges::of(4, 6));
    }

    #[test]
    fn a_process_of_which_nothing_is_left_is_forgotten() {
        let mut known = Known::default();
        known.hold(P, 1);
        known.bury(P, &Ranges::of(1, 1));
        known.forget_gone(P, &Ranges::of(1, 1));
        assert_eq!(known.write_settled(), [(P, None)]);
        assert!(known.is_empty());
    }
}
