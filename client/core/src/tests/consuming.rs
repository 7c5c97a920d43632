//! Consumers: credit, what was taken, and the end of a run.

use gaggle_wire::DeliveryLabel;

use super::*;
use crate::Subscription;

const C: u64 = 7;

fn subscribe(f: &mut Fixture, credit: u64) -> Asked {
    let subscription = Subscription { consumer: C, queue: name(), credit, visibility_ms: None };
    only(f.handle(Event::Subscribe(subscription)))
}

fn deliveries(f: &mut Fixture, link: u64, request: u64, count: u64) -> Vec<Effect> {
    let mut deliveries = Vec::new();
    let mut contents = Vec::new();
    for number in 1..=count {
        let stamp = Stamp { time: 1, count: 0, process: ProcessId(3) };
        let (label, content) = Message::new("x").pack(number, stamp, 0).unwrap();
        let receipt = receipt(1, number);
        deliveries.push(DeliveryLabel {
            receipt,
            label,
            accepted: stamp,
            lease_ms: 30_000,
            position: None,
        });
        contents.push(content);
    }
    let body = Response::Deliveries { deliveries };
    let response = ResponseFrame { request, clock: BEGAN, body };
    f.handle(Event::Frame { link, response, contents })
}

fn taken(f: &mut Fixture, run: u64, taken: u64) -> Vec<Effect> {
    f.handle(Event::Taken { consumer: C, run, taken })
}

#[test]
fn a_consumer_is_opened_and_its_deliveries_are_passed_on() {
    let mut f = Fixture::connected(1);
    let (link, run, body, _) = subscribe(&mut f, 4);
    let queue = QueueName::parse("orders").unwrap();
    assert_eq!(body, Request::Consume { queue, visibility_ms: None, credit: 4 });
    let effects = deliveries(&mut f, link, run, 2);
    let [Effect::Deliver { consumer: C, run: told, deliveries }] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((*told, deliveries.len()), (run, 2));
}

#[test]
fn credit_is_given_when_half_of_it_is_used() {
    let mut f = Fixture::connected(1);
    let (link, run, ..) = subscribe(&mut f, 4);
    deliveries(&mut f, link, run, 4);
    assert_eq!(taken(&mut f, run, 1), []);
    let (_, _, credit, _) = only(taken(&mut f, run, 2));
    assert_eq!(credit, Request::Credit { consumer: run, limit: 6, taken: 2 });
}

#[test]
fn what_was_taken_is_told_after_a_moment_though_credit_is_left() {
    let mut f = Fixture::connected(1);
    let (link, run, ..) = subscribe(&mut f, 100);
    deliveries(&mut f, link, run, 3);
    assert_eq!(taken(&mut f, run, 1), []);
    let (_, _, credit, _) = only(f.wake(ms(20)));
    assert_eq!(credit, Request::Credit { consumer: run, limit: 101, taken: 1 });
    assert_eq!(f.pass(s(5)), []);
}

#[test]
fn a_lost_run_sweeps_what_was_not_taken_and_goes_on_elsewhere() {
    let mut f = Fixture::connected(2);
    let (link, run, ..) = subscribe(&mut f, 4);
    deliveries(&mut f, link, run, 2);
    let effects = f.handle(Event::Lost { link });
    assert_eq!(effects[0], Effect::Sweep { consumer: C });
    let [(other, second, Request::Consume { credit: 4, .. }, _)] = asked(&effects)[..] else {
        panic!("{effects:?}");
    };
    assert_ne!((other, second), (link, run));
    // What is told of the old run means nothing to the new one.
    assert_eq!(taken(&mut f, run, 2), []);
    deliveries(&mut f, other, second, 4);
    let (_, _, credit, _) = only(taken(&mut f, second, 2));
    assert_eq!(credit, Request::Credit { consumer: second, limit: 6, taken: 2 });
}

#[test]
fn a_node_that_drains_loses_its_consumers_to_another() {
    let mut f = Fixture::connected(2);
    let (link, run, ..) = subscribe(&mut f, 4);
    let effects = f.answer(link, run, refused(Refusal::Draining));
    assert_eq!(effects, [Effect::Sweep { consumer: C }]);
    let (other, _, body, _) = only(f.wake(ms(60)));
    assert!(matches!(body, Request::Consume { .. }));
    assert_ne!(other, link);
}

