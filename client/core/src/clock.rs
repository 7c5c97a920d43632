//! The clock of stamps: the cluster's time, as well as a client can know it.
//!
//! Only a producer knows the order in which it produced, so the client stamps; but its own wall
//! clock may be off. Every answer tells a node's time. Half the round trip is what such a reading
//! may be wrong by, so of each node the reading with the shortest round trip counts, for as long
//! as it is fresh; and of all nodes the middle one, so that one sick clock moves nothing.
//!
//! On top lies a hybrid logical clock: stamps never repeat and never go back within a process,
//! whatever the estimate does (P8). Only a new process may start below the old one.
//!
//! What this file does not do: it does not ask for the time, and it judges no stamps.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{NodeId, ProcessId, Stamp};

use crate::now::Now;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct StampClock {
    process: ProcessId,
    last: (u64, u32),
    readings: BTreeMap<NodeId, Readings>,
    latest: Option<(NodeId, Reading)>,
    /// Cluster time minus steady time.
    offset: Option<i128>,
}

/// The best reading of a node in this window of time and in the one before.
#[derive(Clone, Copy, Debug)]
struct Readings {
    began: Duration,
    best: Reading,
    before: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    round_trip: Duration,
    offset: i128,
}

impl StampClock {
    pub(crate) fn new(process: ProcessId) -> Self {
        Self { process, last: (0, 0), readings: BTreeMap::new(), latest: None, offset: None }
    }

    pub(crate) fn process(&self) -> ProcessId {
        self.process
    }

    /// Goes on as another process, which alone may go back in time. Of what the clock was set by
    /// only the latest reading is kept: the others led astray, and that one refused it.
    pub(crate) fn renew(&mut self, now: Now, process: ProcessId) {
        let latest = self.latest;
        *self = Self::new(process);
        if let Some((node, reading)) = latest {
            self.note(now, node, reading);
            self.offset = Some(reading.offset);
        }
    }

    /// The next stamp.
    pub(crate) fn stamp(&mut self, now: Now) -> Stamp {
        let (time, count) = self.last;
        let estimate = self.estimate(now);
        self.last = if estimate > time {
            (estimate, 0)
        } else if count < Stamp::COUNT_MAX {
            (time, count + 1)
        } else {
            (time.saturating_add(1), 0)
        };
        Stamp { time: self.last.0, count: self.last.1, process: self.process }
    }

    /// Learns from an answer: when its request was sent, and what the node's clock said then.
    pub(crate) fn learn(&mut self, now: Now, node: NodeId, sent: Duration, clock: u64) {
        let round_trip = now.mono.saturating_sub(sent);
        let middle = nanos(sent) + nanos(round_trip) / 2;
        let reading = Reading { round_trip, offset: i128::from(clock) - middle };
        self.latest = Some((node, reading));
        if self.note(now, node, reading) {
            self.offset = Some(self.middle_offset());
        }
        // What causes must have the lower stamp, within the bound that nodes allow for.
        if clock > self.last.0 && i128::from(clock) <= i128::from(self.estimate(now)) + DRIFT_MAX {
            self.last = (clock, 0);
        }
    }

    /// Whether the node's best reading is another one now.
    fn note(&mut self, now: Now, node: NodeId, reading: Reading) -> bool {
        let Some(present) = self.readings.get_mut(&node) else {
            let fresh = Readings { began: now.mono, best: reading, before: None };
            self.readings.insert(node, fresh);
            return true;
        };
        if now.mono.saturating_sub(present.began) > WINDOW {
            let before = Some(present.best);
            *present = Readings { began: now.mono, best: reading, before };
            return true;
        }
        let better = reading.round_trip < present.best.round_trip;
        if better {
            present.best = reading;
        }
        better
    }

    fn middle_offset(&self) -> i128 {
        let mut offsets: Vec<i128> = self.readings.values().map(Readings::offset).collect();
        offsets.sort_unstable();
        offsets.get(offsets.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    fn estimate(&self, now: Now) -> u64 {
        match self.offset {
            None => now.wall,
            Some(offset) => u64::try_from(nanos(now.mono) + offset).unwrap_or_default(),
        }
    }
}

impl Readings {
    fn offset(&self) -> i128 {
        match self.before {
            Some(before) if before.round_trip < self.best.round_trip => before.offset,
            _ => self.best.offset,
        }
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// How long a good reading counts, twice this at most: quartz drifts by 50 us per second at worst.
const WINDOW: Duration = Duration::from_secs(10);

/// How far ahead a node's time may be believed: the drift bound of the cluster.
const DRIFT_MAX: i128 = 500_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const P: ProcessId = ProcessId(7);

    fn at(ms: u64) -> Now {
        Now { mono: Duration::from_millis(ms), wall: 5 }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn stamps_rise_though_the_wall_goes_back() {
        let mut clock = StampClock::new(P);
        let walls = [10, 10, 3, 11, 0];
        let stamps: Vec<(u64, u32)> = walls
            .map(|wall| clock.stamp(Now { mono: Duration::ZERO, wall }))
            .map(|stamp| (stamp.time, stamp.count))
            .to_vec();
        assert_eq!(stamps, [(10, 0), (10, 1), (10, 2), (11, 0), (11, 1)]);
    }

    #[test]
    fn a_full_count_carries_into_the_time() {
        let mut clock = StampClock::new(P);
        clock.last = (10, Stamp::COUNT_MAX);
        let stamp = clock.stamp(at(0));
        assert_eq!((stamp.time, stamp.count), (11, 0));
    }

    #[test]
    fn the_reading_with_the_shortest_round_trip_counts() {
        let mut clock = StampClock::new(P);
        clock.learn(at(100), NodeId(1), ms(0), 1_000_000_000);
        clock.learn(at(102), NodeId(1), ms(100), 1_040_000_000);
        clock.learn(at(300), NodeId(1), ms(110), 1_100_000_000);
        // Middle of the second reading is 101 ms, so the cluster is 939 ms ahead of us.
        assert_eq!(clock.estimate(at(400)), 1_339_000_000);
    }

    #[test]
    fn one_sick_clock_moves_nothing() {
        let mut clock = StampClock::new(P);
        clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
        clock.learn(at(2), NodeId(2), ms(0), 1_000_000_000);
        clock.learn(at(2), NodeId(3), ms(0), u64::MAX);
        assert_eq!(clock.estimate(at(2)), 1_001_000_000);
        assert_eq!(clock.stamp(at(2)).time, 1_001_000_000);
    }

    #[test]
    fn what_was_seen_is_before_what_comes() {
        let mut clock = StampClock::new(P);
        clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
        clock.learn(at(12), NodeId(1), ms(2), 1_300_000_000);
        let stamp = clock.stamp(at(12));
        assert_eq!((stamp.time, stamp.count), (1_300_000_000, 1));
    }

    #[test]
    fn a_new_process_may_go_back() {
        let mut clock = StampClock::new(P);
        clock.learn(at(2), NodeId(1), ms(0), 9_000_000_000);
        clock.stamp(at(2));
        clock.learn(at(4), NodeId(1), ms(2), 1_000_000_000);
        clock.renew(at(4), ProcessId(8));
        let stamp = clock.stamp(at(4));
        assert_eq!((stamp.time, stamp.process), (1_001_000_000, ProcessId(8)));
    }
}
