//! The clock of stamps: the cluster's time, as well as a client can know it.
//!
//! Only a producer knows the order in which it produced, so the client stamps; but its own wall
//! clock may be off. Every answer tells a node's time. Half the round trip is what such a reading
//! may be wrong by, so of each node the reading with the shortest round trip counts, for as long
//! as it is fresh; and of all nodes with a fresh one the middle, so that one sick clock moves
//! nothing. Who works with one node alone goes by that one: what others said a day ago is worse by
//! seconds. While nobody answers, what was known last goes on.
//!
//! On top lies a hybrid logical clock: stamps never repeat and never go back within a process,
//! whatever the estimate does (P8), and they lie above every stamp that was delivered before: what
//! is sent because of a message comes after it (Lamport 1978). They lie above what nodes have told
//! as well, but that is judged anew with each answer: a sick node that was heard first is believed
//! only until others have answered. Only a new process may start below the old one.
//!
//! What this file does not do: it does not ask for the time, and it refuses no stamps.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{NodeId, ProcessId, Stamp};

use crate::estimate::{ClockEstimate, NodeClock};
use crate::now::Now;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct StampClock {
    process: ProcessId,
    last: (u64, u32),
    readings: BTreeMap<NodeId, Readings>,
    latest: Option<(NodeId, Reading)>,
    /// The node whose clock the cluster's time is, and its reading.
    like: Option<(NodeId, Reading)>,
    /// The highest time that a node has told and that can be, by all that is known now.
    said: u64,
    /// By how much stamps are off on purpose, in nanoseconds.
    skew: i64,
}

/// The best reading of a node in this window of time and in the one before, and the highest time
/// that it has told in this one.
#[derive(Clone, Copy, Debug)]
struct Readings {
    began: Now,
    best: Reading,
    before: Option<Reading>,
    said: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Now,
    round_trip: Duration,
    /// What the node's clock said.
    said: u64,
    /// Cluster time minus steady time.
    offset: i128,
}

impl StampClock {
    pub(crate) fn new(process: ProcessId, skew: i64) -> Self {
        let readings = BTreeMap::new();
        Self { process, last: (0, 0), readings, latest: None, like: None, said: 0, skew }
    }

    pub(crate) fn process(&self) -> ProcessId {
        self.process
    }

    /// Goes on as another process, which alone may go back in time. Of what the clock was set by
    /// only the latest reading is kept: the others led astray, and that one refused it.
    pub(crate) fn renew(&mut self, now: Now, process: ProcessId) {
        let latest = self.latest;
        *self = Self::new(process, self.skew);
        if let Some((node, reading)) = latest {
            self.note(now, node, reading);
            self.like = latest;
        }
    }

    /// The next stamp.
    pub(crate) fn stamp(&mut self, now: Now) -> Stamp {
        let (time, count) = self.last.max((self.said, 0));
        let estimate = self.estimate(now).saturating_add_signed(self.skew);
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
        let offset = i128::from(clock) - middle;
        let reading = Reading { at: now, round_trip, said: clock, offset };
        self.latest = Some((node, reading));
        self.note(now, node, reading);
        self.like = self.middle(now);
        self.said = self.highest_said(now);
    }

    /// Goes above the time and count of a delivery: what causes must have the lower stamp, within
    /// the bound that nodes allow for. It stays above, though the time is corrected later.
    ///
    /// The bound is the whole of theirs, with no room for what nodes differ by: a node that is
    /// behind may refuse what is sent because of a delivery near the bound. Such a message, and
    /// what waits then, is stamped anew by the time of that node, under another process, and only
    /// that is not above its cause; with room, nothing would be above a cause near the bound,
    /// whichever node it goes to.
    pub(crate) fn observe(&mut self, now: Now, time: u64, count: u32) {
        if self.is_sane(now, time) {
            self.last = self.last.max((time, count));
        }
    }

    /// What is known of the cluster's time; nothing before a node has answered.
    pub(crate) fn told(&self, now: Now) -> Option<ClockEstimate> {
        let (like, reading) = self.like?;
        let nodes = self.readings.iter().map(|(node, readings)| {
            let best = readings.best(now);
            let offset_ns = narrow(best.offset - reading.offset);
            NodeClock { node: *node, offset_ns, error_ns: best.error_ns(now) }
        });
        Some(ClockEstimate {
            offset_ns: narrow(nanos(now.mono) + reading.offset - i128::from(now.wall)),
            error_ns: reading.error_ns(now),
            like,
            nodes: nodes.collect(),
        })
    }

