//! Hosts that stay away, copies that rot or vanish: what others hold makes up for it.

use gaggle_core::envelope::Envelope;
use gaggle_core::event::Event;
use gaggle_wire::{DeliveryLabel, QueueDescription, SettingsChange};

use super::support::{
    MS, SECOND, all_received, create, delete, drained, formed, formed_of, labels, one_partition,
    received, sent,
};
use crate::World;
use crate::options::{Options, node_id, place};
use crate::planted::border::Border;

const COUNT: usize = 300;

/// Five nodes, of which three hold some messages; and which three.
fn three_of_five(seed: u64, rate: u64) -> (World, QueueDescription, Vec<usize>) {
    let mut options = Options::calm(5, seed);
    options.replace_after = std::time::Duration::from_secs(2);
    options.replace_rate = rate;
    options.resend_window = std::time::Duration::from_secs(5);
    options.page_rows = 40;
    options.scrub_every = std::time::Duration::from_secs(3);
    let mut world = formed_of(options);
    let queue = create(&mut world, one_partition());
    let all = labels(&world, 7, 1, COUNT as u64);
    sent(&mut world, 0, &queue, &all);
    world.run(100 * MS);
    let holders = holders(&world);
    assert_eq!(holders.len(), 3);
    (world, queue, holders)
}

/// Nodes that are up and hold anything.
fn holders(world: &World) -> Vec<usize> {
    (0..5).filter(|at| world.is_up(*at) && world.stored(*at) > 0).collect()
}

/// Copies at nodes that are up.
fn copies(world: &World) -> usize {
    (0..5).filter(|at| world.is_up(*at)).map(|at| world.stored(at)).sum()
}

fn up(world: &World) -> usize {
    (0..5).find(|at| world.is_up(*at)).expect("not all are down")
}

fn receipts(came: &[DeliveryLabel]) -> Vec<gaggle_wire::Receipt> {
    came.iter().map(|delivery| delivery.receipt.clone()).collect()
}

/// Nobody has anything left of any message.
fn forgotten(world: &World) -> bool {
    (0..5).all(|at| world.leftovers(at).is_empty())
}

fn who_stays_away_is_made_up_for_and_then_a_second_death_loses_nothing() {
    let (mut world, _, holders) = three_of_five(81, 1_000_000);
    world.crash(holders[1]);
    world.run(SECOND);
    assert_eq!(copies(&world), 2 * COUNT, "a restart needs no copying");
    assert!(world.run_until(20 * SECOND, |world| copies(world) == 3 * COUNT), "P1");
    world.crash(holders[0]);
    assert!(world.run_until(20 * SECOND, |world| copies(world) == 3 * COUNT), "P1");
    world.crash(holders[2]);
    world.run(10 * SECOND);
    let node = up(&world);
    assert_eq!(drained(&mut world, node).len(), COUNT, "P1: none of the first three is there");
}

fn who_returns_after_it_was_made_up_for_brings_no_duplicates_and_nothing_deleted() {
    let (mut world, _, holders) = three_of_five(82, 1_000_000);
    world.crash(holders[1]);
    assert!(world.run_until(20 * SECOND, |world| copies(world) == 3 * COUNT));
    let node = up(&world);
    let came = all_received(&mut world, node, COUNT);
    delete(&mut world, node, receipts(&came[..COUNT / 2]));
    world.start(holders[1]);
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(5)));
    world.run(30 * SECOND);
    assert_eq!(copies(&world), 4 * COUNT / 2, "P4: and nobody is struck from a list");
    let mut left = drained(&mut world, node);
    left.sort_unstable();
    let expected: Vec<u64> = came[COUNT / 2..].iter().map(|d| d.label.number).collect();
    assert_eq!(left, expected, "P3, P4");
    assert!(world.run_until(60 * SECOND, forgotten), "L5");
}

