//! Inventories and questions of more ranges than one part has room for.

use super::*;
use crate::envelope::{Lost, PartitionInventory, Place, Span};
use crate::event::LinkId;
use crate::table::rendezvous::{self, Slot};

const PEER: NodeId = NodeId(2);
/// Ranges of a part: few enough that twenty take several.
const PART: usize = 8;

impl Bench {
    /// A node with a queue and a session, with so much room for a part.
    fn with_parts(part: usize) -> (Self, QueueId) {
        let mut bench = Self::new();
        bench.node.config.inventory_part = part;
        let queue = bench.queue(one_partition());
        bench.links(1);
        (bench, queue)
    }

    /// A node in session with another, and a partition that it is the first holder of.
    fn first_holder() -> (Self, QueueId, u16) {
        let mut bench = Self::new();
        let queue = bench.queue(SettingsChange { partitions: Some(16), ..Default::default() });
        bench.links(1);
        let is_first = |partition: &u16| {
            let mut order = vec![ME, PEER];
            rendezvous::order(Slot::of(queue, *partition), &mut order);
            order[0] == ME
        };
        let partition = (0..16).find(is_first).expect("it is first somewhere");
        (bench, queue, partition)
    }

    fn links(&mut self, link: u64) -> Vec<Envelope> {
        let hello = PeerHello { node: PEER, store: 9, ..self.node.hello() };
        said(self.handle(Event::LinkUp { link: LinkId(link), hello: Box::new(hello) }))
    }

    fn hears_on(&mut self, link: u64, envelope: Envelope) -> Vec<Envelope> {
        said(self.handle(Event::Envelope { link: LinkId(link), envelope }))
    }

    /// Every other message of twenty and one comes to be held, for both nodes.
    fn holds_odd_ones(&mut self, queue: QueueId, holders: &[NodeId]) -> Ranges {
        for number in (1..=41).step_by(2) {
            let labels = vec![self.label(number)];
            let (batch, partition, accepted) = (number, 0, labels[0].stamp);
            let holders = holders.to_vec();
            let copy = Envelope::Copy {
                batch,
                queue,
                partition,
                accepted,
                holders,
                attempt: Attempt::First,
                labels,
            };
            self.hears_on(1, copy);
        }
        (1..=41).step_by(2).collect()
    }
}

fn said(effects: Vec<Effect>) -> Vec<Envelope> {
    let said = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { envelope, .. } | Effect::SendNow { envelope, .. } => Some(envelope),
        _ => None,
    });
    said.collect()
}

fn place(queue: QueueId, number: u64) -> Place {
    Place { queue, partition: 0, process: PRODUCER, number }
}

/// The part among what was said, and that there is one.
fn part(said: &[Envelope]) -> (&[PartitionInventory], Span) {
    let mut parts = said.iter().filter_map(|envelope| match envelope {
        Envelope::Inventory { call: 0, partitions, span } => Some((&partitions[..], *span)),
        _ => None,
    });
    let part = parts.next().expect("there is a part");
    assert_eq!(parts.next(), None, "and no second one unasked");
    part
}

fn told_of(queue: QueueId, span: Span, held: Ranges) -> Envelope {
    let processes = vec![(PRODUCER, held, Ranges::default())];
    let partitions = vec![PartitionInventory { queue, partition: 0, processes }];
    Envelope::Inventory { call: 0, partitions, span }
}

fn given(said: &[Envelope]) -> Vec<u64> {
    let items = said.iter().flat_map(|envelope| match envelope {
        Envelope::MakeUp { items, .. } => &items[..],
        _ => &[],
    });
    items.map(|item| item.label.number).collect()
}

fn made_up() -> Envelope {
    Envelope::Held { batch: 0, exceptions: Vec::new(), commits: 1 }
}

#[test]
fn what_does_not_fit_one_part_is_told_part_by_part_as_it_is_asked_for() {
    let (mut bench, queue) = Bench::with_parts(PART);
    let all = bench.holds_odd_ones(queue, &[ME, PEER]);
    bench.handle(Event::LinkDown { link: LinkId(1) });
    let mut heard = bench.links(2);
    let (mut told, mut parts) = (Ranges::default(), 0);
    loop {
        let (partitions, span) = part(&heard);
        for (_, held, gone) in partitions.iter().flat_map(|told| &told.processes) {
            assert!(held.count() + gone.count() <= PART, "P12: {held:?}");
            assert!(held.intersection(&told).is_empty());
            told.merge(held);
        }
        parts += 1;
        let Some(after) = span.until else { break };
        heard = bench.hears_on(2, Envelope::More { after });
    }
    // A partition, a process, and three messages with the lists they are under.
    assert_eq!((told, parts), (all, 7));
}

