//! Many messages through healthy clusters: none lost, none twice, nothing left.

use gaggle_wire::SettingsChange;

use super::support::{SECOND, create, formed, is_drained, name, one_partition};
use crate::World;
use crate::apps::consumer::{Habits, Manner, Mode};
use crate::apps::producer::Plan;
use crate::town::Traits;

fn plan(messages: u64) -> Plan {
    Plan {
        queue: name(),
        messages,
        batch: (1, 64),
        every: (1_000_000, 20_000_000),
        open_max: 500,
        keyed: 300,
        within: (60 * SECOND, 60 * SECOND),
    }
}

fn habits(mode: Mode) -> Habits {
    let manner = Manner::good((0, 5_000_000));
    Habits { queue: name(), mode, visibility_ms: None, workers: 32, manner }
}

fn ten_thousand_messages_and_sixteen_consumers_on_three_nodes() {
    let mut world = formed(3, 11);
    create(&mut world, SettingsChange::default());
    for _ in 0..4 {
        world.producer(plan(2500), &Traits::default());
    }
    for consumer in 0..16 {
        let mode = if consumer % 2 == 0 {
            Mode::Stream { credit: 32 }
        } else {
            Mode::Poll { max: 10, wait_ms: 20_000 }
        };
        world.consumer(habits(mode), &Traits { node: Some(consumer % 3), ..Traits::default() });
    }
    assert!(world.run_until(120 * SECOND, |world| is_drained(world, 10_000)), "P1, P10");
    assert_eq!(world.judge.oracle.duplicates(), 0, "P3");
    for counter in ["grants_given_back", "leases_expired", "sessions_ended"] {
        assert_eq!(world.counted(counter), 0, "{counter}");
    }
    world.run(5 * SECOND);
    assert_eq!([0, 1, 2].map(|at| world.stored(at)), [0; 3]);
    // The resend window over, nothing at all is left of them.
    world.run(130 * SECOND);
    assert!((0..3).all(|at| world.leftovers(at).is_empty()), "{:?}", world.leftovers(0));
}

fn a_node_that_joins_and_one_that_is_stopped_make_no_duplicates() {
    let mut world = World::new(crate::Options::calm(4, 12), crate::Detail::Off);
    world.form(3);
    create(&mut world, SettingsChange { partitions: Some(4), ..one_partition() });
    let producers = [0, 1].map(|_| world.producer(plan(1500), &Traits::default()));
    for _ in 0..6 {
        world.consumer(habits(Mode::Stream { credit: 8 }), &Traits::default());
    }
    world.run(SECOND);
    world.start(3);
    world.run(3 * SECOND);
    world.drain(2);
    assert!(world.run_until(10 * SECOND, |world| !world.is_up(2)), "it stops");
    let sent = |world: &World| producers.iter().all(|producer| world.has_sent(*producer));
    assert!(world.run_until(60 * SECOND, sent));
    assert!(world.run_until(60 * SECOND, |world| is_drained(world, 3000)), "P1, P10");
    assert_eq!(world.judge.oracle.duplicates(), 0, "P3: join and stop are no faults");
}

scenarios![
    ten_thousand_messages_and_sixteen_consumers_on_three_nodes,
    a_node_that_joins_and_one_that_is_stopped_make_no_duplicates,
];
