//! The status of many queues comes in pages, and the others are asked only about those of a page.

use gaggle_wire::{ArrivalSkew, QueueCounts, QueueStatus, Status};

use super::*;
use crate::envelope::{PartitionInventory, QueueTold, Span};
use crate::event::LinkId;
use crate::table::rendezvous::{self, Slot};

fn name(text: &str) -> QueueName {
    QueueName::parse(text).unwrap()
}

impl Bench {
    fn creates(&mut self, text: &str) -> QueueId {
        let request = Request::CreateQueue { name: name(text), change: one_partition() };
        let Some(Response::Queue(queue)) = self.ask(request).0 else { panic!("{text}") };
        queue.id
    }

    fn meets_another(&mut self) {
        self.meets_node(2);
    }

    fn meets_node(&mut self, node: u64) {
        let hello = PeerHello { node: NodeId(node), store: 9, ..self.node.hello() };
        self.handle(Event::LinkUp { link: LinkId(2), hello: Box::new(hello) });
    }

    fn hears(&mut self, envelope: Envelope) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LinkId(2), envelope })
    }

    /// Asks for a page; which call and which queues the other node is asked about.
    fn asks_for(&mut self, prefix: &str, after: Option<&str>) -> (u64, Vec<QueueId>) {
        let request = Request::Status { prefix: prefix.to_owned(), after: after.map(name) };
        let (answer, effects) = self.ask(request);
        assert_eq!(answer, None, "it waits for the other node");
        let asked = effects.into_iter().find_map(|effect| match effect {
            Effect::Send { envelope: Envelope::AskStatus { call, queues }, .. } => {
                Some((call, queues))
            }
            _ => None,
        });
        asked.expect("a node in session is asked")
    }

    /// The other node tells so many messages of these queues, and as many that came within 1 ms.
    fn figures_come(&mut self, call: u64, messages: &[(QueueId, u64)]) -> Status {
        let counts = |messages| QueueCounts { messages, ..QueueCounts::default() };
        let told = |(queue, n): &(QueueId, u64)| {
            let mut skew = ArrivalSkew::default();
            (0..*n).for_each(|_| skew.count(0, 0));
            QueueTold { queue: *queue, held: counts(*n), own: counts(*n), skew }
        };
        let queues = messages.iter().map(told).collect();
        let report = Box::new(self.node.report(self.now()));
        let effects = self.hears(Envelope::StatusTold { call, report, queues });
        let status = effects.into_iter().find_map(|effect| match effect {
            Effect::Answer { response: Response::Status(status), .. } => Some(*status),
            _ => None,
        });
        status.expect("all have answered")
    }
}

/// The names of a page, with what the other node holds of each.
fn seen(status: &Status) -> Vec<(&str, Option<u64>)> {
    let of_other = |queue: &QueueStatus| {
        let told = queue.nodes.iter().find(|(node, _)| *node == NodeId(2));
        told.map(|(_, counts)| counts.messages)
    };
    status.queues.iter().map(|queue| (queue.name.as_str(), of_other(queue))).collect()
}

#[test]
fn a_page_has_the_queues_of_a_prefix_and_the_others_are_asked_about_those_alone() {
    let mut bench = Bench::new();
    let [a, b1, b2, c] = ["a", "b-1", "b-2", "c"].map(|text| bench.creates(text));
    bench.meets_another();
    let (call, asked) = bench.asks_for("b-", None);
    assert_eq!(asked, [b1, b2]);
    // Of a queue that it was not asked about it may say what it likes.
    let status = bench.figures_come(call, &[(a, 1), (b1, 2)]);
    assert_eq!((seen(&status), status.more), (vec![("b-1", Some(2)), ("b-2", None)], false));
    let (call, asked) = bench.asks_for("", Some("b-1"));
    assert_eq!(asked, [b2, c]);
    let status = bench.figures_come(call, &[(c, 3)]);
    assert_eq!(seen(&status), [("b-2", None), ("c", Some(3))]);
    let (call, _) = bench.asks_for("", None);
    let status = bench.figures_come(call, &[(a, 4)]);
    assert_eq!(seen(&status)[0], ("a", Some(4)), "what it said unasked was not kept");
    assert_eq!(seen(&status)[1], ("b-1", None), "what it holds no more of is not shown");
}

#[test]
fn how_late_messages_are_accepted_is_counted_wherever_they_are_and_added_up() {
    let mut bench = Bench::new();
    let id = bench.creates("a");
    bench.pass(300);
    bench.send(id, 1..=2);
    bench.meets_another();
    let (call, _) = bench.asks_for("", None);
    let status = bench.figures_come(call, &[(id, 5)]);
    let skew = &status.queues[0].skew;
    assert_eq!(skew.total(), 7);
    let below = [700, 990].map(|of| skew.below(of).unwrap().as_millis());
    assert_eq!(below, [1, 512], "two were stamped 300 ms before");
    bench.ask(Request::DeleteQueue { name: name("a") });
    assert!(bench.node.run.skews.is_empty(), "P12");
}

#[test]
fn a_node_counts_as_its_own_what_it_serves_and_not_all_that_it_holds_beside_it() {
    let mut bench = Bench::new();
    let id = bench.creates("a");
    bench.send(id, 1..=2);
    let first = |node: &u64| {
        let mut both = vec![ME, NodeId(*node)];
        rendezvous::order(Slot::of(id, 0), &mut both);
        both[0] != ME
    };
    let earlier = (2..).find(first).expect("one in two is");
    bench.meets_node(earlier);
    let stamp = Stamp { time: at(0).wall.0, count: 0, process: PRODUCER };
    let labels = (3..=7).map(|number| bench.label(number)).collect();
    let copy = Envelope::Copy {
        batch: 1,
        queue: id,
        partition: 0,
        accepted: stamp,
        holders: vec![NodeId(earlier), ME],
        attempt: Attempt::First,
        labels,
    };
    // The other has them as well, so that they are yielded to it.
    let processes = vec![(PRODUCER, Ranges::of(3, 7), Ranges::default())];
    let partitions = vec![PartitionInventory { queue: id, partition: 0, processes }];
    let inventory = Envelope::Inventory { call: 0, partitions, span: Span::all() };
    for envelope in [copy, Envelope::Mark, inventory] {
        bench.hears(envelope);
    }
    let counts = bench.node.counts_of(bench.now(), id).unwrap();
    assert_eq!((counts.held.messages, counts.own.messages), (7, 2), "five are the other node's");
}

#[test]
fn five_hundred_queues_are_a_page_and_the_last_says_that_it_is() {
    let mut bench = Bench::new();
    for number in 0..501 {
        bench.creates(&format!("q-{number:04}"));
    }
    bench.meets_another();
    let (call, asked) = bench.asks_for("", None);
    let first = bench.figures_come(call, &[]);
    assert_eq!((asked.len(), first.queues.len(), first.more), (500, 500, true));
    let (call, asked) = bench.asks_for("", Some("q-0499"));
    let last = bench.figures_come(call, &[]);
    assert_eq!((asked.len(), seen(&last), last.more), (1, vec![("q-0500", None)], false));
}

#[test]
fn what_was_told_of_a_deleted_queue_is_forgotten() {
    let mut bench = Bench::new();
    let id = bench.creates("a");
    bench.meets_another();
    let (call, _) = bench.asks_for("", None);
    bench.figures_come(call, &[(id, 1)]);
    assert_eq!(bench.node.desk.told[&NodeId(2)].queue_count(), 1);
    bench.ask(Request::DeleteQueue { name: name("a") });
    assert_eq!(bench.node.desk.told[&NodeId(2)].queue_count(), 0, "P12");
}
