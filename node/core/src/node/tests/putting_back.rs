//! Disks that were put back to an earlier state: who notices, what is said, what becomes of them.

use super::*;
use crate::envelope::{PartitionInventory, Place, Span};
use crate::event::LinkId;
use crate::table::Entry;

const PEER: NodeId = NodeId(2);
const LINK: LinkId = LinkId(1);

impl Bench {
    /// The other is met, as a process that opened its disk at this number.
    fn meets(&mut self, link: u64, (store, process, commits): (u128, u64, u64)) -> Vec<Effect> {
        let process = ProcessId(process);
        let hello = PeerHello { node: PEER, store, process, commits, ..self.node.hello() };
        self.handle(Event::LinkUp { link: LinkId(link), hello: Box::new(hello) })
    }

    fn loses(&mut self, link: u64) {
        self.handle(Event::LinkDown { link: LinkId(link) });
    }

    pub(super) fn is_told(&mut self, link: u64, envelope: Envelope) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LinkId(link), envelope })
    }

    /// A message comes to be held under this list.
    fn stores(&mut self, queue: QueueId, (number, holders): (u64, &[NodeId])) -> Vec<Effect> {
        let labels = vec![self.label(number)];
        let partition = 0;
        let holders = holders.to_vec();
        let copy = copy_of((queue, partition), holders, labels);
        self.is_told(1, copy)
    }

    /// The other is asked about this message, and has none: what this node does then.
    fn is_denied(&mut self, (queue, number): (QueueId, u64)) -> Vec<Effect> {
        let effects = self.pass(1500);
        let call = said(&effects).into_iter().rev().find_map(|envelope| match envelope {
            Envelope::Ask { call, .. } => Some(*call),
            _ => None,
        });
        let call = call.expect("what is open is asked about");
        let id = (queue, 0);
        let place = |number| Place::of(id, PRODUCER, number);
        let span = Span { after: place(number - 1), until: Some(place(number)) };
        let partitions = vec![PartitionInventory::nothing(id)];
        self.is_told(2, Envelope::Inventory { call, partitions, span })
    }

    fn commits(&self) -> u64 {
        self.rows.get(&commits_key()).map_or(0, |row| record::decode(row).unwrap())
    }

    fn reopened(self) -> Self {
        let mut again = Self::open(self.rows, self.at_ms + 1);
        again.handle(Event::Started);
        again
    }
}

fn clock(commits: u64) -> Envelope {
    Envelope::Clock { wall: at(0).wall.0, correction: 0, commits }
}

fn said(effects: &[Effect]) -> Vec<&Envelope> {
    let said = effects.iter().filter_map(|effect| match effect {
        Effect::Send { envelope, .. } | Effect::SendNow { envelope, .. } => Some(envelope),
        _ => None,
    });
    said.collect()
}

fn is_begun(effects: &[Effect]) -> bool {
    said(effects).contains(&&Envelope::Mark)
}

fn is_noticed(effects: &[Effect], link: u64) -> bool {
    let says = Effect::SendNow { link: LinkId(link), envelope: Envelope::PutBack };
    effects == [says]
}

#[test]
fn what_says_that_something_is_on_disk_names_a_number_that_is_written_before_it() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.meets(1, (9, 7, 0));
    let before = bench.commits();
    let labels = vec![bench.label(1)];
    let partition = 0;
    let holders = vec![ME, PEER];
    let envelope = copy_of((queue, partition), holders, labels);
    let mut effects = Effects::new();
    bench.node.handle(bench.now(), Event::Envelope { link: LINK, envelope }, &mut effects);
    let (commits, value) = (before + 1, record::encode(&(before + 1)));
    let effects = effects.as_slice();
    assert_eq!(effects[0], Effect::Write(Write::Put { key: commits_key(), value }));
    assert_eq!(said(effects), [&Envelope::Held { batch: 1, exceptions: Vec::new(), commits }]);
}

#[test]
fn what_changes_nothing_raises_no_number_and_neither_do_notes_of_how_far_others_are() {
    let mut bench = Bench::new();
    bench.meets(1, (9, 7, 0));
    bench.pass(3000);
    let before = bench.commits();
    let written = |effects: Vec<Effect>| {
        effects.into_iter().filter(|effect| matches!(effect, Effect::Write(_))).count()
    };
    assert_eq!(written(bench.pass(3000)), 0);
    bench.is_told(1, clock(40));
    assert_eq!(written(bench.pass(3000)), 1, "how far the other is");
    assert_eq!(bench.commits(), before);
    assert_eq!(bench.reopened().commits(), before + 1);
}

#[test]
fn who_was_told_more_than_a_disk_is_opened_with_says_so_and_begins_no_session() {
    for (process, commits, noticed) in [(8, 39, true), (8, 40, false), (7, 0, false)] {
        for restarted in [false, true] {
            let mut bench = Bench::new();
            bench.meets(1, (9, 7, 0));
            bench.is_told(1, clock(40));
            bench.loses(1);
            bench.pass(1000);
            if restarted {
                bench = bench.reopened();
            }
            let effects = bench.meets(2, (9, process, commits));
            assert_eq!(is_noticed(&effects, 2), noticed, "{process} {commits} {effects:?}");
            assert_eq!(is_begun(&effects), !noticed);
        }
    }
}

