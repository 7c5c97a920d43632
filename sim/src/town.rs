//! The town: the clients of a simulated cluster. Who lives there, how they move in and die, and
//! what they do when something happens to them.
//!
//! What this file does not do: what goes over their connections is in `lines.rs`, what they do in
//! `client.rs` and `apps/`.

use gaggle_client_core::{Config, Event, Reach};
use gaggle_wire::{Request, RequestFrame, Response};
use rand::RngExt;

use crate::actor::{Act, Actor, Desk, Hand};
use crate::apps::App;
use crate::apps::consumer::{Consumer, Habits};
use crate::apps::producer::{Plan, Producer};
use crate::client::Client;
use crate::lines::{Lines, News};
use crate::watch::ClockError;
use crate::world::{Happening, World};

/// Clients and their connections.
#[derive(Debug, Default)]
pub(crate) struct Town {
    pub(crate) actors: Vec<Actor>,
    pub(crate) lines: Lines,
    /// The actor that does what a scenario says, one request at a time.
    hand: Option<usize>,
    requests: u64,
}

/// What a client is like, its application apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traits {
    /// The one node it uses; all when `None`.
    pub(crate) node: Option<usize>,
    /// How far its clocks are off.
    pub(crate) clock: ClockError,
}

impl World {
    /// A client that does what the scenario says; its number.
    pub fn hand(&mut self) -> usize {
        self.town.actors.push(Actor::Hand(Hand::default()));
        self.town.actors.len() - 1
    }

    pub(crate) fn producer(&mut self, plan: Plan, traits: &Traits) -> usize {
        let app = App::Producer(Producer::new(plan, self.now));
        self.move_in(app, traits)
    }

    pub(crate) fn consumer(&mut self, habits: Habits, traits: &Traits) -> usize {
        let app = App::Consumer(Consumer::new(habits, self.now));
        self.move_in(app, traits)
    }

    fn move_in(&mut self, app: App, traits: &Traits) -> usize {
        // Nodes know ids for as long as the resend window; what is on its way when it ends has
        // some time to arrive.
        let send_within_max = self.options.resend_window * 3 / 4;
        let (reach, seeds) = match traits.node {
            Some(_) => (Reach::OneNode, 1),
            None => (Reach::Cluster, self.options.nodes),
        };
        let config = Config { reach, seeds, send_within_max, ..Config::default() };
        let seed = self.rng.random();
        let client = Client::new(self.now, (config, seed), traits.clone(), app);
        self.town.actors.push(Actor::Client(Box::new(client)));
        let number = self.town.actors.len() - 1;
        self.turn(number, None);
        number
    }

    /// The application of a client, if it lives.
    pub(crate) fn app(&self, actor: usize) -> Option<&App> {
        match &self.town.actors[actor] {
            Actor::Client(client) => Some(&client.app),
            Actor::Hand(_) | Actor::Gone => None,
        }
    }

    /// Whether a producer has all its results. One that is dead waits for none.
    pub(crate) fn has_sent(&self, actor: usize) -> bool {
        match self.app(actor) {
            Some(App::Producer(producer)) => producer.is_done(),
            Some(App::Consumer(_)) | None => true,
        }
    }

    /// From now on nothing new is sent, and what is taken is deleted.
    pub(crate) fn behave(&mut self, actor: usize) {
        if let Actor::Client(client) = &mut self.town.actors[actor] {
            match &mut client.app {
                App::Producer(producer) => producer.stop(),
                App::Consumer(consumer) => consumer.behave(),
            }
        }
    }

    /// A client dies, with leases and without a word, and another one takes its place: its number.
    pub(crate) fn die(&mut self, actor: usize) -> usize {
        let Actor::Client(client) = &self.town.actors[actor] else { return actor };
        self.report.line(self.now, format_args!("client {actor} dies"));
        let (traits, app) = (client.traits().clone(), client.app.successor(self.now));
        for line in client.lines() {
            self.forsake(line);
        }
        self.town.actors[actor] = Actor::Gone;
        self.judge.died(actor);
        self.move_in(app, &traits)
    }

    /// Stops a client for some time.
    pub(crate) fn pause_client(&mut self, actor: usize, nanos: u64) {
        if let Actor::Client(client) = &mut self.town.actors[actor] {
            self.report.line(self.now, format_args!("client {actor} pauses"));
            client.pause();
            self.judge.paused(actor, nanos);
            self.at(self.now + nanos, Happening::Client(actor, News::Resume));
        }
    }

    /// Asks as a hand; the number of the request.
    pub fn ask(&mut self, hand: usize, node: usize, request: Request) -> u64 {
        self.town.requests += 1;
        let number = self.town.requests;
        self.hand_asks(hand, node, RequestFrame { request: number, body: request });
        number
    }

    /// What a hand was answered so far, with the times.
    #[must_use]
    pub fn answers(&self, hand: usize, number: u64) -> &[(u64, Response)] {
        match &self.town.actors[hand] {
            Actor::Hand(hand) => hand.answers.get(&number).map_or(&[], Vec::as_slice),
            Actor::Client(_) | Actor::Gone => &[],
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

    /// Something happens to a client, and it does what follows.
    pub(crate) fn turn(&mut self, actor: usize, event: Option<Event>) {
        self.at_desk(actor, |client, desk| client.turn(event, desk));
    }

    pub(crate) fn at_desk(&mut self, actor: usize, work: impl FnOnce(&mut Client, &mut Desk<'_>)) {
        let Actor::Client(client) = &mut self.town.actors[actor] else { return };
        let (now, rng, judge) = (self.now, &mut self.rng, &mut self.judge);
        let mut desk = Desk { actor, now, rng, judge, acts: Vec::new() };
        work(client, &mut desk);
        for act in desk.acts {
            match act {
                Act::Wake { at } => self.at(at, Happening::Client(actor, News::Wake)),
                Act::Dial { link, target } => self.dial_node(actor, link, target),
                Act::HangUp { link } => self.hang_up(actor, link),
                Act::Transmit { link, stream, frame } => {
                    self.transmit(actor, link, (stream, frame));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gaggle_client_core::SEND_WITHIN_MAX;

    use crate::options::Options;

    #[test]
    fn what_real_clients_send_last_arrives_while_real_nodes_know_its_id() {
        let options = Options::calm(3, 1);
        let window = options.config(0, 1).resend_window;
        let held = Duration::from_nanos(options.client_idle() + options.idle);
        assert!(SEND_WITHIN_MAX + held < window, "{SEND_WITHIN_MAX:?} and {held:?} of {window:?}");
    }
}