/// More ranges than there were frames for: the frame was refused, and with it every session that
/// the two ever began.
#[test]
fn seven_hundred_thousand_ranges_are_told_in_frames_that_are_far_below_the_limit() {
    let (mut bench, queue) = Bench::with_parts(50_000);
    bench.holds_odd_ones(queue, &[ME, PEER]);
    let known = &mut bench.node.partitions.get_mut(&(queue, 0)).unwrap().known;
    let process = ProcessId(u64::MAX);
    for number in 0..700_000 {
        known.hold(process, (1 << 62) + number * 2);
    }
    let (mut after, mut ranges, mut parts) = (Span::all().after, 0, 0);
    loop {
        let mut effects = Effects::new();
        bench.node.tell_inventory(PEER, after, &mut effects);
        let heard = said(effects.drain().collect());
        assert!(postcard::to_stdvec(&heard[0]).unwrap().len() <= 1_100_000, "P12");
        let (partitions, span) = part(&heard);
        let processes = partitions.iter().flat_map(|told| &told.processes);
        ranges += processes.fold(0, |sum, (_, held, gone)| sum + held.count() + gone.count());
        parts += 1;
        let Some(until) = span.until else { break };
        assert!(until > after);
        after = until;
    }
    assert_eq!((ranges, parts), (700_021, 15));
}

#[test]
fn the_lists_of_messages_are_told_beside_the_part_that_tells_of_them() {
    let (mut bench, queue) = Bench::with_parts(PART);
    let all = bench.holds_odd_ones(queue, &[NodeId(1), PEER, NodeId(3)]);
    bench.handle(Event::LinkDown { link: LinkId(1) });
    let mut heard = bench.links(2);
    let mut listed = Ranges::default();
    loop {
        let (_, span) = part(&heard);
        for envelope in &heard {
            if let Envelope::Listed { messages, .. } = envelope {
                assert!(messages[0].1.count() <= PART, "P12");
                assert_eq!(span.cut((queue, 0), messages), *messages);
                listed.merge(&messages[0].1);
            }
        }
        let Some(after) = span.until else { break };
        heard = bench.hears_on(2, Envelope::More { after });
    }
    assert_eq!(listed, all);
}

#[test]
fn the_next_part_is_asked_for_at_once_and_custody_waits_for_the_last() {
    let (mut bench, queue) = Bench::with_parts(PART);
    bench.holds_odd_ones(queue, &[PEER, ME]);
    bench.handle(Event::LinkDown { link: LinkId(1) });
    let mut heard = bench.links(2);
    while let Some(after) = part(&heard).1.until {
        heard = bench.hears_on(2, Envelope::More { after });
    }
    bench.hears_on(2, Envelope::Mark);
    let until = place(queue, 6);
    let first = Span { until: Some(until), ..Span::all() };
    let heard = bench.hears_on(2, told_of(queue, first, Ranges::of(3, 3)));
    assert!(heard.contains(&Envelope::More { after: until }), "{heard:?}");
    assert_eq!(given(&heard), [1, 5], "of what lies behind the part nothing is known");
    assert_eq!(bench.hears_on(2, made_up()), []);
    assert!(!bench.node.sessions.may_serve_any(), "P4: the rest may tell of a delete");
    let again = bench.hears_on(2, told_of(queue, first, Ranges::default()));
    assert_eq!(again, [], "a part that does not follow says nothing");
    let rest = Span { after: until, until: None };
    let heard = bench.hears_on(2, told_of(queue, rest, Ranges::of(8, 41)));
    assert!(bench.node.sessions.may_serve_any());
    assert_eq!(given(&heard), [7]);
    assert!(!heard.contains(&Envelope::Yield));
    assert!(bench.hears_on(2, made_up()).contains(&Envelope::Yield));
}

/// A node that had joined yielded to an earlier holder once it had heard of all that this one had,
/// which took more than a second. It had nothing to compare that with.
#[test]
fn who_has_nothing_to_give_passes_custody_before_the_last_part_has_come() {
    let (mut bench, queue) = Bench::with_parts(PART);
    assert_eq!(bench.hears_on(1, Envelope::Mark), []);
    let after = place(queue, 6);
    let first = Span { until: Some(after), ..Span::all() };
    let heard = bench.hears_on(1, told_of(queue, first, Ranges::of(1, 6)));
    assert_eq!(heard, [Envelope::More { after }, Envelope::Yield], "P10");
    assert!(!bench.node.sessions.may_serve_any(), "P4: the rest may tell of a delete");
    let rest = Span { after, until: None };
    assert_eq!(bench.hears_on(1, told_of(queue, rest, Ranges::of(7, 41))), []);
    assert!(bench.node.sessions.may_serve_any());
}