#[test]
fn a_name_that_a_disk_has_laid_down_is_noticed_over_a_restart() {
    let mut bench = Bench::new();
    for (link, store) in [(1, 9), (2, 10)] {
        assert!(is_begun(&bench.meets(link, (store, 7, 0))));
        bench.loses(link);
    }
    let mut bench = bench.reopened();
    assert!(is_noticed(&bench.meets(1, (9, 8, 99)), 1));
    assert!(is_begun(&bench.meets(2, (10, 8, 0))));
}

#[test]
fn a_process_that_went_back_with_its_disk_is_told_in_its_session() {
    let mut bench = Bench::new();
    bench.meets(1, (9, 7, 0));
    assert_eq!(said(&bench.is_told(1, clock(40))), [&Envelope::PutBack; 0]);
    assert_eq!(said(&bench.is_told(1, clock(39))), [&Envelope::PutBack]);
}

/// What others count on at a disk counts no more as soon as it is known to have been put back.
#[test]
fn tombstones_that_a_disk_was_known_to_have_are_open_again_when_it_was_put_back() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.meets(1, (9, 7, 0));
    let tombstones = Envelope::Tombstones {
        batch: 1,
        queue,
        partition: 0,
        holders: vec![ME, PEER],
        messages: vec![(PRODUCER, Ranges::of(1, 1))],
        stamps: Vec::new(),
        leases: Vec::new(),
        known: vec![PEER],
    };
    bench.is_told(1, tombstones);
    bench.is_told(1, clock(40));
    bench.loses(1);
    let pushed = |effects: &[Effect]| {
        said(effects).iter().any(|envelope| matches!(envelope, Envelope::Tombstones { .. }))
    };
    assert!(!pushed(&bench.meets(2, (9, 7, 0))), "it has them");
    bench.loses(2);
    bench.meets(3, (9, 8, 39));
    assert!(pushed(&bench.meets(4, (9, 9, 40))), "a later copy took its place");
}

#[test]
fn who_is_told_that_its_disk_was_put_back_is_a_new_host_that_vouches_for_nothing() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.meets(1, (9, 7, 0));
    for (number, holders) in [(1, &[ME, PEER][..]), (2, &[ME])] {
        bench.stores(queue, (number, holders));
    }
    let messages = vec![(queue, 0, PRODUCER, Ranges::of(1, 2))];
    bench.is_told(1, Envelope::Settled { messages, lacking: Vec::new() });
    bench.pass(1000);
    let settled = |bench: &Bench| {
        let known = &bench.node.partitions[&(queue, 0)].known;
        [1, 2].map(|number| !known.is_unsettled(PRODUCER, number))
    };
    bench = bench.reopened();
    assert_eq!(settled(&bench), [true, true]);
    let before = bench.node.hello();

    bench.meets(1, (9, 7, 0));
    let effects = bench.is_told(1, Envelope::PutBack);
    let (last, writes) = effects.split_last().unwrap();
    assert_eq!(*last, Effect::Renewed);
    assert!(writes.iter().all(|effect| matches!(effect, Effect::Write(_))), "{effects:?}");
    assert_eq!(bench.node.next_wakeup(), None);
    assert_eq!(bench.meets(2, (9, 7, 0)), [], "it says nothing any more");

    bench = bench.reopened();
    assert_eq!(settled(&bench), [false, true], "for the second one nobody else could vouch");
    let after = bench.node.hello();
    assert_ne!(after.store, before.store);
    assert_eq!((before.boot, after.boot), (2, 1), "as on an empty disk");
    assert!(is_begun(&bench.meets(1, (10, 8, 0))));
    assert_eq!(settled(&bench), [false, true], "what it knew of other disks is void as well");
}

/// Its coordinator confirmed it with its own copy and the one here. Then this node was away for
/// longer than the resend window, and the disk of the coordinator was put back to before it. Those
/// who were there meanwhile know that, and it waits for them: until then it must not be believed.
#[test]
fn a_copy_that_nobody_else_has_is_kept_until_its_other_host_waits_for_nobody() {
    let mut bench = Bench::new();
    bench.meets(1, (9, 7, 0));
    let queue = QueueId(Stamp { time: at(0).wall.0, count: 0, process: ProcessId(5) });
    let name = QueueName::parse("orders").unwrap();
    let entries = vec![Entry::new(queue, name, Settings::default())];
    bench.is_told(1, Envelope::Table { call: 0, entries, removals: Vec::new() });
    bench.stores(queue, (1, &[ME, PEER]));
    bench.loses(1);
    bench.pass(600_000);
    bench.meets(2, (9, 8, 0));
    bench.is_told(2, Envelope::Fit { fit: false });
    assert_eq!(bench.is_denied((queue, 1)), [], "P1");
    bench.is_told(2, Envelope::Fit { fit: true });
    let key = MessageKey { queue, partition: 0, stamp: bench.label(1).stamp };
    let removed = [key.encode(), Key::Deliveries(key).encode()];
    let removed = removed.map(|key| Effect::Write(Write::Delete { key }));
    assert_eq!(bench.is_denied((queue, 1)), removed);
}