fn what_is_deleted_while_it_is_copied_stays_deleted() {
    for seed in 100..130 {
        let (mut world, _, holders) = three_of_five(seed, 40_000);
        let node = up(&world);
        let came = all_received(&mut world, node, COUNT);
        world.crash(holders[1]);
        assert!(world.run_until(20 * SECOND, |world| copies(world) > 2 * COUNT));
        world.run((seed - 100) * 29 * MS);
        let node = up(&world);
        for some in came.chunks(37) {
            delete(&mut world, node, receipts(some));
        }
        world.run(5 * SECOND);
        assert_eq!(copies(&world), 0, "P4, seed {seed}");
        world.start(holders[1]);
        world.run(30 * SECOND);
        assert_eq!(drained(&mut world, node), [0; 0], "P4");
        assert!(world.run_until(60 * SECOND, forgotten), "L5");
    }
}

fn a_new_holder_that_dies_in_the_middle_is_made_up_for_as_well() {
    let (mut world, _, holders) = three_of_five(83, 20_000);
    world.crash(holders[1]);
    let started = |world: &World| copies(world) > 2 * COUNT;
    assert!(world.run_until(20 * SECOND, started));
    let new =
        (0..5).find(|at| !holders.contains(at) && world.stored(*at) > 0).expect("it has begun");
    world.crash(new);
    assert!(world.run_until(60 * SECOND, |world| copies(world) == 3 * COUNT));
    world.start(holders[1]);
    world.start(new);
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(5)));
    let lists_hold = |world: &World| world.stored(new) >= world.stored(holders[1]).min(1);
    assert!(world.run_until(10 * SECOND, lists_hold));
    assert_eq!(drained(&mut world, new).len(), COUNT);
}

fn copies_go_no_faster_than_they_may_and_what_is_left_is_told() {
    let rate = 10_000;
    let (mut world, _, holders) = three_of_five(84, rate);
    let victim = holders.iter().copied().find(|at| *at != 0).expect("three hold it");
    world.crash(victim);
    let began = |world: &World| copies(world) > 2 * COUNT;
    assert!(world.run_until(20 * SECOND, began));
    let (start, first) = (world.now(), copies(&world));
    assert!(world.counted("to_be_replaced") > 0 && world.counted("under_replicated") > 0);
    let told = world.counted("to_be_replaced_seconds");
    assert!(world.run_until(60 * SECOND, |world| copies(world) == 3 * COUNT));
    let seconds = (world.now() - start) / SECOND;
    let bytes = (copies(&world) - first) as u64 * 128;
    assert!(bytes <= rate * (seconds + 1), "{bytes} bytes in {seconds} s");
    assert!(told.abs_diff(seconds) <= 2, "{told} s were told, and it took {seconds} s");
    world.run(SECOND);
    assert_eq!(world.counted("to_be_replaced"), 0);
    assert_eq!(world.counted("copies_replaced"), COUNT as u64);
}

fn a_hole_in_the_middle_is_found_by_the_scrub_and_filled_by_another_holder() {
    let (mut world, _, holders) = three_of_five(85, 1_000_000);
    world.vanish(holders[0], &[0, 17, 18, 19, 150, 299]);
    world.vanish(holders[2], &[40]);
    assert_eq!(copies(&world), 3 * COUNT - 7);
    assert!(world.run_until(20 * SECOND, |world| copies(world) == 3 * COUNT));
    assert_eq!(world.counted("copies_lost"), 7);
    assert_eq!(world.counted("copies_refilled"), 7);
    world.run(2 * SECOND);
    assert_eq!(world.counted("copies_to_refill"), 0);
    assert_eq!(world.counted("lost_everywhere"), 0);
    let node = up(&world);
    assert_eq!(drained(&mut world, node).len(), COUNT, "P1, P3");
}

