//! How long commits take: the one that is under way, and those of the last ten seconds; and from
//! that, whether to wait for company.
//!
//! A commit costs as much for one change as for dozens. So when the last group was a large one,
//! the next waits a moment for as much as half of it, never longer than a millisecond or so; a
//! lone change, or one after a small group, waits for nobody.
//!
//! What this file does not do: it judges nothing; a slow disk is a matter of the core.

use std::time::{Duration, Instant};

use super::recent::Recent;

/// Times of commits.
#[derive(Debug)]
pub(crate) struct Commits {
    running: Option<Instant>,
    /// Changes of the last group.
    size: usize,
    /// Until when the next one may wait.
    patience: Option<Instant>,
    recent: Recent,
}

impl Commits {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { running: None, size: 0, patience: None, recent: Recent::new() }
    }

    /// One of so many changes was started.
    pub(crate) fn started(&mut self, size: usize) {
        self.running = Some(Instant::now());
        self.size = size;
        self.patience = None;
    }

    /// Until when the next one should wait for more changes than these.
    pub(crate) fn patience(&self, gathered: usize) -> Option<Instant> {
        let few = gathered > 0 && self.size >= COMPANY_MIN && gathered < self.size / 2;
        self.patience.filter(|until| few && self.running.is_none() && Instant::now() < *until)
    }

    /// It ended.
    pub(crate) fn ended(&mut self, took: Duration) {
        self.running = None;
        self.patience = Some(Instant::now() + PATIENCE);
        self.recent.record(took);
    }

    /// When the one under way was started.
    pub(crate) fn running(&self) -> Option<Instant> {
        self.running
    }

    /// The 99th percentile of the window. To be asked once a second: it moves the window on.
    pub(crate) fn p99_of_window(&mut self) -> Duration {
        self.recent.p99_of_window()
    }
}

/// Below so many changes in a group there is no load that would bring company.
const COMPANY_MIN: usize = 128;
/// Well below what a send takes under the load that makes such groups.
const PATIENCE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_after_a_large_group_does_the_next_one_wait() {
        let mut commits = Commits::new();
        assert_eq!(commits.patience(1), None);
        for (size, gathered, waits) in [
            (COMPANY_MIN, 1, true),
            (COMPANY_MIN, 0, false),
            (COMPANY_MIN, COMPANY_MIN / 2, false),
            (COMPANY_MIN - 1, 1, false),
        ] {
            commits.started(size);
            assert_eq!(commits.patience(gathered), None, "while one runs there is no choice");
            commits.ended(Duration::from_micros(1));
            assert_eq!(commits.patience(gathered).is_some(), waits, "{size} {gathered}");
        }
    }

    #[test]
    fn a_slow_commit_is_seen_after_its_end() {
        let mut commits = Commits::new();
        commits.started(1);
        assert!(commits.running().is_some());
        commits.ended(Duration::from_millis(300));
        assert!(commits.running().is_none());
        let p99 = commits.p99_of_window();
        assert!(p99 > Duration::from_millis(290) && p99 < Duration::from_millis(310));
    }
}
