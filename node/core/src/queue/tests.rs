//! Windows and flights, step by step.

use gaggle_wire::{ProcessId, QueueId, Receipt};

use super::*;

fn stamp(time: u64) -> Stamp {
    Stamp { time, count: 0, process: ProcessId(1) }
}

fn partition() -> Partition {
    Partition::new((QueueId(stamp(1)), 0))
}

fn head(partition: &mut Partition, time: u64) -> Head {
    let label = Label {
        number: time,
        stamp: stamp(time),
        head_length: 0,
        body_length: 0,
        crc: 0,
        delay_ms: 0,
        key: 0,
    };
    let list = partition.list(&[NodeId(1), NodeId(2)]);
    Head { label, accepted: stamp(time), list, deliveries: 0 }
}

fn times(window: &Window) -> Vec<u64> {
    window.iter().map(|head| head.label.stamp.time).collect()
}

#[test]
fn what_arrives_beyond_the_reach_stays_on_disk() {
    let mut p = partition();
    let heads: Vec<Head> = (0..10).map(|time| head(&mut p, time)).collect();
    p.window.arrive(heads[1].clone(), 9);
    assert_eq!(p.window.len(), 0, "a cold window takes nothing in");

    assert_eq!(p.window.start_reading(), None);
    p.window.read(heads[1..4].to_vec(), Reach::Until(stamp(3)), 9);
    p.window.arrive(heads[0].clone(), 9);
    p.window.arrive(heads[7].clone(), 9);
    assert_eq!(times(&p.window), [0, 1, 2, 3]);
}

#[test]
fn what_comes_back_during_a_read_keeps_its_count_that_the_page_may_not_have() {
    let mut p = partition();
    let read = head(&mut p, 1);
    p.window.start_reading();
    p.window.arrive(Head { deliveries: 2, ..read.clone() }, 9);
    p.window.read(vec![read], Reach::End, 9);
    let counts: Vec<u32> = p.window.iter().map(|head| head.deliveries).collect();
    assert_eq!(counts, [2], "P3");
}

#[test]
fn what_arrives_during_a_read_is_not_missed() {
    let mut p = partition();
    let heads: Vec<Head> = (0..10).map(|time| head(&mut p, time)).collect();
    p.window.start_reading();
    p.window.arrive(heads[5].clone(), 9);
    p.window.arrive(heads[2].clone(), 9);
    p.window.read(vec![heads[1].clone()], Reach::End, 9);
    assert_eq!(times(&p.window), [1, 2, 5]);

    p.window = Window::default();
    p.window.start_reading();
    p.window.arrive(heads[5].clone(), 9);
    p.window.arrive(heads[2].clone(), 9);
    p.window.read(vec![heads[1].clone(), heads[3].clone()], Reach::Until(stamp(3)), 9);
    assert_eq!(times(&p.window), [1, 2, 3], "what lies beyond the page is found by the next one");
}

#[test]
fn what_finds_no_room_while_a_page_is_read_is_left_to_the_disk() {
    let mut p = partition();
    let heads: Vec<Head> = (0..10).map(|time| head(&mut p, time)).collect();
    p.window.start_reading();
    p.window.read(heads[4..6].to_vec(), Reach::Until(stamp(5)), 3);
    p.window.start_reading();
    for at in [1, 2] {
        p.window.arrive(heads[at].clone(), 3);
    }
    assert_eq!(times(&p.window), [1, 2, 4], "the window is full");
    p.window.read(heads[6..8].to_vec(), Reach::End, 3);
    assert_eq!(times(&p.window), [1, 2, 4]);
    assert_eq!(p.window.reach(), Reach::Until(stamp(4)), "what was cut off is read again");

    p.window = Window::default();
    p.window.start_reading();
    for at in [6, 7, 8, 9, 5] {
        p.window.arrive(heads[at].clone(), 3);
    }
    p.window.read(vec![heads[3].clone()], Reach::End, 9);
    assert_eq!(times(&p.window), [3, 5, 6, 7]);
    assert_eq!(p.window.reach(), Reach::Until(stamp(7)));
}

#[test]
fn a_full_window_leaves_its_end_to_the_disk() {
    let mut p = partition();
    let heads: Vec<Head> = (0..10).map(|time| head(&mut p, time)).collect();
    p.window.start_reading();
    p.window.read(Vec::new(), Reach::End, 3);
    for at in [5, 6, 7, 8] {
        p.window.arrive(heads[at].clone(), 3);
    }
    assert_eq!(times(&p.window), [5, 6, 7]);
    assert_eq!(p.window.reach(), Reach::Until(stamp(7)));
    p.window.arrive(heads[1].clone(), 3);
    assert_eq!(times(&p.window), [1, 5, 6]);
    assert_eq!(p.window.start_reading(), Some(stamp(6)));
}

