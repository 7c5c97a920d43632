//! A member that this node has never seen: it came and went while this node was down. It is told
//! of, and where that comes too late, its copies come back with it and must not count as new (P4).

use super::*;
use crate::event::LinkId;
use crate::table::rendezvous::{self, Slot};
use crate::table::{Removal, Stage};

const PEER: NodeId = NodeId(2);
const UNSEEN: NodeId = NodeId(3);

impl Bench {
    /// Another node is met; what is said to it.
    fn met(&mut self, node: NodeId) -> Vec<Envelope> {
        let process = ProcessId(node.0);
        let hello = PeerHello { node, store: u128::from(node.0), process, ..self.node.hello() };
        let link = LinkId(node.0);
        said(self.handle(Event::LinkUp { link, hello: Box::new(hello) }))
    }

    /// Whom a tombstone is for, when a client deletes a message by a receipt that names four hosts.
    fn named_by_a_delete(&mut self, queue: QueueId) -> BTreeSet<NodeId> {
        let receipt = Receipt {
            queue,
            partition: 0,
            number: 1,
            stamp: self.label(1).stamp,
            holders: vec![ME, PEER, UNSEEN, NodeId(99)],
            custodian: ME,
            boot: 1,
            delivery: 1,
        };
        let (_, effects) = self.ask(Request::Delete { receipts: vec![receipt] });
        let named = said(effects).into_iter().find_map(|envelope| match envelope {
            Envelope::Tombstones { holders, .. } => Some(holders.into_iter().collect()),
            _ => None,
        });
        named.unwrap_or_default()
    }

    /// What is said when the other that was met first says this.
    fn tells(&mut self, envelope: Envelope) -> Vec<Envelope> {
        said(self.handle(Event::Envelope { link: LinkId(PEER.0), envelope }))
    }
}

fn said(effects: Vec<Effect>) -> Vec<Envelope> {
    let said = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { envelope, .. } | Effect::SendNow { envelope, .. } => Some(envelope),
        _ => None,
    });
    said.collect()
}

fn tombstones(batch: u64, queue: QueueId, known: Vec<NodeId>) -> Envelope {
    let mut holders = vec![ME, PEER, UNSEEN];
    rendezvous::order(Slot::of(queue, 0), &mut holders);
    Envelope::Tombstones {
        batch,
        queue,
        partition: 0,
        holders,
        messages: vec![(PRODUCER, Ranges::of(1, 1))],
        stamps: Vec::new(),
        leases: Vec::new(),
        known,
    }
}

/// A node that has been told of a tombstone by the other that it has met, and needs it no more but
/// for a holder that neither has seen here.
fn told() -> (Bench, QueueId) {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.met(PEER);
    bench.tells(tombstones(1, queue, vec![PEER]));
    (bench, queue)
}

fn blocks(bench: &Bench) -> usize {
    bench.rows.keys().filter(|key| matches!(Key::parse(key), Some(Key::Tombstones(..)))).count()
}

/// A holder had joined and left while another one was down. That one dropped the tombstone of what
/// all three should have had, as the third was no member that it knew, took the copy that the third
/// came back with, and handed it out.
#[test]
fn a_tombstone_waits_for_a_holder_that_was_never_seen_and_is_told_to_it() {
    let (mut bench, queue) = told();
    bench.pass(600_000);
    assert_eq!(blocks(&bench), 1, "P4: one that should have it may come");
    let mut pushes = bench.met(UNSEEN);
    pushes.retain(|said| matches!(said, Envelope::Tombstones { .. }));
    let batch = 1;
    assert_eq!(pushes, [tombstones(batch, queue, vec![ME, PEER])]);
    let buried = Envelope::Buried { batch, older: Vec::new(), commits: 1 };
    bench.handle(Event::Envelope { link: LinkId(UNSEEN.0), envelope: buried });
    bench.pass(2000);
    assert_eq!(blocks(&bench), 0, "now all have it");
}

#[test]
fn a_tombstone_does_not_wait_for_a_holder_that_was_removed_before_it_was_seen() {
    let (mut bench, _) = told();
    let changed = bench.label(1).stamp;
    let removal = Removal { node: UNSEEN, store: 3, stage: Stage::Removed, changed };
    bench.tells(Envelope::Table { call: 0, entries: Vec::new(), removals: vec![removal] });
    bench.pass(600_000);
    assert_eq!(blocks(&bench), 0);
}

/// What a client writes into a receipt may be made up. Who is in session is known, and so is who is
/// in the list of a copy.
#[test]
fn a_delete_goes_to_whom_a_receipt_names_if_it_is_in_session_or_listed_here() {
    for listed in [false, true] {
        let mut bench = Bench::new();
        let queue = bench.queue(one_partition());
        bench.met(PEER);
        let mut expected = BTreeSet::from([ME, PEER]);
        if listed {
            let labels = vec![bench.label(1)];
            bench.tells(copy_of((queue, 0), vec![ME, PEER, UNSEEN], labels));
            expected.insert(UNSEEN);
        }
        assert_eq!(bench.named_by_a_delete(queue), expected);
    }
}

fn away(node: NodeId) -> Envelope {
    Envelope::Away { members: vec![(node, "127.0.0.1:7403".parse().unwrap())] }
}

#[test]
fn a_member_that_another_node_says_is_away_is_remembered_and_told_of_in_turn() {
    let mut bench = Bench::new();
    bench.met(PEER);
    let hearsay = Event::Envelope { link: LinkId(PEER.0), envelope: away(UNSEEN) };
    let address: std::net::SocketAddr = "127.0.0.1:7403".parse().unwrap();
    let row = Write::Put { key: Key::Member(UNSEEN).encode(), value: record::encode(&address) };
    let expected = [Effect::Write(row), Effect::Links(Vec::new())];
    assert_eq!(bench.handle(hearsay.clone()), expected);
    assert_eq!(bench.handle(hearsay), [], "that is no news");
    assert!(bench.met(NodeId(4)).contains(&away(UNSEEN)));
    assert!(!bench.met(UNSEEN).iter().any(|said| matches!(said, Envelope::Away { .. })));
}

#[test]
fn who_is_in_session_or_was_removed_or_is_this_node_is_not_held_to_be_away() {
    let mut bench = Bench::new();
    bench.met(PEER);
    bench.met(NodeId(4));
    let changed = bench.label(1).stamp;
    let removal = Removal { node: UNSEEN, store: 3, stage: Stage::Removed, changed };
    bench.tells(Envelope::Table { call: 0, entries: Vec::new(), removals: vec![removal] });
    for node in [ME, PEER, NodeId(4), UNSEEN] {
        let hearsay = Event::Envelope { link: LinkId(PEER.0), envelope: away(node) };
        assert_eq!(bench.handle(hearsay), [], "{node}");
    }
}
