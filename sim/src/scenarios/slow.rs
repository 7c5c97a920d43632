//! Nodes that lag: others go on for them as long as they do.

use std::time::Duration;

use gaggle_wire::{DeliveryLabel, QueueDescription, Receipt, Request, Response, SettingsChange};

use super::support::{
    MS, SECOND, create, delete, formed, formed_of, labels, one_partition, received, sent,
};
use crate::World;
use crate::options::{Options, place};

fn long_leases() -> SettingsChange {
    SettingsChange { visibility_timeout_ms: Some(60_000), ..one_partition() }
}

/// One message is sent and handed out: who did that.
fn custodian(world: &mut World, queue: &QueueDescription, number: u64) -> (usize, Receipt) {
    let one = labels(world, 7, number, number);
    sent(world, 0, queue, &one);
    let mut came = received(world, 0, 5000);
    assert_eq!(came.iter().map(|d| d.label.number).collect::<Vec<_>>(), [number], "P3");
    let receipt = came.remove(0).receipt;
    (place(receipt.custodian), receipt)
}

fn a_custodian_whose_disk_is_slow_for_long_hands_over_until_it_has_recovered() {
    for seed in 1..=5 {
        let mut world = formed(3, seed);
        let queue = create(&mut world, long_leases());
        let (first, held) = custodian(&mut world, &queue, 1);
        world.slow_disk(first, 400 * MS);
        world.run(8 * SECOND);
        let (still, before) = custodian(&mut world, &queue, 2);
        assert_eq!(still, first, "seed {seed}: a moment's load is no reason");
        world.run(8 * SECOND);
        let (second, meanwhile) = custodian(&mut world, &queue, 3);
        assert_ne!(second, first, "seed {seed}: it has handed over");
        world.quick_disk(first);
        world.run(8 * SECOND);
        let (still, after) = custodian(&mut world, &queue, 4);
        assert_eq!(still, second, "seed {seed}: it is not trusted at once");
        world.run(8 * SECOND);
        let (back, last) = custodian(&mut world, &queue, 5);
        assert_eq!(back, first, "seed {seed}: the first in the list is well again");
        delete(&mut world, second, vec![held, before, meanwhile, after, last]);
        assert!(received(&mut world, 1, 1000).is_empty());
    }
}

fn a_custodian_that_gets_next_to_no_time_hands_over_until_it_has_recovered() {
    for seed in 11..=15 {
        let mut world = formed(3, seed);
        let queue = create(&mut world, long_leases());
        let (first, held) = custodian(&mut world, &queue, 1);
        // Shorter than a suspicion: its sessions go on.
        world.slow_down(first, (700 * MS, 16 * SECOND));
        world.run(14 * SECOND);
        let (second, meanwhile) = custodian(&mut world, &queue, 2);
        assert_ne!(second, first, "seed {seed}: it has handed over");
        world.run(26 * SECOND);
        let (back, last) = custodian(&mut world, &queue, 3);
        assert_eq!(back, first, "seed {seed}: the first in the list is well again");
        delete(&mut world, second, vec![held, meanwhile, last]);
        assert!(received(&mut world, 1, 1000).is_empty());
    }
}

fn what_was_not_handed_out_before_custody_went_over_comes_once_and_from_the_next() {
    let mut world = formed(3, 6);
    let queue = create(&mut world, long_leases());
    let (first, receipt) = custodian(&mut world, &queue, 1);
    delete(&mut world, first, vec![receipt]);
    let many = labels(&world, 8, 1, 100);
    sent(&mut world, 0, &queue, &many);
    let take = |world: &mut World, at: usize, max: u32| -> Vec<DeliveryLabel> {
        match world.call(at, super::support::receive(max, 1000)) {
            Response::Deliveries { deliveries } => deliveries,
            other => panic!("{other:?}"),
        }
    };
    let half = take(&mut world, first, 50);
    assert_eq!(half.len(), 50);
    world.slow_disk(first, 400 * MS);
    world.run(13 * SECOND);
    let mut rest = Vec::new();
    while rest.len() < 50 {
        let came = take(&mut world, 0, 100);
        assert!(!came.is_empty(), "P10: {} of 50 came", rest.len());
        rest.extend(came);
    }
    assert!(rest.iter().all(|delivery| place(delivery.receipt.custodian) != first));
    let mut numbers: Vec<u64> = half.iter().chain(&rest).map(|d| d.label.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>(), "P3");
    // What it had handed out itself, it still extends and gives back.
    let mut receipts: Vec<Receipt> = half.into_iter().map(|delivery| delivery.receipt).collect();
    let extended = receipts.pop().expect("there are fifty");
    let released = receipts.pop().expect("there are fifty");
    let extend = Request::Extend { receipts: vec![extended], visibility_ms: 90_000 };
    assert_eq!(world.call(1, extend), Response::Extended(vec![Ok(90_000)]));
    let release = Request::Release { receipts: vec![released], delay_ms: 0 };
    assert_eq!(world.call(2, release), Response::Released(vec![Ok(())]));
    let again = take(&mut world, 0, 1).remove(0).receipt;
    assert_eq!(again.delivery, 2);
    assert_ne!(place(again.custodian), first);
    delete(&mut world, 0, receipts);
}

fn where_all_are_slow_the_first_of_them_hands_out() {
    let mut world = formed(3, 7);
    let queue = create(&mut world, long_leases());
    let (first, _) = custodian(&mut world, &queue, 1);
    for at in 0..3 {
        world.slow_disk(at, 400 * MS);
    }
    world.run(15 * SECOND);
    assert_eq!(custodian(&mut world, &queue, 2).0, first);
}

fn who_is_back_and_waits_for_one_that_is_away_is_not_yielded_to_before() {
    let mut options = Options::calm(3, 8);
    options.serve_alone_after = Duration::from_secs(20);
    let mut world = formed_of(options);
    let queue = create(&mut world, long_leases());
    let (first, _) = custodian(&mut world, &queue, 1);
    let (second, third) = ((first + 1) % 3, (first + 2) % 3);
    world.run(SECOND);
    for at in [first, third] {
        world.crash(at);
    }
    world.run(5 * SECOND);
    world.start(first);
    world.run(5 * SECOND);
    let two = labels(&world, 7, 2, 2);
    sent(&mut world, second, &queue, &two);
    let came = received(&mut world, second, 2000);
    assert_eq!(came.len(), 1, "P10: the one that waits for nobody goes on");
    assert_eq!(place(came[0].receipt.custodian), second);
    world.run(20 * SECOND);
    let three = labels(&world, 7, 3, 3);
    sent(&mut world, second, &queue, &three);
    let came = received(&mut world, second, 2000);
    assert_eq!(place(came[0].receipt.custodian), first, "it has waited long enough");
}

scenarios![
    a_custodian_whose_disk_is_slow_for_long_hands_over_until_it_has_recovered,
    a_custodian_that_gets_next_to_no_time_hands_over_until_it_has_recovered,
    what_was_not_handed_out_before_custody_went_over_comes_once_and_from_the_next,
    where_all_are_slow_the_first_of_them_hands_out,
    who_is_back_and_waits_for_one_that_is_away_is_not_yielded_to_before,
];
