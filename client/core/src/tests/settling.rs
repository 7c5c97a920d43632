//! Deletes, extensions and releases; leases that are kept.

use gaggle_wire::DeleteResult;

use super::*;
use crate::{Settle, Settled, Verb};

fn settle(f: &mut Fixture, ticket: u64, verb: Verb, receipt: Receipt) {
    let within = s(10);
    assert_eq!(f.handle(Event::Settle(Settle { ticket, verb, receipt, within })), []);
}

fn settled(ticket: u64, result: Result<Settled, Failure>) -> Effect {
    Effect::Settled { ticket, result }
}

#[test]
fn deletes_that_come_together_travel_together_to_the_node_that_knows() {
    let mut f = Fixture::connected(3);
    let node = 2;
    for ticket in 1..=3 {
        settle(&mut f, ticket, Verb::Delete, receipt(node, ticket));
    }
    let (link, request, body, _) = only(f.tick());
    assert_eq!(link, f.links[&node]);
    let receipts = (1..=3).map(|number| receipt(node, number)).collect();
    assert_eq!(body, Request::Delete { receipts });
    settle(&mut f, 4, Verb::Delete, receipt(node, 4));
    settle(&mut f, 5, Verb::Delete, receipt(node, 5));
    assert_eq!(f.tick(), []);
    let results = vec![
        DeleteResult::Deleted,
        DeleteResult::DeletedByOlderReceipt,
        DeleteResult::Refused(Refusal::StaleReceipt),
    ];
    let wanted = [
        settled(1, Ok(Settled::Deleted)),
        settled(2, Ok(Settled::DeletedByOlderReceipt)),
        settled(3, Err(Failure::Refused(Refusal::StaleReceipt))),
    ];
    assert_eq!(f.answer(link, request, Response::Deleted(results)), wanted);
    let receipts = (4..=5).map(|number| receipt(node, number)).collect();
    assert_eq!(only(f.tick()).2, Request::Delete { receipts });
}

#[test]
fn a_lost_delete_is_sent_elsewhere() {
    let mut f = Fixture::connected(2);
    settle(&mut f, 1, Verb::Delete, receipt(2, 1));
    let (link, ..) = only(f.tick());
    assert_eq!(f.handle(Event::Lost { link }), []);
    let (other, request, body, _) = only(f.tick());
    assert_eq!((other, body), (f.links[&1], Request::Delete { receipts: vec![receipt(2, 1)] }));
    let done = Response::Deleted(vec![DeleteResult::Deleted]);
    assert_eq!(f.answer(other, request, done), [settled(1, Ok(Settled::Deleted))]);
    assert!(f.core.is_idle());
}

#[test]
fn a_silent_node_loses_its_deletes_to_another() {
    let mut f = Fixture::connected(2);
    settle(&mut f, 1, Verb::Delete, receipt(2, 1));
    let (link, request, ..) = only(f.tick());
    let (other, again, ..) = only(f.wake(s(2)));
    assert_ne!(other, link);
    let done = || Response::Deleted(vec![DeleteResult::Deleted]);
    assert_eq!(f.answer(other, again, done()), [settled(1, Ok(Settled::Deleted))]);
    assert_eq!(f.answer(link, request, done()), []);
}

#[test]
fn what_cannot_be_deleted_now_is_tried_until_its_deadline() {
    let mut f = Fixture::connected(1);
    settle(&mut f, 1, Verb::Delete, receipt(1, 1));
    let mut effects = f.tick();
    let mut attempts = 0;
    loop {
        if let [(link, request, ..)] = asked(&effects)[..] {
            attempts += 1;
            let unknown = DeleteResult::Refused(Refusal::OutcomeUnknown);
            f.answer(link, request, Response::Deleted(vec![unknown]));
            effects = f.wake(s(10));
        } else if effects.is_empty() {
            effects = f.wake(s(10));
        } else {
            break;
        }
    }
    let last = Some(Refusal::OutcomeUnknown);
    assert_eq!(effects, [settled(1, Err(Failure::Unknown { last }))]);
    assert!(attempts > 5, "{attempts}");
    assert!(f.now >= s(10));
}

#[test]
fn a_release_whose_answer_was_lost_is_done_when_the_receipt_is_stale() {
    let mut f = Fixture::connected(2);
    settle(&mut f, 1, Verb::Release(50), receipt(2, 1));
    let (link, ..) = only(f.tick());
    f.handle(Event::Lost { link });
    let (other, request, ..) = only(f.tick());
    let stale = Response::Released(vec![Err(Refusal::StaleReceipt)]);
    assert_eq!(f.answer(other, request, stale), [settled(1, Ok(Settled::Released))]);
}