    fn note(&mut self, now: Now, node: NodeId, reading: Reading) {
        let first = Readings { began: now, best: reading, before: None, said: reading.said };
        let present = self.readings.entry(node).or_insert(first);
        if passed(present.began, now) > WINDOW {
            *present = Readings { before: Some(present.best), ..first };
            return;
        }
        present.said = present.said.max(reading.said);
        if reading.round_trip < present.best.round_trip {
            present.best = reading;
        }
    }

    /// The node whose clock is in the middle of those with a fresh reading, and that.
    fn middle(&self, now: Now) -> Option<(NodeId, Reading)> {
        let all = self.readings.iter().map(|(node, readings)| (*node, readings.best(now)));
        let mut fresh: Vec<(NodeId, Reading)> =
            all.filter(|(_, reading)| reading.is_fresh(now)).collect();
        fresh.sort_by_key(|(node, reading)| (reading.offset, *node));
        fresh.get(fresh.len().saturating_sub(1) / 2).copied()
    }

    /// What nodes have told lately counts as far as it can be; 0 is before any time.
    fn highest_said(&self, now: Now) -> u64 {
        let fresh = self.readings.values().filter(|readings| readings.best.is_fresh(now));
        let said = fresh.map(|readings| readings.said);
        said.filter(|said| self.is_sane(now, *said)).max().unwrap_or_default()
    }

    fn is_sane(&self, now: Now, time: u64) -> bool {
        i128::from(time) <= i128::from(self.estimate(now)) + DRIFT_MAX
    }

    fn estimate(&self, now: Now) -> u64 {
        match self.like {
            None => now.wall,
            Some((_, like)) => u64::try_from(nanos(now.mono) + like.offset).unwrap_or_default(),
        }
    }
}

impl Readings {
    /// The fresh one with the shortest round trip; if none is fresh, the latest of what there is.
    fn best(&self, now: Now) -> Reading {
        let is_better =
            |before: &Reading| before.is_fresh(now) && before.round_trip < self.best.round_trip;
        self.before.filter(is_better).unwrap_or(self.best)
    }
}

impl Reading {
    fn is_fresh(&self, now: Now) -> bool {
        passed(self.at, now) <= WINDOW * 2
    }

