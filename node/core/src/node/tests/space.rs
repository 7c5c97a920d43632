//! Room on disks: what a node does when its own is full, and where copies go instead (F12, F13).

use super::resending::{another, meets};
use super::*;
use crate::envelope::{CopyItem, PartitionInventory, Span};
use crate::event::LinkId;

const PEER: NodeId = NodeId(2);
const FULL: Surroundings = free(4);
const SCARCE: Surroundings = free(19);
const ROOMY: Surroundings = free(50);

/// So many of a hundred GiB are free.
const fn free(gib: u64) -> Surroundings {
    Surroundings {
        disk_bytes: 0,
        disk_free_bytes: gib << 30,
        disk_total_bytes: 100 << 30,
        socket_buffer_bytes: 0,
        commit_running_ms: 0,
        commit_p99_ms: 0,
        loop_p99_ms: 0,
    }
}

impl Bench {
    fn measures_space(&mut self, space: Surroundings) {
        self.handle(Event::Measured(space));
    }

    fn is_linked(&mut self, node: NodeId) {
        let hello = PeerHello { node, store: node.0.into(), ..self.node.hello() };
        self.handle(Event::LinkUp { link: LinkId(node.0), hello: Box::new(hello) });
    }
}

fn refused(effects: &[Effect]) -> Option<&Refusal> {
    match effects {
        [Effect::Answer { response: Response::Refused(refusal), .. }] => Some(refusal),
        _ => None,
    }
}

#[test]
fn a_full_node_refuses_sends_and_deletes_all_the_same_until_it_has_room() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=2);
    bench.measures_space(FULL);
    assert_eq!(refused(&bench.send(queue, 3..=3)), Some(&Refusal::DiskFull));
    let received = bench.receive(10, 0).unwrap();
    let receipts = received.into_iter().map(|delivery| delivery.receipt).collect();
    assert_eq!(bench.delete(receipts), [const { DeleteResult::Deleted }; 2]);

    bench.measures_space(SCARCE);
    let effects = bench.send(queue, 4..=4);
    assert!(matches!(
        effects[..],
        [Effect::Write(_), Effect::Answer { response: Response::Sent(_), .. }]
    ));
}

#[test]
fn a_full_node_declines_what_is_new_to_it_and_has_what_it_has() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.is_linked(PEER);
    let link = LinkId(PEER.0);
    let copy =
        |bench: &Bench, number| copy_of((queue, 0), vec![ME, PEER], vec![bench.label(number)]);
    let first = copy(&bench, 1);
    bench.is_told(PEER.0, first.clone());
    bench.measures_space(FULL);
    let again = bench.is_told(PEER.0, first);
    assert!(
        again
            .iter()
            .any(|effect| matches!(effect, Effect::Send { envelope: Envelope::Held { .. }, .. })),
        "{again:?}"
    );
    let new = copy(&bench, 2);
    let declined = Effect::Send { link, envelope: Envelope::Declined { batch: 1 } };
    assert_eq!(bench.is_told(PEER.0, new), [declined]);
}

#[test]
fn new_copies_go_to_the_short_of_space_last_and_to_the_full_not_at_all() {
    let holders = |spaces: [Surroundings; 3]| {
        let mut bench = Bench::new();
        bench.measures_space(spaces[0]);
        let mut others = [2, 3].map(|node| another(NodeId(node)));
        for (other, space) in others.iter_mut().zip(&spaces[1..]) {
            other.measures_space(*space);
        }
        meets(&mut bench, &mut others);
        let queue = bench.queue(one_partition());
        for node in [2, 3] {
            bench.is_linked(NodeId(node));
        }
        let mut holders = bench.node.holders((queue, 0), 2);
        holders.sort();
        holders.into_iter().map(|node| node.0).collect::<Vec<_>>()
    };
    assert_eq!(holders([SCARCE, ROOMY, ROOMY]), [2, 3]);
    assert_eq!(holders([ROOMY, SCARCE, ROOMY]), [1, 3]);
    assert_eq!(holders([ROOMY, ROOMY, SCARCE]), [1, 2]);
    assert_eq!(holders([ROOMY, FULL, SCARCE]), [1, 3]);
    assert_eq!(holders([ROOMY, FULL, FULL]), [1]);
}

#[test]
fn who_may_have_what_is_sent_again_is_asked_whether_it_has_room_or_not() {
    let mut bench = Bench::new();
    let mut others = [2, 3, 4, 5, 6].map(|node| another(NodeId(node)));
    for other in others.iter_mut().take(3) {
        other.measures_space(FULL);
    }
    meets(&mut bench, &mut others);
    let queue = bench.queue(one_partition());
    let id = (queue, 0);
    let asked = bench.node.may_have(id);
    assert!(bench.node.ranking(id)[..3].iter().all(|node| asked.contains(node)), "{asked:?}");
    assert!(bench.node.placement(id).iter().all(|node| asked.contains(node)), "{asked:?}");
}

#[test]
fn what_a_full_node_lacks_is_given_to_it_once_it_has_room() {
    for (space, given) in [(ROOMY, true), (FULL, false)] {
        let mut bench = Bench::new();
        let mut others = [another(PEER)];
        others[0].measures_space(space);
        meets(&mut bench, &mut others);
        let queue = bench.queue(one_partition());
        bench.is_linked(PEER);
        let items = vec![CopyItem {
            label: bench.label(1),
            accepted: bench.label(1).stamp,
            holders: vec![ME, PEER],
            lease: None,
        }];
        bench.is_linked(NodeId(3));
        let from_a_third = Envelope::MakeUp { batch: 0, queue, partition: 0, items };
        bench.is_told(3, from_a_third);
        bench.is_told(PEER.0, Envelope::Mark);
        let nothing = Envelope::Inventory {
            call: 0,
            partitions: vec![PartitionInventory::nothing((queue, 0))],
            span: Span::all(),
        };
        let mut said = bench.is_told(PEER.0, nothing);
        said.extend(bench.pass(2000));
        let made_up = said
            .iter()
            .any(|effect| matches!(effect, Effect::Send { envelope: Envelope::MakeUp { .. }, .. }));
        assert_eq!(made_up, given, "{space:?}: {said:?}");
    }
}
