//! Wall clocks that are wrong: they harm only their own node, and stop no send.

use gaggle_wire::{Attempt, Refusal, Response, Stamp};

use super::support::{SECOND, create, drained, formed, labels, one_partition, send, sent};
use crate::World;
use crate::process::EPOCH;

const HOUR: i64 = 3_600_000_000_000;

/// A cluster in which the wall clock of the first node is wrong by so much since a while.
fn off_by(nanos: i64, seed: u64) -> World {
    let mut world = formed(3, seed);
    world.processes[0].skew = nanos;
    world.run(3 * SECOND);
    world
}

#[test]
fn a_node_whose_clock_is_wrong_goes_on_accepting_and_moves_no_other_clock() {
    for (hours, seed) in [(8, 71), (-8, 72)] {
        let mut world = off_by(hours * HOUR, seed);
        let queue = create(&mut world, one_partition());
        for node in 0..3 {
            let some = labels(&world, 7 + node as u64, 1, 10);
            assert_eq!(sent(&mut world, node, &queue, &some).exceptions, [], "P14");
        }
        assert_eq!(drained(&mut world, 1).len(), 30, "P1");
    }
}

#[test]
fn a_producer_whose_clock_is_ahead_is_told_so_by_nodes_that_agree() {
    let mut world = formed(3, 73);
    let queue = create(&mut world, one_partition());
    let mut ahead = labels(&world, 7, 1, 1);
    let time = EPOCH + world.now() + HOUR.unsigned_abs();
    ahead[0].stamp = Stamp { time, ..ahead[0].stamp };
    let refused = world.call(0, send(&queue, &ahead, Attempt::First));
    let ahead = matches!(refused, Response::Refused(Refusal::ClockAhead { .. }));
    assert!(ahead, "P14: {refused:?}");
}
