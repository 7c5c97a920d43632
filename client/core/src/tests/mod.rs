//! The whole core, driven by hand: what goes in is an event, what comes out is compared as one
//! list.

mod asking;
mod consuming;
mod nodes;
mod sending;
mod settling;
mod walk;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{
    Attempt, ClusterMember, Label, Message, NodeId, ProcessId, QueueDescription, QueueId,
    QueueName, Receipt, Refusal, Request, RequestFrame, Response, ResponseFrame, SentBatch,
    Settings, Stamp, Standing, VERSION, Welcome,
};

use crate::{Config, Confirmed, Core, Effect, Event, Failure, Now, Parcel, Stream};

/// A core, the time, and the connections it has made.
struct Fixture {
    core: Core,
    now: Duration,
    /// Which connection is to which node.
    links: BTreeMap<u64, u64>,
}

/// A request as it left: connection, number, request, contents.
type Asked = (u64, u64, Request, Vec<Bytes>);

impl Fixture {
    /// A client that is connected to so many nodes.
    fn connected(nodes: u64) -> Self {
        Self::with(Config::default(), nodes)
    }

    /// A client that has done nothing yet.
    fn opened(config: Config, seed: u64) -> Self {
        Self { core: Core::open(config, seed), now: Duration::ZERO, links: BTreeMap::new() }
    }

    fn with(config: Config, nodes: u64) -> Self {
        let mut fixture = Self::opened(config, 1);
        let mut dials = fixture.tick();
        let mut next = 1;
        while let Some(Effect::Dial { link, target }) = dials.pop() {
            let node = match target {
                crate::Target::Seed(_) => next,
                crate::Target::Address(address) => u64::from(address.port()),
            };
            next += 1;
            fixture.welcome(link, node, nodes);
            dials.extend(fixture.tick());
        }
        fixture
    }

    /// Lets a connection come up.
    fn welcome(&mut self, link: u64, node: u64, nodes: u64) -> Vec<Effect> {
        let hello = self.handle(Event::Dialled { link });
        let [(_, request, Request::Hello { .. }, _)] = &asked(&hello)[..] else {
            panic!("no hello: {hello:?}");
        };
        self.links.insert(node, link);
        self.answer(link, *request, Response::Welcome(welcome_of(node, nodes)))
    }

    fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.core.handle(self.told(), event, &mut effects);
        effects
    }

    fn told(&self) -> Now {
        Now { mono: self.now, wall: 1_000 }
    }

    fn tick(&mut self) -> Vec<Effect> {
        self.handle(Event::Tick)
    }

    /// Lets time pass to the next wakeup, which must be within this.
    fn wake(&mut self, within: Duration) -> Vec<Effect> {
        let at = self.core.next_wakeup().expect("something is due");
        assert!(at <= self.now + within, "due at {at:?}, now {:?}", self.now);
        self.now = self.now.max(at);
        self.tick()
    }

    /// Lets so much time pass, with every wakeup in it.
    fn pass(&mut self, time: Duration) -> Vec<Effect> {
        let end = self.now + time;
        let mut effects = self.tick();
        while let Some(at) = self.core.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            effects.extend(self.tick());
        }
        self.now = end;
        effects.extend(self.tick());
        effects
    }

    /// An answer, one millisecond later.
    fn answer(&mut self, link: u64, request: u64, body: Response) -> Vec<Effect> {
        self.now += ms(1);
        let clock = BEGAN + u64::try_from(self.now.as_nanos()).unwrap();
        let response = ResponseFrame { request, clock, body };
        self.handle(Event::Frame { link, response, contents: Vec::new() })
    }

    fn send(&mut self, ticket: u64, key: Option<u64>, within: Duration) -> Vec<Effect> {
        self.handle(Event::Send(parcel(ticket, key, within)))
    }

    /// A client that knows the queue already.
    fn knowing(mut self) -> Self {
        let describe = self.send(0, Some(0), s(30));
        let [(link, request, Request::DescribeQueue { .. }, _)] = &asked(&describe)[..] else {
            panic!("the name was not asked for: {describe:?}");
        };
        self.answer(*link, *request, described(QUEUE));
        let sends = self.tick();
        let [(link, request, ..)] = &asked(&sends)[..] else { panic!("{sends:?}") };
        self.answer(*link, *request, sent(2));
        self
    }

    /// Sends one message with key 0, gives the request that it left with.
    fn send_one(&mut self, ticket: u64, within: Duration) -> Asked {
        self.send(ticket, Some(0), within);
        only(self.tick())
    }

    /// Sends one message and confirms it; says by which connection.
    fn send_and_confirm(&mut self, ticket: u64) -> u64 {
        let (link, request, ..) = self.send_one(ticket, s(30));
        self.answer(link, request, sent(2));
        link
    }

    fn node_of(&self, link: u64) -> u64 {
        *self.links.iter().find(|(_, at)| **at == link).expect("a connection that was made").0
    }
}

