//! A node that is to leave the cluster: what still depends on it, and who is told what is deleted
//! that it had.

use super::resending::{OTHERS, meets_others};
use super::*;
use crate::envelope::Span;
use crate::event::LinkId;
use crate::table::{Removal, Stage};

/// Who asks for the removal.
const ASKING: LinkId = LinkId(OTHERS[0].0);

/// A node that alone has a message, and has then met two others which have nothing.
fn lone() -> (Bench, QueueId) {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=1);
    meets_others(&mut bench);
    let inventory = Envelope::Inventory { call: 0, partitions: vec![], span: Span::all() };
    for node in OTHERS {
        let (link, store) = (LinkId(node.0), node.0.into());
        let hello = PeerHello { node, store, ..bench.node.hello() };
        bench.handle(Event::LinkUp { link, hello: Box::new(hello) });
        for envelope in [Envelope::Mark, inventory.clone(), Envelope::Yield] {
            bench.handle(Event::Envelope { link, envelope });
        }
    }
    (bench, queue)
}

impl Bench {
    /// The node hears that it is to leave; which copies it gives away within a second, and where.
    fn is_to_leave(&mut self) -> Vec<(LinkId, Envelope)> {
        let (node, store) = (ME, self.node.hello().store);
        let removal = Removal { node, store, stage: Stage::Leaves, changed: self.label(9).stamp };
        let table = Envelope::Table { call: 0, entries: Vec::new(), removals: vec![removal] };
        let mut effects = self.handle(Event::Envelope { link: ASKING, envelope: table });
        effects.extend(self.pass(1000));
        let given = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { link, envelope: given @ Envelope::MakeUp { .. }, .. } => {
                Some((link, given))
            }
            _ => None,
        });
        given.collect()
    }

    /// The other asks how many messages depend on this node; what it is told.
    fn depending(&mut self) -> Option<u64> {
        let envelope = Envelope::AskDependence { call: 1, node: ME };
        let effects = self.handle(Event::Envelope { link: ASKING, envelope });
        effects.iter().find_map(|effect| match effect {
            Effect::Send { envelope: Envelope::Dependence { messages, .. }, .. } => Some(*messages),
            _ => None,
        })
    }
}

#[test]
fn what_is_on_its_way_to_its_first_other_holder_depends_on_who_leaves_until_it_is_there() {
    let (mut bench, queue) = lone();
    let given = bench.is_to_leave();
    let [(to, Envelope::MakeUp { batch, queue: of, items, .. })] = &given[..] else {
        panic!("{given:?}")
    };
    assert_eq!((*of, items.len()), (queue, 1));
    assert_eq!(items[0].holders.len(), 2, "its list names the other already");
    assert_eq!(bench.depending(), Some(1), "P1: and the other has it not yet");
    let envelope = Envelope::Held { batch: *batch, exceptions: Vec::new(), commits: 1 };
    bench.handle(Event::Envelope { link: *to, envelope });
    assert_eq!(bench.depending(), Some(0));
}

/// Before it was removed it has given what only it had to another host.
#[test]
fn a_delete_is_told_to_all_members_if_its_receipt_names_only_who_was_removed() {
    let [removed, other] = OTHERS;
    let now = BTreeSet::from([ME, other]);
    let again = BTreeSet::from([ME, removed, other]);
    for (store, told) in [(u128::from(removed.0), now), (99, again)] {
        let (mut bench, _) = lone();
        let mut receipt = bench.receive(1, 0).unwrap().remove(0).receipt;
        (receipt.number, receipt.holders, receipt.custodian) = (7, vec![removed], removed);
        let (stage, changed) = (Stage::Removed, bench.label(9).stamp);
        let removals = vec![Removal { node: removed, store, stage, changed }];
        let envelope = Envelope::Table { call: 0, entries: Vec::new(), removals };
        bench.handle(Event::Envelope { link: LinkId(other.0), envelope });
        let (_, effects) = bench.ask(Request::Delete { receipts: vec![receipt] });
        let lists = effects.iter().filter_map(|effect| match effect {
            Effect::SendNow { link, envelope: Envelope::Tombstones { holders, .. } } => {
                Some((NodeId(link.0), holders.iter().copied().collect::<BTreeSet<_>>()))
            }
            _ => None,
        });
        let others = told.iter().filter(|node| **node != ME);
        let each: Vec<_> = others.map(|node| (*node, told.clone())).collect();
        assert_eq!(BTreeSet::from_iter(lists), each.into_iter().collect(), "P4");
    }
}
