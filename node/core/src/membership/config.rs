//! The numbers of membership, each with where it came from.
//!
//! All members of a cluster must agree on the packet size; the rest may differ, but a cluster whose
//! members suspect at different speeds is only as calm as its most nervous one.

use std::time::Duration;

/// How membership probes, suspects and reaches out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MembershipConfig {
    /// How often one member is probed. 200 ms: with a suspicion of 900 ms a dead host is out of
    /// every view of up to five nodes within 1.5 s at the median.
    pub(crate) probe_period: Duration,
    /// How long a probe may take before others are asked to probe too. 70 ms: well above the p99
    /// round trip inside one site, and it leaves the indirect probe 130 ms.
    pub(crate) probe_rtt: Duration,
    /// How long a suspected member has for its objection before it counts as down. Tests that must
    /// not see a false alarm on a noisy machine set 10 s.
    pub(crate) suspicion: Duration,
    /// How often each piece of news is passed on. 10: with foca's own number for three nodes (2) a
    /// suspect often never heard of the suspicion and went down alive.
    pub(crate) transmissions_max: u8,
    /// The largest packet made and taken. 1,100 bytes fit a QUIC datagram at the smallest MTU.
    pub(crate) packet_size_max: usize,
    /// The most nodes the view takes in, those that are down included. What strangers could grow
    /// stops here; removal from the cluster makes room.
    pub(crate) members_max: usize,
    /// By how much a timer may be late before this node blames itself and not its peers. 50 ms:
    /// above what a busy scheduler does all the time, below `probe_rtt`.
    pub(crate) lag_max: Duration,
    /// The first and the longest pause between two rounds of announcing while alone.
    pub(crate) reach_alone: (Duration, Duration),
    /// The pause between rounds of announcing to members that are down and to unknown seeds while
    /// in company: this heals a cut, and it bounds how long that takes.
    pub(crate) reach_in_company: Duration,
    /// How often the own profile is told again although nothing changed: broadcasts are not
    /// reliable, this repairs what was lost.
    pub(crate) profile_period: Duration,
}

/// No packet of gossip is larger, in bytes, whatever the setting: QUIC promises little more for a
/// datagram.
pub const PACKET_SIZE_LIMIT: usize = 1_100;

impl MembershipConfig {
    /// The largest packet that is made and taken. Below 600 bytes a notice might never find room
    /// beside a header.
    pub(super) fn packet_size(&self) -> usize {
        self.packet_size_max.clamp(600, PACKET_SIZE_LIMIT)
    }

    /// The settings in foca's own terms.
    pub(super) fn swim(&self) -> foca::Config {
        foca::Config {
            probe_period: self.probe_period,
            probe_rtt: self.probe_rtt,
            num_indirect_probes: at_least_one(3),
            max_transmissions: std::num::NonZeroU8::new(self.transmissions_max)
                .unwrap_or(std::num::NonZeroU8::MIN),
            suspect_to_down_after: self.suspicion,
            // Members once seen stay: they remain ranked hosts, and a cut may last for days.
            remove_down_after: None,
            max_packet_size: at_least_one(self.packet_size()),
            notify_down_members: true,
            // A feed holds about twenty members, so large clusters need several.
            periodic_announce: Some(foca::PeriodicParams {
                frequency: Duration::from_secs(5),
                num_members: at_least_one(1),
            }),
            // The room announces to down members itself: foca's timer for it dies when alone.
            periodic_announce_to_down_members: None,
            periodic_gossip: Some(foca::PeriodicParams {
                frequency: Duration::from_millis(200),
                num_members: at_least_one(3),
            }),
        }
    }
}

impl Default for MembershipConfig {
    fn default() -> Self {
        Self {
            probe_period: Duration::from_millis(200),
            probe_rtt: Duration::from_millis(70),
            suspicion: Duration::from_millis(900),
            transmissions_max: 10,
            packet_size_max: PACKET_SIZE_LIMIT,
            members_max: 256,
            lag_max: Duration::from_millis(50),
            reach_alone: (Duration::from_millis(250), Duration::from_secs(4)),
            reach_in_company: Duration::from_secs(5),
            profile_period: Duration::from_secs(10),
        }
    }
}

fn at_least_one(count: usize) -> std::num::NonZeroUsize {
    std::num::NonZeroUsize::new(count).unwrap_or(std::num::NonZeroUsize::MIN)
}
