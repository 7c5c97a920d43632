//! Which queue a name stands for, and which partition a message goes to.
//!
//! A name is resolved when it is first sent to, and again when the cluster says that the queue is
//! no more: it may have been made anew. Until then messages wait here, without number or stamp.
//!
//! A message with a key goes where the key says ([`partition_of`]). One without stays with the
//! partition of the message before it until a batch has left from there, then the next partition
//! has its turn: so few messages are not scattered over many frames, and many are spread evenly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gaggle_wire::{QueueDescription, QueueId, QueueName, Refusal};

use crate::desk::Desk;
use crate::event::Effect;
use crate::parcel::{Failure, Parcel};
use crate::sender::{LaneState, Stray};
use crate::timers::Timer;
use gaggle_wire::partition_of;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    by_name: BTreeMap<Arc<QueueName>, Entry>,
    names: BTreeMap<QueueId, Arc<QueueName>>,
}

#[derive(Debug, Default)]
struct Entry {
    known: Option<Known>,
    asking: bool,
    waiting: Vec<Waiting>,
}

/// A queue as it was resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    id: QueueId,
    partitions: u16,
    /// Where messages without key go, and how many batches had left from there when it began.
    sticky: u16,
    batches: u64,
}

/// A message that waits for its queue to be known.
#[derive(Debug)]
pub(crate) enum Waiting {
    New { parcel: Parcel, deadline: Duration },
    Again(Stray),
}

impl Waiting {
    fn deadline(&self) -> Duration {
        match self {
            Self::New { deadline, .. } => *deadline,
            Self::Again(stray) => stray.deadline(),
        }
    }

    fn fail(self, desk: &mut Desk, refusal: Option<Refusal>) {
        match self {
            Self::New { parcel, .. } => {
                let failure = refusal.map_or(Failure::TimedOut, Failure::Refused);
                desk.effects.push(Effect::Sent { ticket: parcel.ticket, result: Err(failure) });
            }
            Self::Again(stray) => stray.fail(desk, refusal),
        }
    }
}

/// What is to be done about a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolve {
    /// It must be asked for.
    Ask,
    /// Nothing.
    Nothing,
}

impl Queues {
    pub(crate) fn known(&mut self, name: &Arc<QueueName>) -> Option<&mut Known> {
        self.by_name.get_mut(name)?.known.as_mut()
    }

    /// Lets a message wait until its queue is known.
    pub(crate) fn wait(&mut self, desk: &mut Desk, parcel: Parcel) -> Resolve {
        let deadline = desk.now.mono + parcel.within;
        let name = Arc::clone(&parcel.queue);
        self.wait_for(desk, name, Waiting::New { parcel, deadline })
    }

    /// Lets a message wait whose queue is no more, or gives it back when the queue was resolved
    /// again since.
    pub(crate) fn wait_again(
        &mut self,
        desk: &mut Desk,
        stray: Stray,
    ) -> (Arc<QueueName>, Resolve, Option<Stray>) {
        let name = Arc::clone(self.names.get(&stray.queue).expect("only known queues are sent to"));
        let entry = self.by_name.entry(Arc::clone(&name)).or_default();
        if entry.known.is_some_and(|known| known.id != stray.queue) {
            return (name, Resolve::Nothing, Some(stray));
        }
        entry.known = None;
        let resolve = self.wait_for(desk, Arc::clone(&name), Waiting::Again(stray));
        (name, resolve, None)
    }

    fn wait_for(&mut self, desk: &mut Desk, name: Arc<QueueName>, waiting: Waiting) -> Resolve {
        let entry = self.by_name.entry(Arc::clone(&name)).or_default();
        entry.waiting.push(waiting);
        watch(desk, name, &entry.waiting);
        if std::mem::replace(&mut entry.asking, true) { Resolve::Nothing } else { Resolve::Ask }
    }

    /// A name was asked for. Gives the messages that waited for it; if there was no answer and
    /// some still wait, it must be asked for again.
    pub(crate) fn resolved(
        &mut self,
        desk: &mut Desk,
        name: &Arc<QueueName>,
        answer: Result<QueueDescription, Failure>,
    ) -> (Vec<Waiting>, Resolve) {
        let entry = self.by_name.entry(Arc::clone(name)).or_default();
        entry.asking = false;
        match answer {
            Ok(description) => {
                let partitions = description.settings.partitions.max(1);
                let first = desk.random.next() % u64::from(partitions);
                let sticky = u16::try_from(first).expect("it is below a u16");
                let id = description.id;
                entry.known = Some(Known { id, partitions, sticky, batches: 0 });
                self.names.insert(id, Arc::clone(name));
                desk.timers.clear(&Timer::Queue(Arc::clone(name)));
                (std::mem::take(&mut entry.waiting), Resolve::Nothing)
            }
            Err(Failure::Refused(refusal)) => {
                for waiting in std::mem::take(&mut entry.waiting) {
                    waiting.fail(desk, Some(refusal.clone()));
                }
                desk.timers.clear(&Timer::Queue(Arc::clone(name)));
                (Vec::new(), Resolve::Nothing)
            }
            Err(_) if entry.waiting.is_empty() => (Vec::new(), Resolve::Nothing),
            Err(_) => {
                entry.asking = true;
                (Vec::new(), Resolve::Ask)
            }
        }
    }

    /// Messages that wait for this name can wait no longer.
    pub(crate) fn due(&mut self, desk: &mut Desk, name: &Arc<QueueName>) {
        let Some(entry) = self.by_name.get_mut(name) else { return };
        let now = desk.now.mono;
        let all = std::mem::take(&mut entry.waiting);
        let (expired, waiting): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|waiting| waiting.deadline() <= now);
        for waiting in expired {
            waiting.fail(desk, None);
        }
        watch(desk, Arc::clone(name), &waiting);
        entry.waiting = waiting;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.by_name.values().all(|entry| entry.waiting.is_empty())
    }
}

impl Known {
    /// The lane for a message with this key, or none.
    pub(crate) fn lane(
        &mut self,
        key: Option<u64>,
        state: impl Fn((QueueId, u16)) -> LaneState,
    ) -> (QueueId, u16) {
        if let Some(hash) = key {
            return (self.id, partition_of(hash, self.partitions));
        }
        let at = |partition| state((self.id, partition));
        let present = at(self.sticky);
        if present.batches != self.batches || present.full {
            let later = |step| (self.sticky + step) % self.partitions;
            let near = (1..=LOOK_AHEAD.min(self.partitions)).map(later);
            let free = near.into_iter().find(|partition| at(*partition).free);
            self.sticky = free.unwrap_or_else(|| later(1));
            self.batches = at(self.sticky).batches;
        }
        (self.id, self.sticky)
    }
}

fn watch(desk: &mut Desk, name: Arc<QueueName>, waiting: &[Waiting]) {
    let timer = Timer::Queue(name);
    match waiting.iter().map(Waiting::deadline).min() {
        Some(deadline) => desk.timers.set(timer, deadline),
        None => desk.timers.clear(&timer),
    }
}

/// How many partitions are looked at for one that has nothing under way.
const LOOK_AHEAD: u16 = 4;