fn what_no_holder_has_any_more_is_counted_once_by_each_and_not_looked_for_for_ever() {
    let (mut world, queue, holders) = three_of_five(86, 1_000_000);
    for at in &holders {
        world.vanish(*at, &[7]);
    }
    world.judge.oracle.excuse(queue.id);
    assert!(world.run_until(30 * SECOND, |world| copies(world) == 3 * COUNT - 3));
    world.run(20 * SECOND);
    assert_eq!(world.counted("lost_everywhere"), 3);
    assert_eq!(world.counted("copies_to_refill"), 0);
    let node = up(&world);
    assert_eq!(drained(&mut world, node).len(), COUNT - 1);
}

fn a_hole_is_not_filled_with_what_is_deleted_meanwhile() {
    for seed in 200..220 {
        let (mut world, _, holders) = three_of_five(seed, 1_000_000);
        let node = up(&world);
        let came = all_received(&mut world, node, COUNT);
        world.vanish(holders[1], &[3, 4, 5, 100]);
        world.run((seed - 200) * 220 * MS);
        for some in came.chunks(50) {
            delete(&mut world, node, receipts(some));
        }
        world.run(10 * SECOND);
        assert_eq!(copies(&world), 0, "P4, seed {seed}");
        assert!(world.run_until(60 * SECOND, forgotten), "L5");
    }
}

fn a_wiped_node_is_filled_again_but_not_with_what_was_deleted() {
    let (mut world, _, holders) = three_of_five(87, 1_000_000);
    let victim = holders.iter().copied().find(|at| *at != 0).expect("three hold it");
    let node = up(&world);
    let came = all_received(&mut world, node, COUNT);
    world.crash(victim);
    world.wipe(victim);
    world.run(SECOND);
    delete(&mut world, node, receipts(&came[..COUNT / 2]));
    world.start(victim);
    assert!(world.run_until(20 * SECOND, |world| world.stored(victim) == COUNT / 2));
    world.run(30 * SECOND);
    assert_eq!(world.stored(victim), COUNT / 2, "P4");
    assert_eq!(drained(&mut world, victim).len(), COUNT / 2);
    assert!(world.run_until(60 * SECOND, forgotten), "L5");
}

fn what_was_deleted_on_one_side_of_a_cut_while_the_other_copied_it_stays_deleted() {
    for seed in 300..320 {
        let (mut world, _, holders) = three_of_five(seed, 40_000);
        let others: Vec<usize> = (0..5).filter(|at| !holders.contains(at)).collect();
        let came = all_received(&mut world, holders[0], COUNT);
        for here in &holders[..2] {
            for there in others.iter().chain([&holders[2]]) {
                world.cut(*here, *there);
            }
        }
        assert!(world.run_until(20 * SECOND, |world| copies(world) > 3 * COUNT));
        for some in came.chunks(100) {
            delete(&mut world, holders[0], receipts(some));
        }
        world.run((seed - 300) * 100 * MS);
        world.heal_all();
        assert!(world.run_until(30 * SECOND, |world| world.is_whole(5)));
        world.run(3 * SECOND);
        assert_eq!(drained(&mut world, others[0]), [0; 0], "P4, seed {seed}");
        assert!(world.run_until(60 * SECOND, forgotten), "L5, seed {seed}");
    }
}

fn a_host_that_was_away_for_longer_than_tombstones_are_kept_brings_nothing_back() {
    let mut world = formed(3, 88);
    let queue = create(
        &mut world,
        SettingsChange { retention_ms: Some(60_000), replicas: Some(3), ..one_partition() },
    );
    let all = labels(&world, 7, 1, 50);
    sent(&mut world, 0, &queue, &all);
    world.run(SECOND);
    let came = received(&mut world, 0, 1000);
    assert_eq!(came.len(), 50);
    world.crash(2);
    world.run(10 * SECOND);
    delete(&mut world, 0, receipts(&came));
    world.run(3700 * SECOND);
    let kept: Vec<_> = [0, 1].into_iter().flat_map(|at| world.leftovers(at)).collect();
    assert!(kept.is_empty(), "its tombstones are dropped at last: {kept:?}");
    world.start(2);
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)));
    world.run(30 * SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [0; 3], "F5: nobody is given what expired");
    assert_eq!(world.counted("expired_while_away"), 50);
    assert_eq!(drained(&mut world, 2), [0; 0], "P4");
}

