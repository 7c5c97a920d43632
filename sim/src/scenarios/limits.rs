//! Limits: at one, what is new is refused, and deletes go on.

use gaggle_wire::{Attempt, DeleteResult, Refusal, Request, Response};

use super::support::{MS, create, formed_of, labels, one_partition, received, send, sent};
use crate::options::Options;

fn where_no_more_sends_may_wait_deletes_go_on() {
    for attempt in [Attempt::First, Attempt::Again] {
        deletes_go_on_beside(attempt);
    }
}

/// Sends of this kind wait, as many as may and more.
fn deletes_go_on_beside(attempt: Attempt) {
    let mut options = Options::calm(3, 61);
    options.waiting_max = 2;
    let mut world = formed_of(options);
    let queue = create(&mut world, one_partition());
    let some = labels(&world, 7, 1, 3);
    sent(&mut world, 0, &queue, &some);
    let came = received(&mut world, 0, 1000);
    assert_eq!(came.len(), 3);
    world.isolate(0);
    let hand = world.hand();
    let ask = |world: &mut crate::World, number| {
        let one = labels(world, 8, number, number);
        world.ask(hand, 0, send(&queue, &one, attempt))
    };
    let asked: Vec<u64> = (1..=4).map(|number| ask(&mut world, number)).collect();
    world.run(100 * MS);
    let is_refused = |number: &u64| {
        let answers = world.answers(hand, *number);
        let limit = |answer: &Response| {
            matches!(answer, Response::Refused(Refusal::LimitReached { limit: 2, .. }))
        };
        answers.iter().any(|(_, answer)| limit(answer))
    };
    assert_eq!(asked.iter().filter(|number| is_refused(number)).count(), 2, "P12");
    let receipts = came.into_iter().map(|delivery| delivery.receipt).collect();
    let delete = world.ask(hand, 0, Request::Delete { receipts });
    world.run(100 * MS);
    world.heal_all();
    assert!(world.run_until(10_000 * MS, |world| !world.answers(hand, delete).is_empty()));
    let (_, answer) = &world.answers(hand, delete)[0];
    assert_eq!(*answer, Response::Deleted(vec![DeleteResult::Deleted; 3]), "P12");
}

scenarios![where_no_more_sends_may_wait_deletes_go_on,];
