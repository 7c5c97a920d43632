//! Custody as it is passed: yields, what is handed over, and the leases that are told before.
//!
//! Of two nodes in session a fit one goes before one that is not, else the earlier holder before
//! the later one. A node is fit that is not slow, is not to leave the cluster, has room on its disk
//! (else it may lack what it is listed for), and waits for no remembered member that is away. When
//! the other goes before, lacks nothing any more that this side could give, and was told all that
//! this side has, without which it may hand nothing out (P4, P10), this side tells its leases and
//! stops handing out: as the later holder it *yields*, as the earlier one it *hands over* what the
//! other had yielded. The other takes it back by yielding again, which it does once the earlier one
//! is fit.
//!
//! Invariant: nobody passes on what it was not passed, so one of the two has it or it is on its
//! way, and what the next custodian must know is on the same stream before it.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_wire::{NodeId, Stamp};

use super::Node;
use crate::effect::Effects;
use crate::envelope::{Envelope, LeaseTold};
use crate::now::Now;
use crate::queue::Flight;

impl Node {
    /// Whether custody is in good hands here, as long as there is a choice.
    fn is_fit(&self) -> bool {
        let full = self.is_full(self.config.node);
        !self.is_slow() && !self.leaves() && !full && !self.sessions.is_waiting()
    }

    /// Tells those who do not know it yet whether this node is fit, and passes on what that is the
    /// end of.
    pub(super) fn tell_fit(&mut self, now: Now, effects: &mut Effects) {
        let fit = self.is_fit();
        let untold = self.sessions.take_untold_fit(fit);
        for peer in &untold {
            self.say(*peer, Envelope::Fit { fit }, effects);
        }
        for peer in untold {
            self.pass_custody(now, peer, effects);
        }
    }

    /// The other says whether it is fit.
    pub(super) fn fit_told(&mut self, now: Now, peer: NodeId, fit: bool, effects: &mut Effects) {
        if let Some(session) = self.sessions.progress_mut(peer) {
            session.fit = fit;
        }
        self.pass_custody(now, peer, effects);
    }

    /// The other has yielded.
    pub(super) fn yielded_by(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        if let Some(session) = self.sessions.with_mut(peer) {
            session.yielded_by = true;
        }
        self.custody_changed(now, effects);
        self.pass_custody(now, peer, effects);
    }

    /// The other has handed over what this side had yielded.
    pub(super) fn handed_over(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        if let Some(session) = self.sessions.with_mut(peer) {
            session.yielded = false;
            session.kept = true;
        }
        self.custody_changed(now, effects);
        self.pass_custody(now, peer, effects);
    }

    /// Passes custody to a node that goes before this one, once it has all that this one could
    /// give it, and was told all that this one has: before that nobody would hand anything out.
    pub(super) fn pass_custody(&mut self, now: Now, peer: NodeId, effects: &mut Effects) {
        let fit = self.is_fit();
        let Some(session) = self.sessions.progress_mut(peer) else { return };
        if !session.is_compared() {
            return;
        }
        session.kept |= !session.told;
        if !session.is_given() || !session.told {
            return;
        }
        let hands_over = session.yielded_by && session.fit && !fit;
        let yields = !session.yielded && (session.fit || !fit);
        session.kept |= !session.yielded && !yields;
        if !hands_over && !yields {
            return;
        }
        if hands_over || session.kept {
            self.push_tombstones(now, peer, Duration::ZERO, effects);
        }
        self.tell_leases(now, Some(peer), Duration::ZERO, effects);
        let Some(session) = self.sessions.with_mut(peer) else { return };
        if hands_over {
            session.yielded_by = false;
        }
        if yields {
            session.yielded = true;
            session.kept = false;
        }
        if hands_over {
            self.say(peer, Envelope::HandOver, effects);
            self.count("hand_overs");
        }
        if yields {
            self.say(peer, Envelope::Yield, effects);
            self.count("yields");
        }
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
