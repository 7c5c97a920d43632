//! Sends: numbering, batching, and every way an attempt can end.

use gaggle_wire::SendException;

use super::*;
use crate::Reach;

#[test]
fn the_first_message_asks_for_its_queue_and_then_leaves() {
    let mut f = Fixture::connected(1);
    assert_eq!(f.send(1, Some(0), s(30)), [ask_for_queue(&f, 2)]);
    assert_eq!(f.send(2, Some(0), s(30)), []);
    assert_eq!(f.tick(), []);
    assert_eq!(f.answer(1, 2, described(QUEUE)), []);
    let effects = f.tick();
    let (link, request, body, contents) = only(effects.clone());
    let process = f.core.process();
    // The hello took 1 ms, so the client knows the cluster's time to half of that.
    let time = BEGAN + 2_500_000;
    let stamps = [0, 1].map(|count| Stamp { time, count, process });
    assert_eq!(labels(&body).iter().map(|l| l.stamp).collect::<Vec<_>>(), stamps);
    let body = Request::Send {
        queue: QUEUE,
        partition: 0,
        attempt: Attempt::First,
        within_ms: 10_000,
        labels: labels(&body),
    };
    let frame = RequestFrame { request: 3, body: body.clone() };
    let contents_wanted = vec![Bytes::from("body"); 2];
    assert_eq!(contents, contents_wanted);
    assert_eq!(effects, [Effect::Transmit { link: 1, stream: Stream::Sends, frame, contents }]);
    let labels = labels(&body);
    let confirms = [confirmed(1, &labels[0], 2), confirmed(2, &labels[1], 2)];
    assert_eq!(f.answer(link, request, sent(2)), confirms);
    assert!(f.core.is_idle());
}

fn ask_for_queue(_: &Fixture, request: u64) -> Effect {
    let body = Request::DescribeQueue { name: QueueName::parse("orders").unwrap() };
    let frame = RequestFrame { request, body };
    Effect::Transmit { link: 1, stream: Stream::Control, frame, contents: Vec::new() }
}

#[test]
fn a_lone_message_leaves_at_once_and_the_next_ones_gather_behind_it() {
    let mut f = Fixture::connected(1).knowing();
    let (link, request, body, _) = f.send_one(1, s(30));
    assert_eq!(numbers(&body), [2]);
    for ticket in 2..=4 {
        f.send(ticket, Some(0), s(30));
        assert_eq!(f.tick(), []);
    }
    f.answer(link, request, sent(2));
    assert_eq!(numbers(&only(f.tick()).2), [3, 4, 5]);
}

#[test]
fn a_batch_that_is_worth_a_frame_leaves_though_another_is_under_way() {
    let mut f = Fixture::connected(1).knowing();
    f.send_one(1, s(30));
    for ticket in 0..63 {
        f.send(ticket, Some(0), s(30));
    }
    assert_eq!(f.tick(), []);
    f.send(63, Some(0), s(30));
    assert_eq!(numbers(&only(f.tick()).2), (3..67).collect::<Vec<_>>());
}

#[test]
fn numbers_are_dense_per_partition_and_a_key_stays_in_its_own() {
    let mut f = Fixture::connected(3).knowing();
    let mut sends = Vec::new();
    for ticket in 0..200 {
        f.send(ticket, Some(ticket % 16), s(30));
    }
    loop {
        let more = asked(&f.tick());
        if more.is_empty() {
            break;
        }
        for (link, request, ..) in &more {
            f.answer(*link, *request, sent(2));
        }
        sends.extend(more);
    }
    let mut last: BTreeMap<u16, (u64, Stamp)> = BTreeMap::new();
    for (_, _, body, _) in &sends {
        let Request::Send { partition, labels, .. } = body else { panic!() };
        for label in labels {
            let first = u64::from(*partition == 0);
            let (number, stamp) = last.get(partition).copied().unwrap_or((first, Stamp::ZERO));
            assert_eq!(label.number, number + 1);
            assert!(label.stamp > stamp);
            last.insert(*partition, (label.number, label.stamp));
        }
    }
    assert_eq!(last.len(), 8);
    assert!(f.core.is_idle());
}

