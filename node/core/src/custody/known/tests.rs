//! What is known of ids, and what is written down of it.

use super::*;
use crate::custody::part::Room;
use crate::envelope::Lost;

const P: ProcessId = ProcessId(1);

#[test]
fn an_id_is_new_held_then_gone() {
    let mut known = Known::default();
    assert_eq!(known.seen(P, 1), Seen::New);
    known.hold(P, 1);
    assert_eq!(known.seen(P, 1), Seen::Held);
    assert_eq!(known.bury(P, &Ranges::of(1, 3)), Ranges::of(1, 1));
    assert_eq!(known.seen(P, 1), Seen::Gone);
    assert_eq!(known.seen(P, 3), Seen::Gone, "a delete that overtakes its message absorbs it");
    known.forget_gone(P, &Ranges::of(1, 3));
    assert_eq!(known.seen(P, 1), Seen::New);
    known.check();
}

#[test]
fn what_stays_unsettled_from_one_look_to_the_next_is_open() {
    let mut known = Known::default();
    known.hold(P, 1);
    known.hold(P, 2);
    assert!(known.open().is_empty());
    known.settle(P, &Ranges::of(1, 1));
    known.hold(P, 3);
    assert_eq!(known.open(), [(P, Ranges::of(2, 2))]);
}

#[test]
fn what_is_settled_is_read_back_after_a_restart() {
    let mut known = Known::default();
    for number in 1..=5 {
        known.hold(P, number);
    }
    known.settle(P, &Ranges::of(1, 3));
    let written = known.write_settled();
    let record = SettledRecord { up_to: 5, except: Ranges::of(4, 5) };
    assert_eq!(written, [(P, Some(record.clone()))]);
    assert!(known.write_settled().is_empty());

    let mut read = Known::default();
    for number in 2..=6 {
        read.hold_row(P, number);
    }
    read.rows_read(&[(P, record)].into());
    assert_eq!(read.of(P).unwrap().unsettled, Ranges::of(4, 6));
}

#[test]
fn what_the_scrub_does_not_see_was_lost_and_what_came_or_went_meanwhile_was_not() {
    let mut known = Known::default();
    for number in 1..=9 {
        known.hold(P, number);
    }
    known.begin_scrub();
    known.hold(P, 10);
    known.bury(P, &Ranges::of(2, 2));
    known.drop_held(P, &Ranges::of(3, 3));
    known.hold(P, 3);
    for number in [1, 4, 5, 7, 8] {
        known.scrubbed(P, number);
    }
    let missing: Ranges = [6, 9].into_iter().collect();
    assert_eq!(known.end_scrub(), [(P, missing.clone())]);
    assert_eq!(known.lose(P, &Ranges::of(6, 6)), Ranges::of(6, 6));
    assert_eq!((known.seen(P, 6), known.seen(P, 9)), (Seen::Lost, Seen::Held));
    assert_eq!(known.lost(), [(P, Ranges::of(6, 6))]);
    known.check();
    known.hold(P, 6);
    assert!(known.lost().is_empty());
    known.lose(P, &Ranges::of(6, 6));
    known.check();
}

#[test]
fn what_nobody_had_twice_in_a_row_is_lost_for_good() {
    let mut known = Known::default();
    for number in 1..=9 {
        known.hold(P, number);
    }
    let (none, all) = (Ranges::default(), Ranges::of(1, 9));
    known.lose(P, &Ranges::of(5, 8));
    assert_eq!(known.sought_in_vain(P, (&all, Some(&Ranges::of(5, 5)))), none);
    known.hold(P, 8);
    assert_eq!(known.sought_in_vain(P, (&all, Some(&Ranges::of(6, 6)))), Ranges::of(7, 7));
    assert_eq!(known.sought_in_vain(P, (&Ranges::of(5, 6), None)), Ranges::of(5, 5));
    known.lose(P, &Ranges::of(8, 8));
    assert_eq!(known.sought_in_vain(P, (&Ranges::of(8, 8), None)), none, "it was here again");
    known.check();
}

#[test]
fn what_is_gone_is_not_looked_for() {
    let mut known = Known::default();
    known.hold(P, 6);
    known.lose(P, &Ranges::of(6, 6));
    known.bury(P, &Ranges::of(6, 6));
    assert!(known.lost().is_empty());
    known.check();
}

#[test]
fn a_host_that_lost_its_copy_still_says_that_it_had_one() {
    let mut known = Known::default();
    known.hold(P, 1);
    known.lose(P, &Ranges::of(1, 1));
    let asked = [(P, Ranges::of(1, 5))];
    let id = (gaggle_wire::QueueId(gaggle_wire::Stamp::ZERO), 0);
    let asked = |lost| {
        let (told, cut) = known.asked((id, &asked.to_vec()), lost, &mut Room::new(9));
        assert_eq!(cut, None);
        told
    };
    let told = asked(Lost::Counts);
    assert_eq!(told.processes, [(P, Ranges::of(1, 1), Ranges::default())]);
    let truth = asked(Lost::Lacks);
    assert_eq!(truth.processes, [(P, Ranges::default(), Ranges::default())]);
}

#[test]
fn what_is_wanted_while_others_are_asked_about_it_is_not_forlorn() {
    let mut known = Known::default();
    known.hold(P, 1);
    known.hold(P, 2);
    known.open();
    let both = Ranges::of(1, 2);
    assert_eq!(known.open(), [(P, both.clone())]);
    known.grow_old();
    assert!(known.forlorn(P, &both).is_empty(), "P1: whoever sends them counts this host");
    known.grow_old();
    known.want(P, 1);
    assert_eq!(known.forlorn(P, &both), Ranges::of(2, 2));
    known.open();
    assert_eq!(known.forlorn(P, &both), Ranges::of(2, 2), "answers may still come");
    known.open();
    assert_eq!(known.forlorn(P, &both), both);
}

#[test]
fn a_process_of_which_nothing_is_left_is_forgotten() {
    let mut known = Known::default();
    known.hold(P, 1);
    known.bury(P, &Ranges::of(1, 1));
    known.forget_gone(P, &Ranges::of(1, 1));
    assert_eq!(known.write_settled(), [(P, None)]);
    assert!(known.is_empty());
}

#[test]
fn where_a_disk_was_lost_all_is_trusted_but_what_was_accepted_here_and_nobody_counts_on() {
    let mut known = Known::default();
    for number in 1..=6 {
        known.hold(P, number);
    }
    for number in 2..=6 {
        known.accept(P, number);
    }
    known.count_on(P, &Ranges::of(3, 3));
    known.settle(P, &Ranges::of(4, 4));
    known.drop_held(P, &Ranges::of(5, 5));
    known.bury(P, &Ranges::of(6, 6));
    known.check();
    known.trust(P, &Ranges::of(1, 6));
    assert_eq!(known.of(P).unwrap().unsettled, Ranges::of(2, 2), "P1, P4");
    known.hold(P, 5);
    known.trust(P, &Ranges::of(1, 6));
    assert_eq!(known.of(P).unwrap().unsettled, Ranges::of(2, 2), "P1: another one sent it");
}
