//! Liveness: when nothing fails any more, everything must come right, each within a bound.
//!
//! After a storm cuts are healed and nodes started; then the nodes are whole again (L1), all that
//! was confirmed reaches a consumer and is deleted (P1, P10), and in the end no row of any message
//! is left on any disk (L5) and all tables are the same (P13). Whatever an application asks for has
//! its result by its deadline (L2, `truth.rs`). The bounds are far above what it takes and far
//! below for ever: what hangs does not come right in any time.
//!
//! What this file does not do: who sends and consumes meanwhile is the storm's.

use crate::oracle::{Fact, Fate};
use crate::world::World;

/// Everything works again: the nodes must find each other.
///
/// # Panics
/// When they do not.
pub(crate) fn heal(world: &mut World) {
    let nodes = world.options.nodes;
    world.recover_all();
    world.mend_disks();
    world.calm_network();
    for at in 0..nodes {
        world.start(at);
    }
    let is_whole = |world: &World| world.is_whole(nodes);
    let whole = if world.is_any_removed() {
        // Some end only now, and join anew.
        (0..WHOLE_WITHIN / KEEP_EVERY).any(|_| {
            world.keep_all();
            world.run_until(KEEP_EVERY, is_whole)
        })
    } else {
        world.run_until(WHOLE_WITHIN, is_whole)
    };
    assert!(whole, "L1: the nodes are not whole again");
    world.note_joined();
}

/// Those who send have sent, and somebody consumes at every node: all that was confirmed must
/// come out.
///
/// # Panics
/// When it does not, or something of it is lost.
pub(crate) fn drain(world: &mut World, actors: &[usize]) {
    let out = world.run_until(OUT_WITHIN, |world| {
        let sent = actors.iter().all(|actor| world.has_sent(*actor));
        sent && !world.judge.oracle.fates().any(|(_, fate)| fate.is_open())
    });
    world.judge.check_told(world.now());
    world.judge(&Fact::Over);
    world.over = true;
    if let Some(violation) = world.judge.violations().first().cloned() {
        panic!("{violation}; {}", world.counters());
    }
    let open = world.judge.oracle.fates().find(|(_, fate)| Fate::is_open(fate));
    assert!(out, "P10: not everything is consumed: {open:?}");
    world.over = false;
}

/// Nobody sends again any more: disks are empty.
///
/// # Panics
/// When they are not.
pub(crate) fn empty(world: &mut World) {
    let nodes = world.options.nodes;
    let window = u64::try_from(world.options.resend_window.as_nanos()).unwrap_or(u64::MAX);
    let within = window.saturating_add(EMPTY_WITHIN);
    let clean = world.run_until(within, |world| (0..nodes).all(|at| !world.is_anything_left(at)));
    let left: Vec<_> = (0..nodes).map(|at| (at + 1, world.leftovers(at))).collect();
    assert!(clean, "L5: rows are left: {left:?}");
    // Whoever was asked to change them last has time to tell.
    let same = |world: &World| world.tables().windows(2).all(|pair| pair[0].1 == pair[1].1);
    world.run_until(EMPTY_WITHIN, same);
    let tables = Fact::Tables(world.tables());
    world.judge(&tables);
    if let Some(violation) = world.judge.violations().first() {
        panic!("{violation}");
    }
}

/// Suspicion, down and rejoin take a few seconds, and `serve_alone_after` at most 10.
const WHOLE_WITHIN: u64 = 30_000_000_000;
/// How often an operator says that those who were to leave are to stay.
const KEEP_EVERY: u64 = 3_000_000_000;
/// Leases of the storm run for 5 s, and consumers work for a third of a second on each message.
const OUT_WITHIN: u64 = 60_000_000_000;
/// Beyond the resend window, for which tombstones are kept: sweeps and rounds of bulk words.
const EMPTY_WITHIN: u64 = 30_000_000_000;
