//! Queues that other nodes know, or must know: who is asked, and when the client is answered.

use gaggle_wire::ChangeMode;

use super::*;
use crate::event::LinkId;
use crate::table::Entry;

const PEERS: [NodeId; 2] = [NodeId(2), NodeId(3)];

impl Bench {
    /// A node in session with these.
    fn among(peers: &[NodeId]) -> Self {
        let mut bench = Self::new();
        for peer in peers {
            let (node, store) = (*peer, u128::from(peer.0) + 100);
            let hello = PeerHello { node, store, ..bench.node.hello() };
            bench.handle(Event::LinkUp { link: LinkId(node.0), hello: Box::new(hello) });
        }
        bench
    }

    fn hears_from(&mut self, peer: NodeId, envelope: Envelope) -> Vec<Effect> {
        self.handle(Event::Envelope { link: LinkId(peer.0), envelope })
    }

    /// The number with which this is told to the one other, and that nobody is answered yet.
    fn told_unanswered(&mut self, request: Request) -> u64 {
        let (answer, effects) = self.ask(request);
        assert_eq!(answer, None, "{effects:?}");
        let calls: Vec<u64> = effects.iter().filter_map(table_call).collect();
        let [call] = calls[..] else { panic!("{effects:?}") };
        assert_ne!(call, 0, "an answer to it is asked for");
        call
    }

    /// As [`Self::told_unanswered`], until the other has it; the whole list of effects then.
    fn answered_once_held(&mut self, request: Request) -> Response {
        let call = self.told_unanswered(request);
        let other = self.hears_from(PEERS[0], Envelope::TableHeld { call: call + 1 });
        assert_eq!(other, [], "that answers nothing that was asked");
        let effects = self.hears_from(PEERS[0], Envelope::TableHeld { call });
        let [Effect::Answer { reply, response }] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(reply.request, self.request);
        response.clone()
    }
}

fn table_call(effect: &Effect) -> Option<u64> {
    match effect {
        Effect::Send { envelope: Envelope::Table { call, .. }, .. } => Some(*call),
        _ => None,
    }
}

fn name() -> QueueName {
    QueueName::parse("orders").unwrap()
}

fn describe() -> Request {
    Request::DescribeQueue { name: name() }
}

fn create(confirms: u8, at_least: u8) -> Request {
    let (replicas, confirms, at_least) = (Some(confirms), Some(confirms), Some(at_least));
    let change = SettingsChange { replicas, confirms, at_least, ..one_partition() };
    Request::CreateQueue { name: name(), change }
}

/// A queue that was made elsewhere.
fn foreign() -> Entry {
    let stamp = Stamp { time: at(0).wall.0, count: 0, process: ProcessId(5) };
    Entry::new(QueueId(stamp), name(), Settings::default())
}

fn answer(request: u64, response: Response) -> Effect {
    Effect::Answer { reply: Reply { client: ClientId(1), stream: 0, request }, response }
}

fn not_found() -> Response {
    Response::Refused(Refusal::QueueNotFound { queue: "orders".to_owned() })
}

/// Asks for a queue that is not known here; the number with which all others are asked.
fn asked_of_all(bench: &mut Bench) -> u64 {
    let (answer, effects) = bench.ask(describe());
    assert_eq!(answer, None);
    let Some(Effect::Send { envelope: Envelope::AskQueue { call, .. }, .. }) = effects.first()
    else {
        panic!("{effects:?}")
    };
    let ask = |node: NodeId| {
        let envelope = Envelope::AskQueue { call: *call, name: name() };
        Effect::Send { link: LinkId(node.0), envelope }
    };
    assert_eq!(effects, PEERS.map(ask), "everybody in session is asked, and nothing else done");
    *call
}

#[test]
fn a_name_that_is_not_known_is_asked_of_all_and_the_first_who_knows_it_gives_the_answer() {
    let mut bench = Bench::among(&PEERS);
    let call = asked_of_all(&mut bench);
    let entries = vec![foreign()];
    let known = Envelope::KnownQueue { call, entries: entries.clone() };
    let effects = bench.hears_from(PEERS[0], known);
    let (key, value) = (Key::Queue(foreign().id).encode(), record::encode(&foreign()));
    let news = Envelope::Table { call: 0, entries, removals: Vec::new() };
    let found = Response::Queue(Box::new(foreign().describe()));
    assert_eq!(
        effects,
        [
            Effect::Write(Write::Put { key, value }),
            Effect::Send { link: LinkId(PEERS[1].0), envelope: news },
            answer(1, found.clone()),
        ]
    );
    let late = Envelope::KnownQueue { call, entries: Vec::new() };
    assert_eq!(bench.hears_from(PEERS[1], late), [], "it is answered once");
    let (again, effects) = bench.ask(describe());
    assert_eq!((again, effects.len()), (Some(found), 1), "it is known now");
}

