//! Lines: connections between clients and nodes as QUIC would give them: three ordered streams
//! each way, dialled, greeted, and ended by either side, by silence or by the death of a process.
//!
//! Who is left without a word finds out when its line was silent for the idle time, or when the
//! node is back and does not know the line. What is said into a cut waits for its end and is lost
//! with the line. What a node said last may be lost with it.
//!
//! Invariant: nothing comes to an end that is gone. What this room does not do: it knows no
//! requests but the hello, which opens a line at the node. How lines end is in `ends.rs`, and what
//! machines that are suspended hear of them in `asleep.rs`.

mod asleep;
mod ends;

use std::collections::{BTreeMap, BTreeSet};

use gaggle_client_core::{Event as ClientEvent, Stream, Target};
use gaggle_core::event::{ClientId, Event, Reply};
use gaggle_wire::{Request, RequestFrame, Response, ResponseFrame, Welcome};
use rand::RngExt;

use crate::actor::Actor;
use crate::client::frame_of;
use crate::options::place_of_client;
use crate::oracle::{Answer, Place};
use crate::world::{Happening, World};

/// All connections of clients.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    by_id: BTreeMap<ClientId, Line>,
    /// Those of hands, which know them by node.
    of_hands: BTreeMap<(usize, usize), ClientId>,
    next: u64,
    /// Between which clients and nodes nothing comes through.
    cuts: BTreeSet<(usize, usize)>,
}

#[derive(Debug)]
struct Line {
    actor: usize,
    node: usize,
    /// The life of the process at its end.
    life: u64,
    caller: Caller,
    client_end: End,
    node_end: End,
    /// When the last frame of each stream arrives at the node, and at the client.
    arrives: [[u64; 2]; STREAMS],
    /// What was said into a cut.
    held: [Vec<Said>; 2],
    /// Since when the client hears nothing.
    silent_since: Option<u64>,
    /// Whether the node has let the client in.
    let_in: bool,
    /// Whether anything but a hello was said on it.
    used: bool,
    /// Whether what is on its way to the client is lost.
    mute: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// Nothing is expected of it.
    Hand,
    /// It calls the line so, and has said hello under this number.
    Client { link: u64, hello: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Gone,
}

#[derive(Debug)]
enum Said {
    Request(Stream, RequestFrame),
    Answer(u32, Spoken),
}

/// An answer, and when its node gave it: what a cut holds comes late.
#[derive(Debug)]
pub(crate) struct Spoken {
    at: u64,
    frame: ResponseFrame,
}

/// What a client hears of.
#[derive(Debug)]
pub(crate) enum News {
    /// Its first packet on a new connection arrives at the node.
    Knock { link: u64, node: usize, tries: u32 },
    /// The connection is made.
    Up(ClientId),
    /// It cannot be made.
    Failed { link: u64 },
    /// An answer comes.
    Frame(ClientId, Box<Spoken>),
    /// The connection is closed by the node.
    Lost(ClientId),
    /// It has been silent, and is tried.
    Listen(ClientId, u64),
    /// The node has heard nothing on the connection for long.
    Forsaken(ClientId, u64),
    /// It wanted to be woken.
    Wake,
    /// It goes on after a pause.
    Resume,
}

impl World {
    pub(crate) fn client_news(&mut self, actor: usize, news: News) {
        match news {
            News::Wake => self.at_desk(actor, |client, desk| client.wake(desk)),
            News::Resume => self.at_desk(actor, |client, desk| client.resume(desk)),
            News::Knock { link, node, tries } => self.knock(actor, (link, node), tries),
            News::Up(line) => self.up(line),
            News::Failed { link } => self.turn(actor, Some(ClientEvent::Lost { link })),
            News::Frame(line, frame) => self.frame_comes(line, *frame),
            News::Lost(line) => self.lose(line),
            News::Listen(line, since) => self.listen(line, since),
            News::Forsaken(line, since) => self.forsaken(line, since),
        }
    }

    /// A client dials a node.
    pub(crate) fn dial_node(&mut self, actor: usize, link: u64, target: Target) {
        let node = match (target, &self.town.actors[actor]) {
            (Target::Address(address), _) => place_of_client(address),
            (Target::Seed(at), Actor::Client(client)) => client.traits().node.unwrap_or(at),
            (Target::Seed(at), Actor::Hand(_) | Actor::Gone) => at,
        };
        let at = self.now + self.way();
        self.at(at, Happening::Client(actor, News::Knock { link, node, tries: 0 }));
    }

