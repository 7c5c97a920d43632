//! The client that is shipped, in whole clusters: nodes die under it, connections break, work
//! takes longer than a lease.

use gaggle_wire::SettingsChange;

use super::support::{MS, SECOND, create, drained, formed, name, one_partition};
use crate::World;
use crate::apps::consumer::{Habits, Manner, Mode};
use crate::apps::producer::Plan;
use crate::town::Traits;
use crate::truth::Told;

/// One message every 5 ms.
fn steady(messages: u64) -> Plan {
    Plan {
        queue: name(),
        messages,
        batch: (1, 1),
        every: (5 * MS, 5 * MS),
        open_max: 100,
        keyed: 0,
        within: (10 * SECOND, 10 * SECOND),
    }
}

fn stream(credit: u64, workers: usize, manner: Manner) -> Habits {
    let mode = Mode::Stream { credit };
    Habits { queue: name(), mode, visibility_ms: None, workers, manner }
}

/// Sends all; how long the longest of them took, of which all were confirmed.
fn sent(world: &mut World, producer: usize) -> u64 {
    assert!(world.run_until(60 * SECOND, |world| world.has_sent(producer)), "L2");
    let results = world.judge.results(producer);
    assert!(results.iter().all(|result| result.told == Told::Done), "{results:?}");
    results.iter().map(|result| result.took).max().unwrap_or_default()
}

fn deleted(world: &World) -> usize {
    world.judge.oracle.fates().filter(|(_, fate)| fate.deleted.is_some()).count()
}

/// Of the sends that a node is killed under.
const COUNT: usize = 400;

/// It has passed on the last of them, and not said so: the others know that it is theirs.
fn sends_under_way_to_a_node_that_is_killed_are_confirmed_by_another_within_tens_of_ms() {
    let mut shown = 0;
    for (seed, node) in runs() {
        let (mut world, producer) = sending(seed);
        let others = |at: &usize| *at != node;
        let passed_on = |world: &World| {
            let untold = world.judge.results(producer).len() < COUNT;
            untold && (0..3).filter(others).all(|at| world.stored(at) == COUNT)
        };
        if !world.run_until(5 * SECOND, passed_on) {
            continue;
        }
        shown += 1;
        let took = killed(&mut world, producer, node);
        assert!(took < 50 * MS, "seed {seed}: a send took {} ms without {}", took / MS, node + 1);
    }
    assert!(shown >= 5, "{shown} times only it was killed between the two");
}

/// Nobody else can tell whether it has them, and it could be alive: it is waited for.
fn sends_that_only_a_killed_node_has_heard_of_wait_a_tenth_of_a_second_for_its_word() {
    let mut longest = 0;
    for (seed, node) in runs() {
        let (mut world, producer) = sending(seed);
        let on_its_way = |world: &World| {
            let sent = world.judge.oracle.fates().count();
            (0..3).all(|at| world.stored(at) < sent)
        };
        assert!(world.run_until(SECOND, on_its_way), "seed {seed}: something is sent");
        let took = killed(&mut world, producer, node);
        assert!(took < 150 * MS, "seed {seed}: a send took {} ms without {}", took / MS, node + 1);
        longest = longest.max(took);
    }
    assert!(longest > 100 * MS, "none was on its way to a node that was killed");
}

/// Seeds, each with every node to be killed.
fn runs() -> impl Iterator<Item = (u64, usize)> {
    (1000..1005).flat_map(|seed| (0..3).map(move |node| (seed, node)))
}

/// Three nodes, and a client that has been sending for a second.
fn sending(seed: u64) -> (World, usize) {
    let mut world = formed(3, seed);
    create(&mut world, one_partition());
    let producer = world.producer(steady(COUNT as u64), &Traits::default());
    world.run(SECOND);
    (world, producer)
}

/// Kills a node; how long the longest send takes, of which each is there once in the end.
fn killed(world: &mut World, producer: usize, node: usize) -> u64 {
    world.crash(node);
    let took = sent(world, producer);
    world.start(node);
    assert!(world.run_until(30 * SECOND, |world| world.is_whole(3)));
    let mut numbers = drained(world, 1);
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=COUNT as u64).collect::<Vec<_>>(), "P1, P11");
    took
}

