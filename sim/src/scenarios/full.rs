//! Full disks: others take what is new, and what is deleted goes everywhere (F12, F13).

use gaggle_wire::{DeliveryLabel, QueueDescription, Refusal, Request, Response};

use super::support::{
    SECOND, all_received, create, delete, formed, labels, one_partition, send, sent,
};
use crate::World;
use crate::filling::Filling;

const COUNT: u64 = 50;
const FULL: usize = 1;

/// Messages at all three nodes.
fn stored(seed: u64) -> (World, QueueDescription) {
    let mut world = formed(3, seed);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, COUNT);
    sent(&mut world, 0, &queue, &all);
    assert!(world.run_until(SECOND, |world| world.stored(FULL) == COUNT as usize));
    (world, queue)
}

fn receipts(came: Vec<DeliveryLabel>) -> Vec<gaggle_wire::Receipt> {
    came.into_iter().map(|delivery| delivery.receipt).collect()
}

fn a_full_node_takes_nothing_new_and_deletes_and_others_go_on() {
    let (mut world, queue) = stored(91);
    world.fill_disk_to(FULL, Filling::Spent(0));
    world.run(2 * SECOND);
    let more = labels(&world, 8, 1, COUNT);
    let refused = world.call(FULL, send(&queue, &more, gaggle_wire::Attempt::First));
    assert_eq!(refused, Response::Refused(Refusal::DiskFull));
    assert_eq!(sent(&mut world, 0, &queue, &more).copies, 2);
    world.run(2 * SECOND);
    assert!(world.is_up(FULL), "it was given nothing that it had no room for");
    assert_eq!(world.stored(FULL), COUNT as usize);

    let came = all_received(&mut world, FULL, 2 * COUNT as usize);
    delete(&mut world, FULL, receipts(came));
    assert!(world.run_until(5 * SECOND, |world| (0..3).all(|at| world.stored(at) == 0)));
    world.free_disk(FULL);
    world.run(2 * SECOND);
    let again = labels(&world, 9, 1, COUNT);
    sent(&mut world, FULL, &queue, &again);
    assert!(world.run_until(SECOND, |world| world.stored(FULL) == COUNT as usize));
}

fn what_a_full_node_lacks_comes_once_it_has_room() {
    let (mut world, queue) = stored(92);
    world.crash(FULL);
    let more = labels(&world, 8, 1, COUNT);
    sent(&mut world, 0, &queue, &more);
    world.fill_disk_to(FULL, Filling::Spent(0));
    world.start(FULL);
    world.run(5 * SECOND);
    assert!(world.is_up(FULL), "it was given nothing that it had no room for");
    assert_eq!(world.stored(FULL), COUNT as usize);
    world.free_disk(FULL);
    assert!(world.run_until(5 * SECOND, |world| world.stored(FULL) == 2 * COUNT as usize));
}

fn a_commit_that_finds_no_room_gives_back_what_was_set_aside_and_deletes_go_on() {
    let (mut world, queue) = stored(93);
    for at in 0..3 {
        world.fill_disk_to(at, Filling::Reserved);
    }
    let more = labels(&world, 8, 1, 1);
    let answer = world.call(0, send(&queue, &more, gaggle_wire::Attempt::First));
    assert!(matches!(answer, Response::Refused(_)), "there is no room for it: {answer:?}");
    assert!(world.run_until(20 * SECOND, |world| (0..3).all(|at| world.is_up(at))));
    world.run(12 * SECOND);
    let came = all_received(&mut world, 2, COUNT as usize);
    let deleted = world.call(2, Request::Delete { receipts: receipts(came) });
    let Response::Deleted(results) = &deleted else { panic!("{deleted:?}") };
    assert!(results.iter().all(|result| *result == gaggle_wire::DeleteResult::Deleted));
}

scenarios![
    a_full_node_takes_nothing_new_and_deletes_and_others_go_on,
    what_a_full_node_lacks_comes_once_it_has_room,
    a_commit_that_finds_no_room_gives_back_what_was_set_aside_and_deletes_go_on,
];
