//! One host by itself, rule by rule: what it is called with, and all that it wants done.

use gaggle_wire::LateBy;
use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::now::{Mono, Now, Wall};

const NONE: Wishes = Wishes { out: Vec::new(), swap: None, advance: false };

fn settings() -> Settings {
    Settings {
        window: Duration::from_nanos(20),
        drift_max: Duration::from_nanos(10),
        turn: Duration::from_nanos(100),
        patience: Duration::from_nanos(50),
        pause: Duration::from_nanos(5),
        late_by: LateBy::Key,
    }
}

/// A host, what it sees, and what it holds.
struct Stage {
    host: Rounds,
    sight: Sight,
    here: BTreeMap<Name, Here>,
}

impl Stage {
    /// Host `me` of three, opened so long ago that it grants, with these rows.
    fn with(me: u64, rows: Rows) -> Self {
        let opened = Opened { at: Mono(0), seed: 1 };
        let host = Rounds::open(three(), seat(me), settings(), rows, opened);
        let others = (1..=3).filter(|node| *node != me);
        let peer = Peer { store: 1, yielded: false, sick: false };
        let peers = others.map(|node| (NodeId(node), peer)).collect();
        Self { host, sight: Sight { serving: true, peers }, here: BTreeMap::new() }
    }

    fn new(me: u64) -> Self {
        // It has promised something in an earlier run.
        let (seat, promised) = (seat(me), Ballot::NONE);
        let acceptor = Some(AcceptorRecord { seat, promised, accepted: None });
        Self::with(me, Rows { acceptor, ..Rows::default() })
    }