fn a_send_whose_outcome_is_unknown_is_sent_again_with_its_id_and_stored_once() {
    let mut world = formed(3, 64);
    create(&mut world, one_partition());
    let producer = world.producer(steady(600), &Traits::default());
    for round in 0..6 {
        world.run(400 * MS);
        // What is on its way, and the answers to what has arrived, wait for the end of the cut.
        world.cut_client(producer, round % 3);
        world.run(200 * MS);
        world.heal_client(producer, round % 3);
    }
    sent(&mut world, producer);
    let again = world.judge.oracle.fates().filter(|(_, fate)| fate.sends > 1).count();
    assert!(again > 0, "none was sent again: nothing is shown");
    world.run(SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [600; 3], "P11");
    let mut numbers = drained(&mut world, 1);
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=600).collect::<Vec<_>>(), "P1, P11");
    assert_eq!(world.judge.oracle.duplicates(), 0, "P3");
}

fn a_consumer_whose_connection_breaks_goes_on_at_another_node() {
    let mut world = formed(3, 65);
    create(&mut world, one_partition());
    let producer = world.producer(steady(100), &Traits::default());
    sent(&mut world, producer);
    let manner = Manner::good((100 * MS, 100 * MS));
    let consumer = world.consumer(stream(4, 1, manner), &Traits::default());
    for round in 0..9 {
        let before = deleted(&world);
        let more = |world: &World| deleted(world) >= before + 5;
        assert!(world.run_until(SECOND, more), "P10: after {round} breaks it does not go on");
        // In the middle of some work: what was taken is told by now.
        world.run(50 * MS);
        world.break_line(consumer, round % 3);
    }
    assert!(world.run_until(10 * SECOND, |world| deleted(world) == 100), "P1, P10");
    assert_eq!(world.judge.worked_again(), 0, "P3: what goes back was not taken");
    world.run(SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [0; 3]);
}

fn a_consumer_whose_node_is_cut_off_from_it_goes_on_at_another_node() {
    let mut world = formed(3, 66);
    create(&mut world, one_partition());
    let producer = world.producer(steady(3000), &Traits::default());
    let manner = Manner::good((0, 10 * MS));
    let consumer = world.consumer(stream(4, 2, manner), &Traits::default());
    for node in 0..3 {
        world.run(SECOND);
        world.cut_client(consumer, node);
        world.run(15 * SECOND);
        let before = deleted(&world);
        world.run(SECOND);
        assert!(deleted(&world) > before || before == 3000, "P10: it hangs at {}", node + 1);
        world.heal_client(consumer, node);
    }
    sent(&mut world, producer);
    assert!(world.run_until(60 * SECOND, |world| deleted(world) == 3000), "P1, P10");
}

fn leases_are_kept_while_work_goes_on_and_nothing_comes_twice() {
    for (keeps, twice) in [(1000, false), (0, true)] {
        let mut world = formed(3, 67);
        let short = SettingsChange { visibility_timeout_ms: Some(1000), ..one_partition() };
        create(&mut world, short);
        let producer = world.producer(steady(20), &Traits::default());
        let manner = Manner { keeps, ..Manner::good((3500 * MS, 4500 * MS)) };
        for _ in 0..2 {
            world.consumer(stream(2, 20, manner.clone()), &Traits::default());
        }
        sent(&mut world, producer);
        assert!(world.run_until(60 * SECOND, |world| deleted(world) == 20), "P1, P10");
        let again = world.judge.worked_again();
        assert_eq!(again > 0, twice, "P3: {again} were worked on again with {keeps} kept");
    }
}

fn a_node_that_stops_hands_its_clients_to_others_at_once() {
    for node in 0..3 {
        let mut world = formed(3, 68 + node as u64);
        create(&mut world, SettingsChange { partitions: Some(3), ..one_partition() });
        let producers = [0, 1].map(|_| world.producer(steady(600), &Traits::default()));
        for _ in 0..4 {
            let manner = Manner::good((0, 30 * MS));
            world.consumer(stream(8, 2, manner), &Traits::default());
        }
        world.run(SECOND);
        world.drain(node);
        assert!(world.run_until(10 * SECOND, |world| !world.is_up(node)), "it stops");
        for producer in producers {
            let took = sent(&mut world, producer);
            assert!(took < SECOND, "a send took {} ms", took / MS);
        }
        assert!(world.run_until(60 * SECOND, |world| deleted(world) == 1200), "P1, P10");
    }
}

scenarios![
    sends_under_way_to_a_node_that_is_killed_are_confirmed_by_another_within_tens_of_ms,
    sends_that_only_a_killed_node_has_heard_of_wait_a_tenth_of_a_second_for_its_word,
    a_send_whose_outcome_is_unknown_is_sent_again_with_its_id_and_stored_once,
    a_consumer_whose_connection_breaks_goes_on_at_another_node,
    a_consumer_whose_node_is_cut_off_from_it_goes_on_at_another_node,
    leases_are_kept_while_work_goes_on_and_nothing_comes_twice,
    a_node_that_stops_hands_its_clients_to_others_at_once,
];
