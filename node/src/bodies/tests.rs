//! What is kept, what goes, and what is never taken for another.

use gaggle_core::event::ClientId;
use gaggle_wire::{Message, ProcessId, QueueId, Stamp};

use super::*;

const STAMP: Stamp = Stamp { time: 1, count: 0, process: ProcessId(1) };

fn message(time: u64, body: &str) -> (MessageKey, Label, Bytes) {
    let stamp = Stamp { time, ..STAMP };
    let (label, content) = Message::new(body.to_owned()).pack(time, stamp, 0).unwrap();
    (MessageKey { queue: QueueId(STAMP), partition: 0, stamp }, label, content)
}

fn reply(client: u64, request: u64) -> Reply {
    Reply { client: ClientId(client), stream: 1, request }
}

fn insert(bodies: &mut Bodies, (key, label, content): &(MessageKey, Label, Bytes)) {
    bodies.insert(std::iter::once((*key, *label, content.clone())));
}

fn has(bodies: &mut Bodies, (key, label, content): &(MessageKey, Label, Bytes)) -> bool {
    let found = bodies.content(key, label);
    assert!(found.as_ref().is_none_or(|found| found == content));
    found.is_some()
}

#[test]
fn beyond_the_budget_the_oldest_goes() {
    let mut bodies = Bodies::new(3 * (ENTRY_BYTES + 1), 0);
    let messages: Vec<_> = (1..=4).map(|time| message(time, "x")).collect();
    for message in &messages {
        insert(&mut bodies, message);
    }
    for message in &messages {
        assert!(has(&mut bodies, message), "until room is made");
    }
    bodies.evict();
    let left: Vec<bool> = messages.iter().map(|message| has(&mut bodies, message)).collect();
    assert_eq!(left, [false, true, true, true]);
}

#[test]
fn a_send_keeps_its_contents_until_it_is_answered() {
    let mut bodies = Bodies::new(0, 10_000);
    let (a, b) = (message(1, "a"), message(2, "b"));
    bodies.keep(reply(1, 1), [a.clone(), b.clone()].into_iter(), 0).unwrap();
    bodies.keep(reply(1, 2), [b.clone()].into_iter(), 0).unwrap();
    bodies.evict();
    assert!(has(&mut bodies, &a) && has(&mut bodies, &b));
    bodies.release(reply(1, 1));
    bodies.evict();
    assert!(!has(&mut bodies, &a) && has(&mut bodies, &b), "another send brought b too");
    bodies.release_client(ClientId(1));
    bodies.evict();
    assert!(!has(&mut bodies, &b));
    assert_eq!((bodies.bytes, bodies.kept_bytes), (0, 0));
}

#[test]
fn too_much_under_way_is_refused_and_nothing_taken_in() {
    let mut bodies = Bodies::new(0, ENTRY_BYTES + 10);
    let (a, b) = (message(1, "a"), message(2, "b"));
    let both = bodies.keep(reply(1, 1), [a.clone(), b.clone()].into_iter(), 0);
    assert!(matches!(both, Err(Refusal::LimitReached { .. })));
    assert!(!has(&mut bodies, &a));
    bodies.keep(reply(1, 2), [a].into_iter(), 0).unwrap();
    assert!(bodies.keep(reply(1, 3), [b].into_iter(), 0).is_err());
}

#[test]
fn a_content_is_never_taken_for_another_of_the_same_key() {
    let mut bodies = Bodies::new(1_000_000, 1_000_000);
    let (a, b) = (message(1, "one"), message(1, "two"));
    bodies.keep(reply(1, 1), [a.clone()].into_iter(), 0).unwrap();
    bodies.keep(reply(2, 1), [b.clone()].into_iter(), 0).unwrap();
    assert!(has(&mut bodies, &a) && has(&mut bodies, &b));
    bodies.release(reply(2, 1));
    bodies.remove(&a.0);
    assert!(has(&mut bodies, &a), "its send is not answered");
    assert!(!has(&mut bodies, &b));
}

#[test]
fn what_is_deleted_is_dropped_at_once() {
    let mut bodies = Bodies::new(1_000_000, 0);
    let a = message(1, "a");
    insert(&mut bodies, &a);
    bodies.remove(&a.0);
    assert!(!has(&mut bodies, &a));
    assert_eq!(bodies.bytes, 0);
    insert(&mut bodies, &a);
    assert!(has(&mut bodies, &a), "and may come again");
    bodies.budget = 0;
    bodies.evict();
    assert!(!has(&mut bodies, &a));
}

#[test]
fn contents_that_come_and_go_leave_nothing_behind() {
    let mut bodies = Bodies::new(1_000_000, 0);
    for time in 0..10_000 {
        let a = message(time, "a");
        insert(&mut bodies, &a);
        bodies.remove(&a.0);
        bodies.evict();
    }
    assert!(bodies.ages.len() <= AGES_SLACK);
    assert!(bodies.contents.is_empty());
}
