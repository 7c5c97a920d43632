//! Custody as it is passed: yields, and the leases that are told before.
//!
//! When the other lacks nothing any more that this side could give, this side tells its leases and
//! yields.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{NodeId, Stamp};

use super::Node;
use crate::effect::Effects;
use crate::envelope::{Envelope, LeaseTold};
use crate::now::Now;
use crate::queue::Flight;

impl Node {
    /// The other has yielded.
    pub(super) fn yielded_by(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        if let Some(session) = self.sessions.with_mut(peer) {
            session.yielded_by = true;
        }
        self.custody_changed(now, effects);
    }

    /// Yields to a node once it has all that this one could give it.
    pub(super) fn yield_if_done(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        let Some(session) = self.sessions.with(peer) else { return };
        let told = session.marked && session.inventory_complete;
        let given = session.make_up.is_empty() && session.make_up_pending == 0;
        if session.yielded || !told || !given {
            return;
        }
        self.tell_leases(now, Some(peer), Duration::ZERO, effects);
        self.say(peer, Envelope::Yield, effects);
        if let Some(session) = self.sessions.with_mut(peer) {
            session.yielded = true;
        }
        self.count("yields");
        self.custody_changed(now, effects);
    }

    /// Tells other holders of leases that are older than `age`: all to one node, or what was not
    /// told before to each.
    pub(super) fn tell_leases(
        &mut self,
        now: Now,
        only: Option<NodeId>,
        age: Duration,
        effects: &mut Effects,
    ) {
        let mut envelopes = Vec::new();
        for (id, partition) in &mut self.partitions {
            let stamps: Vec<Stamp> = match only {
                Some(_) => partition.flights.stamps().collect(),
                None => partition.flights.take_untold(now.mono.minus(age)),
            };
            let mut told = match only {
                Some(_) => partition.leases_heard(now.mono),
                None => partition.take_ended(),
            };
            let flights = stamps.iter().filter_map(|stamp| partition.flights.with(*stamp));
            told.extend(flights.map(|flight| (flight.head.list, lease_told(flight, now))));
            let mut by_node: BTreeMap<NodeId, Vec<LeaseTold>> = BTreeMap::new();
            for (list, lease) in told {
                for node in partition.holders(list) {
                    let asked = only.is_none_or(|only| only == *node);
                    if asked && self.sessions.with(*node).is_some() {
                        by_node.entry(*node).or_default().push(lease.clone());
                    }
                }
            }
            let (queue, number) = *id;
            envelopes.extend(by_node.into_iter().map(|(node, leases)| {
                (node, Envelope::Leases { queue, partition: number, leases })
            }));
        }
        for (node, envelope) in envelopes {
            self.say(node, envelope, effects);
        }
    }
}

fn lease_told(flight: &Flight, now: Now) -> LeaseTold {
    let label = &flight.head.label;
    flight.lease.told_running((label.number, label.stamp), flight.until, now.mono)
}