    fn knock(&mut self, actor: usize, (link, node): (u64, usize), tries: u32) {
        let Actor::Client(client) = &mut self.town.actors[actor] else { return };
        if !client.is_dialling(link) {
            return;
        }
        let passes = !self.town.lines.cuts.contains(&(actor, node));
        if passes && self.processes[node].is_awake() {
            let answered = self.now + self.way();
            let line = self.connect(actor, node, Caller::Client { link, hello: 0 });
            let Actor::Client(client) = &mut self.town.actors[actor] else { return };
            client.set_line(link, line);
            self.at(answered, Happening::Client(actor, News::Up(line)));
        } else if !self.is_up(node) && self.rng.random() {
            // A host that is up says that nobody listens.
            let at = self.now + self.way();
            self.at(at, Happening::Client(actor, News::Failed { link }));
        } else if tries < KNOCKS_MAX {
            let at = self.now + (KNOCK_AGAIN << tries);
            let tries = tries + 1;
            self.at(at, Happening::Client(actor, News::Knock { link, node, tries }));
        } else {
            self.turn(actor, Some(ClientEvent::Lost { link }));
        }
    }

    fn connect(&mut self, actor: usize, node: usize, caller: Caller) -> ClientId {
        let lines = &mut self.town.lines;
        lines.next += 1;
        let id = ClientId(lines.next);
        let line = Line {
            actor,
            node,
            life: self.processes[node].life,
            caller,
            client_end: End::Open,
            node_end: End::Open,
            arrives: Default::default(),
            held: Default::default(),
            silent_since: None,
            let_in: false,
            used: false,
            mute: false,
        };
        lines.by_id.insert(id, line);
        id
    }

    fn up(&mut self, id: ClientId) {
        let Some(line) = self.town.lines.open(id) else { return };
        let (actor, Caller::Client { link, .. }) = (line.actor, line.caller) else { return };
        self.turn(actor, Some(ClientEvent::Dialled { link }));
    }

    /// A client sends a request.
    pub(crate) fn transmit(
        &mut self,
        actor: usize,
        link: u64,
        (stream, frame): (Stream, RequestFrame),
    ) {
        let Actor::Client(client) = &self.town.actors[actor] else { return };
        let Some(id) = client.line(link) else { return };
        self.say_to_node(id, stream, frame);
    }

    /// A hand asks a node, on a connection that is there for it.
    pub(crate) fn hand_asks(&mut self, actor: usize, node: usize, frame: RequestFrame) {
        if !self.is_up(node) {
            let place = Place { actor, node, line: 0 };
            return self.judge.asks(self.now, place, frame.request, &frame.body);
        }
        let id = match self.town.lines.of_hands.get(&(actor, node)) {
            Some(id) => *id,
            None => {
                let id = self.connect(actor, node, Caller::Hand);
                self.town.lines.of_hands.insert((actor, node), id);
                let (life, event) = (self.processes[node].life, Event::ClientOpened(id));
                self.at(self.now, Happening::Event { at: node, life, event });
                id
            }
        };
        self.say_to_node(id, Stream::Control, frame);
    }

    fn say_to_node(&mut self, id: ClientId, stream: Stream, frame: RequestFrame) {
        let Some(line) = self.town.lines.by_id.get_mut(&id) else { return };
        line.used |= !matches!(frame.body, Request::Hello { .. });
        self.judge.asks(self.now, line.place(id), frame.request, &frame.body);
        self.on_its_way(id, stream, frame);
    }

    fn on_its_way(&mut self, id: ClientId, stream: Stream, frame: RequestFrame) {
        let arrives = self.now + self.way();
        let Some(line) = self.town.lines.by_id.get_mut(&id) else { return };
        if line.node_end == End::Gone {
            return;
        }
        if self.town.lines.cuts.contains(&(line.actor, line.node)) {
            return line.held[0].push(Said::Request(stream, frame));
        }
        let last = &mut line.arrives[stream as usize][0];
        *last = arrives.max(*last + 1);
        let (when, at, life) = (*last, line.node, line.life);
        let RequestFrame { request, body } = frame;
        let event = match body {
            Request::Hello { .. } => {
                if let Caller::Client { hello, .. } = &mut line.caller {
                    *hello = request;
                }
                Event::ClientOpened(id)
            }
            body => {
                let reply = Reply { client: id, stream: stream as u32, request };
                Event::Request { reply, request: body }
            }
        };
        self.at(when, Happening::Event { at, life, event });
    }

