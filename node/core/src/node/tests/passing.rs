//! Custody as it goes to and fro between this node and another: what is said, and in which order.

use std::time::Duration;

use super::*;
use crate::envelope::Span;
use crate::event::LinkId;
use crate::table::rendezvous::{self, Slot};

const PEER: NodeId = NodeId(2);
const LINK: LinkId = LinkId(1);
const SLOW: Surroundings = Surroundings {
    disk_bytes: 0,
    disk_free_bytes: 0,
    disk_total_bytes: 0,
    socket_buffer_bytes: 0,
    commit_running_ms: 0,
    commit_p99_ms: 400,
    loop_p99_ms: 0,
};

/// A node in session with another that has what it has, and each has yielded; two messages of
/// which the first named is the first holder.
fn shared(first: NodeId) -> (Bench, QueueId) {
    let mut bench = Bench::new();
    bench.node.config.slow_after = Duration::from_millis(100);
    let queue = bench.queue(SettingsChange { partitions: Some(16), ..Default::default() });
    let hello = PeerHello { node: PEER, store: 9, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LINK, hello: Box::new(hello) });
    bench.peer_says(Envelope::Mark);
    let inventory = Envelope::Inventory { call: 0, partitions: vec![], span: Span::all() };
    assert_eq!(bench.peer_says(inventory), [Envelope::Yield]);
    assert_eq!(bench.peer_says(Envelope::Yield), []);
    let holders = vec![ME, PEER];
    let precedes = |partition: &u16| {
        let mut order = holders.clone();
        rendezvous::order(Slot::of(queue, *partition), &mut order);
        order[0] == first
    };
    let partition = (0..16).find(precedes).expect("it is first somewhere");
    let labels = vec![bench.label(1), bench.label(2)];
    bench.peer_says(copy_of((queue, partition), holders, labels));
    (bench, queue)
}

impl Bench {
    /// The other says something; what is said to it then.
    fn peer_says(&mut self, envelope: Envelope) -> Vec<Envelope> {
        said(&self.handle(Event::Envelope { link: LINK, envelope }))
    }

    /// For as long as it takes this is measured; what is said in the end.
    fn measures(&mut self, measured: Surroundings) -> Vec<Envelope> {
        assert_eq!(said(&self.handle(Event::Measured(measured))), []);
        self.pass(100);
        said(&self.handle(Event::Measured(measured)))
    }

    fn is_custodian(&self) -> bool {
        self.node.partitions.values().any(Partition::serves_any)
    }
}

fn said(effects: &[Effect]) -> Vec<Envelope> {
    let envelopes = effects.iter().filter_map(|effect| match effect {
        Effect::Send { envelope, .. } | Effect::SendNow { envelope, .. } => Some(envelope.clone()),
        _ => None,
    });
    envelopes.filter(|envelope| !matches!(envelope, Envelope::Want { .. })).collect()
}

#[test]
fn a_slow_node_hands_over_after_what_is_gone_and_what_is_leased() {
    let (mut bench, queue) = shared(ME);
    let receipt = bench.receive(1, 0).unwrap().remove(0).receipt;
    assert_eq!(numbers(&bench.receive(1, 0).unwrap()), [2]);
    bench.handle(Event::Measured(SLOW));
    bench.pass(100);
    bench.ask(Request::Delete { receipts: vec![receipt] });
    let said = said(&bench.handle(Event::Measured(SLOW)));
    let [
        Envelope::Fit { fit: false },
        Envelope::Tombstones { messages, .. },
        Envelope::Leases { queue: of, leases, .. },
        Envelope::HandOver,
    ] = &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!(messages, &[(PRODUCER, Ranges::of(1, 1))]);
    assert_eq!((of, leases.len(), leases[0].number), (&queue, 1, 2));
}

#[test]
fn who_has_handed_over_hands_nothing_out_until_it_is_yielded_to_again() {
    let (mut bench, _) = shared(ME);
    assert_eq!(bench.measures(SLOW), [Envelope::Fit { fit: false }, Envelope::HandOver]);
    assert!(!bench.is_custodian());
    assert_eq!(bench.measures(Surroundings::default()), [Envelope::Fit { fit: true }]);
    assert!(!bench.is_custodian(), "the other has not yielded yet");
    bench.peer_says(Envelope::Yield);
    assert!(bench.is_custodian());
}

#[test]
fn nothing_is_handed_over_to_who_is_not_fit_either_before_it_is() {
    let (mut bench, _) = shared(ME);
    assert_eq!(bench.peer_says(Envelope::Fit { fit: false }), []);
    assert_eq!(bench.measures(SLOW), [Envelope::Fit { fit: false }]);
    assert!(bench.is_custodian());
    assert_eq!(bench.peer_says(Envelope::Fit { fit: true }), [Envelope::HandOver]);
    assert!(!bench.is_custodian());
}

#[test]
fn a_yield_that_comes_while_its_receiver_is_slow_is_undone() {
    let (mut bench, _) = shared(ME);
    bench.measures(SLOW);
    assert_eq!(bench.peer_says(Envelope::Yield), [Envelope::HandOver]);
    assert!(!bench.is_custodian());
}

#[test]
fn what_was_handed_over_is_handed_out_and_goes_back_once_the_other_is_fit() {
    let (mut bench, _) = shared(PEER);
    assert!(!bench.is_custodian());
    assert_eq!(bench.peer_says(Envelope::Fit { fit: false }), []);
    assert!(!bench.is_custodian(), "it may hand out still");
    assert_eq!(bench.peer_says(Envelope::HandOver), []);
    let receipt = bench.receive(1, 0).unwrap().remove(0).receipt;
    assert_eq!(numbers(&bench.receive(1, 0).unwrap()), [2]);
    bench.ask(Request::Delete { receipts: vec![receipt] });
    let said = bench.peer_says(Envelope::Fit { fit: true });
    let [Envelope::Tombstones { .. }, Envelope::Leases { leases, .. }, Envelope::Yield] = &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!(leases.iter().map(|lease| lease.number).collect::<Vec<_>>(), [2]);
    assert!(!bench.is_custodian());
}

#[test]
fn what_is_handed_over_by_one_that_has_recovered_meanwhile_goes_back_at_once() {
    let (mut bench, _) = shared(PEER);
    assert_eq!(bench.peer_says(Envelope::HandOver), [Envelope::Yield]);
    assert!(!bench.is_custodian());
}

#[test]
fn a_slow_node_yields_to_a_slow_one_before_it() {
    let (mut bench, _) = shared(PEER);
    bench.peer_says(Envelope::Fit { fit: false });
    bench.peer_says(Envelope::HandOver);
    let said = bench.measures(SLOW);
    assert_eq!(said, [Envelope::Fit { fit: false }, Envelope::Yield]);
}

#[test]
fn who_was_handed_over_to_hears_at_once_that_a_lease_runs_on() {
    use crate::envelope::LeaseChange;
    for change in [LeaseChange::Extend(60_000), LeaseChange::Release(60_000)] {
        let (mut bench, _) = shared(ME);
        let receipts = vec![bench.receive(1, 0).unwrap().remove(0).receipt];
        assert_eq!(bench.measures(SLOW).len(), 3, "fit, leases, custody");
        let mut said_now = bench.peer_says(Envelope::Change { call: 1, change, receipts });
        said_now.extend(said(&bench.pass(0)));
        let [Envelope::Changed { .. }, Envelope::Leases { leases, .. }] = &said_now[..] else {
            panic!("{said_now:?}")
        };
        assert_eq!((leases[0].number, leases[0].remaining_ms), (1, 60_000));
    }
}
