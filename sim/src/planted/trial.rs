//! The trial of one planted bug: is it found, and as what it is?
//!
//! What this file does not do: it prints nothing.

use std::fmt;
use std::time::{Duration, Instant};

use super::hunt::{Found, Hunt};
use super::workshop::{Workshop, WorkshopError};
use super::{Bug, Plot};

/// What a trial came to.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The bug.
    pub bug: Bug,
    /// The first seed that failed.
    pub found: Option<Found>,
    /// How long it took.
    pub took: Duration,
}

/// Builds what a hunt for this bug needs.
///
/// # Errors
/// When a patch does not apply, or the patched core cannot be built.
pub fn prepare(bug: Bug) -> Result<(), WorkshopError> {
    match bug.plot {
        Plot::Border(_) => Ok(()),
        Plot::Core(patch) => Workshop::beside_this_program()?.build(bug.name, patch),
    }
}

/// Hunts in so many seeds for a bug for which all is prepared.
///
/// # Errors
/// When a patched core cannot be run.
pub fn hold(bug: Bug, seeds: u64, jobs: usize) -> Result<Trial, WorkshopError> {
    let begun = Instant::now();
    let besides = bug.shows.iter().map(|sign| (*sign).to_owned()).collect();
    let (from, to) = bug.seeds(seeds);
    let mut hunt = Hunt { from, to, jobs, besides };
    let shop = Workshop::beside_this_program()?;
    let found = loop {
        let found = match bug.plot {
            Plot::Border(border) => hunt.run(Some(border)),
            Plot::Core(_) => shop.hunt(bug.name, &hunt)?,
        };
        match found {
            Some(found) if !Hunt::is_sound(found.seed) => hunt.from = found.seed + 1,
            found => break found,
        }
    };
    Ok(Trial { bug, found, took: begun.elapsed() })
}

impl Trial {
    /// Whether it was found, as one of the promises that it breaks.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.found.as_ref().is_some_and(|found| self.bug.accounts_for(&found.failure.promise))
    }
}

/// Name, what is to be reported, at which seed what was reported.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, breaks) = (self.bug.name, self.bug.breaks.join(" or "));
        let seconds = self.took.as_secs_f64();
        write!(f, "{name:<26} {breaks:<10} ")?;
        match &self.found {
            None => write!(f, "NOT FOUND in {seconds:.1} s"),
            Some(Found { seed, failure }) => {
                let wrong = if self.is_good() { "" } else { "WRONG: " };
                let why: String = failure.why.chars().take(WHY_MAX).collect();
                write!(f, "seed {seed:<5} {wrong}{} in {seconds:.1} s: {why}", failure.promise)
            }
        }
    }
}

/// What is shown of a failure; the whole is shown by its seed.
const WHY_MAX: usize = 100;
