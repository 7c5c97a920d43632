//! Credit, offers and takes.

use gaggle_wire::{ProcessId, Receipt, Stamp};

use super::*;
use crate::event::Reply;

const QUEUE: QueueId = QueueId(Stamp { time: 1, count: 0, process: ProcessId(1) });
const B: NodeId = NodeId(2);

fn waiter(kind: Kind) -> (WaiterId, Waiter) {
    let client = ClientId(1);
    let reply = Reply { client, stream: 0, request: 5 };
    let waiter = Waiter { reply, queues: vec![QUEUE], visibility_ms: None, taking: 0, kind };
    (WaiterId { client, request: 5 }, waiter)
}

#[test]
fn what_is_taken_elsewhere_counts_against_the_credit() {
    let mut reception = Reception::default();
    let (id, stream) = waiter(Kind::Stream(Stream { limit: 10, ..Stream::default() }));
    reception.enter(id, stream);
    let taking = Taking { peer: B, queue: QUEUE, waiter: id, max: 7 };
    let take = reception.start_take(taking);
    assert_eq!(reception.waiter(id).unwrap().credit(), 3);
    assert_eq!(reception.end_take(take), Some(taking));
    assert_eq!(reception.waiter(id).unwrap().credit(), 10);
    assert_eq!(reception.end_take(take), None);
}

#[test]
fn who_waits_once_waits_for_what_was_taken_for_it() {
    let mut reception = Reception::default();
    let (id, once) = waiter(Kind::Once { max: 5, until: Mono(9) });
    reception.enter(id, once);
    assert_eq!(reception.overdue(Mono(9)), [id]);
    reception.start_take(Taking { peer: B, queue: QUEUE, waiter: id, max: 5 });
    assert!(reception.next_with_credit(QUEUE).is_none());
    assert!(reception.overdue(Mono(9)).is_empty());
    reception.lost(B);
    assert!(reception.next_with_credit(QUEUE).is_some());
}

#[test]
fn an_offer_is_told_once_until_it_is_taken() {
    let mut reception = Reception::default();
    reception.wanted_by(QUEUE, B);
    assert!(reception.is_wanted(QUEUE));
    assert_eq!(reception.take_unoffered(QUEUE), [B]);
    assert!(reception.take_unoffered(QUEUE).is_empty());
    reception.note_offer(QUEUE, B, Offered::No);
    assert_eq!(reception.take_unoffered(QUEUE), [B]);
    reception.unwanted_by(QUEUE, B);
    assert!(!reception.is_wanted(QUEUE));
}

#[test]
fn a_want_is_withdrawn_some_time_after_the_last_waiter_left() {
    let mut reception = Reception::default();
    let second = Duration::from_secs(1);
    let (id, once) = waiter(Kind::Once { max: 5, until: Mono(9) });
    reception.enter(id, once);
    assert!(reception.want_now(QUEUE));
    assert!(!reception.want_now(QUEUE));
    reception.leave(id);
    assert!(reception.withdraw(Mono(1), second).is_empty());
    assert_eq!(reception.withdraw(Mono(2_000_000_000), second), [QUEUE]);
    assert!(reception.wanted().next().is_none());
}

#[test]
fn the_application_takes_deliveries_in_order() {
    let receipt = |number| Receipt {
        queue: QUEUE,
        partition: 0,
        number,
        stamp: QUEUE.0,
        holders: vec![],
        custodian: B,
        boot: 1,
        delivery: 1,
    };
    let mut stream = Stream { limit: 9, sent: 4, untaken: (1..=4).map(receipt).collect() };
    stream.taken(3);
    stream.taken(2);
    assert_eq!(stream.untaken.iter().map(|r| r.number).collect::<Vec<_>>(), [4]);
    stream.taken(99);
    assert!(stream.untaken.is_empty());
}