    /// By how much it may be wrong now: half the round trip, and what quartz drifts since.
    fn error_ns(self, now: Now) -> u64 {
        let error = self.round_trip / 2 + passed(self.at, now) / DRIFT_PART;
        u64::try_from(error.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// How much time has passed. Where the steady clock stands still while the machine is suspended,
/// the wall clock shows it; if that one was set forward, readings age early, which harms nothing.
fn passed(since: Now, now: Now) -> Duration {
    let steady = now.mono.saturating_sub(since.mono);
    steady.max(Duration::from_nanos(now.wall.saturating_sub(since.wall)))
}

fn narrow(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// For so long the best reading is looked for; a reading counts for twice this at most.
const WINDOW: Duration = Duration::from_secs(10);

/// Quartz drifts by 50 us per second at worst.
const DRIFT_PART: u32 = 20_000;

/// How far ahead a node's time may be believed: the drift bound of the cluster.
const DRIFT_MAX: i128 = 500_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const P: ProcessId = ProcessId(7);

    /// In milliseconds.
    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;

    fn at(ms: u64) -> Now {
        Now { mono: Duration::from_millis(ms), wall: 5 }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn stamps_rise_though_the_wall_goes_back() {
        let mut clock = StampClock::new(P, 0);
        let walls = [10, 10, 3, 11, 0];
        let stamps: Vec<(u64, u32)> = walls
            .map(|wall| clock.stamp(Now { mono: Duration::ZERO, wall }))
            .map(|stamp| (stamp.time, stamp.count))
            .to_vec();
        assert_eq!(stamps, [(10, 0), (10, 1), (10, 2), (11, 0), (11, 1)]);
    }

    #[test]
    fn a_full_count_carries_into_the_time() {
        let mut clock = StampClock::new(P, 0);
        clock.last = (10, Stamp::COUNT_MAX);
        let stamp = clock.stamp(at(0));
        assert_eq!((stamp.time, stamp.count), (11, 0));
    }

    #[test]
    fn the_reading_with_the_shortest_round_trip_counts() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(100), NodeId(1), ms(0), 1_000_000_000);
        clock.learn(at(102), NodeId(1), ms(100), 1_040_000_000);
        clock.learn(at(300), NodeId(1), ms(110), 1_100_000_000);
        // Middle of the second reading is 101 ms, so the cluster is 939 ms ahead of us.
        assert_eq!(clock.estimate(at(400)), 1_339_000_000);
    }

    #[test]
    fn nodes_that_do_not_answer_any_more_have_no_say() {
        let mut clock = StampClock::new(P, 0);
        for node in 1..=3 {
            clock.learn(at(2), NodeId(node), ms(0), 1_000_000_000);
        }
        // In a day, quartz has drifted by 4.32 s.
        let told = 1_000_000_000 + 86_400_000_000_000 + 4_320_000_000;
        clock.learn(at(DAY + 2), NodeId(1), ms(DAY), told);
        assert_eq!(clock.estimate(at(DAY + 2)), told + 1_000_000);
        assert_eq!(clock.stamp(at(DAY + 2)).time, told + 1_000_000);
        let old = |node| NodeClock {
            node: NodeId(node),
            offset_ns: -4_320_000_000,
            error_ns: 1_000_000 + 4_320_000_000,
        };
        let fresh = NodeClock { node: NodeId(1), offset_ns: 0, error_ns: 1_000_000 };
        let wanted = ClockEstimate {
            offset_ns: i64::try_from(told).unwrap() + 1_000_000 - 5,
            error_ns: 1_000_000,
            like: NodeId(1),
            nodes: vec![fresh, old(2), old(3)],
        };
        assert_eq!(clock.told(at(DAY + 2)), Some(wanted));
    }

    #[test]
    fn a_reading_counts_for_two_windows_however_short_its_round_trip_was() {
        // By the first reading, the cluster is 999 ms ahead of us; by the later ones, 1095 ms.
        let estimates = [20_002, 20_003, 3_600_000].map(|end| {
            let mut clock = StampClock::new(P, 0);
            clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
            clock.learn(at(15_000), NodeId(1), ms(14_990), 16_090_000_000);
            assert_eq!(clock.estimate(at(15_000)), 15_999_000_000);
            clock.learn(at(end), NodeId(1), ms(end - 10), (end + 1_090) * 1_000_000);
            clock.estimate(at(end))
        });
        assert_eq!(estimates, [21_001_000_000, 21_098_000_000, 3_601_095_000_000]);
    }

    #[test]
    fn a_machine_that_was_suspended_goes_by_what_it_hears_now() {
        // The steady clock may count while a machine is suspended, or stand still.
        for steady in [HOUR, 100] {
            let mut clock = StampClock::new(P, 0);
            for node in 1..=3 {
                clock.learn(at(2), NodeId(node), ms(0), 1_000_000_000);
            }
            let now = Now { wall: 3_600_000_000_000, ..at(steady + 10) };
            clock.learn(now, NodeId(1), ms(steady), 3_602_000_000_000);
            assert_eq!(clock.estimate(now), 3_602_005_000_000);
        }
    }

    #[test]
    fn one_sick_clock_moves_nothing() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
        clock.learn(at(2), NodeId(2), ms(0), 1_000_000_000);
        clock.learn(at(2), NodeId(3), ms(0), u64::MAX);
        assert_eq!(clock.estimate(at(2)), 1_001_000_000);
        assert_eq!(clock.stamp(at(2)).time, 1_001_000_000);
    }

    #[test]
    fn what_was_seen_is_before_what_comes() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
        clock.learn(at(12), NodeId(1), ms(2), 1_300_000_000);
        let stamp = clock.stamp(at(12));
        assert_eq!((stamp.time, stamp.count), (1_300_000_000, 1));
    }