#[test]
fn a_consumer_of_a_queue_that_is_not_there_ends() {
    let mut f = Fixture::connected(1);
    let (link, run, ..) = subscribe(&mut f, 4);
    let gone = Refusal::QueueNotFound { queue: "orders".to_owned() };
    let reason = Some(Failure::Refused(gone.clone()));
    let wanted = [Effect::Ended { consumer: C, reason }];
    assert_eq!(f.answer(link, run, refused(gone)), wanted);
    assert!(f.core.is_idle());
}

#[test]
fn a_consumer_that_is_closed_waits_for_the_node() {
    let mut f = Fixture::connected(1);
    let (link, run, ..) = subscribe(&mut f, 4);
    deliveries(&mut f, link, run, 3);
    taken(&mut f, run, 1);
    let (_, stop, body, _) = only(f.handle(Event::Unsubscribe { consumer: C }));
    assert_eq!(body, Request::StopConsume { consumer: run, taken: 1 });
    assert_eq!(deliveries(&mut f, link, run, 1), []);
    assert!(!f.core.is_idle());
    let ended = Effect::Ended { consumer: C, reason: None };
    assert_eq!(f.answer(link, stop, Response::Done), [ended]);
    assert!(f.core.is_idle());
    assert_eq!(deliveries(&mut f, link, run, 1), []);
}

#[test]
fn a_consumer_that_is_closed_ends_when_its_node_is_lost() {
    let mut f = Fixture::connected(2);
    let (link, ..) = subscribe(&mut f, 4);
    f.handle(Event::Unsubscribe { consumer: C });
    let ended = Effect::Ended { consumer: C, reason: None };
    assert_eq!(f.handle(Event::Lost { link }), [ended]);
}

#[test]
fn what_is_sent_because_of_a_delivery_is_stamped_after_it() {
    let mut f = Fixture::connected(1).knowing();
    let (link, run, ..) = subscribe(&mut f, 4);
    // The node has never seen this stamp with its own clock: it only stored a copy.
    let ahead = Stamp { time: BEGAN + 300_000_000, count: 4, process: ProcessId(3) };
    deliver_stamped(&mut f, (link, run), ahead);
    let (_, _, sent, _) = f.send_one(1, s(30));
    let stamps: Vec<Stamp> = labels(&sent).iter().map(|label| label.stamp).collect();
    assert_eq!(stamps, [Stamp { count: 5, process: f.core.process(), ..ahead }]);
}

/// A delivery of a message with this stamp.
fn deliver_stamped(f: &mut Fixture, (link, run): (u64, u64), stamp: Stamp) {
    let (label, content) = Message::new("x").pack(1, stamp, 0).unwrap();
    let delivery = DeliveryLabel {
        receipt: receipt(1, 1),
        label,
        accepted: stamp,
        lease_ms: 30_000,
        position: None,
    };
    let body = Response::Deliveries { deliveries: vec![delivery] };
    let response = ResponseFrame { request: run, clock: BEGAN, body };
    f.handle(Event::Frame { link, response, contents: vec![content] });
}

#[test]
fn what_a_node_refuses_because_of_its_cause_is_sent_by_the_time_of_that_node() {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::connected(1).knowing();
    let (link, run, ..) = subscribe(&mut f, 4);
    let time = |f: &Fixture| BEGAN + u64::try_from(f.now.as_nanos()).unwrap();
    let stamps = |request: &Request| labels(request).iter().map(|label| label.stamp).collect();
    let cause = Stamp { time: time(&f) + 495 * MS, count: 4, process: ProcessId(9) };
    deliver_stamped(&mut f, (link, run), cause);
    let before = f.core.process();
    let (link, request, effect, _) = f.send_one(1, s(30));
    let first: Vec<Stamp> = stamps(&effect);
    assert_eq!(first, [Stamp { count: 5, process: before, ..cause }]);

    // A node that is 20 ms behind allows for 480 of them.
    f.now += ms(1);
    let clock = time(&f) - 20 * MS;
    let body = refused(Refusal::ClockAhead { by_ms: 514 });
    let response = ResponseFrame { request, clock, body };
    let effects = f.handle(Event::Frame { link, response, contents: Vec::new() });
    let process = f.core.process();
    assert_eq!(effects, [Effect::Renewed(process)]);
    assert_ne!(process, before);
    let (link, request, effect, _) = only(f.tick());
    // Half the round trip of 1 ms is added to what it told.
    let again: Vec<Stamp> = stamps(&effect);
    assert_eq!(again, [Stamp { time: clock + MS / 2, count: 0, process }]);
    let label = labels(&effect).remove(0);
    assert_eq!(f.answer(link, request, sent(2)), [confirmed(1, &label, 2)]);
}
