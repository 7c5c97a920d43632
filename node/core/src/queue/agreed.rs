//! What a strict partition has at one of its pinned hosts beside its messages: the rounds, what is
//! held here and waits for one, and which message of each ordering key comes next.
//!
//! A message is handed out once a round has released it, and when all that were released before it
//! under its key are gone, or are handed out with it: a *delivery group* is a run of one key to one
//! consumer. Of what is released and missing here the key waits.
//!
//! Invariant: what waits has no verdict; what is open was released and not taken out. What this
//! file does not do: it does not know leases, and it does not agree on anything; see `rounds`.

use std::collections::BTreeMap;

use gaggle_wire::{Label, MessageId, Position, Stamp};

use super::Lists;
use crate::custody::known::{Known, Seen};
use crate::now::Mono;
use crate::ranges::Ranges;
use crate::rounds::{Entry, Here, Name, Round, Rounds, Verdict};

/// The rounds of a partition, and what follows from them here.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) rounds: Rounds,
    /// Held here without a verdict, as far as is known: number and key.
    waiting: BTreeMap<Stamp, (u64, u64)>,
    /// Released and not known to be gone, by key: their numbers.
    open: BTreeMap<u64, BTreeMap<Stamp, u64>>,
    /// Whether this host hands out, as of the last look.
    pub(crate) serving: bool,
    /// When the rounds were looked at last.
    pub(crate) looked_at: Mono,
    /// When others were told last what is missing here.
    pub(crate) lacked_at: Mono,
}

impl Agreed {
    /// Opens it with what is held here.
    pub(crate) fn new(
        rounds: Rounds,
        held: impl IntoIterator<Item = Label>,
        (known, now): (&mut Known, Mono),
    ) -> Self {
        settle(rounds.given(), known);
        let (waiting, open) = (BTreeMap::new(), BTreeMap::new());
        let (serving, looked_at, lacked_at) = (false, now, Mono(0));
        let mut agreed = Self { rounds, waiting, open, serving, looked_at, lacked_at };
        let released: Vec<Entry> = agreed.rounds.released().cloned().collect();
        for entry in &released {
            agreed.release(entry);
        }
        for label in held {
            agreed.came(&label, known);
        }
        agreed
    }

    /// A message is here.
    pub(crate) fn came(&mut self, label: &Label, known: &mut Known) {
        match self.rounds.verdict(name(label)) {
            None => {
                self.waiting.insert(label.stamp, (label.number, label.key));
            }
            Some(Verdict::Released | Verdict::Late) => {
                let number = Ranges::of(label.number, label.number);
                known.settle(label.stamp.process, &number);
            }
            Some(Verdict::Out(_)) => {}
        }
    }

    /// Whether anything up to this time waits for a round.
    pub(crate) fn is_due(&self, up_to: u64) -> bool {
        self.waiting.first_key_value().is_some_and(|(stamp, _)| stamp.time <= up_to)
    }

    /// What is held here up to this stamp without a verdict. What has gone since is forgotten.
    pub(crate) fn held(&mut self, up_to: Stamp, (known, lists): (&Known, &Lists)) -> Vec<Entry> {
        let (mut held, mut gone) = (Vec::new(), Vec::new());
        for (stamp, (number, key)) in self.waiting.range(..=up_to) {
            if known.seen(stamp.process, *number) != Seen::Held {
                gone.push(*stamp);
                continue;
            }
            let list = lists.of(stamp.process, *number);
            let holders = list.map(|list| lists.nodes(list).to_vec()).unwrap_or_default();
            let id = MessageId { process: stamp.process, number: *number };
            let name = Name { id, moves: 0 };
            held.push(Entry { stamp: *stamp, name, key: *key, holders });
        }
        for stamp in gone {
            self.waiting.remove(&stamp);
        }
        held
    }

    /// A round is chosen. What it says is to be handed out is at enough hosts from now on,
    /// confirmed or not: it was named to all, and its key waits for it.
    pub(crate) fn chosen(&mut self, round: &Round, known: &mut Known) {
        settle(round.released.iter().chain(&round.late), known);
        for entry in round.entries() {
            self.waiting.remove(&entry.stamp);
        }
        for entry in &round.released {
            self.release(entry);
        }
        for (entry, _) in &round.out {
            if let Some(open) = self.open.get_mut(&entry.key) {
                open.remove(&entry.stamp);
            }
        }
    }

    fn release(&mut self, entry: &Entry) {
        self.open.entry(entry.key).or_default().insert(entry.stamp, entry.name.id.number);
    }

    /// Whether a message that is ready may go: one that is late, or the next one of its key, once
    /// so many of the key are handed out with it.
    pub(crate) fn is_next(&mut self, label: &Label, before: usize, known: &Known) -> bool {
        match self.rounds.verdict(name(label)) {
            Some(Verdict::Late) => return true,
            Some(Verdict::Released) => {}
            Some(Verdict::Out(_)) | None => return false,
        }
        if self.rounds.withheld().any(|withheld| withheld == name(label)) {
            return false;
        }
        let Some(open) = self.open.get_mut(&label.key) else { return false };
        while let Some((stamp, number)) = open.first_key_value()
            && known.seen(stamp.process, *number) == Seen::Gone
        {
            open.pop_first();
        }
        let next = open.keys().nth(before);
        next == Some(&label.stamp)
    }

    /// Where a message stands.
    pub(crate) fn position(&self, label: &Label) -> Option<Position> {
        self.rounds.position(name(label))
    }

    /// Forgets what is gone of all keys.
    pub(crate) fn tidy(&mut self, known: &Known) {
        self.open.retain(|_, open| {
            open.retain(|stamp, number| known.seen(stamp.process, *number) != Seen::Gone);
            !open.is_empty()
        });
    }
}

/// Whether what an entry names is here.
pub(crate) fn here(known: &Known, entry: &Entry) -> Here {
    match known.seen(entry.name.id.process, entry.name.id.number) {
        Seen::Held => Here::Held,
        Seen::Gone => Here::Gone,
        Seen::New | Seen::Lost => Here::Missing,
    }
}

fn settle<'a>(entries: impl Iterator<Item = &'a Entry>, known: &mut Known) {
    for MessageId { process, number } in entries.map(|entry| entry.name.id) {
        known.settle(process, &Ranges::of(number, number));
    }
}

fn name(label: &Label) -> Name {
    Name { id: label.id(), moves: 0 }
}