    #[test]
    fn what_was_delivered_is_before_what_comes_unless_it_is_beyond_the_bound() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
        clock.observe(at(2), 1_300_000_000, 7);
        let stamp = clock.stamp(at(2));
        assert_eq!((stamp.time, stamp.count), (1_300_000_000, 8));
        clock.observe(at(2), 1_502_000_000, 0);
        let stamp = clock.stamp(at(2));
        assert_eq!((stamp.time, stamp.count), (1_300_000_000, 9));
    }

    #[test]
    fn a_sick_clock_that_was_heard_first_leads_no_further_than_it_is_alone() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(3), ms(0), 3_601_000_000_000);
        clock.learn(at(12), NodeId(3), ms(2), 3_601_300_000_000);
        clock.learn(at(14), NodeId(1), ms(12), 1_012_000_000);
        clock.learn(at(16), NodeId(2), ms(14), 1_014_000_000);
        let stamp = clock.stamp(at(16));
        assert_eq!((stamp.time, stamp.count), (1_015_000_000, 0));
    }

    #[test]
    fn what_a_healthy_node_said_counts_beside_what_a_sick_one_said() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(3), ms(0), 3_601_000_000_000);
        clock.learn(at(4), NodeId(1), ms(2), 1_002_000_000);
        clock.learn(at(14), NodeId(1), ms(4), 1_300_000_000);
        let stamp = clock.stamp(at(14));
        assert_eq!((stamp.time, stamp.count), (1_300_000_000, 1));
        assert_eq!(clock.stamp(at(14)).count, 2);
    }

    #[test]
    fn what_a_mended_node_says_counts_again() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(3), ms(0), 3_601_000_000_000);
        clock.learn(at(4), NodeId(1), ms(2), 1_002_000_000);
        clock.learn(at(6), NodeId(2), ms(4), 1_004_000_000);
        clock.learn(at(11_002), NodeId(3), ms(10_992), 12_300_000_000);
        let stamp = clock.stamp(at(11_002));
        assert_eq!((stamp.time, stamp.count), (12_300_000_000, 1));
    }

    #[test]
    fn what_a_sick_node_said_is_forgotten_before_its_time_has_come() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(3), ms(0), 3_601_000_000_000);
        clock.learn(at(HOUR - 298), NodeId(1), ms(HOUR - 300), 3_600_700_000_000);
        let stamp = clock.stamp(at(HOUR - 298));
        assert_eq!((stamp.time, stamp.count), (3_600_701_000_000, 0));
    }

    #[test]
    fn what_was_delivered_is_before_what_comes_though_the_time_is_corrected() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(3), ms(0), 1_200_000_000);
        clock.observe(at(2), 1_600_000_000, 0);
        clock.learn(at(4), NodeId(1), ms(2), 1_000_000_000);
        clock.learn(at(6), NodeId(2), ms(4), 1_002_000_000);
        let stamp = clock.stamp(at(6));
        assert_eq!((stamp.time, stamp.count), (1_600_000_000, 1));
    }

    #[test]
    fn the_estimate_says_how_far_it_is_off_and_by_how_much_it_may_be_wrong() {
        let mut clock = StampClock::new(P, 0);
        assert_eq!(clock.told(at(0)), None);
        clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
        clock.learn(at(6), NodeId(2), ms(2), 1_000_000_000);
        // The lower of two is the middle: node 2 was 996 ms ahead. A wall that stands still at 5 ns
        // is 10 ms behind that now, and a reading is 50 ns worse with each millisecond.
        let node =
            |node, offset_ns, error_ns| NodeClock { node: NodeId(node), offset_ns, error_ns };
        let wanted = ClockEstimate {
            offset_ns: 1_006_000_000 - 5,
            error_ns: 2_000_200,
            like: NodeId(2),
            nodes: vec![node(1, 3_000_000, 1_000_400), node(2, 0, 2_000_200)],
        };
        assert_eq!(clock.told(at(10)), Some(wanted));
    }

    #[test]
    fn a_skew_is_in_the_stamps_alone() {
        let (mut ahead, mut behind) = (StampClock::new(P, 40), StampClock::new(P, -40));
        for clock in [&mut ahead, &mut behind] {
            clock.learn(at(2), NodeId(1), ms(0), 1_000_000_000);
            assert_eq!(clock.estimate(at(2)), 1_001_000_000);
            clock.last = (0, 0);
        }
        let times = [ahead, behind].map(|mut clock| clock.stamp(at(2)).time);
        assert_eq!(times, [1_001_000_040, 1_000_999_960]);
    }

    #[test]
    fn a_new_process_may_go_back() {
        let mut clock = StampClock::new(P, 0);
        clock.learn(at(2), NodeId(1), ms(0), 9_000_000_000);
        clock.stamp(at(2));
        clock.learn(at(4), NodeId(1), ms(2), 1_000_000_000);
        clock.renew(at(4), ProcessId(8));
        let stamp = clock.stamp(at(4));
        assert_eq!((stamp.time, stamp.process), (1_001_000_000, ProcessId(8)));
    }
}