/// A node that had joined could hand nothing out before it was told all that the others had, but
/// they had yielded to it long before: for more than a second nobody handed anything out.
#[test]
fn custody_is_passed_once_the_other_was_told_the_last_part() {
    let (mut bench, queue) = Bench::with_parts(PART);
    let all = bench.holds_odd_ones(queue, &[PEER, ME]);
    bench.handle(Event::LinkDown { link: LinkId(1) });
    let mut heard = bench.links(2);
    assert_eq!(bench.hears_on(2, Envelope::Mark), []);
    let lists = bench.hears_on(2, told_of(queue, Span::all(), all));
    let listed = |envelope: &Envelope| matches!(envelope, Envelope::Listed { .. });
    assert!(lists.iter().all(listed), "P10: it could not hand out yet: {lists:?}");
    while let Some(after) = part(&heard).1.until {
        assert!(!heard.contains(&Envelope::Yield), "P10: {heard:?}");
        heard = bench.hears_on(2, Envelope::More { after });
    }
    let [Envelope::Inventory { .. }, Envelope::Listed { .. }, Envelope::Yield] = &heard[..] else {
        panic!("{heard:?}")
    };
}

#[test]
fn nothing_of_the_half_inventory_of_a_former_session_counts() {
    let (mut bench, queue) = Bench::with_parts(PART);
    bench.holds_odd_ones(queue, &[PEER, ME]);
    let until = place(queue, 36);
    let first = Span { until: Some(until), ..Span::all() };
    bench.hears_on(1, Envelope::Mark);
    let heard = bench.hears_on(1, told_of(queue, first, Ranges::of(1, 36)));
    assert!(heard.contains(&Envelope::More { after: until }), "{heard:?}");
    bench.handle(Event::LinkDown { link: LinkId(1) });
    bench.links(2);
    bench.hears_on(2, Envelope::Mark);
    let rest = Span { after: until, until: None };
    let late = told_of(queue, rest, Ranges::of(37, 41));
    assert_eq!(bench.hears_on(1, late.clone()), [], "of an ended session nothing is heard");
    assert_eq!(bench.hears_on(2, late), [], "and its place is none of the next");
    assert!(!bench.node.sessions.may_serve_any());
    let heard = bench.hears_on(2, told_of(queue, Span::all(), Ranges::of(37, 41)));
    let odd: Vec<u64> = (1..=35).step_by(2).collect();
    assert_eq!(given(&heard), odd, "it begins at the beginning");
    assert!(!heard.contains(&Envelope::Yield));
}

#[test]
fn a_question_goes_on_until_the_answers_have_come_to_its_end() {
    let (mut bench, queue) = Bench::with_parts(PART);
    let all = bench.holds_odd_ones(queue, &[ME, PEER]);
    let mut heard = said(bench.pass(2100));
    let mut asked = Ranges::default();
    for _ in 0..3 {
        let (call, messages) = question(&heard);
        assert!(messages.count() <= PART, "P12");
        assert!(messages.intersection(&asked).is_empty());
        assert_eq!(
            bench.node.desk.calls.kinds(bench.now().mono).count(),
            1,
            "it is asked once at a time"
        );
        bench.pass(600);
        asked.merge(&messages);
        let span =
            Span { after: place(queue, 0), until: Some(place(queue, messages.last().unwrap())) };
        let Envelope::Inventory { partitions, .. } = told_of(queue, span, Ranges::default()) else {
            unreachable!("that is what it makes")
        };
        heard = bench.hears_on(1, Envelope::Inventory { call, partitions, span });
    }
    assert_eq!(asked, all);
    assert_eq!(bench.node.desk.calls.kinds(bench.now().mono).count(), 0, "the last answer ends it");
}

fn question(said: &[Envelope]) -> (u64, Ranges) {
    let ask = said.iter().find_map(|envelope| match envelope {
        Envelope::Ask { call, messages, .. } => Some((*call, messages[0].1.clone())),
        _ => None,
    });
    ask.unwrap_or_else(|| panic!("nothing is asked: {said:?}"))
}

#[test]
fn an_answer_says_how_far_it_comes() {
    let (mut bench, queue) = Bench::with_parts(PART);
    let all = bench.holds_odd_ones(queue, &[ME, PEER]);
    let (mut after, mut told) = (0, Ranges::default());
    for _ in 0..3 {
        let messages = vec![(PRODUCER, Ranges::of(after + 1, 41))];
        let (call, lost, partition) = (7, Lost::Counts, 0);
        let ask = Envelope::Ask { call, lost, queue, partition, messages };
        let heard = bench.hears_on(1, ask);
        let [Envelope::Inventory { call: 7, partitions, span }] = &heard[..] else {
            panic!("{heard:?}")
        };
        assert_eq!(span.after, place(queue, after));
        let held = &partitions[0].processes[0].1;
        assert!(held.count() <= PART, "P12");
        told.merge(held);
        after = span.until.unwrap().number;
    }
    assert_eq!((told, after), (all, 41));
}

