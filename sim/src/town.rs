//! The town: clients and their connections to nodes.
//!
//! Every actor has at most one connection to each node, on which requests and answers keep their
//! order. A connection ends with its node's process, and its client learns so a little later.
//!
//! What this file does not do: what clients do is in `actor.rs`.

use std::collections::BTreeMap;

use gaggle_core::event::{ClientId, Event, Reply};
use gaggle_wire::{Request, Response, Standing, Welcome};

use crate::actor::{Act, Actor, Desk, Hand};
use crate::consumer::{Consumer, Habits};
use crate::oracle::Place;
use crate::producer::{Plan, Producer};
use crate::world::{Happening, World};

/// Clients and their connections.
#[derive(Debug, Default)]
pub(crate) struct Town {
    pub(crate) actors: Vec<Actor>,
    connections: BTreeMap<ClientId, Connection>,
    by_place: BTreeMap<(usize, usize), ClientId>,
    next: u64,
    /// The actor that does what a scenario says, one request at a time.
    hand: Option<usize>,
    requests: u64,
}

#[derive(Debug)]
struct Connection {
    actor: usize,
    node: usize,
    /// When the last request arrives, and the last answer.
    arrives: (u64, u64),
}

/// What a client hears of.
#[derive(Debug)]
pub(crate) enum News {
    Answer { client: ClientId, number: u64, response: Box<Response> },
    Lost { node: usize },
    Unready { node: usize },
    Wake,
}

impl World {
    /// A client that does what the scenario says; its number.
    pub fn hand(&mut self) -> usize {
        self.town.actors.push(Actor::Hand(Hand::default()));
        self.town.actors.len() - 1
    }

    pub(crate) fn producer(&mut self, plan: Plan) -> usize {
        let process = gaggle_wire::ProcessId(1000 + self.town.actors.len() as u64);
        self.move_in(Actor::Producer(Producer::new(process, plan)))
    }

    pub(crate) fn consumer(&mut self, habits: Habits) -> usize {
        self.move_in(Actor::Consumer(Consumer::new(habits)))
    }

    fn move_in(&mut self, actor: Actor) -> usize {
        self.town.actors.push(actor);
        let number = self.town.actors.len() - 1;
        self.at(self.now, Happening::Client(number, News::Wake));
        number
    }

    /// Asks as a hand; the number of the request.
    pub fn ask(&mut self, hand: usize, node: usize, request: Request) -> u64 {
        self.town.requests += 1;
        let number = self.town.requests;
        self.play(hand, vec![Act::Ask { node, number, request }]);
        number
    }

