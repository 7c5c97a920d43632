//! What is deleted, purged or sent again.

use gaggle_wire::{Attempt, Request, Response, SendException, SettingsChange};

use super::support::{
    MS, SECOND, create, delete, drained, formed, formed_with_room, labels, name, one_partition,
    received, send, sent,
};
use crate::options::{Options, place};

fn what_is_sent_again_is_stored_once_and_what_is_deleted_is_gone() {
    let mut world = formed(3, 31);
    let queue = create(&mut world, one_partition());
    let two = labels(&world, 7, 1, 2);
    sent(&mut world, 0, &queue, &two);
    for node in 0..3 {
        let again = world.call(node, send(&queue, &two, Attempt::Again));
        let Response::Sent(batch) = again else { panic!("{again:?}") };
        assert!(batch.exceptions.is_empty() && batch.copies >= 2, "{batch:?}");
    }
    world.run(SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [2; 3], "P11");
    let came = received(&mut world, 1, 1000);
    assert_eq!(came.len(), 2);
    delete(&mut world, 2, vec![came[0].receipt.clone()]);
    for node in 0..3 {
        let again = world.call(node, send(&queue, &two, Attempt::Again));
        let Response::Sent(batch) = again else { panic!("{again:?}") };
        assert_eq!(batch.exceptions, [(0, SendException::Gone)], "P11: it is done");
    }
    delete(&mut world, 2, vec![came[1].receipt.clone()]);
    world.run(SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [0; 3]);
}

fn a_delete_at_a_node_that_is_cut_from_the_custodian_reaches_it_through_a_third() {
    let mut passed = 0;
    for seed in 34..40 {
        let mut world = formed(3, seed);
        let change = SettingsChange { visibility_timeout_ms: Some(9_000), ..one_partition() };
        let queue = create(&mut world, change);
        let first = labels(&world, 7, 1, 1);
        sent(&mut world, 0, &queue, &first);
        let came = received(&mut world, 0, 1000);
        let custodian = place(came[0].receipt.custodian);
        delete(&mut world, 0, vec![came[0].receipt.clone()]);
        let (deleter, third) = ((custodian + 1) % 3, (custodian + 2) % 3);
        world.cut(custodian, deleter);
        world.run(5 * SECOND);
        let some = labels(&world, 8, 1, 10);
        sent(&mut world, third, &queue, &some);
        let came = received(&mut world, third, 1000);
        assert_eq!(came.len(), 10, "seed {seed}");
        passed += came.iter().filter(|d| d.receipt.custodian.0 == custodian as u64 + 1).count();
        delete(&mut world, deleter, came.into_iter().map(|delivery| delivery.receipt).collect());
        world.run(300 * MS);
        assert_eq!(world.stored(custodian), 0, "seed {seed}: P4");
        world.run(20 * SECOND);
        assert_eq!(received(&mut world, third, 1000), [], "seed {seed}: P4");
    }
    assert!(passed > 0, "in no run a custodian was cut off");
}

fn a_purge_takes_what_was_accepted_before_and_nothing_after() {
    let mut world = formed(3, 32);
    let queue = create(&mut world, one_partition());
    let before = labels(&world, 7, 1, 50);
    sent(&mut world, 0, &queue, &before);
    world.judge.oracle.excuse(queue.id);
    assert_eq!(world.call(1, Request::PurgeQueue { name: name() }), Response::Done);
    let after = labels(&world, 7, 51, 55);
    sent(&mut world, 2, &queue, &after);
    assert_eq!(drained(&mut world, 0), [51, 52, 53, 54, 55]);
    world.run(5 * SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [0; 3]);
}

fn a_queue_that_is_made_again_is_another_queue() {
    let mut world = formed(3, 33);
    let queue = create(&mut world, one_partition());
    let some = labels(&world, 7, 1, 20);
    sent(&mut world, 0, &queue, &some);
    world.judge.oracle.excuse(queue.id);
    world.crash(2);
    world.run(5 * SECOND);
    assert_eq!(world.call(1, Request::DeleteQueue { name: name() }), Response::Done);
    let change = SettingsChange { partitions: Some(1), ..Default::default() };
    let again = create(&mut world, change);
    assert_ne!(again.id, queue.id);
    world.start(2);
    assert!(world.run_until(20 * SECOND, |world| world.is_whole(3)));
    let one = labels(&world, 8, 1, 1);
    sent(&mut world, 2, &again, &one);
    assert_eq!(drained(&mut world, 2), [1], "P13: nothing of the old queue comes back");
    world.run(5 * SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [0; 3]);
}

fn what_was_deleted_before_a_node_joined_is_gone_for_who_sends_it_again_after() {
    for seed in 60..72 {
        let mut world = formed_with_room(Options::calm(5, seed), 4);
        let [replicas, confirms, at_least] = [Some(1); 3];
        let change = SettingsChange { replicas, confirms, at_least, ..one_partition() };
        let queue = create(&mut world, change);
        let one = labels(&world, 7, 1, 1);
        sent(&mut world, 0, &queue, &one);
        let came = received(&mut world, 0, 1000);
        delete(&mut world, 0, vec![came[0].receipt.clone()]);
        world.start(4);
        assert!(world.run_until(30 * SECOND, |world| world.is_whole(5)));
        for node in 0..5 {
            let again = world.call(node, send(&queue, &one, Attempt::Again));
            let Response::Sent(batch) = again else { panic!("{again:?}") };
            assert_eq!(batch.exceptions, [(0, SendException::Gone)], "P11: {node}, seed {seed}");
        }
    }
}

scenarios![
    what_is_sent_again_is_stored_once_and_what_is_deleted_is_gone,
    what_was_deleted_before_a_node_joined_is_gone_for_who_sends_it_again_after,
    a_delete_at_a_node_that_is_cut_from_the_custodian_reaches_it_through_a_third,
    a_purge_takes_what_was_accepted_before_and_nothing_after,
    a_queue_that_is_made_again_is_another_queue,
];
