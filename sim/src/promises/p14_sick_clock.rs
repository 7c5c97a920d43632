//! P14, one sick clock harms only its own node: no peer moves a node's clock beyond what its own
//! wall or most of all say, and the drift bound; and no clock stops ingestion.
//!
//! After every event a node's hybrid time is held against the highest that its own wall clock, or
//! the one in the middle of all, has said since it was started. A send whose stamp most wall
//! clocks have passed is not refused for being ahead, whatever that of the node says, once it had
//! time to hear the others. A node is not judged while its own clock is wrong, or those of most,
//! be it of most that it can measure (`wall.rs`). What this file does not do: strict queues, which
//! such a node refuses, are not built yet.

use gaggle_wire::Refusal;

use crate::judge::{Scene, Subject};
use crate::oracle::{Fact, show};

pub(super) fn watch(scene: &Scene<'_>, fact: &Fact) -> Option<String> {
    match fact {
        Fact::Clock { at, reading, highest } if reading > highest => {
            let by = (reading - highest) as f64 / 1e9;
            let node = crate::options::node_id(*at);
            Some(format!("the clock of {node} is {by:.3} s beyond what its own wall allows"))
        }
        Fact::Unsent { name, refusal: refusal @ Refusal::ClockAhead { .. } } => {
            scene.weather.fair_since()?;
            let stamp = scene.oracle.fate(name)?.label.stamp;
            let walls = (scene.look)(&Subject { name: *name, stamp, custodian: None }).walls;
            let agree = walls.iter().filter(|wall| stamp.time <= **wall).count();
            (2 * agree > walls.len())
                .then(|| format!("{} is refused by a wrong clock: {refusal}", show(*name)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gaggle_wire::Refusal;

    use super::super::history::{A, History};
    use crate::oracle::Fact;

    #[test]
    fn a_clock_beyond_its_own_wall_and_the_bound_breaks_it() {
        for (reading, broken) in [(100, false), (101, true)] {
            let mut history = History::fair();
            history.fact(&Fact::Clock { at: 0, reading, highest: 100 });
            if broken { history.breaks(14) } else { history.breaks_nothing() }
        }
    }

    #[test]
    fn a_producer_whose_clock_is_right_and_is_refused_for_it_breaks_it() {
        let (before, at) = (999, 1000);
        for (walls, broken) in [([at, at, before], true), ([at, before, before], false)] {
            let mut history = History::fair();
            history.walls(walls).sends_at(A, 1, at);
            history.refuses_send(A, 1, Refusal::ClockAhead { by_ms: 1000 });
            if broken { history.breaks(14) } else { history.breaks_nothing() }
        }
    }
}
