//! A hunt: seeds one after the other until one fails.
//!
//! Some bugs show in more than one way: whoever forgets a tombstone also leaves rows behind, and
//! that may be seen at an earlier seed. Such signs are passed over, because it is the promise that
//! has to be found broken; any other failure ends the hunt.
//!
//! Invariant: what is found is the first seed that fails, whatever the number of threads.
//! What this file does not do: it does not know what the seeds should find.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::border::Border;
use crate::failure::Failure;
use crate::plan;
use crate::report::Detail;
use crate::storm;

/// Where to look, and what to pass over.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The first seed.
    pub from: u64,
    /// The last one.
    pub to: u64,
    /// On how many threads.
    pub jobs: usize,
    /// What does not count, as [`Failure::promise`] has it.
    pub besides: Vec<String>,
}

/// The first seed that failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// What it failed with.
    pub failure: Failure,
}

impl Hunt {
    /// Runs the seeds on nodes with this bug until one fails.
    ///
    /// # Panics
    /// Never by a run that fails: that is what is looked for.
    #[must_use]
    pub fn run(&self, border: Option<&'static Border>) -> Option<Found> {
        let next = AtomicU64::new(self.from);
        let found: Mutex<Option<Found>> = Mutex::new(None);
        let best = || found.lock().expect("no run panics with it").as_ref().map(|found| found.seed);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed > self.to || best().is_some_and(|best| best < seed) {
                            break;
                        }
                        let Some(failure) = self.look(seed, border) else { continue };
                        let mut found = found.lock().expect("no run panics with it");
                        if found.as_ref().is_none_or(|found| seed < found.seed) {
                            *found = Some(Found { seed, failure });
                        }
                    }
                });
            }
        });
        found.into_inner().expect("no run panicked with it")
    }

    fn look(&self, seed: u64, border: Option<&'static Border>) -> Option<Failure> {
        let outcome = storm::run_with(&plan::draw(seed), border, Detail::Off);
        outcome.failure.filter(|failure| !self.besides.contains(&failure.promise))
    }

    /// Whether the honest core passes a seed: only then does it tell anything of a bug.
    #[must_use]
    pub fn is_sound(seed: u64) -> bool {
        storm::run(&plan::draw(seed), Detail::Off).failure.is_none()
    }
}

impl Found {
    /// As one line, for [`Found::parse`].
    #[must_use]
    pub fn to_line(&self) -> String {
        format!("{} {} {}", self.seed, self.failure.promise, self.failure.why)
    }

    /// From its line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let seed = words.next()?.parse().ok()?;
        let failure = Failure { promise: words.next()?.to_owned(), why: words.next()?.to_owned() };
        Some(Self { seed, failure })
    }
}
