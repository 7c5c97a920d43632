//! Scenarios: written by hand, small, each about one thing that must hold.
//!
//! Each is a test, and can be run by its name from the command line: with `GAGGLE_SIM_REPORT` set,
//! it is printed event by event.
//!
//! Invariant: a scenario draws nothing but what its world does. What this room does not do: what is
//! drawn from seeds is in [`crate::plan`].

/// Puts the scenarios of a file into its table, and makes a test of each.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(super) const ALL: &[super::Scenario] =
            &[$(super::Scenario { name: stringify!($name), run: $name }),*];

        #[cfg(test)]
        mod tests {
            $(#[test]
            fn $name() {
                super::$name();
            })*
        }
    };
}

mod clients;
mod clocks;
mod cut;
mod deleting;
mod expiry;
mod flow;
mod forgetting;
mod forming;
mod full;
mod leases;
mod limits;
mod putting_back;
mod removing;
mod repair;
mod restart;
mod slow;
mod strict;
mod support;
mod suspended;

use crate::failure::{Failure, caught};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name says what must hold.
    pub name: &'static str,
    run: fn(),
}

impl Scenario {
    /// Runs it.
    ///
    /// # Errors
    /// What does not hold.
    pub fn run(&self) -> Result<(), Failure> {
        caught(self.run)
    }
}

/// All of them, by file.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    let files = [
        clients::ALL,
        clocks::ALL,
        cut::ALL,
        deleting::ALL,
        expiry::ALL,
        flow::ALL,
        forgetting::ALL,
        forming::ALL,
        full::ALL,
        leases::ALL,
        limits::ALL,
        putting_back::ALL,
        removing::ALL,
        repair::ALL,
        restart::ALL,
        slow::ALL,
        strict::ALL,
        suspended::ALL,
    ];
    files.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_scenario_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = all().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn a_scenario_that_does_not_hold_says_why() {
        let broken = Scenario { name: "broken", run: || panic!("P1: it is lost") };
        assert_eq!(broken.run().map_err(|failure| failure.promise), Err("P1".to_owned()));
    }
}