fn welcome_of(node: u64, nodes: u64) -> Welcome {
    let members = (1..=nodes).map(|node| member(node, Standing::Ready)).collect();
    Welcome { version: VERSION, node: NodeId(node), members }
}

fn member(node: u64, standing: Standing) -> ClusterMember {
    let port = u16::try_from(node).unwrap();
    ClusterMember { node: NodeId(node), address: SocketAddr::from(([10, 0, 0, 1], port)), standing }
}

fn parcel(ticket: u64, key: Option<u64>, within: Duration) -> Parcel {
    let (label, content) = Message::new("body").pack(0, Stamp::ZERO, 0).unwrap();
    Parcel { ticket, queue: name(), key, label, content, within }
}

fn name() -> Arc<QueueName> {
    Arc::new(QueueName::parse("orders").unwrap())
}

fn described(id: QueueId) -> Response {
    let name = QueueName::parse("orders").unwrap();
    Response::Queue(Box::new(QueueDescription { id, name, settings: Settings::default() }))
}

fn sent(copies: u8) -> Response {
    let accepted = Stamp { time: 1, count: 0, process: ProcessId(1) };
    Response::Sent(SentBatch { accepted, copies, exceptions: Vec::new() })
}

fn refused(refusal: Refusal) -> Response {
    Response::Refused(refusal)
}

fn few() -> Refusal {
    Refusal::NotEnoughHosts { wanted: 2, reachable: 1 }
}

/// All requests among effects.
fn asked(effects: &[Effect]) -> Vec<Asked> {
    let asked = effects.iter().filter_map(|effect| match effect {
        Effect::Transmit { link, frame: RequestFrame { request, body }, contents, .. } => {
            Some((*link, *request, body.clone(), contents.clone()))
        }
        _ => None,
    });
    asked.collect()
}

/// The one request there is, with nothing beside it.
fn only(effects: Vec<Effect>) -> Asked {
    assert_eq!(effects.len(), 1, "{effects:?}");
    asked(&effects).pop().unwrap_or_else(|| panic!("{effects:?}"))
}

fn labels(request: &Request) -> Vec<Label> {
    let Request::Send { labels, .. } = request else { panic!("{request:?}") };
    labels.clone()
}

fn numbers(request: &Request) -> Vec<u64> {
    labels(request).iter().map(|label| label.number).collect()
}

fn attempt(request: &Request) -> Attempt {
    let Request::Send { attempt, .. } = request else { panic!("{request:?}") };
    *attempt
}

fn confirmed(ticket: u64, label: &Label, copies: u8) -> Effect {
    let result = Ok(Confirmed { stamp: label.stamp, id: label.id(), copies });
    Effect::Sent { ticket, result }
}

fn failed(ticket: u64, failure: Failure) -> Effect {
    Effect::Sent { ticket, result: Err(failure) }
}

fn receipt(node: u64, number: u64) -> Receipt {
    let stamp = Stamp { time: 1, count: 0, process: ProcessId(3) };
    Receipt {
        queue: QUEUE,
        partition: 0,
        number,
        stamp,
        holders: vec![NodeId(node)],
        custodian: NodeId(node),
        boot: 1,
        delivery: 1,
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The cluster's time when the client began, far from what the client's own clock says.
const BEGAN: u64 = 5_000_000_000_000;

const QUEUE: QueueId = QueueId(Stamp { time: 7, count: 0, process: ProcessId(1) });
const OTHER: QueueId = QueueId(Stamp { time: 8, count: 0, process: ProcessId(1) });
