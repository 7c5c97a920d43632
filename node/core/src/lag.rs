//! Lag: whether this node has been slow for long, to write or to think.
//!
//! The runtime measures how long commits take and how late its loop is. What is over the limit
//! once may be a moment's load; what stays over it for as long as `slow_after` is a node that
//! others had better go around. The way back takes as long, so that a node at the limit does not
//! go to and fro.
//!
//! The runtime's windows are as long as `slow_after` and it measures once a second. So a single
//! bad moment is seen for one second less than it would take.
//!
//! What this room does not do: it measures nothing, and does not say what a slow node leaves to
//! others.

use std::time::Duration;

use crate::event::Surroundings;
use crate::now::Mono;

/// Whether this node is slow.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    slow: bool,
    /// Since when what is measured speaks against that.
    against: Option<Mono>,
}

impl Lag {
    /// Takes in what was measured just now.
    pub(crate) fn measured(&mut self, measured: &Surroundings, now: Mono, slow_after: Duration) {
        let Surroundings { commit_running_ms, commit_p99_ms, loop_p99_ms, .. } = *measured;
        let lags = commit_running_ms.max(commit_p99_ms).max(loop_p99_ms) > SLOW_MS;
        if lags == self.slow {
            self.against = None;
        } else if now.since(*self.against.get_or_insert(now)) >= slow_after {
            self.slow = lags;
            self.against = None;
        }
    }

    /// Whether it is slow.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow
    }
}

/// What no more than one of a hundred commits, or turns of the loop, may take: a thousand times
/// what a healthy disk does.
const SLOW_MS: u64 = 250;

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(10);

    /// What is said once a second of these times, beginning with second 0.
    fn judged(lag: &mut Lag, from: u64, times: &[Surroundings]) -> Vec<bool> {
        let second = |(n, measured): (usize, &Surroundings)| {
            let at = Mono((from + n as u64) * 1_000_000_000);
            lag.measured(measured, at, AFTER);
            lag.is_slow()
        };
        times.iter().enumerate().map(second).collect()
    }

    fn commits(ms: u64) -> Surroundings {
        Surroundings { commit_p99_ms: ms, ..Surroundings::default() }
    }

    #[test]
    fn what_lags_for_ten_seconds_is_slow_be_it_by_commits_or_by_its_loop() {
        let calm = Surroundings::default();
        for lagging in [
            commits(SLOW_MS + 1),
            Surroundings { commit_running_ms: SLOW_MS + 1, ..calm },
            Surroundings { loop_p99_ms: SLOW_MS + 1, ..calm },
        ] {
            let mut lag = Lag::default();
            let said = judged(&mut lag, 0, &[lagging; 12]);
            assert_eq!(said.iter().position(|slow| *slow), Some(10), "{lagging:?}");
        }
    }

    #[test]
    fn at_the_limit_nothing_is_slow() {
        let mut lag = Lag::default();
        assert!(!judged(&mut lag, 0, &[commits(SLOW_MS); 30]).contains(&true));
    }

    #[test]
    fn a_single_bad_moment_makes_nothing_slow_however_long_its_window_shows_it() {
        let mut lag = Lag::default();
        let times = [vec![commits(9000); 10], vec![commits(1); 10], vec![commits(9000); 10]];
        assert!(!judged(&mut lag, 0, &times.concat()).contains(&true));
    }

    #[test]
    fn what_is_slow_is_so_until_it_has_been_well_for_as_long() {
        let mut lag = Lag::default();
        judged(&mut lag, 0, &[commits(300); 11]);
        assert!(lag.is_slow());
        let said = judged(&mut lag, 11, &[vec![commits(1); 9], vec![commits(300)]].concat());
        assert!(!said.contains(&false), "it lags again");
        let said = judged(&mut lag, 21, &[commits(1); 12]);
        assert_eq!(said.iter().position(|slow| !*slow), Some(10));
    }

    #[test]
    fn different_lags_in_turns_add_up() {
        let mut lag = Lag::default();
        let thinks = Surroundings { loop_p99_ms: 400, ..Surroundings::default() };
        let turns: Vec<_> =
            (0..11).map(|n| if n % 2 == 0 { thinks } else { commits(300) }).collect();
        judged(&mut lag, 0, &turns);
        assert!(lag.is_slow());
    }
}