#[test]
fn without_a_node_a_settlement_ends_at_its_deadline() {
    let mut f = Fixture::connected(1);
    f.handle(Event::Lost { link: 1 });
    settle(&mut f, 1, Verb::Delete, receipt(1, 1));
    let effects = f.pass(ms(10_400));
    let ends: Vec<&Effect> =
        effects.iter().filter(|effect| matches!(effect, Effect::Settled { .. })).collect();
    assert_eq!(ends, [&settled(1, Err(Failure::TimedOut))]);
}

#[test]
fn an_answer_of_another_length_says_nothing() {
    let mut f = Fixture::connected(1);
    settle(&mut f, 1, Verb::Delete, receipt(1, 1));
    let (link, request, ..) = only(f.tick());
    assert_eq!(f.answer(link, request, Response::Deleted(Vec::new())), []);
    assert!(matches!(only(f.wake(ms(60))).2, Request::Delete { .. }));
}

fn keep(f: &mut Fixture, lease: u64) {
    let (remaining, visibility) = (s(4), s(10));
    let receipt = receipt(1, lease);
    assert_eq!(f.handle(Event::Keep { lease, receipt, remaining, visibility }), []);
}

#[test]
fn leases_are_extended_when_half_of_them_is_over() {
    let mut f = Fixture::connected(1);
    keep(&mut f, 1);
    keep(&mut f, 2);
    let began = f.now;
    let (link, request, body, _) = only(f.wake(s(2)));
    assert_eq!(f.now, began + s(2));
    let receipts = vec![receipt(1, 1), receipt(1, 2)];
    assert_eq!(body, Request::Extend { receipts, visibility_ms: 10_000 });
    let results = vec![Ok(10_000), Err(Refusal::StaleReceipt)];
    let lost = Effect::LeaseLost { lease: 2 };
    assert_eq!(f.answer(link, request, Response::Extended(results)), []);
    assert_eq!(f.tick(), [lost], "F7");
    let extended = f.now;
    assert_eq!(f.pass(ms(4999)), []);
    let (_, _, body, _) = only(f.pass(ms(1)));
    assert_eq!(f.now, extended + s(5));
    let receipts = vec![receipt(1, 1)];
    assert_eq!(body, Request::Extend { receipts, visibility_ms: 10_000 });
}

#[test]
fn a_lease_that_ends_before_its_extension_is_answered_is_lost() {
    let mut f = Fixture::connected(1);
    keep(&mut f, 1);
    f.handle(Event::Lost { link: 1 });
    let lost = |effect: &Effect| matches!(effect, Effect::LeaseLost { lease: 1 });
    assert!(!f.pass(ms(3990)).iter().any(lost), "there is hope until then");
    assert_eq!(f.pass(ms(20)).iter().filter(|effect| lost(effect)).count(), 1, "F7");
    assert!(!f.pass(s(20)).iter().any(lost), "it is said once");
}

#[test]
fn work_that_is_over_extends_nothing() {
    let mut f = Fixture::connected(1);
    keep(&mut f, 1);
    assert!(!f.core.is_idle());
    f.handle(Event::Unkeep { lease: 1 });
    assert!(f.core.is_idle());
    assert_eq!(f.pass(s(20)), []);
}

#[test]
fn what_waits_for_a_node_or_behind_a_silent_one_has_its_result_at_its_deadline() {
    let mut f = Fixture::connected(1);
    let settle = |f: &mut Fixture, ticket, within| {
        let (verb, receipt) = (Verb::Delete, receipt(1, ticket));
        f.handle(Event::Settle(Settle { ticket, verb, receipt, within }));
    };
    settle(&mut f, 1, s(4));
    only(f.tick());
    settle(&mut f, 2, ms(1234));
    assert_eq!(f.pass(ms(1233)), []);
    assert_eq!(f.pass(ms(1)), [settled(2, Err(Failure::TimedOut))]);
    assert_eq!(f.pass(ms(2765)), []);
    assert_eq!(f.pass(ms(1)), [settled(1, Err(Failure::Unknown { last: None }))]);

    let mut alone = Fixture::opened(Config::default(), 1);
    settle(&mut alone, 1, ms(333));
    let told = alone.pass(ms(333));
    assert_eq!(told.last(), Some(&settled(1, Err(Failure::TimedOut))));
}
