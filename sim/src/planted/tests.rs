//! That bugs can be planted, and that some are found at once.

use std::collections::BTreeSet;
use std::process::Command;

use super::border::Border;
use super::hunt::{Found, Hunt};
use super::trial::hold;
use super::workshop::{Apply, apply, root};
use super::{BUGS, Plot};
use crate::failure::Failure;
use crate::plan;
use crate::promises::TABLE;
use crate::report::Detail;
use crate::storm;

#[test]
fn every_patch_applies_to_the_core_as_it_is() {
    if Command::new("git").arg("--version").output().is_err() {
        let required = std::env::var_os("GAGGLE_REQUIRE_GIT").is_some();
        assert!(!required, "GAGGLE_REQUIRE_GIT is set, and there is no git");
        println!("skipped: there is no git to apply patches with");
        return;
    }
    for bug in BUGS {
        if let Plot::Core(patch) = bug.plot {
            let applied = apply(root(), patch, Apply::Check);
            assert!(applied.is_ok(), "{}: {}", bug.name, applied.unwrap_err());
            let files = patch.lines().filter_map(|line| line.strip_prefix("+++ b/"));
            assert!(files.clone().count() > 0 && files.clone().all(|f| f.starts_with("node/core")));
        }
    }
}

#[test]
fn every_bug_has_a_name_of_its_own_and_every_patch_is_planted() {
    let names: BTreeSet<&str> = BUGS.iter().map(|bug| bug.name).collect();
    assert_eq!(names.len(), BUGS.len());
    let patches = std::fs::read_dir(root().join("sim/planted")).unwrap();
    for patch in patches {
        let path = patch.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(names.contains(name), "{} is not in the list", path.display());
    }
}

#[test]
fn every_promise_that_is_watched_is_broken_by_a_bug() {
    for promise in TABLE.iter().filter(|promise| promise.is_watched()) {
        let number = format!("P{}", promise.number);
        assert!(BUGS.iter().any(|bug| bug.accounts_for(&number)), "{number}: {}", promise.name);
    }
}

#[test]
fn a_border_without_a_bug_changes_nothing() {
    for seed in 1..=3 {
        let plan = plan::draw(seed);
        let bare = storm::run_with(&plan, None, Detail::Hash);
        let honest = storm::run_with(&plan, Some(&Border::HONEST), Detail::Hash);
        assert_eq!((bare.hash, bare.failure), (honest.hash, honest.failure));
    }
}

#[test]
fn what_is_found_is_the_first_seed_that_fails_whatever_the_number_of_threads() {
    let border = &super::copies::CONTENTS_SWAPPED;
    let hunt = |jobs| Hunt { from: 1, to: 20, jobs, besides: Vec::new() }.run(Some(border));
    let one = hunt(1);
    assert!(one.is_some());
    assert_eq!(one, hunt(3));
}

#[test]
fn what_was_found_is_read_back_from_its_line() {
    let failure = Failure { promise: "P4".to_owned(), why: "P4: it came back".to_owned() };
    let found = Found { seed: 7, failure };
    assert_eq!(Found::parse(&found.to_line()), Some(found));
    assert_eq!(Found::parse("seven P4"), None);
}

#[test]
fn bugs_that_show_at_once_are_found_at_once() {
    for name in AT_ONCE {
        let bug = BUGS.iter().find(|bug| bug.name == name).expect("it is in the list");
        let trial = hold(*bug, SEEDS, 1).unwrap();
        assert!(trial.is_good(), "{trial}");
    }
}

/// Bugs at the border that show in most storms.
const AT_ONCE: [&str; 5] = [
    "absence-is-delete",
    "confirm-before-held",
    "contents-swapped",
    "leases-not-told",
    "returner-not-told",
];
const SEEDS: u64 = 200;