fn what_is_in_flight_does_not_come_again_from_a_new_holder_that_goes_first() {
    let mut went_first = 0;
    for seed in 400..430 {
        let mut options = Options::calm(5, seed);
        options.replace_after = std::time::Duration::from_secs(2);
        let mut world = World::new(options, crate::Detail::Off);
        world.form(4);
        let queue = create(&mut world, one_partition());
        let few = labels(&world, 7, 1, 20);
        sent(&mut world, 0, &queue, &few);
        let came = received(&mut world, 0, 1000);
        assert_eq!(came.len(), 20);
        let custodian = place(came[0].receipt.custodian);
        let other = holders(&world).into_iter().find(|at| *at != custodian).expect("three have it");
        world.start(4);
        world.run(5 * SECOND);
        world.crash(other);
        world.run(10 * SECOND);
        assert_eq!(copies(&world), 3 * 20, "seed {seed}: there is one more holder");
        assert_eq!(received(&mut world, 4, 1000), [], "P3, seed {seed}: their leases run on");
        world.run(20 * SECOND);
        let again = received(&mut world, 4, 1000);
        assert_eq!(again.len(), 20, "P10, seed {seed}");
        assert!(again.iter().all(|delivery| delivery.receipt.delivery == 2), "seed {seed}");
        went_first += usize::from(again[0].receipt.custodian == node_id(4));
    }
    assert!(went_first > 1, "the new holder goes before the custodian in {went_first} runs");
}

/// Copies for new holders never arrive, as if who gives them had died with the list told.
const NEVER_GIVEN: Border = Border {
    hears: |event| match event {
        Event::Envelope { envelope: Envelope::MakeUp { batch: 1.., .. }, .. } => Vec::new(),
        other => vec![other],
    },
    ..Border::HONEST
};

/// And nobody compares.
const NEVER_COMPARED: Border = Border {
    hears: |event| match event {
        Event::Envelope { envelope: Envelope::Compare { .. }, .. } => Vec::new(),
        other => (NEVER_GIVEN.hears)(other),
    },
    ..Border::HONEST
};

fn a_holder_that_was_listed_and_never_given_its_copies_is_found_by_comparing() {
    for (border, found) in [(&NEVER_GIVEN, true), (&NEVER_COMPARED, false)] {
        let (mut world, _, holders) = three_of_five(89, 1_000_000);
        world.border = Some(border);
        let victim = holders.iter().copied().find(|at| *at != 0).expect("three hold it");
        world.crash(victim);
        let filled = world.run_until(30 * SECOND, |world| copies(world) > 2 * COUNT);
        assert_eq!(filled, found);
        assert_eq!(world.counted("copies_replaced"), 0);
    }
}

scenarios![
    who_stays_away_is_made_up_for_and_then_a_second_death_loses_nothing,
    who_returns_after_it_was_made_up_for_brings_no_duplicates_and_nothing_deleted,
    what_is_deleted_while_it_is_copied_stays_deleted,
    a_new_holder_that_dies_in_the_middle_is_made_up_for_as_well,
    copies_go_no_faster_than_they_may_and_what_is_left_is_told,
    a_hole_in_the_middle_is_found_by_the_scrub_and_filled_by_another_holder,
    what_no_holder_has_any_more_is_counted_once_by_each_and_not_looked_for_for_ever,
    a_hole_is_not_filled_with_what_is_deleted_meanwhile,
    a_wiped_node_is_filled_again_but_not_with_what_was_deleted,
    what_was_deleted_on_one_side_of_a_cut_while_the_other_copied_it_stays_deleted,
    a_host_that_was_away_for_longer_than_tombstones_are_kept_brings_nothing_back,
    a_holder_that_was_listed_and_never_given_its_copies_is_found_by_comparing,
    what_is_in_flight_does_not_come_again_from_a_new_holder_that_goes_first,
];
