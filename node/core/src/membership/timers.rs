//! What membership still has to do, by due time.
//!
//! foca wants every timer back, in order, late or not. A node that was paused owes all of them at
//! once, and would then blame its peers for answers that wait in its own socket buffers. So the
//! whole list can be *shifted*: for the rest of the room, the pause did not happen.
//!
//! Invariant: entries due at one moment come out in the order in which they went in.

use std::collections::BTreeMap;
use std::time::Duration;

use super::identity::Identity;
use crate::now::Mono;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// foca's own business.
    Swim(foca::Timer<Identity>),
    /// A connection closed and the member has not objected to being suspected for it.
    LinkSuspicion { identity: Identity, incarnation: u16 },
    /// Announce to whoever is out of reach.
    Reach,
    /// Tell the own profile because somebody is new.
    Introduce,
    /// Tell the own profile because some time has passed.
    Refresh,
}

impl Task {
    const fn is_suspicion(&self) -> bool {
        matches!(
            self,
            Self::LinkSuspicion { .. } | Self::Swim(foca::Timer::ChangeSuspectToDown { .. })
        )
    }
}

/// A task in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) task: Task,
    /// When it was put on the list.
    pub(super) since: Mono,
    renewed: u8,
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct Timers {
    entries: BTreeMap<(Mono, u64), Entry>,
    added: u64,
}

impl Timers {
    pub(super) fn add(&mut self, now: Mono, after: Duration, task: Task) {
        self.added += 1;
        let entry = Entry { task, since: now, renewed: 0 };
        self.entries.insert((now.plus(after), self.added), entry);
    }

    pub(super) fn first_due(&self) -> Option<Mono> {
        self.entries.first_key_value().map(|((due, _), _)| *due)
    }

    pub(super) fn take_due(&mut self, now: Mono) -> Option<Entry> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(super) fn contains(&self, task: &Task) -> bool {
        self.entries.values().any(|entry| entry.task == *task)
    }

    pub(super) fn drop_if(&mut self, unwanted: impl Fn(&Task) -> bool) {
        self.entries.retain(|_, entry| !unwanted(&entry.task));
    }

    /// Moves everything by `by`. With a suspicion time, suspicions begin anew: the suspect could
    /// object while nobody here listened. They do so a few times only, or a node that always lags
    /// would suspect for ever.
    pub(super) fn shift(&mut self, now: Mono, by: Duration, suspicion: Option<Duration>) {
        let entries = std::mem::take(&mut self.entries);
        for ((due, number), mut entry) in entries {
            let mut due = due.plus(by);
            if let Some(suspicion) = suspicion
                && entry.task.is_suspicion()
                && entry.renewed < RENEWALS_MAX
            {
                entry.renewed += 1;
                due = due.max(now.plus(suspicion));
            }
            self.entries.insert((due, number), entry);
        }
    }
}

/// With the default suspicion a lagging node takes at most 3 s longer to see that a host is dead.
const RENEWALS_MAX: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn tasks_come_out_by_due_time_and_then_in_the_order_they_went_in() {
        let mut timers = Timers::default();
        timers.add(Mono(0), MS * 2, Task::Reach);
        timers.add(Mono(0), MS, Task::Refresh);
        timers.add(Mono(0), MS, Task::Introduce);
        assert_eq!(timers.take_due(Mono(0)), None);
        let mut order = Vec::new();
        while let Some(entry) = timers.take_due(Mono(0).plus(MS * 2)) {
            order.push(entry.task);
        }
        assert_eq!(order, [Task::Refresh, Task::Introduce, Task::Reach]);
        assert_eq!(timers.first_due(), None);
    }

    #[test]
    fn a_shift_gives_a_suspect_its_full_time_again_but_not_for_ever() {
        let address = std::net::SocketAddr::from(([10, 0, 0, 1], 1));
        let identity = Identity::anyone(address);
        let mut timers = Timers::default();
        timers.add(Mono(0), MS * 10, Task::LinkSuspicion { identity, incarnation: 0 });
        let mut now = Mono(0);
        for _ in 0..RENEWALS_MAX {
            now = now.plus(MS * 9);
            timers.shift(now, MS, Some(MS * 100));
            assert_eq!(timers.first_due(), Some(now.plus(MS * 100)));
        }
        let before = timers.first_due().unwrap();
        timers.shift(now.plus(MS * 50), MS, Some(MS * 100));
        assert_eq!(timers.first_due(), Some(before.plus(MS)));
    }
}
