//! How well this node itself is doing: the part of Lifeguard that membership needs.
//!
//! A node that was stopped, starved of CPU or stuck in a long batch must not blame its peers for
//! it. It has no other witness than its own timers: one that is handled much too late says that
//! nobody was at home. The judgement is made at the very start of each call, before anything that
//! came in meanwhile is looked at.
//!
//! The second sign is silence: who heard from nobody at all is more likely deaf than alone right.
//!
//! This file only measures; the room decides what follows.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::NodeId;

use crate::now::Mono;

/// Keeps track of the own lag, and of when each node was last heard.
#[derive(Debug)]
pub(super) struct Pace {
    lag_max: Duration,
    probe_period: Duration,
    last_call: Mono,
    resumed: Option<Mono>,
    heard: BTreeMap<NodeId, Mono>,
}

/// What a call at some moment says of the time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lag {
    /// Nothing was late to speak of.
    Small,
    /// Timers are late by `by`; nothing was done for `pause` at most.
    Late { by: Duration, pause: Duration },
}

impl Pace {
    pub(super) fn new(lag_max: Duration, probe_period: Duration) -> Self {
        let (last_call, resumed, heard) = (Mono(0), None, BTreeMap::new());
        Self { lag_max, probe_period, last_call, resumed, heard }
    }

    /// Notes a call; `first_due` is when the earliest timer should have been handled.
    pub(super) fn note(&mut self, now: Mono, first_due: Option<Mono>) -> Lag {
        let idle = now.since(self.last_call);
        self.last_call = self.last_call.max(now);
        let by = first_due.map_or(Duration::ZERO, |due| now.since(due));
        if by <= self.lag_max {
            return Lag::Small;
        }
        self.resumed = Some(now);
        // While alone timers are far apart, so the time since the last call alone says too much.
        Lag::Late { by, pause: idle.min(by + self.probe_period) }
    }

    /// Notes that nobody was at home until now.
    pub(super) fn resume(&mut self, now: Mono) {
        self.last_call = self.last_call.max(now);
        self.resumed = Some(now);
    }

    /// Notes that a packet of this node came in. The caller has limited the nodes.
    pub(super) fn hear(&mut self, node: NodeId, now: Mono) {
        self.heard.insert(node, now);
    }

    /// Whether no packet of anybody came in since then, the time of a pause not counted.
    pub(super) fn is_deaf_since(&self, then: Mono) -> bool {
        let since = self.resumed.map_or(then, |resumed| resumed.max(then));
        !self.heard.values().any(|heard| *heard > since)
    }

    pub(super) fn forget_all(&mut self) {
        self.heard.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_late_timer_tells_of_a_pause() {
        let mut pace = Pace::new(MS * 50, MS * 200);
        let start = Mono(0);
        assert_eq!(pace.note(start.plus(MS * 100), Some(start.plus(MS * 60))), Lag::Small);
        let late = pace.note(start.plus(MS * 1_000), Some(start.plus(MS * 200)));
        assert_eq!(late, Lag::Late { by: MS * 800, pause: MS * 900 });
    }

    #[test]
    fn quiet_times_are_no_pause() {
        let mut pace = Pace::new(MS * 50, MS * 200);
        assert_eq!(pace.note(Mono(0).plus(MS * 4_000), Some(Mono(0).plus(MS * 4_000))), Lag::Small);
        let late = pace.note(Mono(0).plus(MS * 8_100), Some(Mono(0).plus(MS * 8_000)));
        assert_eq!(late, Lag::Late { by: MS * 100, pause: MS * 300 });
    }

    #[test]
    fn who_heard_from_nobody_since_the_pause_is_deaf() {
        let mut pace = Pace::new(MS * 50, MS * 200);
        let at = |ms: u32| Mono(0).plus(MS * ms);
        assert!(pace.is_deaf_since(at(0)));
        pace.hear(NodeId(1), at(100));
        assert!(!pace.is_deaf_since(at(50)));
        assert!(pace.is_deaf_since(at(100)));
        pace.note(at(1_000), Some(at(200)));
        assert!(pace.is_deaf_since(at(50)), "what came before the pause does not count");
        pace.hear(NodeId(1), at(1_001));
        assert!(!pace.is_deaf_since(at(50)));
        pace.heard.remove(&NodeId(1));
        assert!(pace.is_deaf_since(at(50)));
    }
}
