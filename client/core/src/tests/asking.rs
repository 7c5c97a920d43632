//! Questions: repeated where that is safe.

use gaggle_wire::DeliveryLabel;

use super::*;
use crate::{Answer, Ask};

fn ask(f: &mut Fixture, request: Request) -> Asked {
    only(f.handle(Event::Ask(Ask { ticket: 1, request, within: s(10) })))
}

fn answered(result: Result<Response, Failure>) -> Effect {
    let result = result.map(|response| Answer { response, contents: Vec::new() });
    Effect::Answered { ticket: 1, result }
}

fn orders() -> QueueName {
    QueueName::parse("orders").unwrap()
}

/// Asks how everything is.
fn status() -> Request {
    Request::Status { prefix: String::new(), after: None }
}

#[test]
fn a_question_is_answered() {
    let mut f = Fixture::connected(1);
    let (link, request, ..) = ask(&mut f, Request::DescribeQueue { name: orders() });
    assert_eq!(f.answer(link, request, described(QUEUE)), [answered(Ok(described(QUEUE)))]);
}

#[test]
fn a_question_whose_node_is_lost_is_asked_elsewhere() {
    let mut f = Fixture::connected(2);
    let (link, ..) = ask(&mut f, Request::DescribeQueue { name: orders() });
    let (other, request, ..) = only(f.handle(Event::Lost { link }));
    assert_eq!(f.answer(other, request, described(QUEUE)), [answered(Ok(described(QUEUE)))]);
}

#[test]
fn a_question_that_is_not_answered_is_asked_elsewhere() {
    let mut f = Fixture::connected(2);
    let (link, ..) = ask(&mut f, status());
    let (other, _, body, _) = only(f.wake(s(2)));
    assert_eq!(body, status());
    assert_ne!(other, link);
}

#[test]
fn a_purge_whose_answer_is_lost_is_not_repeated() {
    let mut f = Fixture::connected(2);
    let (link, ..) = ask(&mut f, Request::PurgeQueue { name: orders() });
    let unknown = Failure::Unknown { last: None };
    assert_eq!(f.handle(Event::Lost { link }), [answered(Err(unknown))]);
}

#[test]
fn a_deletion_that_is_repeated_and_finds_nothing_is_done() {
    let mut f = Fixture::connected(2);
    let (link, ..) = ask(&mut f, Request::DeleteQueue { name: orders() });
    let (other, request, ..) = only(f.handle(Event::Lost { link }));
    let gone = Refusal::QueueNotFound { queue: "orders".to_owned() };
    assert_eq!(f.answer(other, request, refused(gone)), [answered(Ok(Response::Done))]);
}

#[test]
fn a_receive_that_moves_waits_only_for_the_rest() {
    let mut f = Fixture::connected(2);
    let receive =
        |wait_ms| Request::Receive { queue: orders(), max: 1, wait_ms, visibility_ms: None };
    let (link, _, body, _) = ask(&mut f, receive(20_000));
    assert_eq!(body, receive(20_000));
    assert_eq!(f.pass(s(15)), []);
    let (_, _, body, _) = only(f.handle(Event::Lost { link }));
    assert_eq!(body, receive(5_000));
}

#[test]
fn what_a_node_delivers_after_another_was_asked_instead_goes_back() {
    let mut f = Fixture::connected(2);
    let receive = Request::Receive { queue: orders(), max: 1, wait_ms: 0, visibility_ms: None };
    let (link, request, ..) = ask(&mut f, receive);
    let (other, again, ..) = only(f.wake(s(2)));
    let (label, _) = Message::new("x").pack(1, Stamp::ZERO, 0).unwrap();
    let (receipt, accepted) = (receipt(f.node_of(link), 1), Stamp::ZERO);
    let delivery = DeliveryLabel {
        receipt: receipt.clone(),
        label,
        accepted,
        lease_ms: 30_000,
        position: None,
    };
    assert_eq!(f.answer(link, request, Response::Deliveries { deliveries: vec![delivery] }), []);
    let (_, release, body, _) = only(f.tick());
    assert_eq!(body, Request::Release { receipts: vec![receipt], delay_ms: 0 });
    assert_eq!(f.answer(link, release, Response::Released(vec![Ok(())])), []);
    let none = Response::Deliveries { deliveries: Vec::new() };
    assert_eq!(f.answer(other, again, none.clone()), [answered(Ok(none))]);
    assert!(f.core.is_idle());
}

#[test]
fn an_answer_that_does_not_fit_is_none() {
    let mut f = Fixture::connected(1);
    let (link, request, ..) = ask(&mut f, status());
    assert_eq!(f.answer(link, request, Response::Done), []);
    assert_eq!(only(f.wake(ms(60))).2, status());
}

#[test]
fn what_is_refused_for_a_while_is_not_asked_again_before() {
    let mut f = Fixture::with(Config { backoff_min: ms(2), ..Config::default() }, 1);
    let (link, request, ..) = ask(&mut f, status());
    let limit = Refusal::LimitReached { what: "requests".to_owned(), limit: 9 };
    assert_eq!(f.answer(link, request, Response::Refused(limit)), []);
    assert_eq!(f.pass(ms(49)), []);
    assert_eq!(only(f.wake(ms(1))).2, status());
}

#[test]
fn a_question_that_no_node_can_be_asked_times_out() {
    let mut f = Fixture::connected(1);
    f.handle(Event::Lost { link: 1 });
    let question = Ask { ticket: 1, request: status(), within: ms(10) };
    assert_eq!(f.handle(Event::Ask(question)), []);
    assert_eq!(f.pass(ms(10)), [answered(Err(Failure::TimedOut))]);
}