#[test]
fn holders_that_differ_are_asked_in_the_words_of_any_other_question() {
    let (mut bench, queue) = Bench::with_parts(PART);
    bench.holds_odd_ones(queue, &[PEER, ME]);
    let settled = vec![(queue, 0, PRODUCER, Ranges::of(1, 41))];
    bench.hears_on(1, Envelope::Settled { messages: settled, lacking: Vec::new() });
    bench.hears_on(1, Envelope::Mark);
    let heard = bench.hears_on(1, told_of(queue, Span::all(), Ranges::of(1, 41)));
    assert!(heard.contains(&Envelope::Yield));
    let heard = said(bench.pass(1000));
    let compare = heard.iter().find_map(|envelope| match envelope {
        Envelope::Compare { call, digest, .. } => Some((*call, *digest)),
        _ => None,
    });
    let (call, digest) = compare.expect("holders compare");
    // To the same comparison it says that it has the same, and so covers all.
    let equal = Envelope::Compare { call: 5, queue, partition: 0, digest };
    let before = Place::before((queue, 0));
    let answer = |call, until| Envelope::Inventory {
        call,
        partitions: Vec::new(),
        span: Span { after: before, until },
    };
    assert_eq!(bench.hears_on(1, equal), [answer(5, None)]);
    let heard = bench.hears_on(1, answer(call, Some(before)));
    assert_eq!(question(&heard).0, call, "the other has not the same");
    // What it has lost it is to be given.
    let lacks = |said: &Envelope| matches!(said, Envelope::Ask { lost: Lost::Lacks, .. });
    assert!(heard.iter().any(lacks), "P1: {heard:?}");
}

/// The other may have yielded long before the rest of what it has is asked for, and in that may be
/// a delete that no tombstone told of: the message was given out again.
#[test]
fn nothing_is_handed_out_before_the_last_part_has_come() {
    let (mut bench, queue, partition) = Bench::first_holder();
    let labels = vec![bench.label(1), bench.label(3)];
    bench.hears_on(1, copy_of((queue, partition), vec![ME, PEER], labels.clone()));
    bench.handle(Event::LinkDown { link: LinkId(1) });
    bench.links(2);
    assert_eq!(bench.receive(9, 20_000), None);
    let link = LinkId(2);
    let mut hear = |envelope| bench.handle(Event::Envelope { link, envelope });
    assert_eq!(hear(Envelope::Mark), []);
    assert_eq!(hear(Envelope::Yield), []);
    let told = |span, held, gone| {
        let processes = vec![(PRODUCER, held, gone)];
        let partitions = vec![PartitionInventory { queue, partition, processes }];
        Envelope::Inventory { call: 0, partitions, span }
    };
    let after = Place { queue, partition, process: PRODUCER, number: 2 };
    let first = Span { until: Some(after), ..Span::all() };
    let (holders, messages) = (vec![ME, PEER], vec![(PRODUCER, Ranges::of(1, 1))]);
    assert_eq!(
        hear(told(first, Ranges::of(1, 1), Ranges::default())),
        [
            Effect::Send {
                link,
                envelope: Envelope::Listed { queue, partition, holders, messages }
            },
            Effect::Send { link, envelope: Envelope::More { after } },
        ],
        "P4: the third message waits, and so does the first"
    );
    let last = Span { after, until: None };
    let effects = hear(told(last, Ranges::default(), Ranges::of(3, 3)));
    let [.., Effect::Welcome(welcome), Effect::Answer { reply, response }] = &effects[..] else {
        panic!("{effects:?}")
    };
    let Response::Deliveries { deliveries } = response else { panic!("{response:?}") };
    assert_eq!(numbers(deliveries), [1], "P4");
    let Effect::Write(Write::Put { value, .. }) = &effects[2] else { panic!("{effects:?}") };
    let block: BlockRecord = record::decode(value).unwrap();
    assert_eq!(block.messages, [(PRODUCER, Ranges::of(3, 3))]);
    let row = MessageKey { queue, partition, stamp: labels[1].stamp };
    let tombstone = Key::Tombstones(queue, partition, 0).encode();
    assert_eq!(
        effects,
        [
            Effect::Write(Write::Delete { key: row.encode() }),
            Effect::Write(Write::Delete { key: Key::Deliveries(row).encode() }),
            Effect::Write(Write::Put { key: tombstone, value: value.clone() }),
            Effect::Send { link, envelope: Envelope::Yield },
            Effect::Links(Vec::new()),
            Effect::Welcome(welcome.clone()),
            Effect::Answer { reply: *reply, response: response.clone() },
        ]
    );
}