#[test]
fn messages_without_key_take_turns_with_the_partitions() {
    let mut f = Fixture::connected(1).knowing();
    let mut partitions = Vec::new();
    for ticket in 0..16 {
        f.send(ticket, None, s(30));
        let (link, request, body, _) = only(f.tick());
        let Request::Send { partition, .. } = body else { panic!() };
        partitions.push(partition);
        f.answer(link, request, sent(2));
    }
    let first = partitions[0];
    let turns: Vec<u16> = (0..16).map(|turn| (first + turn) % 8).collect();
    assert_eq!(partitions, turns);
}

#[test]
fn a_lost_connection_resends_the_same_ids_elsewhere() {
    let mut f = Fixture::connected(2).knowing();
    let (link, _, body, contents) = f.send_one(1, s(30));
    let (other, request, again, same) = only(f.handle(Event::Lost { link }));
    assert_ne!(other, link);
    assert_eq!((labels(&again), same), (labels(&body), contents));
    assert_eq!(attempt(&again), Attempt::Again);
    assert_eq!(f.answer(other, request, sent(2)), [confirmed(1, &labels(&body)[0], 2)]);
}

#[test]
fn a_silent_node_is_hedged_and_the_first_answer_wins() {
    let mut f = Fixture::connected(2).knowing();
    let (link, request, body, _) = f.send_one(1, s(30));
    let (other, hedge, again, _) = only(f.wake(ms(500)));
    assert_ne!(other, link);
    assert_eq!((labels(&again), attempt(&again)), (labels(&body), Attempt::Again));
    assert_eq!(f.answer(other, hedge, sent(2)), [confirmed(1, &labels(&body)[0], 2)]);
    assert_eq!(f.answer(link, request, sent(3)), []);
}

#[test]
fn what_is_sent_after_a_hedge_leaves_the_silent_node_alone() {
    let mut f = Fixture::connected(2).knowing();
    let (silent, request, ..) = f.send_one(1, s(30));
    let (other, hedge, ..) = only(f.wake(ms(500)));
    f.answer(other, hedge, sent(2));
    let (link, second, ..) = f.send_one(2, s(30));
    assert_eq!(link, other);
    f.answer(other, second, sent(2));
    // It answers after all, and is trusted again.
    f.answer(silent, request, sent(2));
    assert_eq!(f.send_one(3, s(30)).0, silent);
}

#[test]
fn nodes_that_are_slow_but_alive_are_hedged_a_few_times_only() {
    let mut f = Fixture::connected(2).knowing();
    let mut hedged = 0;
    for ticket in 1..=40 {
        let (link, request, ..) = f.send_one(ticket, s(30));
        // Something else is heard of it, so it is alive.
        f.now += ms(1);
        let (node, nodes) = (f.node_of(link), 2);
        f.answer(link, 0, Response::Welcome(welcome_of(node, nodes)));
        let more = f.pass(ms(510));
        hedged += asked(&more).len();
        f.answer(link, request, sent(2));
    }
    assert!((5..=15).contains(&hedged), "{hedged}");
}

#[test]
fn too_few_hosts_are_waited_for_until_the_deadline() {
    let mut f = Fixture::connected(1).knowing();
    let (link, request, body, _) = f.send_one(1, s(1));
    assert_eq!(f.answer(link, request, refused(few())), []);
    let (link, request, again, _) = only(f.wake(ms(60)));
    assert_eq!((labels(&again), attempt(&again)), (labels(&body), Attempt::First));
    f.answer(link, request, refused(few()));
    let mut end = Vec::new();
    while end.is_empty() {
        for effect in f.wake(s(1)) {
            match effect {
                Effect::Transmit { link, frame, .. } => {
                    assert_eq!(f.answer(link, frame.request, refused(few())), []);
                }
                other => end.push(other),
            }
        }
    }
    assert_eq!(end, [failed(1, Failure::Refused(few()))]);
    assert!(f.core.is_idle());
}