    /// A node lets a client in that has said hello.
    pub(crate) fn let_in(&mut self, at: usize, id: ClientId) {
        let Some(line) = self.town.lines.by_id.get_mut(&id) else { return };
        line.let_in = true;
        let Caller::Client { hello, .. } = line.caller else { return };
        let Some(node) = &self.processes[at].node else { return };
        let welcome = Response::Welcome(node.welcome());
        self.answer(at, Reply { client: id, stream: 0, request: hello }, welcome);
    }

    /// A node answers a client.
    pub(crate) fn answer(&mut self, at: usize, reply: Reply, body: Response) {
        let process = &self.processes[at];
        let clocks = process.clocks(self.now);
        let clock = process.node.as_ref().map_or(0, |node| node.clock(clocks));
        self.judge.oracle.handed(self.now, &body);
        let frame = ResponseFrame { request: reply.request, clock, body };
        let spoken = Spoken { at: self.now, frame };
        self.say_to_client(reply.client, reply.stream, spoken);
    }

    fn say_to_client(&mut self, id: ClientId, stream: u32, spoken: Spoken) {
        let arrives = self.now + self.way();
        let Some(line) = self.town.lines.by_id.get_mut(&id) else { return };
        if line.client_end == End::Gone || line.node_end == End::Gone {
            return;
        }
        if self.town.lines.cuts.contains(&(line.actor, line.node)) {
            return line.held[1].push(Said::Answer(stream, spoken));
        }
        let last = &mut line.arrives[stream as usize][1];
        *last = arrives.max(*last + 1);
        let (when, actor) = (*last, line.actor);
        self.at(when, Happening::Client(actor, News::Frame(id, Box::new(spoken))));
    }

    /// A node tells its clients of the members.
    pub(crate) fn welcome(&mut self, at: usize, welcome: &Welcome) {
        let lines = self.town.lines.by_id.iter();
        let greeted = lines.filter(|(_, line)| line.node == at && line.is_greeted());
        let ids: Vec<ClientId> = greeted.map(|(id, _)| *id).collect();
        for id in ids {
            let reply = Reply { client: id, stream: 0, request: 0 };
            self.answer(at, reply, Response::Welcome(welcome.clone()));
        }
    }

    fn frame_comes(&mut self, id: ClientId, Spoken { at, frame }: Spoken) {
        let Some(line) = self.town.lines.open(id).filter(|line| !line.mute) else { return };
        let (actor, caller, place) = (line.actor, line.caller, line.place(id));
        self.report.line(self.now, format_args!("client {actor} <- {:?}", frame.body));
        if frame.request != 0 {
            let answer = Answer { place, number: frame.request, at, response: &frame.body };
            self.hears(&answer);
        }
        match caller {
            Caller::Client { link, .. } => self.turn(actor, Some(frame_of(link, frame))),
            Caller::Hand => {
                if let Actor::Hand(hand) = &mut self.town.actors[actor] {
                    hand.answers.entry(frame.request).or_default().push((self.now, frame.body));
                }
            }
        }
    }
}

impl Lines {
    /// A line whose client's end is open.
    fn open(&self, id: ClientId) -> Option<&Line> {
        self.by_id.get(&id).filter(|line| line.client_end == End::Open)
    }

    /// The lines between a client and a node.
    fn between(&self, actor: usize, node: usize) -> Vec<ClientId> {
        let lines = self.by_id.iter();
        let between = lines.filter(|(_, line)| (line.actor, line.node) == (actor, node));
        between.map(|(id, _)| *id).collect()
    }

    /// The lines to a node.
    fn to(&self, node: usize) -> Vec<ClientId> {
        let lines = self.by_id.iter();
        lines.filter(|(_, line)| line.node == node).map(|(id, _)| *id).collect()
    }

    fn open_mut(&mut self, id: ClientId) -> Option<&mut Line> {
        self.by_id.get_mut(&id).filter(|line| line.client_end == End::Open)
    }
}

impl Line {
    fn place(&self, id: ClientId) -> Place {
        Place { actor: self.actor, node: self.node, line: id.0 }
    }

    fn is_greeted(&self) -> bool {
        self.let_in && self.caller != Caller::Hand && self.node_end == End::Open
    }
}

const STREAMS: usize = 3;
/// After how long a dialling client that hears nothing tries again first: quinn's probe timeout at
/// the initial round trip that clients assume (50 ms).
const KNOCK_AGAIN: u64 = 150_000_000;
/// The sixth is after 9.4 s: one more would be after the handshake's end.
const KNOCKS_MAX: u32 = 6;
