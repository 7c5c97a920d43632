//! Runs of another node, as one node meets them, and which of them has a session.

use super::*;
use crate::event::LinkId;

const PEER: NodeId = NodeId(2);
const DISK: u128 = 9;
const NEW_DISK: u128 = 7;

impl Bench {
    /// A run of the other, on this disk, is at the other end of a connection.
    fn up_again(&mut self, link: u64, boot: u64, store: u128) -> Vec<Effect> {
        let hello = PeerHello { node: PEER, boot, store, ..self.node.hello() };
        self.handle(Event::LinkUp { link: LinkId(link), hello: Box::new(hello) })
    }

    /// The connection and the run of the session with the other.
    fn session(&self) -> Option<(u64, u64)> {
        self.node.sessions.with(PEER).map(|session| (session.link.0, session.boot))
    }

    /// The other says that it leaves.
    fn is_left(&mut self, link: u64) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LinkId(link), envelope: Envelope::Leaving })
    }
}

#[test]
fn a_run_that_has_parted_is_turned_away_and_a_lower_one_on_another_disk_is_not() {
    for (boot, store, met) in [(5, DISK, false), (6, DISK, true), (3, NEW_DISK, true)] {
        let mut bench = Bench::new();
        bench.up_again(1, 5, DISK);
        bench.is_left(1);
        let effects = bench.up_again(2, boot, store);
        assert_eq!(bench.session(), met.then_some((2, boot)), "L1");
        assert_eq!(effects.contains(&Effect::CloseLink(LinkId(2))), !met);
    }
}

#[test]
fn a_lower_run_ends_the_session_of_a_higher_one_if_it_is_on_another_disk() {
    for (store, session) in [(DISK, (1, 5)), (NEW_DISK, (2, 3))] {
        let mut bench = Bench::new();
        bench.up_again(1, 5, DISK);
        bench.up_again(2, 3, store);
        assert_eq!(bench.session(), Some(session), "L1");
    }
}

#[test]
fn who_leaves_is_let_go_once_it_has_granted_what_was_taken_from_it() {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.up_again(1, 5, DISK);
    assert_eq!(bench.receive(1, 5000), None, "it waits");
    let link = LinkId(1);
    let offer = Envelope::Offer { queue, oldest: 1 };
    let effects = bench.handle(Event::Envelope { link, envelope: offer });
    let take = effects.iter().find_map(|effect| match effect {
        Effect::Send { envelope: Envelope::Take { call, .. }, .. } => Some(*call),
        _ => None,
    });
    let call = take.expect("it takes what is offered");
    assert!(!bench.is_left(1).contains(&Effect::CloseLink(link)));
    assert_eq!(bench.session(), Some((1, 5)), "P10: what it grants is on its way");
    let grant = Envelope::Grant { call, queue, deliveries: Vec::new(), more: None };
    let effects = bench.handle(Event::Envelope { link, envelope: grant });
    assert!(effects.contains(&Effect::CloseLink(link)));
    assert_eq!(bench.session(), None);
}

#[test]
fn a_wall_clock_that_runs_ahead_of_the_steady_one_ends_all_sessions() {
    for (ahead_ms, ended) in [(800, false), (1000, true), (-3_600_000, false)] {
        let mut bench = Bench::new();
        bench.up_again(1, 5, DISK);
        bench.at_ms += 100;
        bench.wall_off_ms += ahead_ms;
        let effects = bench.handle(Event::Wakeup);
        assert_eq!(effects.contains(&Effect::CloseLink(LinkId(1))), ended, "{ahead_ms} ms");
        assert_eq!(bench.session().is_none(), ended);
        assert_eq!(bench.node.counter("pauses_by_wall"), u64::from(ended));
    }
}

/// A resend lay unread at a node that was paused for minutes. As it went on it waited for the
/// others so that it could ask them, and then had them store what was deleted long ago and whose
/// tombstone was forgotten. Before they are there a queue that wants two copies has it refused.
#[test]
fn what_comes_again_to_a_node_that_is_just_back_waits_for_nobody() {
    for away in [false, true] {
        let mut bench = Bench::new();
        let queue = bench.queue(one_partition());
        bench.up_again(1, 5, DISK);
        bench.at_ms += 10;
        bench.wall_off_ms += if away { 180_000 } else { 0 };
        let labels = vec![bench.label(1)];
        let (attempt, partition, within_ms) = (Attempt::Again, 0, 5000);
        let send = Request::Send { queue, partition, attempt, within_ms, labels };
        let (answer, effects) = bench.ask(send);
        assert_eq!(answer.is_some(), away, "P4: {effects:?}");
    }
}

/// A machine was suspended while it waited for another one to store a message. When it went on it
/// stored the message itself, in the place of that one, and was content with that: others had
/// handed it out and deleted it meanwhile, and forgotten that they had.
#[test]
fn who_was_away_stores_nothing_of_what_it_was_sending_and_its_outcome_is_unknown() {
    for (attempt, away) in [Attempt::First, Attempt::Again]
        .into_iter()
        .flat_map(|attempt| [true, false].map(|away| (attempt, away)))
    {
        let mut bench = Bench::new();
        let queue = bench.queue(SettingsChange { partitions: Some(8), ..one_partition() });
        bench.up_again(1, 5, DISK);
        let partition = (0..8).find(|of| bench.node.homes((queue, *of)) == [PEER]).unwrap();
        let labels = vec![bench.label(1)];
        let send = Request::Send { queue, partition, attempt, within_ms: 5000, labels };
        assert_eq!(bench.ask(send).0, None, "the other has not said yet that it has it");
        bench.at_ms += 10;
        bench.wall_off_ms += if away { 9000 } else { 0 };
        let effects = bench.handle(Event::LinkDown { link: LinkId(1) });
        let answers = effects.iter().filter_map(|effect| match effect {
            Effect::Answer { response, .. } => Some(response.clone()),
            _ => None,
        });
        let answers: Vec<Response> = answers.collect();
        let stored = bench.rows.keys().filter(|key| MessageKey::is_message(key)).count();
        if away {
            assert_eq!(answers, [Response::Refused(Refusal::OutcomeUnknown)]);
            assert_eq!(stored, 0, "P4: {effects:?}");
        } else {
            assert!(matches!(answers[..], [Response::Sent(_)]), "{answers:?}");
            assert_eq!(stored, 1, "it stands in for one that is gone");
        }
    }
}

/// The view was looked at again, and every client was told of members it knew.
#[test]
fn clients_are_told_of_the_members_only_when_something_is_new() {
    let mut bench = Bench::open(BTreeMap::new(), 0);
    let mut effects = bench.handle(Event::Started);
    effects.extend(bench.up_again(1, 5, DISK));
    let parted = bench.is_left(1);
    effects.extend(parted.iter().cloned());
    for _ in 0..3 {
        effects.extend(bench.pass(1000));
    }
    let told: Vec<&Welcome> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Welcome(welcome) => Some(welcome),
            _ => None,
        })
        .collect();
    assert!(told.len() > 1, "who came is told");
    assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "{told:?}");
    assert!(!parted.is_empty());
}