#[test]
fn without_any_answer_the_outcome_is_unknown() {
    let mut f = Fixture::connected(1).knowing();
    f.send_one(1, s(1));
    assert_eq!(f.pass(s(1)), [failed(1, Failure::Unknown { last: None })]);
}

#[test]
fn a_no_after_a_lost_attempt_leaves_the_outcome_unknown() {
    let mut f = Fixture::connected(2).knowing();
    let (link, ..) = f.send_one(1, s(1));
    let (other, request, ..) = only(f.handle(Event::Lost { link }));
    let large = Refusal::MessageTooLarge { limit: 1, length: 4 };
    let unknown = Failure::Unknown { last: Some(large.clone()) };
    assert_eq!(f.answer(other, request, refused(large)), [failed(1, unknown)]);
}

#[test]
fn a_no_while_another_attempt_is_under_way_waits_for_that_one() {
    let mut f = Fixture::connected(2).knowing();
    let (link, request, body, _) = f.send_one(1, s(30));
    let (other, hedge, ..) = only(f.wake(ms(500)));
    let large = Refusal::MessageTooLarge { limit: 1, length: 4 };
    assert_eq!(f.answer(other, hedge, refused(large)), []);
    assert_eq!(f.answer(link, request, sent(2)), [confirmed(1, &labels(&body)[0], 2)]);
}

#[test]
fn messages_of_a_batch_fare_apart() {
    let mut f = Fixture::connected(1).knowing();
    for ticket in 1..=4 {
        f.send(ticket, Some(0), s(30));
    }
    let (link, request, body, _) = only(f.tick());
    let labels = labels(&body);
    let large = Refusal::MessageTooLarge { limit: 1, length: 4 };
    let exceptions = vec![
        (0, SendException::Gone),
        (1, SendException::Refused(large.clone())),
        (3, SendException::Refused(few())),
    ];
    let accepted = Stamp::ZERO;
    let answer = Response::Sent(SentBatch { accepted, copies: 2, exceptions });
    let wanted = [
        confirmed(1, &labels[0], 0),
        failed(2, Failure::Refused(large)),
        confirmed(3, &labels[2], 2),
    ];
    assert_eq!(f.answer(link, request, answer), wanted);
    let (link, request, again, _) = only(f.wake(ms(60)));
    assert_eq!(numbers(&again), [labels[3].number]);
    assert_eq!(f.answer(link, request, sent(2)), [confirmed(4, &labels[3], 2)]);
}

#[test]
fn positions_in_late_answers_are_those_of_their_own_attempt() {
    let mut f = Fixture::connected(2).knowing();
    f.send(1, Some(0), s(30));
    f.send(2, Some(0), s(30));
    let (link, request, body, _) = only(f.tick());
    let labels = labels(&body);
    let partly = |at| {
        let exceptions = vec![(at, SendException::Refused(few()))];
        Response::Sent(SentBatch { accepted: Stamp::ZERO, copies: 2, exceptions })
    };
    let (other, hedge, ..) = only(f.wake(ms(500)));
    assert_eq!(f.answer(other, hedge, partly(1)), [confirmed(1, &labels[0], 2)]);
    assert_eq!(f.answer(link, request, partly(0)), [confirmed(2, &labels[1], 2)]);
}

#[test]
fn a_clock_that_is_ahead_starts_a_new_process() {
    let mut f = Fixture::connected(1).knowing();
    let before = f.core.process();
    f.send(1, Some(0), s(30));
    let (link, request, ..) = only(f.tick());
    f.send(2, Some(0), s(30));
    let ahead = Refusal::ClockAhead { by_ms: 900 };
    let effects = f.answer(link, request, refused(ahead.clone()));
    let process = f.core.process();
    assert_ne!(process, before);
    assert_eq!(effects, [Effect::Renewed(process)]);
    let (link, request, body, _) = only(f.tick());
    let again = labels(&body);
    assert_eq!(numbers(&body), [1, 2]);
    assert!(again.iter().all(|label| label.stamp.process == process));
    assert!(again[0].stamp < again[1].stamp);
    assert_eq!(attempt(&body), Attempt::First);
    // It is tried once: a clock that is ahead again is told.
    let refusals = [1, 2].map(|ticket| failed(ticket, Failure::Refused(ahead.clone())));
    assert_eq!(f.answer(link, request, refused(ahead.clone()))[..1], refusals[..1]);
}

