//! Messages that nobody receives: they reach their age and are gone, on every disk.

use gaggle_wire::{QueueDescription, Request, Response, SettingsChange};

use super::support::{
    SECOND, all_received, create, drained, formed_of, labels, name, one_partition, sent,
};
use crate::{Options, World};

/// Three nodes with small pages whose clients send again for a few seconds only, and a queue whose
/// messages last for that many.
fn formed(seed: u64, retention_ms: u64) -> (World, QueueDescription) {
    let mut options = Options::calm(3, seed);
    options.resend_window = std::time::Duration::from_secs(5);
    options.page_rows = 20;
    let mut world = formed_of(options);
    let change = SettingsChange { retention_ms: Some(retention_ms), ..one_partition() };
    let queue = create(&mut world, change);
    (world, queue)
}

fn stored(world: &World) -> [usize; 3] {
    [0, 1, 2].map(|at| world.stored(at))
}

fn where_nobody_ever_receives_all_disks_are_empty_after_the_retention() {
    let (mut world, queue) = formed(81, 20_000);
    for (process, node) in [(7, 0), (8, 1), (9, 2)] {
        let some = labels(&world, process, 1, 100);
        sent(&mut world, node, &queue, &some);
    }
    world.judge.oracle.excuse(queue.id);
    world.run(18 * SECOND);
    assert_eq!(stored(&world), [300; 3], "none goes before its time");
    world.run(5 * SECOND);
    assert_eq!(stored(&world), [0; 3]);
    assert_eq!(world.counted("expired"), 300, "each is counted once");
    let clean = |world: &World| (0..3).all(|at| world.leftovers(at).is_empty());
    assert!(world.run_until(20 * SECOND, clean), "{:?}", world.leftovers(0));
}

fn an_age_counts_from_acceptance_however_slow_its_producers_clock_is() {
    let (mut world, queue) = formed(82, 20_000);
    let mut old = labels(&world, 7, 1, 30);
    for label in &mut old {
        label.stamp.time -= 3600 * SECOND;
    }
    sent(&mut world, 0, &queue, &old);
    world.run(10 * SECOND);
    let fresh = labels(&world, 8, 1, 30);
    sent(&mut world, 1, &queue, &fresh);
    let mut late = labels(&world, 9, 1, 30);
    for label in &mut late {
        label.stamp.time -= 3600 * SECOND;
    }
    sent(&mut world, 2, &queue, &late);
    world.judge.oracle.excuse(queue.id);
    world.run(8 * SECOND);
    assert_eq!(stored(&world), [90; 3], "a slow clock fakes no age");
    world.run(5 * SECOND);
    assert_eq!(stored(&world), [60; 3]);
    world.run(10 * SECOND);
    assert_eq!(stored(&world), [0; 3]);
    assert_eq!(world.counted("expired"), 90);
}

fn whoever_is_custodian_by_then_lets_them_expire_and_who_was_away_hears_of_it() {
    for dead in 0..3 {
        let (mut world, queue) = formed(83, 20_000);
        let some = labels(&world, 7, 1, 50);
        sent(&mut world, dead, &queue, &some);
        world.judge.oracle.excuse(queue.id);
        world.run(5 * SECOND);
        world.crash(dead);
        world.run(20 * SECOND);
        let left = (0..3).filter(|at| *at != dead).map(|at| world.stored(at)).sum::<usize>();
        assert_eq!(left, 0, "without node {}", dead + 1);
        world.start(dead);
        assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)));
        world.run(2 * SECOND);
        assert_eq!(stored(&world), [0; 3]);
    }
}

fn what_is_in_flight_expires_when_it_comes_back() {
    let (mut world, queue) = formed(84, 20_000);
    let some = labels(&world, 7, 1, 50);
    sent(&mut world, 0, &queue, &some);
    world.judge.oracle.excuse(queue.id);
    assert_eq!(all_received(&mut world, 1, 50).len(), 50);
    world.run(25 * SECOND);
    assert_eq!(stored(&world), [50; 3], "a consumer has them");
    world.run(20 * SECOND);
    assert_eq!(stored(&world), [0; 3]);
    assert_eq!(drained(&mut world, 2), Vec::<u64>::new());
}

fn a_shorter_retention_holds_for_what_is_there() {
    let (mut world, queue) = formed(85, 3_600_000);
    let some = labels(&world, 7, 1, 50);
    sent(&mut world, 0, &queue, &some);
    world.judge.oracle.excuse(queue.id);
    world.run(10 * SECOND);
    let change = SettingsChange { retention_ms: Some(5_000), ..SettingsChange::default() };
    let mode = gaggle_wire::ChangeMode::Apply;
    let set = world.call(1, Request::SetQueue { name: name(), change, mode });
    assert!(matches!(set, Response::QueueSet { .. }), "{set:?}");
    world.run(3 * SECOND);
    assert_eq!(stored(&world), [0; 3]);
}

scenarios![
    where_nobody_ever_receives_all_disks_are_empty_after_the_retention,
    an_age_counts_from_acceptance_however_slow_its_producers_clock_is,
    whoever_is_custodian_by_then_lets_them_expire_and_who_was_away_hears_of_it,
    what_is_in_flight_expires_when_it_comes_back,
    a_shorter_retention_holds_for_what_is_there,
];