    fn call(
        &mut self,
        time: u64,
        call: impl FnOnce(&mut Rounds, &Around<'_>) -> Vec<Act>,
    ) -> Vec<Act> {
        let now = Now { mono: Mono(time), wall: Wall(time) };
        let held = self.here.clone();
        let here = move |entry: &Entry| held.get(&entry.name).copied().unwrap_or(Here::Missing);
        call(&mut self.host, &Around { now, sight: &self.sight, here: &here })
    }

    fn hear(&mut self, time: u64, from: u64, word: Word) -> Vec<Act> {
        self.call(time, |host, around| host.handle(around, seat(from), word))
    }

    fn tick(&mut self, time: u64, wishes: &Wishes) -> Vec<Act> {
        self.call(time, |host, around| host.tick(around, wishes))
    }

    fn holds(&mut self, entry: &Entry) {
        self.here.insert(entry.name, Here::Held);
    }

    fn may_hand_out(&self, time: u64) -> bool {
        self.host.may_hand_out(Mono(time), &self.sight)
    }

    /// Host 1 prepares at 200 and is promised by host 2: what it does then.
    fn sequencing(accepted: Option<Accepted>) -> (Self, Vec<Act>) {
        let mut stage = Self::new(1);
        assert_eq!(stage.tick(99, &NONE).len(), 2, "it says how far it is, and grants nothing yet");
        assert_eq!(stage.tick(130, &NONE), prepared(ballot(1, 1), 130));
        let promise = Word::Promise { ballot: ballot(1, 1), known: 0, accepted, sent: Sent(130) };
        assert_eq!(stage.hear(135, 2, promise), []);
        let acts = stage.tick(139, &NONE);
        (stage, acts)
    }
}

fn ballot(number: u64, node: u64) -> Ballot {
    Ballot { number, node: NodeId(node) }
}

fn record(me: u64, promised: Ballot, accepted: Option<Accepted>) -> Act {
    Act::Write(Row::Acceptor(AcceptorRecord { seat: seat(me), promised, accepted }))
}

fn say(to: u64, word: Word) -> Act {
    Act::Say(NodeId(to), word)
}

fn prepared(by: Ballot, time: u64) -> Vec<Act> {
    let word = Word::Prepare { ballot: by, known: 0, stopped: None, sent: Sent(time) };
    vec![record(1, by, None), say(2, word.clone()), say(3, word)]
}

fn asked(time: u64, up_to: u64) -> Vec<Act> {
    let (ballot, up_to, sent) = (ballot(1, 1), at(up_to), Sent(time));
    let word = Word::Ask { ballot, known: 0, up_to, sent };
    let own = Act::Gather(Asked { by: NodeId(1), ballot, up_to, sent });
    vec![own, say(2, word.clone()), say(3, word)]
}

/// What host 2 reports to host 1, that asked at 139.
fn report(held: Option<Vec<Entry>>) -> Word {
    Word::Report { ballot: ballot(1, 1), known: 0, up_to: at(119), held, sent: Sent(139) }
}

fn gathered(stage: &mut Stage, held: Vec<Entry>) -> Vec<Act> {
    let asked = Asked { by: NodeId(1), ballot: ballot(1, 1), up_to: at(119), sent: Sent(139) };
    stage.call(140, |host, around| host.gathered(around, asked, held))
}

fn proposed(round: Round, origin: Origin, time: u64) -> Vec<Act> {
    let ballot = ballot(1, 1);
    let accepted = Some(Accepted { ballot, round: round.clone() });
    let word = Word::Propose { ballot, round, origin, sent: Sent(time) };
    vec![record(1, ballot, accepted), say(2, word.clone()), say(3, word)]
}

#[test]
fn it_asks_once_a_majority_has_promised_and_hands_out_in_its_turn() {
    let (mut stage, acts) = Stage::sequencing(None);
    assert_eq!(acts, asked(139, 119), "up to what the window has passed");
    assert!(stage.may_hand_out(229) && !stage.may_hand_out(230), "a turn from the prepare on");
    assert_eq!(stage.hear(150, 3, report(None)), []);
    assert!(stage.may_hand_out(238) && !stage.may_hand_out(239), "and from the question on");
    stage.sight.serving = false;
    assert!(!stage.may_hand_out(150));
    stage.sight.serving = true;
    let stopped = Word::Stopped { ballot: ballot(1, 1) };
    let acts = stage.call(150, |host, around| host.stop(around.sight));
    assert_eq!(acts, [say(2, stopped.clone()), say(3, stopped)]);
    assert!(!stage.may_hand_out(150), "it has yielded");
}

#[test]
fn what_was_found_is_proposed_unchanged_and_nothing_is_handed_out_before() {
    let found = Round { released: vec![entry(1, 10, 1)], ..round(1, 50) };
    let accepted = Accepted { ballot: ballot(0, 3), round: found.clone() };
    let (mut stage, acts) = Stage::sequencing(Some(accepted));
    assert_eq!(acts, proposed(found.clone(), Origin::Adopted, 139));
    assert!(!stage.may_hand_out(140));
    let accept = Word::Accept { ballot: ballot(1, 1), n: 1, sent: Sent(139) };
    let learn = Word::Learn { sum: None, rounds: vec![found.clone()] };
    let chosen = Act::Chosen(found.clone());
    let write = Act::Write(Row::Round(found));
    assert_eq!(stage.hear(145, 2, accept), [write, chosen, say(2, learn.clone()), say(3, learn)]);
    assert!(stage.may_hand_out(145));
    assert_eq!(stage.host.released().count(), 1);
}

#[test]
fn of_several_found_the_one_of_the_highest_ballot_is_taken() {
    let own = Accepted { ballot: ballot(2, 3), round: round(1, 40) };
    let record = AcceptorRecord { seat: seat(1), promised: ballot(2, 3), accepted: Some(own) };
    let mut stage = Stage::with(1, Rows { acceptor: Some(record), ..Rows::default() });
    stage.sight.peers.remove(&NodeId(3));
    let _ = stage.tick(130, &NONE);
    let theirs = Accepted { ballot: ballot(1, 2), round: round(1, 50) };
    let ballot = ballot(3, 1);
    let accepted = Some(theirs);
    let _ = stage.hear(131, 2, Word::Promise { ballot, known: 0, accepted, sent: Sent(130) });
    let _ = stage.tick(132, &NONE);
    assert_eq!(stage.host.open_round(), Some(&round(1, 40)));
}

#[test]
fn a_round_is_built_of_what_a_majority_reports() {
    let (mut stage, _) = Stage::sequencing(None);
    let (a, b) = (entry(1, 100, 1), entry(2, 90, 1));
    stage.holds(&a);
    stage.holds(&b);
    assert_eq!(gathered(&mut stage, vec![a.clone()]), []);
    assert_eq!(stage.tick(141, &NONE), [], "one report is no majority");
    assert_eq!(stage.hear(142, 2, report(Some(vec![b.clone(), a.clone()]))), []);
    let built = Round { released: vec![b, a], ..round(1, 119) };
    assert_eq!(stage.tick(143, &NONE), proposed(built, Origin::Built, 143), "by stamp");
    assert!(stage.may_hand_out(144), "of what was released before");
}

#[test]
fn it_proposes_only_what_it_holds_and_fetches_the_rest() {
    let (mut stage, _) = Stage::sequencing(None);
    let a = entry(1, 100, 1);
    assert_eq!(gathered(&mut stage, vec![]), []);
    let fetch = Act::Fetch(NodeId(2), vec![a.clone()]);
    assert_eq!(stage.hear(142, 2, report(Some(vec![a]))), [fetch]);
    assert_eq!(stage.tick(143, &NONE), [], "it waits");
    assert_eq!(stage.tick(148, &NONE), asked(148, 128), "and asks again");
}

#[test]
fn a_report_of_an_ended_session_does_not_count() {
    let (mut stage, _) = Stage::sequencing(None);
    assert_eq!(gathered(&mut stage, vec![]), []);
    assert_eq!(stage.hear(142, 2, report(Some(vec![]))), []);
    stage.host.ended(NodeId(2));
    assert_eq!(stage.tick(143, &Wishes { advance: true, ..NONE }), []);
}

#[test]
fn what_had_its_time_or_its_chances_is_taken_out_by_the_round() {
    let (mut stage, _) = Stage::sequencing(None);
    let (a, b) = (entry(1, 100, 1), entry(2, 90, 1));
    stage.here.insert(a.name, Here::Expired);
    stage.here.insert(b.name, Here::Gone);
    assert_eq!(gathered(&mut stage, vec![a.clone()]), []);
    assert_eq!(stage.hear(142, 2, report(Some(vec![b.clone()]))), []);
    let wishes = Wishes { out: vec![(b, Why::Dead)], ..NONE };
    let built = Round { out: vec![(a.clone(), Why::Expired)], ..round(1, 119) };
    let acts = stage.tick(143, &wishes);
    assert_eq!(acts, proposed(built, Origin::Built, 143), "what was not released is not taken out");
    assert_eq!(stage.host.withheld().collect::<Vec<_>>(), [a.name]);
}

#[test]
fn a_round_for_nothing_is_proposed_only_when_it_is_wished() {
    let (mut stage, _) = Stage::sequencing(None);
    assert_eq!(gathered(&mut stage, vec![]), []);
    assert_eq!(stage.hear(142, 2, report(Some(vec![]))), []);
    let wishes = Wishes { advance: true, ..NONE };
    assert_eq!(stage.tick(143, &wishes), proposed(round(1, 119), Origin::Built, 143));

    let (mut stage, _) = Stage::sequencing(None);
    assert_eq!(gathered(&mut stage, vec![]), []);
    assert_eq!(stage.hear(142, 2, report(Some(vec![]))), []);
    assert_eq!(stage.tick(143, &NONE), []);
}

#[test]
fn a_host_reports_nothing_of_what_its_wall_says_is_to_come() {
    let mut stage = Stage::new(2);
    let ask = |up_to| Word::Ask { ballot: ballot(1, 1), known: 0, up_to: at(up_to), sent: Sent(7) };
    let asked = Asked { by: NodeId(1), ballot: ballot(1, 1), up_to: at(140), sent: Sent(7) };
    let acts = stage.hear(130, 1, ask(140));
    assert_eq!(acts, [record(2, ballot(1, 1), None), Act::Gather(asked)], "within the drift bound");
    let refused = |up_to| Word::Report {
        ballot: ballot(1, 1),
        known: 0,
        up_to: at(up_to),
        held: None,
        sent: Sent(7),
    };
    assert_eq!(stage.hear(130, 1, ask(141)), [say(1, refused(141))]);
    let held = vec![entry(1, 100, 1)];
    let acts = stage.call(131, |host, around| host.gathered(around, asked, held.clone()));
    let Word::Report { ballot, known, up_to, sent, .. } = refused(140) else { unreachable!() };
    assert_eq!(acts, [say(1, Word::Report { ballot, known, up_to, held: Some(held), sent })]);
}

#[test]
fn a_round_is_accepted_when_it_follows_and_what_it_releases_is_here() {
    let mut stage = Stage::new(2);
    let a = entry(1, 100, 1);
    let next = Round { released: vec![a.clone()], ..round(1, 119) };
    let propose = |round: &Round, origin| Word::Propose {
        ballot: ballot(1, 1),
        round: round.clone(),
        origin,
        sent: Sent(7),
    };
    let fetch = Act::Fetch(NodeId(1), vec![a]);
    assert_eq!(stage.hear(130, 1, propose(&next, Origin::Built)), [fetch]);
    let later = Round { n: 2, ..next.clone() };
    let behind = say(1, Word::Known { n: 0 });
    assert_eq!(stage.hear(130, 1, propose(&later, Origin::Built)), [behind]);
    let accepted = Some(Accepted { ballot: ballot(1, 1), round: next.clone() });
    let accept = Word::Accept { ballot: ballot(1, 1), n: 1, sent: Sent(7) };
    let acts = stage.hear(130, 1, propose(&next, Origin::Adopted));
    assert_eq!(acts, [record(2, ballot(1, 1), accepted), say(1, accept)], "it may be chosen");
    let lower =
        Word::Propose { ballot: ballot(0, 9), round: next, origin: Origin::Adopted, sent: Sent(7) };
    let refuse = Word::Refuse { ballot: ballot(0, 9), promised: ballot(1, 1) };
    assert_eq!(stage.hear(130, 3, lower), [say(3, refuse)]);
}

#[test]
fn it_prepares_only_when_the_host_of_the_highest_ballot_is_away_or_has_yielded_or_is_sick() {
    let record = AcceptorRecord { seat: seat(1), promised: ballot(4, 2), accepted: None };
    let rows = Rows { acceptor: Some(record), ..Rows::default() };
    let prepares = |peer: Option<Peer>| {
        let mut stage = Stage::with(1, rows.clone());
        match peer {
            Some(peer) => stage.sight.peers.insert(NodeId(2), peer),
            None => stage.sight.peers.remove(&NodeId(2)),
        };
        let _ = stage.tick(130, &NONE);
        stage.host.ballot()
    };
    let peer = Peer { store: 1, yielded: false, sick: false };
    assert_eq!(prepares(Some(peer)), None);
    assert_eq!(prepares(None), Some(ballot(5, 1)));
    assert_eq!(prepares(Some(Peer { yielded: true, ..peer })), Some(ballot(5, 1)));
    assert_eq!(prepares(Some(Peer { sick: true, ..peer })), Some(ballot(5, 1)));
    assert_eq!(prepares(Some(Peer { store: 2, ..peer })), Some(ballot(5, 1)), "it has no seat");
}

#[test]
fn who_is_refused_backs_off_and_goes_above_what_was_promised() {
    let (mut stage, _) = Stage::sequencing(None);
    let refuse = Word::Refuse { ballot: ballot(1, 1), promised: ballot(7, 3) };
    assert_eq!(stage.hear(141, 2, refuse), [record(1, ballot(7, 3), None)]);
    assert!(!stage.may_hand_out(142) && stage.host.ballot().is_none());
    stage.sight.peers.remove(&NodeId(3));
    let _ = stage.tick(190, &NONE);
    assert_eq!(stage.host.ballot(), None, "half a turn at least");
    let _ = stage.tick(342, &NONE);
    assert_eq!(stage.host.ballot(), Some(ballot(8, 1)), "two turns at most");
}

#[test]
fn who_promises_another_stops_at_once() {
    let (mut stage, _) = Stage::sequencing(None);
    assert!(stage.may_hand_out(140));
    let (ballot, sent) = (ballot(2, 2), Sent(9));
    let prepare = Word::Prepare { ballot, known: 0, stopped: None, sent };
    let refuse = Word::Refuse { ballot, promised: self::ballot(1, 1) };
    assert_eq!(stage.hear(140, 2, prepare), [say(2, refuse)], "its own turn lasts");
    let ask = Word::Ask { ballot, known: 0, up_to: at(100), sent };
    let _ = stage.hear(141, 2, ask);
    assert!(!stage.may_hand_out(141), "a majority has promised");
}

#[test]
fn hosts_level_each_other() {
    let mut stage = Stage::with(1, Rows { rounds: vec![round(1, 50)], ..Rows::default() });
    let learn = Word::Learn { sum: None, rounds: vec![round(1, 50)] };
    assert_eq!(stage.hear(130, 2, Word::Known { n: 0 }), [say(2, learn)]);
    assert_eq!(stage.hear(130, 2, Word::Known { n: 1 }), []);
    assert_eq!(stage.hear(130, 2, Word::Known { n: 2 }), [say(2, Word::Known { n: 1 })]);
    let rounds = vec![round(1, 50), round(2, 60)];
    let acts = stage.hear(130, 2, Word::Learn { sum: None, rounds });
    assert_eq!(acts, [Act::Write(Row::Round(round(2, 60))), Act::Chosen(round(2, 60))]);
    assert_eq!((stage.host.last(), stage.host.up_to()), (2, at(60)));
}

#[test]
fn a_round_is_trimmed_when_all_pinned_hosts_have_it() {
    let mut stage = Stage::with(1, Rows { rounds: vec![round(1, 50)], ..Rows::default() });
    let _ = stage.hear(130, 2, Word::Known { n: 1 });
    assert_eq!(stage.host.trim(|_| true), []);
    let _ = stage.hear(130, 3, Word::Known { n: 1 });
    let hosts = Hosts::first(three());
    let sum = Sum { n: 1, up_to: at(50), hosts, newest: BTreeMap::new() };
    assert_eq!(stage.host.trim(|_| true), [Act::Write(Row::Sum(sum.clone()))]);
    let learn = Word::Learn { sum: Some(sum), rounds: vec![] };
    assert_eq!(stage.hear(130, 4, Word::Known { n: 0 }), [say(4, learn)], "to a new one");
}

#[test]
fn a_new_host_asks_to_be_told_all_and_who_was_there_asks_for_the_others_sake() {
    let swapped = three().swapped(seat(3), seat(4)).unwrap();
    let change = Round { change: Some(swapped), ..round(1, 50) };
    let mut old = Stage::new(1);
    let learn = Word::Learn { sum: None, rounds: vec![change.clone()] };
    let told = |me, by: &[u64]| {
        let by = by.iter().map(|node| seat(*node)).collect();
        Act::Write(Row::Told(Told { seat: seat(me), changed: 1, by }))
    };
    let acts = old.hear(130, 2, learn.clone());
    let write = Act::Write(Row::Round(change.clone()));
    assert_eq!(acts, [write.clone(), told(1, &[1]), Act::Chosen(change.clone())]);
    let all = Word::ToldAll { changed: 1, by: [seat(1)].into() };
    assert_eq!(old.hear(131, 4, Word::TellAll { changed: 1 }), [Act::GiveAll(NodeId(4), all)]);
    assert_eq!(old.hear(131, 4, Word::TellAll { changed: 2 }), [], "it knows of no such change");
    let asks = old.tick(140, &NONE).contains(&say(2, Word::TellAll { changed: 1 }));
    assert!(asks && old.host.is_told(), "it may be the only one that meets both");

    let mut new = Stage::new(4);
    assert_eq!(new.hear(130, 2, learn), [write, told(4, &[]), Act::Chosen(change)]);
    let all = |node| Word::ToldAll { changed: 1, by: [seat(node)].into() };
    assert_eq!(new.hear(131, 1, all(1)), [told(4, &[1])]);
    assert!(!new.host.is_told());
    assert_eq!(new.hear(132, 2, all(2)), [told(4, &[1, 2])]);
    assert!(new.host.is_told());
}

#[test]
fn the_next_change_waits_until_who_came_last_has_reported() {
    let swapped = three().swapped(seat(3), seat(4)).unwrap();
    let next = swapped.swapped(seat(2), seat(5)).unwrap();
    let swap = |void: &[u64]| Wishes {
        swap: Some(Swap {
            gone: seat(2),
            new: seat(5),
            void: void.iter().map(|node| seat(*node)).collect(),
        }),
        ..NONE
    };
    let change = |reporter: u64, wishes: &Wishes| {
        let rounds = vec![Round { change: Some(swapped.clone()), ..round(1, 50) }];
        let mut stage = Stage::with(1, Rows { rounds, ..Rows::default() });
        let peer = Peer { store: 1, yielded: false, sick: false };
        stage.sight.peers.insert(NodeId(4), peer);
        let _ = stage.tick(130, &NONE);
        let (ballot, sent) = (ballot(1, 1), Sent(130));
        let promise = Word::Promise { ballot, known: 1, accepted: None, sent };
        let _ = stage.hear(131, 2, promise);
        let _ = stage.tick(139, &NONE);
        assert_eq!(gathered(&mut stage, vec![]), []);
        let (held, sent) = (Some(vec![]), Sent(139));
        let report = Word::Report { ballot, known: 1, up_to: at(119), held, sent };
        let _ = stage.hear(142, reporter, report);
        let _ = stage.tick(143, wishes);
        stage.host.open_round().and_then(|round| round.change.clone())
    };
    assert_eq!(change(2, &swap(&[])), None);
    assert_eq!(change(4, &swap(&[])), Some(next.clone()));
    assert_eq!(change(2, &swap(&[4])), Some(next), "its store does not exist any more");
}

#[test]
fn a_host_with_another_store_keeps_the_log_and_nothing_that_it_said() {
    let record = AcceptorRecord { seat: seat(1), promised: ballot(4, 1), accepted: None };
    let acceptor = Some(record);
    let rows = Rows { acceptor, rounds: vec![round(1, 50)], ..Rows::default() };
    let opened = Opened { at: Mono(0), seed: 1 };
    let me = Seat { store: 2, ..seat(1) };
    let host = Rounds::open(three(), me, settings(), rows, opened);
    assert_eq!((host.last(), host.ballot(), host.is_told()), (1, None, false));
    let mut stage = Stage { host, ..Stage::new(1) };
    let sent = Sent(9);
    let prepare = Word::Prepare { ballot: ballot(9, 2), known: 1, stopped: None, sent };
    assert_eq!(stage.hear(130, 2, prepare), [], "it has no seat");
    assert_eq!(stage.tick(130, &NONE), []);
}