#[test]
fn a_name_that_nobody_knows_is_not_found_when_the_last_has_said_so() {
    let mut bench = Bench::among(&PEERS);
    let call = asked_of_all(&mut bench);
    let no = Envelope::KnownQueue { call, entries: Vec::new() };
    assert_eq!(bench.hears_from(PEERS[1], no.clone()), []);
    assert_eq!(bench.hears_from(PEERS[1], no.clone()), [], "one that says it twice is one");
    assert_eq!(bench.hears_from(PEERS[0], no), [answer(1, not_found())]);
}

#[test]
fn a_name_is_not_found_either_when_who_was_asked_says_nothing_for_half_a_second() {
    let mut bench = Bench::among(&PEERS);
    let call = asked_of_all(&mut bench);
    bench.hears_from(PEERS[1], Envelope::KnownQueue { call, entries: Vec::new() });
    let answers = |effects: Vec<Effect>| effects.contains(&answer(1, not_found()));
    assert!(!answers(bench.pass(499)));
    assert!(answers(bench.pass(2)));
}

#[test]
fn create_set_and_delete_are_answered_when_as_many_as_must_have_it_on_disk() {
    let mut bench = Bench::among(&PEERS[..1]);
    let request = create(2, 1);
    let (_, effects) = bench.ask(request.clone());
    let Some(Effect::Send { envelope: Envelope::AskQueue { call, .. }, .. }) = effects.first()
    else {
        panic!("{effects:?}")
    };
    let no = Envelope::KnownQueue { call: *call, entries: Vec::new() };
    let effects = bench.hears_from(PEERS[0], no);
    let unanswered = !effects.iter().any(|effect| matches!(effect, Effect::Answer { .. }));
    assert!(unanswered, "{effects:?}");
    let call = effects.iter().find_map(table_call).expect("the other is told");
    let effects = bench.hears_from(PEERS[0], Envelope::TableHeld { call });
    let [Effect::Answer { response: Response::Queue(queue), .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((&queue.name, queue.settings.confirms), (&name(), 2));

    let visibility_timeout_ms = Some(45_000);
    let change = SettingsChange { visibility_timeout_ms, ..SettingsChange::default() };
    let set = Request::SetQueue { name: name(), change, mode: ChangeMode::Apply };
    let Response::QueueSet { after, .. } = bench.answered_once_held(set) else { panic!() };
    assert_eq!(after.visibility_timeout_ms, 45_000);
    let delete = Request::DeleteQueue { name: name() };
    assert_eq!(bench.answered_once_held(delete), Response::Done);
}

#[test]
fn what_the_other_does_not_store_in_time_has_an_unknown_outcome() {
    let mut bench = Bench::among(&PEERS[..1]);
    bench.hears_from(
        PEERS[0],
        Envelope::Table { call: 0, entries: vec![foreign()], removals: Vec::new() },
    );
    bench.told_unanswered(Request::DeleteQueue { name: name() });
    let unknown = answer(1, Response::Refused(Refusal::OutcomeUnknown));
    assert!(!bench.pass(9_999).contains(&unknown));
    assert!(bench.pass(2).contains(&unknown));
}

#[test]
fn with_too_few_in_session_nothing_is_created_set_or_deleted() {
    let too_few = |wanted, reachable| Refusal::NotEnoughHosts { wanted, reachable };
    let mut alone = Bench::new();
    let (answer, effects) = alone.ask(create(2, 2));
    assert_eq!(answer, Some(Response::Refused(too_few(2, 1))));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Write(Write::Put { key, .. })
        if key.first() == Key::Queue(foreign().id).encode().first())));
    assert_eq!(alone.ask(describe()).0, Some(not_found()));

    alone.ask(create(2, 1)).0.expect("one is enough for this one");
    let firm = SettingsChange { at_least: Some(2), ..SettingsChange::default() };
    let set = Request::SetQueue { name: name(), change: firm, mode: ChangeMode::Apply };
    assert_eq!(alone.ask(set).0, Some(Response::Refused(too_few(2, 1))));
    let Some(Response::Queue(queue)) = alone.ask(describe()).0 else { panic!() };
    assert_eq!(queue.settings.at_least, 1, "it is as it was");
}
