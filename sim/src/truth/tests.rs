//! Every watcher of what applications are told is fed a history that breaks its rule, and one that
//! nearly does.

use std::collections::BTreeSet;

use gaggle_wire::{
    Attempt, DeleteResult, DeliveryLabel, Message, MessageId, ProcessId, Refusal, Request,
    Response, SentBatch, Stamp,
};

use super::*;
use crate::judge::Witness;
use crate::options::node_id;
use crate::oracle::{Answer, Place};

const APP: usize = 1;
const PLACE: Place = Place { actor: APP, node: 0, line: 0 };
const SECOND: u64 = 1_000_000_000;

/// What is told to one application, and what its client says and hears.
struct Story {
    judge: Judge,
    now: u64,
    requests: u64,
}

impl Story {
    fn new() -> Self {
        Self { judge: Judge::default(), now: SECOND, requests: 0 }
    }

    /// The application sends something.
    fn ships(&mut self, ticket: u64) -> &mut Self {
        let due = self.now + SECOND;
        self.judge.ships((APP, ticket), &content(ticket), (self.now, due));
        self
    }

    /// It travels under this number and stamp.
    fn travels(&mut self, ticket: u64, number: u64, time: u64) -> &mut Self {
        let label = label(ticket, number, time);
        let travels = [(label, content(ticket))];
        let travels = travels.iter().map(|(label, content)| (label, content));
        self.judge.travels(APP, (queue(), 0), travels);
        self.requests += 1;
        let (queue, attempt, within_ms) = (queue(), Attempt::First, 1000);
        let labels = vec![label];
        let request = Request::Send { queue, partition: 0, attempt, within_ms, labels };
        self.judge.asks(self.now, PLACE, self.requests, &request);
        self
    }

    /// A node confirms what travelled last.
    fn confirmed(&mut self) -> &mut Self {
        let accepted = Stamp { time: self.requests, count: 0, process: ProcessId(1) };
        let batch = SentBatch { accepted, copies: 2, exceptions: Vec::new() };
        self.hears(Response::Sent(batch))
    }

    fn hears(&mut self, response: Response) -> &mut Self {
        let holders = BTreeSet::from([0, 1, 2]);
        let witness = Witness { holders, ..Witness::default() };
        let look = |_: &crate::judge::Subject| witness.clone();
        let (number, at) = (self.requests, self.now);
        let answer = Answer { place: PLACE, number, at, response: &response };
        self.judge.hears(self.now, &answer, &look);
        self
    }

    /// It comes to some consumer.
    fn appears(&mut self, ticket: u64, number: u64, time: u64) -> &mut Self {
        let (label, receipt) = (label(ticket, number, time), receipt(number, time));
        let delivery = DeliveryLabel {
            receipt,
            label,
            accepted: Stamp::ZERO,
            lease_ms: 10_000,
            position: None,
        };
        self.hears(Response::Deliveries { deliveries: vec![delivery] })
    }

    fn told(&mut self, ticket: u64, result: Result<(u64, u64), Failure>) -> &mut Self {
        let result = result.map(|(number, time)| {
            let stamp = Stamp { time, count: 0, process: PROCESS };
            Confirmed { stamp, id: MessageId { process: PROCESS, number }, copies: 2 }
        });
        self.judge.told_sent(self.now, (APP, ticket), &result);
        self
    }

    #[track_caller]
    fn breaks(&self, promises: &[u8]) {
        let broken: Vec<u8> = self.judge.violations().iter().map(|found| found.promise).collect();
        assert_eq!(broken, promises, "{:?}", self.judge.violations());
    }
}

const PROCESS: ProcessId = ProcessId(9);

fn queue() -> QueueId {
    QueueId(Stamp { time: 7, count: 0, process: ProcessId(1) })
}

fn content(ticket: u64) -> Bytes {
    Bytes::from(format!("{ticket}"))
}

fn label(ticket: u64, number: u64, time: u64) -> Label {
    let stamp = Stamp { time, count: 0, process: PROCESS };
    Message::new(format!("{ticket}")).pack(number, stamp, 0).unwrap().0
}

fn receipt(number: u64, time: u64) -> Receipt {
    let stamp = Stamp { time, count: 0, process: PROCESS };
    let (holders, custodian) = (vec![node_id(0)], node_id(0));
    let (queue, partition, boot, delivery) = (queue(), 0, 1, 1);
    Receipt { queue, partition, number, stamp, holders, custodian, boot, delivery }
}

