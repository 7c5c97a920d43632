//! Timers: what to look at when.
//!
//! A timer is a kind of work, not a deadline of one thing: the room that it belongs to knows what
//! is due. So setting one is rare, and one that fires early costs a look. What this file does not
//! do: it does not run anything.

use std::collections::{BTreeMap, BTreeSet};

use gaggle_wire::QueueId;

use crate::now::Mono;

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// When to do what is done every second: open items, tombstones, reports.
    Second,
    /// When to look at the rounds of strict partitions.
    Rounds,
    /// When to tell the other holders in bulk what became settled, and of leases that run on.
    Bulk,
    /// When a lease of a partition may have expired, or a delayed message may be due.
    Partition(QueueId, u16),
    /// When the next batch may be copied to a new holder.
    Replace,
    /// When the scrub may go on.
    Scrub,
    /// When a request may have waited long enough.
    Deadlines,
    /// When a started node stops waiting for the members it remembers.
    ServeAlone,
}

/// All timers that are set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Mono, Timer)>,
    set: BTreeMap<Timer, Mono>,
}

impl Timers {
    /// Sets a timer, unless it is set for an earlier time.
    pub(crate) fn at_latest(&mut self, timer: Timer, at: Mono) {
        match self.set.get(&timer) {
            Some(present) if *present <= at => {}
            Some(present) => {
                self.due.remove(&(*present, timer));
                self.put(timer, at);
            }
            None => self.put(timer, at),
        }
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<Timer> {
        let (at, timer) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.remove(&(at, timer));
        self.set.remove(&timer);
        Some(timer)
    }

    fn put(&mut self, timer: Timer, at: Mono) {
        self.due.insert((at, timer));
        self.set.insert(timer, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_time_of_a_timer_wins() {
        let mut timers = Timers::default();
        timers.at_latest(Timer::Second, Mono(5));
        timers.at_latest(Timer::Second, Mono(9));
        timers.at_latest(Timer::Bulk, Mono(7));
        timers.at_latest(Timer::Bulk, Mono(3));
        assert_eq!(timers.next(), Some(Mono(3)));
        assert_eq!(timers.pop(Mono(2)), None);
        assert_eq!(timers.pop(Mono(10)), Some(Timer::Bulk));
        assert_eq!(timers.pop(Mono(10)), Some(Timer::Second));
        assert_eq!(timers.pop(Mono(10)), None);
    }
}
