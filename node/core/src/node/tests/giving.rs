//! What is handed out first, and for how long at least.

use super::*;
use crate::envelope::Span;
use crate::event::LinkId;

const PEER: NodeId = NodeId(2);
const LINK: LinkId = LinkId(1);

/// What a node does for who waits, when it has a third message ready and is offered one that is
/// so much older.
fn with_an_offer_older_by(ms: u64) -> Vec<Effect> {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.send(queue, 1..=3);
    assert_eq!(numbers(&bench.receive(1, 0).unwrap()), [1]);
    let hello = PeerHello { node: PEER, store: 9, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LINK, hello: Box::new(hello) });
    let inventory = Envelope::Inventory { call: 0, partitions: vec![], span: Span::all() };
    for envelope in [Envelope::Mark, inventory, Envelope::Yield] {
        bench.handle(Event::Envelope { link: LINK, envelope });
    }
    assert_eq!(numbers(&bench.receive(1, 0).unwrap()), [2], "what is ready here is known");
    let oldest = bench.label(3).stamp.time - ms * 1_000_000;
    bench.handle(Event::Envelope { link: LINK, envelope: Envelope::Offer { queue, oldest } });
    let request = Request::Receive { queue: name(), max: 1, wait_ms: 5000, visibility_ms: None };
    bench.ask(request).1
}

fn name() -> QueueName {
    QueueName::parse("orders").unwrap()
}

/// The numbers that are given, and of whom something is taken.
fn given_and_taken(effects: &[Effect]) -> (Vec<u64>, Vec<LinkId>) {
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Answer { response: Response::Deliveries { deliveries }, .. } => {
                given.extend(numbers(deliveries));
            }
            Effect::Send { link, envelope: Envelope::Take { .. } } => taken.push(*link),
            _ => {}
        }
    }
    (given, taken)
}

#[test]
fn what_is_ready_here_comes_first_unless_what_is_elsewhere_is_a_second_older() {
    for (older_by_ms, given, taken) in
        [(0, vec![3], vec![]), (900, vec![3], vec![]), (1100, vec![], vec![LINK])]
    {
        let effects = with_an_offer_older_by(older_by_ms);
        assert_eq!(given_and_taken(&effects), (given, taken), "{older_by_ms} ms: {effects:?}");
    }
}

#[test]
fn a_queue_that_hides_nothing_hides_for_a_tenth_of_a_second() {
    for (of_queue, of_request) in [(Some(0), None), (None, Some(0))] {
        let mut bench = Bench::new();
        let change = SettingsChange { visibility_timeout_ms: of_queue, ..one_partition() };
        let queue = bench.queue(change);
        bench.send(queue, 1..=1);
        let receive = |wait_ms| {
            let visibility_ms = of_request;
            Request::Receive { queue: name(), max: 1, wait_ms, visibility_ms }
        };
        let Some(Response::Deliveries { deliveries }) = bench.ask(receive(0)).0 else { panic!() };
        assert_eq!((numbers(&deliveries), deliveries[0].lease_ms), (vec![1], 100));
        assert_eq!(bench.ask(receive(5000)).0, None, "it waits");
        assert_eq!(given_and_taken(&bench.pass(99)).0, [0; 0], "it is hidden");
        assert_eq!(given_and_taken(&bench.pass(2)).0, [1], "and no longer");
    }
}