#[test]
fn a_lease_ends_by_its_time_and_matches_only_its_own_receipt() {
    let mut p = partition();
    let head = head(&mut p, 5);
    let lease = Lease { custodian: NodeId(1), boot: 2, delivery: 3 };
    let (until, since, given) = (Mono(50), Mono(10), Given::Delivered);
    p.flights.insert(Flight { head, lease, until, since, given });
    assert!(p.flights.pop_ended(Mono(49)).is_none());
    p.flights.extend(stamp(5), Mono(80), Mono(20));
    assert!(p.flights.pop_ended(Mono(50)).is_none());
    assert_eq!(p.flights.take_untold(Mono(19)), []);
    assert_eq!(p.flights.take_untold(Mono(20)), [stamp(5)]);
    assert_eq!(p.flights.pop_ended(Mono(80)).map(|flight| flight.lease), Some(lease));
    assert_eq!(p.flights.len(), 0);

    let receipt = Receipt {
        queue: QueueId(stamp(1)),
        partition: 0,
        number: 5,
        stamp: stamp(5),
        holders: vec![],
        custodian: NodeId(1),
        boot: 2,
        delivery: 3,
    };
    assert!(lease.is_of(&receipt));
    assert!(!lease.is_of(&Receipt { delivery: 2, ..receipt.clone() }));
    assert!(!lease.is_of(&Receipt { boot: 1, ..receipt }));
}

#[test]
fn lists_are_kept_in_the_slots_order_whatever_order_they_came_in() {
    let mut p = partition();
    let nodes: Vec<NodeId> = (1..=5).map(NodeId).collect();
    let mut backwards = nodes.clone();
    backwards.reverse();
    let list = p.list(&nodes);
    assert_eq!(list, p.list(&backwards));
    assert!(!p.serves(list));
    assert!(p.refresh(7, |holders| holders.len() == 5, || true));
    assert!(p.serves(list));
    assert!(!p.refresh(7, |_| false, || true), "only another epoch is looked at");
}

#[test]
fn a_told_lease_holds_until_its_time_or_its_end() {
    let mut p = partition();
    let mut told = LeaseTold {
        number: 5,
        stamp: stamp(5),
        remaining_ms: 10,
        custodian: NodeId(2),
        boot: 1,
        delivery: 1,
    };
    p.lease_told(&told, Mono(0));
    assert!(p.told_lease(stamp(5), Mono(9_999_999)).is_some());
    assert!(p.told_lease(stamp(5), Mono(10_000_000)).is_none());
    told.remaining_ms = 0;
    p.lease_told(&told, Mono(0));
    assert!(p.told_lease(stamp(5), Mono(1)).is_none());
}

fn flight(head: &Head, delivery: u32, until: u64) -> Flight {
    let lease = Lease { custodian: NodeId(1), boot: 1, delivery };
    let (until, since, given) = (Mono(until), Mono(0), Given::Delivered);
    Flight { head: head.clone(), lease, until, since, given }
}

#[test]
fn the_end_of_a_delivery_that_is_given_again_as_the_same_is_not_told() {
    let mut p = partition();
    let (five, six) = (head(&mut p, 5), head(&mut p, 6));
    for flight in [flight(&five, 1, 50), flight(&six, 1, 50)] {
        p.take_off(flight.clone());
        p.flights.remove(flight.head.label.stamp);
        p.lease_ended(&flight);
    }
    p.take_off(flight(&five, 1, 60));
    p.take_off(flight(&six, 2, 60));
    let told: Vec<_> = p.take_ended().into_iter().map(|(_, t)| (t.number, t.delivery)).collect();
    assert_eq!(told, [(6, 1)]);
}

#[test]
fn the_end_of_one_told_lease_does_not_show_what_another_one_hides() {
    let mut p = partition();
    let five = head(&mut p, 5);
    let told = |delivery, remaining_ms| LeaseTold {
        number: 5,
        stamp: stamp(5),
        remaining_ms,
        custodian: NodeId(2),
        boot: 1,
        delivery,
    };
    p.window.start_reading();
    p.window.read(vec![five.clone()], Reach::End, 9);
    assert_eq!(p.lease_told(&told(1, 90), Mono(0)), None);
    assert_eq!(p.lease_told(&told(2, 50), Mono(0)), None);
    assert_eq!(p.lease_told(&told(1, 0), Mono(1)), None, "the second delivery hides it");
    assert!(p.pop_ended(Mono(49_999_999)).is_none());
    assert!(p.pop_ended(Mono(50_000_000)).is_some());
}

#[test]
fn a_copy_that_is_accepted_again_after_it_was_lost_may_have_been_counted_on() {
    for was_lost in [false, true] {
        let mut p = partition();
        let (list, one) = (p.list(&[NodeId(1), NodeId(2)]), Ranges::of(1, 1));
        let label = head(&mut p, 1).label;
        let id = label.id();
        if was_lost {
            p.hold(list, &label, Came::Sent(Attempt::First));
            p.known.lose(id.process, &one);
        }
        p.hold(list, &label, Came::Accepted(Attempt::Again));
        p.known.trust(id.process, &one);
        assert_eq!(p.known.is_unsettled(id.process, id.number), !was_lost, "P1, P4");
    }
}
