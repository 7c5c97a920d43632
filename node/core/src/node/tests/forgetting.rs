//! Deleted queues are forgotten when nobody has them alive: what is asked, and what is done.

use super::*;
use crate::event::LinkId;

fn name() -> QueueName {
    QueueName::parse("orders").unwrap()
}

/// A node that has deleted a queue, and met these others.
fn deleted(others: &[u64]) -> (Bench, QueueId) {
    let mut bench = Bench::new();
    let queue = bench.queue(one_partition());
    bench.ask(Request::DeleteQueue { name: name() });
    for other in others {
        let hello =
            PeerHello { node: NodeId(*other), store: 9 + u128::from(*other), ..bench.node.hello() };
        bench.handle(Event::LinkUp { link: LinkId(*other), hello: Box::new(hello) });
    }
    (bench, queue)
}

impl Bench {
    /// A resend window and a second pass while the others are heard of; what is asked of whom.
    fn window_passes(&mut self, others: &[u64]) -> Vec<(LinkId, u64, Vec<QueueId>)> {
        let mut asked = Vec::new();
        for _ in 0..122 {
            for other in others {
                let clock = Envelope::Clock { wall: self.now().wall.0, correction: 0, commits: 0 };
                self.handle(Event::Envelope { link: LinkId(*other), envelope: clock });
            }
            for effect in self.pass(1000) {
                if let Effect::Send {
                    link, envelope: Envelope::AskDeleted { call, queues }, ..
                } = effect
                {
                    asked.push((link, call, queues));
                }
            }
        }
        asked
    }

    fn tells_alive(&mut self, other: u64, call: u64, queues: Vec<QueueId>) -> Vec<Effect> {
        let envelope = Envelope::Alive { call, queues };
        self.handle(Event::Envelope { link: LinkId(other), envelope })
    }

    fn remembers(&self, queue: QueueId) -> bool {
        let row = self.rows.contains_key(&Key::Queue(queue).encode());
        assert_eq!(self.node.table.entry(queue).is_some(), row, "memory and disk say the same");
        row
    }
}

#[test]
fn who_is_alone_forgets_after_two_windows() {
    let (mut bench, queue) = deleted(&[]);
    assert_eq!(bench.window_passes(&[]), []);
    assert!(bench.remembers(queue));
    assert_eq!(bench.window_passes(&[]), []);
    assert!(!bench.remembers(queue));
    let mut again = Bench::open(bench.rows, bench.at_ms + 1);
    assert_eq!(again.node.table.len(), 0);
    again.queue(one_partition());
}

#[test]
fn all_are_asked_and_it_is_forgotten_with_the_last_answer() {
    let (mut bench, queue) = deleted(&[2, 3]);
    assert_eq!(bench.window_passes(&[2, 3]), []);
    let asked = bench.window_passes(&[2, 3]);
    let calls: Vec<u64> = asked.iter().map(|(_, call, _)| *call).collect();
    let each = |link, call| (LinkId(link), call, vec![queue]);
    assert_eq!(asked, [each(2, calls[0]), each(3, calls[0])]);
    assert_eq!(bench.tells_alive(2, calls[0], vec![]), []);
    assert!(bench.remembers(queue));
    let delete = Write::Delete { key: Key::Queue(queue).encode() };
    assert_eq!(bench.tells_alive(3, calls[0], vec![]), [Effect::Write(delete)]);
    assert!(!bench.remembers(queue));
}

#[test]
fn what_lives_with_somebody_is_remembered_and_asked_about_again() {
    let (mut bench, queue) = deleted(&[2]);
    bench.window_passes(&[2]);
    let asked = bench.window_passes(&[2]);
    assert_eq!(bench.tells_alive(2, asked[0].1, vec![queue]), []);
    assert!(bench.remembers(queue), "P13");
    let asked = bench.window_passes(&[2]);
    assert_eq!(asked.len(), 1);
    bench.tells_alive(2, asked[0].1, vec![]);
    assert!(!bench.remembers(queue));
}

#[test]
fn who_does_not_answer_or_comes_while_the_others_do_is_waited_for() {
    let (mut bench, queue) = deleted(&[2, 3]);
    bench.window_passes(&[2, 3]);
    let asked = bench.window_passes(&[2, 3]);
    bench.tells_alive(2, asked[0].1, vec![]);
    bench.handle(Event::LinkDown { link: LinkId(3) });
    assert!(bench.remembers(queue), "P13: nobody knows what 3 knows");

    let (mut bench, queue) = deleted(&[2]);
    bench.window_passes(&[2]);
    let asked = bench.window_passes(&[2]);
    let hello = PeerHello { node: NodeId(4), store: 13, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LinkId(4), hello: Box::new(hello) });
    bench.tells_alive(2, asked[0].1, vec![]);
    assert!(bench.remembers(queue), "P13: 4 came and was not asked");
}

#[test]
fn whoever_is_asked_says_which_of_them_live() {
    let (mut bench, queue) = deleted(&[]);
    let lives = bench.queue(one_partition());
    let hello = PeerHello { node: NodeId(2), store: 9, ..bench.node.hello() };
    bench.handle(Event::LinkUp { link: LinkId(2), hello: Box::new(hello) });
    let queues = vec![queue, lives];
    let envelope = Envelope::AskDeleted { call: 7, queues };
    let effects = bench.handle(Event::Envelope { link: LinkId(2), envelope });
    let told = Envelope::Alive { call: 7, queues: vec![lives] };
    assert_eq!(effects.len(), 1);
    assert!(matches!(&effects[0], Effect::Send { envelope, .. } if *envelope == told));
}