fn refused() -> Failure {
    Failure::Refused(Refusal::NotReady)
}

#[test]
fn done_is_told_after_a_confirm_of_that_id_and_stamp() {
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).confirmed().told(1, Ok((1, 5))).breaks(&[]);
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).told(1, Ok((1, 5))).breaks(&[1]);
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).confirmed().told(1, Ok((1, 6))).breaks(&[1]);
}

#[test]
fn not_done_is_told_of_what_never_appears() {
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).told(1, Err(refused())).breaks(&[]);
    story.appears(1, 1, 5).breaks(&[2]);
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).confirmed().told(1, Err(refused())).breaks(&[2]);
    let mut story = Story::new();
    let unknown = Failure::Unknown { last: None };
    story.ships(1).travels(1, 1, 5).told(1, Err(unknown)).appears(1, 1, 5).breaks(&[]);
}

#[test]
fn an_id_names_one_message_and_one_stamp() {
    let mut story = Story::new();
    story.ships(1).ships(2).travels(1, 1, 5).travels(1, 1, 5).travels(2, 2, 6).breaks(&[]);
    story.travels(2, 1, 5);
    assert!(story.judge.violations().iter().all(|found| found.promise == 8));
    assert!(!story.judge.violations().is_empty());
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).travels(1, 1, 6).breaks(&[8]);
}

#[test]
fn a_message_with_two_ids_appears_under_one_and_has_one_result() {
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).travels(1, 2, 6).confirmed().told(1, Ok((2, 6))).breaks(&[]);
    story.appears(1, 1, 5).breaks(&[11]);
    let mut story = Story::new();
    story.ships(1).travels(1, 1, 5).confirmed().told(1, Ok((1, 5))).told(1, Ok((1, 5)));
    story.breaks(&[11]);
    let mut story = Story::new();
    story.ships(1).told(1, Err(Failure::TimedOut)).travels(1, 1, 5).breaks(&[11]);
}

#[test]
fn a_delete_is_told_done_after_a_node_said_so() {
    let settled = Ok(Settled::Deleted);
    for node_says_so in [true, false] {
        let mut story = Story::new();
        story.ships(1).travels(1, 1, 5).confirmed().appears(1, 1, 5);
        let due = story.now + SECOND;
        story.judge.settles((APP, 2), &receipt(1, 5), due);
        story.requests += 1;
        let request = Request::Delete { receipts: vec![receipt(1, 5)] };
        story.judge.asks(story.now, PLACE, story.requests, &request);
        if node_says_so {
            story.hears(Response::Deleted(vec![DeleteResult::Deleted]));
        }
        story.judge.told_settled(story.now, (APP, 2), &settled);
        story.breaks(if node_says_so { &[] } else { &[4] });
    }
}

#[test]
fn nothing_comes_twice_in_a_run_before_its_lease_ends_or_it_goes_back() {
    for (run, back, breaks) in [(1, false, true), (2, false, false), (1, true, false)] {
        let mut story = Story::new();
        story.ships(1).travels(1, 1, 5).confirmed();
        story.judge.weather.disturb();
        story.appears(1, 1, 5);
        story.judge.given(story.now, (APP, 7, 1), &receipt(1, 5));
        if back {
            let request = Request::Release { receipts: vec![receipt(1, 5)], delay_ms: 0 };
            story.judge.asks(story.now, PLACE, 99, &request);
        }
        let before = story.judge.violations().len();
        story.appears(1, 1, 5);
        let by_the_wire = story.judge.violations().len();
        story.judge.given(story.now, (APP, 7, run), &receipt(1, 5));
        assert_eq!(story.judge.violations().len() > by_the_wire, breaks, "{run} {back}");
        assert_eq!(before, 0);
    }
}

#[test]
#[should_panic(expected = "L2: ")]
fn a_result_comes_by_its_deadline() {
    let mut story = Story::new();
    story.ships(1);
    story.now += SECOND;
    story.told(1, Err(Failure::TimedOut)).breaks(&[]);
    story.ships(2);
    story.now += SECOND + LATE_MAX + 1;
    story.told(2, Err(Failure::TimedOut));
}

#[test]
#[should_panic(expected = "L2: ")]
fn everything_has_a_result_at_the_end() {
    let mut story = Story::new();
    story.ships(1).judge.check_told(2 * SECOND);
    story.judge.check_told(2 * SECOND + LATE_MAX + 1);
}
