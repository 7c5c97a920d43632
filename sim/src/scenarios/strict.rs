//! Strict queues: production order, whatever host takes a message and whatever fails.

use gaggle_wire::{Order, SettingsChange};

use super::support::{SECOND, create, formed, is_drained, name, one_partition};
use crate::apps::consumer::{Habits, Manner, Mode};
use crate::apps::producer::Plan;
use crate::town::Traits;

fn strict() -> SettingsChange {
    SettingsChange { order: Some(Order::Strict), window_ms: Some(100), ..one_partition() }
}

fn plan(messages: u64) -> Plan {
    Plan {
        queue: name(),
        messages,
        batch: (1, 4),
        every: (1_000_000, 20_000_000),
        open_max: 100,
        keyed: 1000,
        within: (20 * SECOND, 20 * SECOND),
    }
}

fn habits() -> Habits {
    let manner = Manner::good((0, 5_000_000));
    let mode = Mode::Stream { credit: 16 };
    Habits { queue: name(), mode, visibility_ms: None, workers: 8, manner }
}

fn what_many_producers_send_comes_in_order() {
    let mut world = formed(3, 41);
    create(&mut world, strict());
    for _ in 0..4 {
        world.producer(plan(200), &Traits::default());
    }
    for node in 0..3 {
        world.consumer(habits(), &Traits { node: Some(node), ..Traits::default() });
    }
    assert!(world.run_until(60 * SECOND, |world| is_drained(world, 800)), "P5, P10");
    assert_eq!(world.judge.oracle.duplicates(), 0, "P3");
}

scenarios![what_many_producers_send_comes_in_order];
