//! The log: order, verdicts, lateness, and what trimming leaves.

use gaggle_wire::LateBy;
use std::collections::BTreeMap;

use super::*;
use crate::rounds::log::{Judgement, Log};

fn log() -> Log {
    Log::open(Sum::first(Hosts::first(three())), [])
}

fn with(rounds: impl IntoIterator<Item = Round>) -> Log {
    let mut log = log();
    for round in rounds {
        log.add(round);
    }
    log
}

#[test]
fn a_round_follows_the_last_and_moves_the_watermark_on() {
    let log = with([round(1, 50)]);
    assert!(log.admits(&round(2, 50)) && log.admits(&round(2, 51)));
    assert!(!log.admits(&round(2, 49)), "P7: the watermark never goes back");
    assert!(!log.admits(&round(1, 60)) && !log.admits(&round(3, 60)));
    let swapped = three().swapped(seat(3), seat(4)).unwrap();
    assert!(log.admits(&Round { change: Some(swapped), ..round(2, 60) }));
    let two = Pinned::new([seat(1), seat(4), seat(5)]);
    assert!(!log.admits(&Round { change: Some(two), ..round(2, 60) }), "two seats at once");
}

#[test]
fn an_entry_is_settled_once_and_may_be_taken_out_later() {
    let a = entry(1, 10, 1);
    let log = with([Round { released: vec![a.clone()], ..round(1, 50) }]);
    assert!(!log.admits(&Round { released: vec![a.clone()], ..round(2, 50) }));
    assert!(!log.admits(&Round { late: vec![a.clone()], ..round(2, 50) }));
    let out = Round { out: vec![(a.clone(), Why::Lost)], ..round(2, 50) };
    assert!(log.admits(&out));
    assert_eq!(log.released().collect::<Vec<_>>(), [&a]);

    let log = with([Round { released: vec![a.clone()], ..round(1, 50) }, out]);
    assert_eq!(log.verdict(a.name), Some(Verdict::Out(Why::Lost)));
    assert_eq!(log.released().count(), 0);
    assert!(!log.admits(&Round { out: vec![(a.clone(), Why::Dead)], ..round(3, 50) }));
    assert_eq!(log.judge(&a, LateBy::Key), Judgement::Late, "lost, and turned up again");
    assert!(log.admits(&Round { late: vec![a], ..round(3, 50) }));
}

#[test]
fn late_is_what_has_something_newer_of_its_key_before_it() {
    let log = with([Round { released: vec![entry(1, 30, 1)], ..round(1, 50) }]);
    let judged = |time, key| log.judge(&entry(2, time, key), LateBy::Key);
    assert_eq!(judged(20, 1), Judgement::Late);
    assert_eq!(judged(40, 1), Judgement::Release, "behind the newest of its key");
    assert_eq!(judged(20, 2), Judgement::Release, "of its key nothing was released");
    assert_eq!(judged(60, 1), Judgement::Release);
    assert_eq!(log.judge(&entry(2, 20, 2), LateBy::Watermark), Judgement::Late);
    assert_eq!(log.judge(&entry(2, 60, 2), LateBy::Watermark), Judgement::Release);
    assert_eq!(log.judge(&entry(1, 30, 1), LateBy::Key), Judgement::Settled);
}

#[test]
fn what_is_older_than_the_newest_stamps_are_kept_is_late() {
    let minutes = 600_000_000_000;
    let log =
        with([Round { released: vec![entry(1, 30, 1)], ..round(1, 50) }, round(2, minutes + 100)]);
    assert_eq!(log.judge(&entry(2, 100, 1), LateBy::Key), Judgement::Release);
    assert_eq!(log.judge(&entry(2, 90, 1), LateBy::Key), Judgement::Late);
    let (sum, _) = with([]).after(0);
    assert_eq!(sum, None);
}

#[test]
fn a_trimmed_log_leaves_its_sum() {
    let (a, b) = (entry(1, 10, 1), entry(2, 20, 2));
    let change = three().swapped(seat(3), seat(4));
    let first = Round { released: vec![a.clone()], change: change.clone(), ..round(1, 50) };
    let second = Round { released: vec![b.clone()], ..round(2, 60) };
    let mut log = with([first, second.clone(), round(3, 70)]);
    assert_eq!(log.trim(0, |_| true), None, "not all pinned hosts have it");
    assert_eq!(log.trim(3, |_| false), None);
    let hosts = Hosts { pinned: change.unwrap(), former: three(), changed: 1 };
    let sum = Sum { n: 1, up_to: at(50), hosts, newest: BTreeMap::from([(1, at(10))]) };
    let sum = Sum { newest: BTreeMap::from([(1, a.stamp)]), ..sum };
    assert_eq!(log.trim(3, |entry| entry.name == a.name), Some(&sum));
    assert_eq!(log.after(0), (Some(sum.clone()), vec![second.clone(), round(3, 70)]));
    assert_eq!(log.after(2), (None, vec![round(3, 70)]));
    assert_eq!(log.verdict(a.name), None);

    let mut other = Log::open(Sum::first(Hosts::first(three())), []);
    assert!(other.skip_to(&sum) && !other.skip_to(&sum));
    assert_eq!((other.last(), other.up_to()), (1, at(50)));
    assert_eq!(other.judge(&entry(3, 9, 1), LateBy::Key), Judgement::Late, "the sum says so");
    other.add(second);
    assert_eq!(other.released().collect::<Vec<_>>(), [&b]);
}

#[test]
fn what_was_written_down_opens_as_it_was() {
    let rounds = [Round { released: vec![entry(1, 10, 1)], ..round(1, 50) }, round(2, 60)];
    let log = Log::open(Sum::first(Hosts::first(three())), rounds.clone());
    assert_eq!(log.after(0), (None, rounds.to_vec()));
    let gap = Log::open(Sum::first(Hosts::first(three())), [rounds[1].clone()]);
    assert_eq!(gap.last(), 0, "what does not follow is dropped");
}