    /// What a hand was answered so far, with the times.
    #[must_use]
    pub fn answers(&self, hand: usize, number: u64) -> &[(u64, Response)] {
        match &self.town.actors[hand] {
            Actor::Hand(hand) => hand.answers.get(&number).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Asks a node something and waits for the answer.
    ///
    /// # Panics
    /// When there is none within a minute.
    pub fn call(&mut self, node: usize, request: Request) -> Response {
        let hand = match self.town.hand {
            Some(hand) => hand,
            None => self.hand(),
        };
        self.town.hand = Some(hand);
        let number = self.ask(hand, node, request.clone());
        let came = self.run_until(60_000_000_000, |w| !w.answers(hand, number).is_empty());
        assert!(came, "{request:?} is not answered");
        self.answers(hand, number)[0].1.clone()
    }

    /// A client closes its connection to a node.
    pub fn leave(&mut self, actor: usize, node: usize) {
        self.play(actor, vec![Act::Leave { node }]);
    }

    /// Lets an actor do something at its desk.
    pub(crate) fn at_desk<T>(
        &mut self,
        actor: usize,
        work: impl FnOnce(&mut Actor, &mut Desk<'_>) -> T,
    ) -> T {
        let up: Vec<usize> =
            (0..self.processes.len()).filter(|at| self.processes[*at].node.is_some()).collect();
        let mut desk = Desk { now: self.now, rng: &mut self.rng, up: &up, acts: Vec::new() };
        let result = work(&mut self.town.actors[actor], &mut desk);
        let acts = desk.acts;
        self.play(actor, acts);
        result
    }

    pub(crate) fn client_news(&mut self, actor: usize, news: News) {
        match news {
            News::Wake => self.at_desk(actor, Actor::wake),
            News::Unready { node } => self.at_desk(actor, |actor, desk| actor.unready(node, desk)),
            News::Lost { node } => self.at_desk(actor, |actor, desk| actor.lost(node, desk)),
            News::Answer { client, number, response } => {
                let Some(connection) = self.town.connections.get(&client) else { return };
                let node = connection.node;
                self.report.line(self.now, format_args!("client {actor} <- {response:?}"));
                self.hears(Place { actor, node }, number, &response);
                self.at_desk(actor, |actor, desk| {
                    actor.answered(node, (number, *response), desk);
                });
            }
        }
    }

    fn play(&mut self, actor: usize, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Wake { at } => self.at(at, Happening::Client(actor, News::Wake)),
                Act::Ask { node, number, request } => self.carry(actor, node, number, request),
                Act::Leave { node } => {
                    if let Some(client) = self.town.by_place.remove(&(actor, node)) {
                        self.town.connections.remove(&client);
                        self.judge.lost(self.now, Place { actor, node });
                        let at = self.now + self.options.delay.1;
                        let life = self.processes[node].life;
                        let event = Event::ClientClosed(client);
                        self.at(at, Happening::Event { at: node, life, event });
                    }
                }
            }
        }
    }

    fn carry(&mut self, actor: usize, node: usize, number: u64, request: Request) {
        self.judge.asks(self.now, Place { actor, node }, number, &request);
        if self.processes[node].node.is_none() {
            let at = self.now + self.draw(self.options.delay);
            self.at(at, Happening::Client(actor, News::Lost { node }));
            return;
        }
        let life = self.processes[node].life;
        let client = match self.town.by_place.get(&(actor, node)) {
            Some(client) => *client,
            None => self.connect(actor, node),
        };
        let arrives = self.now + self.draw(self.options.delay);
        let connection = self.town.connections.get_mut(&client).expect("it was just looked up");
        connection.arrives.0 = arrives.max(connection.arrives.0 + 1);
        let at = connection.arrives.0;
        let reply = Reply { client, stream: 0, request: number };
        self.at(at, Happening::Event { at: node, life, event: Event::Request { reply, request } });
    }

    fn connect(&mut self, actor: usize, node: usize) -> ClientId {
        self.town.next += 1;
        let client = ClientId(self.town.next);
        let life = self.processes[node].life;
        let at = self.now + self.draw(self.options.delay);
        let connection = Connection { actor, node, arrives: (at, 0) };
        self.town.connections.insert(client, connection);
        self.town.by_place.insert((actor, node), client);
        let event = Event::ClientOpened(client);
        self.at(at, Happening::Event { at: node, life, event });
        client
    }

    /// A node answers a client.
    pub(crate) fn answer(&mut self, at: usize, reply: Reply, response: Response) {
        let arrives = self.now + self.draw(self.options.delay);
        let Some(connection) = self.town.connections.get_mut(&reply.client) else { return };
        assert_eq!(connection.node, at, "a node answers its own clients");
        connection.arrives.1 = arrives.max(connection.arrives.1 + 1);
        let (at, actor) = (connection.arrives.1, connection.actor);
        let (client, number) = (reply.client, reply.request);
        let news = News::Answer { client, number, response: Box::new(response) };
        self.at(at, Happening::Client(actor, news));
    }

    /// A node tells its clients of the members: those that stream from a node that does not serve
    /// leave it.
    pub(crate) fn welcome(&mut self, at: usize, welcome: &Welcome) {
        let own = welcome.members.iter().find(|member| member.node == welcome.node);
        if own.is_some_and(|member| member.standing == Standing::Ready) {
            return;
        }
        let here = self.town.connections.values().filter(|connection| connection.node == at);
        let actors: Vec<usize> = here.map(|connection| connection.actor).collect();
        for actor in actors {
            let when = self.now + self.draw(self.options.delay);
            self.at(when, Happening::Client(actor, News::Unready { node: at }));
        }
    }

    /// A process is gone, and every connection of clients with it.
    pub(crate) fn node_gone(&mut self, at: usize) {
        let gone: Vec<ClientId> = self
            .town
            .connections
            .iter()
            .filter(|(_, connection)| connection.node == at)
            .map(|(client, _)| *client)
            .collect();
        for client in gone {
            let connection = self.town.connections.remove(&client).expect("it was listed");
            self.town.by_place.remove(&(connection.actor, at));
            self.judge.lost(self.now, Place { actor: connection.actor, node: at });
            let when = self.now + self.draw(self.options.delay);
            let news = News::Lost { node: at };
            self.at(when, Happening::Client(connection.actor, news));
        }
    }
}
