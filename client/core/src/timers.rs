//! When something is due: one time for each thing that may wait.
//!
//! Setting a timer again moves it, so nothing stale ever fires and the table is no larger than
//! what waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gaggle_wire::{QueueId, QueueName};

/// What may be due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// To dial what is wanted.
    Dial,
    /// To see whether a connection is alive.
    Link(u64),
    /// To do something about a batch: send it again, or give up some of it.
    Batch(u64),
    /// To give up messages that wait to be sent.
    Lane(QueueId, u16),
    /// To give up messages whose queue is not known yet.
    Queue(Arc<QueueName>),
    /// To ask again or give up.
    Ask(u64),
    /// To do something about a batch of settlements.
    Settlement(u64),
    /// To settle again what was put off, or give it up.
    PutOff,
    /// To open a consumer again, or tell what was taken.
    Consumer(u64),
    /// To extend leases.
    Leases,
}

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_timer: BTreeMap<Timer, Duration>,
    by_time: BTreeSet<(Duration, Timer)>,
}

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer, at: Duration) {
        if let Some(before) = self.by_timer.insert(timer.clone(), at) {
            if before == at {
                return;
            }
            self.by_time.remove(&(before, timer.clone()));
        }
        self.by_time.insert((at, timer));
    }

    /// Sets a timer that must not be moved back by those who set it again and again.
    pub(crate) fn set_early(&mut self, timer: Timer, at: Duration) {
        if self.by_timer.get(&timer).is_none_or(|before| *before > at) {
            self.set(timer, at);
        }
    }

    pub(crate) fn clear(&mut self, timer: &Timer) {
        if let Some(at) = self.by_timer.remove(timer) {
            self.by_time.remove(&(at, timer.clone()));
        }
    }

    /// Takes the first that is due.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Timer> {
        let (at, timer) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let timer = timer.clone();
        self.clear(&timer);
        Some(timer)
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_timer_that_is_set_again_fires_once_at_its_new_time() {
        let mut timers = Timers::default();
        timers.set(Timer::Link(1), s(1));
        timers.set(Timer::Dial, s(3));
        timers.set(Timer::Link(1), s(2));
        assert_eq!(timers.next(), Some(s(2)));
        assert_eq!(timers.pop_due(s(1)), None);
        assert_eq!(timers.pop_due(s(5)), Some(Timer::Link(1)));
        assert_eq!(timers.pop_due(s(5)), Some(Timer::Dial));
        assert_eq!(timers.pop_due(s(5)), None);
    }
}
