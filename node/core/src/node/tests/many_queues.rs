//! As many queues as there may be: created, told to another node, opened again; and one more.

use super::*;
use crate::event::LinkId;
use crate::table::Entry;

const QUEUES: usize = 100_000;

fn name(number: usize) -> QueueName {
    QueueName::parse(&format!("a-queue-of-some-length-{number}")).unwrap()
}

impl Bench {
    fn creates_one(&mut self, number: usize) -> Response {
        let (name, change) = (name(number), one_partition());
        self.ask(Request::CreateQueue { name, change }).0.unwrap()
    }

    fn deletes(&mut self, number: usize) {
        let answer = self.ask(Request::DeleteQueue { name: name(number) }).0;
        assert_eq!(answer, Some(Response::Done));
    }
}

fn limit(what: &str, limit: u64) -> Response {
    Response::Refused(Refusal::LimitReached { what: what.to_owned(), limit })
}

/// The entries that are told as a session begins, and the longest envelope of them in bytes.
fn told(effects: &[Effect]) -> (usize, usize, usize) {
    let (mut count, mut longest, mut all) = (0, 0, 0);
    for effect in effects {
        if let Effect::Send { envelope: envelope @ Envelope::Table { entries, .. }, .. } = effect {
            let bytes = postcard::to_stdvec(envelope).unwrap().len();
            (count, longest, all) = (count + entries.len(), longest.max(bytes), all + bytes);
        }
    }
    (count, longest, all)
}

fn met(bench: &mut Bench, node: u64) -> Vec<Effect> {
    let hello = PeerHello { node: NodeId(node), store: 9, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LinkId(node), hello: Box::new(hello) })
}

#[test]
fn a_hundred_thousand_queues_are_told_in_small_parts_and_one_more_is_refused() {
    let mut bench = Bench::new();
    for number in 0..QUEUES {
        assert!(matches!(bench.creates_one(number), Response::Queue(_)));
    }
    assert_eq!(bench.creates_one(QUEUES), limit("queues", 100_000));
    assert!(matches!(bench.creates_one(7), Response::Queue(_)), "one that is there is there");
    let effects = met(&mut bench, 2);
    let (count, longest, all) = told(&effects);
    assert_eq!(count, QUEUES);
    assert!(longest < 400_000, "P12: {longest} bytes");
    assert!(all < 64 * 1024 * 1024 / 2, "P12: what may wait for a node, of twice as many entries");
    // What another node has is taken in, or the tables would never be the same (P13).
    let id = QueueId(Stamp { time: 1, count: 0, process: PRODUCER });
    let entries = vec![Entry::new(id, name(QUEUES), Settings::standalone())];
    bench.handle(Event::Envelope {
        link: LinkId(2),
        envelope: Envelope::Table { call: 0, entries, removals: Vec::new() },
    });
    assert_eq!(bench.node.table.count(), QUEUES + 1);
    let again = Bench::open(bench.rows, bench.at_ms + 1);
    assert_eq!(again.node.table.count(), QUEUES + 1);
}

#[test]
fn deleted_queues_make_room_until_as_many_have_been_as_the_table_holds() {
    let mut bench = Bench::new();
    (bench.node.config.queues_max, bench.node.config.entries_max) = (2, 4);
    assert!(matches!(bench.creates_one(0), Response::Queue(_)));
    for number in 1..=3 {
        assert!(matches!(bench.creates_one(number), Response::Queue(_)));
        assert_eq!(bench.creates_one(9), limit("queues", 2));
        bench.deletes(number);
    }
    assert_eq!(bench.creates_one(9), limit("queues, deleted ones among them,", 4));
    let first = bench.ask(Request::DescribeQueue { name: name(0) }).0;
    assert!(matches!(first, Some(Response::Queue(_))), "what is there stays");
}