#[test]
fn what_may_have_been_stored_keeps_its_id_though_the_clock_is_ahead() {
    let mut f = Fixture::connected(2).knowing();
    let (link, _, body, _) = f.send_one(1, s(30));
    let (other, request, ..) = only(f.handle(Event::Lost { link }));
    let process = f.core.process();
    assert_eq!(f.answer(other, request, refused(Refusal::ClockAhead { by_ms: 9 })), []);
    let resent = asked(&f.pass(ms(100)));
    assert_eq!(f.core.process(), process);
    assert_eq!(labels(&resent.last().unwrap().2), labels(&body));
}

#[test]
fn a_queue_that_was_made_anew_is_found_again() {
    let mut f = Fixture::connected(1).knowing();
    let (link, request, ..) = f.send_one(1, s(30));
    let gone = Refusal::QueueNotFound { queue: "orders".to_owned() };
    f.answer(link, request, refused(gone.clone()));
    let (link, request, describe, _) = only(f.tick());
    assert!(matches!(describe, Request::DescribeQueue { .. }));
    f.answer(link, request, described(OTHER));
    let (link, request, body, _) = only(f.tick());
    let Request::Send { queue, .. } = body else { panic!() };
    assert_eq!((queue, numbers(&body)), (OTHER, vec![1]));
    f.answer(link, request, sent(2));
    assert!(f.core.is_idle());
}

#[test]
fn a_queue_that_is_gone_is_told() {
    let mut f = Fixture::connected(1).knowing();
    let (link, request, ..) = f.send_one(1, s(30));
    let gone = Refusal::QueueNotFound { queue: "orders".to_owned() };
    f.answer(link, request, refused(gone.clone()));
    let (link, request, ..) = only(f.tick());
    f.answer(link, request, refused(gone.clone()));
    assert_eq!(f.tick(), [failed(1, Failure::Refused(gone))]);
    assert!(f.core.is_idle());
}

#[test]
fn without_any_node_a_message_waits_for_its_deadline() {
    let mut f = Fixture::connected(1).knowing();
    f.handle(Event::Lost { link: 1 });
    f.send(1, Some(0), ms(20));
    let effects = f.pass(ms(20));
    assert_eq!(effects, [failed(1, Failure::TimedOut)]);
    f.send(2, Some(0), s(30));
    let mut dials = f.pass(ms(100));
    let Some(Effect::Dial { link, .. }) = dials.pop() else { panic!("{dials:?}") };
    f.welcome(link, 1, 1);
    assert_eq!(numbers(&only(f.tick()).2), [3]);
}

#[test]
fn the_client_of_one_node_neither_hedges_nor_fails_over() {
    let config = Config { reach: Reach::OneNode, ..Config::default() };
    let mut f = Fixture::with(config, 1);
    f.answer(1, 0, Response::Welcome(welcome_of(1, 3)));
    let mut f = f.knowing();
    f.send_one(1, s(30));
    let effects = f.pass(s(4));
    assert_eq!(effects, []);
    f.handle(Event::Lost { link: 1 });
    let dials = f.pass(ms(100));
    assert_eq!(dials, [Effect::Dial { link: 2, target: crate::Target::Seed(0) }]);
}

#[test]
fn a_node_that_drains_is_left_at_once() {
    let mut f = Fixture::connected(2).knowing();
    let (link, request, body, _) = f.send_one(1, s(30));
    let (other, _, again, _) = only(f.answer(link, request, refused(Refusal::Draining)));
    assert_ne!(other, link);
    assert_eq!((labels(&again), attempt(&again)), (labels(&body), Attempt::First));
}
