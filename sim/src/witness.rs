//! What the world sees of a message: on whose disks it is, who has its tombstone, who could have
//! told its custodian.
//!
//! It is asked by watchers whose promise speaks of hosts and sessions, which no client sees. What
//! this file does not do: it judges nothing.

use gaggle_core::ledger::MessageKey;
use gaggle_wire::MessageId;

use crate::judge::{Subject, Witness};
use crate::network::Network;
use crate::options::place;
use crate::process::Process;

/// What there is to see now.
pub(crate) fn look(processes: &[Process], network: &Network, subject: &Subject) -> Witness {
    let (queue, partition, process, number) = subject.name;
    let key = MessageKey { queue, partition, stamp: subject.stamp };
    let id = MessageId { process, number };
    let mut witness = Witness::default();
    for (at, process) in processes.iter().enumerate() {
        if process.disk.keeps(key) {
            witness.holders.insert(at);
        }
        let node = process.node.as_ref();
        if node.is_some_and(|node| node.has_tombstone(queue, partition, id)) {
            witness.buriers.insert(at);
        }
        let near = |custodian: usize| {
            let hear = network.passes(at, custodian) && network.passes(custodian, at);
            let awake = process.is_awake() && processes[custodian].is_awake();
            awake && (at == custodian || hear && network.is_met(at, custodian))
        };
        if subject.custodian.map(place).is_some_and(near) {
            witness.near.insert(at);
        }
    }
    witness
}
