//! A random walk: many messages, nodes that store and answer, or lose, refuse, swallow, and
//! connections that break, under a seed that is printed with every failure.
//!
//! What is checked: every ticket gets exactly one result; what is confirmed is stored, once,
//! under the id that was told; what is reported as not done is stored nowhere.

use std::collections::BTreeSet;

use gaggle_wire::MessageId;

use super::*;
use crate::random::Random;
use crate::{Target, Verb};

type FullId = (QueueId, u16, MessageId);

struct World {
    f: Fixture,
    random: Random,
    /// What is stored: the content's number is the ticket.
    stored: BTreeMap<FullId, u64>,
    results: BTreeMap<u64, Result<Confirmed, Failure>>,
    settled: BTreeSet<u64>,
    /// Requests on their way to nodes, and answers on their way back.
    requests: Vec<Asked>,
    answers: Vec<(u64, u64, Response)>,
    /// The connections that are up, and to which node.
    up: BTreeMap<u64, u64>,
    dialled: Vec<(u64, Target)>,
    healed: bool,
}

#[test]
fn every_message_gets_one_true_result() {
    for seed in 0..150 {
        let mut world = World::new(seed);
        world.storm(400);
        world.heal();
        world.check(seed);
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let config = Config { batch_worth: 3, batches_max: 2, ..Config::default() };
        let f = Fixture::opened(config, seed);
        Self {
            f,
            random: Random::new(seed ^ 0xfeed),
            stored: BTreeMap::new(),
            results: BTreeMap::new(),
            settled: BTreeSet::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            up: BTreeMap::new(),
            dialled: Vec::new(),
            healed: false,
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.random.next() % sides
    }

    fn pick<T>(&mut self, from: impl Fn(&mut Self) -> &mut Vec<T>) -> Option<T> {
        let length = from(self).len() as u64;
        if length == 0 {
            return None;
        }
        let at = usize::try_from(self.roll(length)).unwrap();
        Some(from(self).swap_remove(at))
    }

    fn storm(&mut self, steps: u64) {
        for ticket in 1..=steps {
            match self.roll(4) {
                0 => self.settle(ticket),
                _ => self.send(ticket),
            }
            for _ in 0..self.roll(6) {
                self.step();
            }
        }
    }

    /// Faults stop, and everything must come to an end.
    fn heal(&mut self) {
        self.healed = true;
        for _ in 0..200_000 {
            if self.f.core.is_idle() {
                return;
            }
            self.step();
        }
        panic!("it does not come to an end");
    }

    fn send(&mut self, ticket: u64) {
        let body = ticket.to_be_bytes().to_vec();
        let (label, content) = Message::new(body).pack(0, Stamp::ZERO, 0).unwrap();
        let key = (self.roll(2) == 0).then_some(ticket % 5);
        let within = ms(200 + self.roll(30_000));
        let parcel = Parcel { ticket, queue: name(), key, label, content, within };
        let effects = self.f.handle(Event::Send(parcel));
        self.perform(effects);
    }

    fn settle(&mut self, ticket: u64) {
        let verb = [Verb::Delete, Verb::Extend(9), Verb::Release(9)][ticket as usize % 3];
        let receipt = receipt(1 + ticket % 3, ticket);
        let settle = crate::Settle { ticket, verb, receipt, within: s(10) };
        let effects = self.f.handle(Event::Settle(settle));
        self.perform(effects);
    }

    fn step(&mut self) {
        match self.roll(8) {
            0 | 1 => {
                if let Some((link, request, body, contents)) = self.pick(|w| &mut w.requests) {
                    self.serve(link, request, body, contents);
                }
            }
            2 | 3 => {
                if let Some((link, request, body)) = self.pick(|w| &mut w.answers)
                    && self.up.contains_key(&link)
                {
                    let effects = self.f.answer(link, request, body);
                    self.perform(effects);
                }
            }
            4 => {
                if let Some((link, target)) = self.pick(|w| &mut w.dialled) {
                    self.connect(link, target);
                }
            }
            5 if !self.healed && self.roll(12) == 0 => {
                if let Some((link, _)) = self.up.pop_first() {
                    let effects = self.f.handle(Event::Lost { link });
                    self.perform(effects);
                }
            }
            _ => {
                let most = if self.roll(20) == 0 { 1500 } else { 20 };
                let time = self.roll(most);
                self.f.now += ms(time);
                let effects = self.f.tick();
                self.perform(effects);
            }
        }
    }

    fn connect(&mut self, link: u64, target: Target) {
        let node = match target {
            Target::Seed(_) => 1,
            Target::Address(address) => u64::from(address.port()),
        };
        let effects = if !self.healed && self.roll(4) == 0 {
            self.f.handle(Event::Lost { link })
        } else {
            self.up.insert(link, node);
            let mut effects = self.f.handle(Event::Dialled { link });
            for (link, request, ..) in asked(&std::mem::take(&mut effects)) {
                let welcome = Response::Welcome(welcome_of(node, 3));
                effects.extend(self.f.answer(link, request, welcome));
            }
            effects
        };
        self.perform(effects);
    }

    fn serve(&mut self, link: u64, request: u64, body: Request, contents: Vec<Bytes>) {
        if !self.up.contains_key(&link) {
            return;
        }
        let faulty = !self.healed;
        let answer = match body {
            Request::DescribeQueue { .. } => described(QUEUE),
            Request::Send { queue, partition, labels, .. } => {
                match if faulty { self.roll(16) } else { 9 } {
                    0 => refused(few()),
                    1 => refused(Refusal::NotReady),
                    2 => refused(Refusal::ClockAhead { by_ms: 1 }),
                    3 => return,
                    roll => {
                        for (label, content) in labels.iter().zip(&contents) {
                            let id = (queue, partition, label.id());
                            let ticket = u64::from_be_bytes(content[..].try_into().unwrap());
                            let before = self.stored.insert(id, ticket);
                            assert!(before.is_none_or(|t| t == ticket), "an id was given twice");
                        }
                        match roll {
                            4 => return,
                            5 => refused(Refusal::OutcomeUnknown),
                            _ => sent(2),
                        }
                    }
                }
            }
            Request::Delete { receipts } => {
                let deleted = gaggle_wire::DeleteResult::Deleted;
                Response::Deleted(vec![deleted; receipts.len()])
            }
            Request::Extend { receipts, .. } => Response::Extended(vec![Ok(9); receipts.len()]),
            Request::Release { receipts, .. } => Response::Released(vec![Ok(()); receipts.len()]),
            Request::Hello { .. } => Response::Welcome(welcome_of(self.up[&link], 3)),
            Request::ListQueues { .. } => Response::Queues { queues: Vec::new(), more: false },
            other => panic!("{other:?}"),
        };
        self.answers.push((link, request, answer));
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Dial { link, target } => self.dialled.push((link, target)),
                Effect::HangUp { link } => {
                    self.up.remove(&link);
                    self.dialled.retain(|(at, _)| *at != link);
                }
                Effect::Transmit { link, frame, contents, .. } => {
                    self.requests.push((link, frame.request, frame.body, contents));
                }
                Effect::Sent { ticket, result } => {
                    assert!(self.results.insert(ticket, result).is_none(), "two results");
                }
                Effect::Settled { ticket, .. } => {
                    assert!(self.settled.insert(ticket), "two results");
                }
                _ => {}
            }
        }
    }

    fn check(&self, seed: u64) {
        let mut places: BTreeMap<u64, Vec<FullId>> = BTreeMap::new();
        for (id, ticket) in &self.stored {
            places.entry(*ticket).or_default().push(*id);
        }
        assert_eq!(self.results.len() + self.settled.len(), 400, "seed {seed}");
        for (ticket, result) in &self.results {
            let stored = places.get(ticket).map_or(&[][..], Vec::as_slice);
            match result {
                Ok(confirmed) => {
                    assert_eq!(stored.len(), 1, "seed {seed}: {ticket} stored at {stored:?}");
                    assert_eq!(stored[0].2, confirmed.id, "seed {seed}");
                }
                Err(Failure::Unknown { .. }) => assert!(stored.len() <= 1, "seed {seed}"),
                Err(_) => assert!(stored.is_empty(), "seed {seed}: {ticket} is stored"),
            }
        }
    }
}
