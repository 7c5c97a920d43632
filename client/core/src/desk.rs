//! The desk: what every room of the client needs at hand, and the one place from which requests
//! leave.
//!
//! It knows which request is under way on which connection and for what purpose, so that an
//! answer, or the loss of a connection, finds its way back. Numbers are never used twice, so an
//! answer that nobody waits for any more is just that. What this file does not do: it decides
//! nothing about sends, questions or consumers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{NodeId, ProcessId, Request, RequestFrame, VERSION};

use crate::clock::StampClock;
use crate::config::Config;
use crate::event::{Effect, Stream};
use crate::nodes::Nodes;
use crate::now::Now;
use crate::random::Random;
use crate::timers::Timers;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) config: Config,
    pub(crate) now: Now,
    pub(crate) clock: StampClock,
    pub(crate) nodes: Nodes,
    pub(crate) random: Random,
    pub(crate) timers: Timers,
    pub(crate) effects: Vec<Effect>,
    under_way: BTreeMap<u64, UnderWay>,
    last_request: u64,
}

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) link: u64,
    pub(crate) sent: Duration,
    pub(crate) purpose: Purpose,
    /// Whether a healthy node answers it at once, and does not wait for messages.
    pub(crate) owed: bool,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Hello,
    Batch(u64),
    Ask(u64),
    Settlement(u64),
    Consumer(u64),
    Stop(u64),
    /// Nobody any more, but that an answer comes still says something of the node.
    Forgotten,
}

/// A request as a room hands it in.
pub(crate) struct Outbound {
    pub(crate) stream: Stream,
    pub(crate) body: Request,
    pub(crate) contents: Vec<Bytes>,
    pub(crate) purpose: Purpose,
}

impl Desk {
    pub(crate) fn new(config: Config, clock: StampClock, random: Random) -> Self {
        let nodes = Nodes::new(&config, clock.process().0);
        let now = Now { mono: Duration::ZERO, wall: 0 };
        let (timers, effects) = (Timers::default(), Vec::new());
        let (under_way, last_request) = (BTreeMap::new(), 0);
        Self { config, now, clock, nodes, random, timers, effects, under_way, last_request }
    }

    /// Sends a request to a node and says its number. The node is one that `pick` gave.
    pub(crate) fn ask_node(&mut self, node: NodeId, outbound: Outbound) -> u64 {
        let link = self.nodes.link_of(node).expect("only nodes with a connection are picked");
        self.ask_link(link, outbound)
    }

    pub(crate) fn ask_link(&mut self, link: u64, outbound: Outbound) -> u64 {
        let Outbound { stream, body, contents, purpose } = outbound;
        self.last_request += 1;
        let request = self.last_request;
        let owed = !matches!(body, Request::Receive { .. } | Request::Consume { .. });
        if owed {
            self.nodes.owe(link, self.now.mono, &self.config, &mut self.timers);
        }
        self.under_way.insert(request, UnderWay { link, sent: self.now.mono, purpose, owed });
        self.transmit(link, stream, RequestFrame { request, body }, contents);
        request
    }

    /// Says something that is not answered.
    pub(crate) fn tell_link(&mut self, link: u64, body: Request) {
        self.last_request += 1;
        let frame = RequestFrame { request: self.last_request, body };
        self.transmit(link, Stream::Control, frame, Vec::new());
    }

    fn transmit(&mut self, link: u64, stream: Stream, frame: RequestFrame, contents: Vec<Bytes>) {
        self.effects.push(Effect::Transmit { link, stream, frame, contents });
    }

    /// What an answer on this connection is for, if it was asked there.
    pub(crate) fn find(&self, link: u64, request: u64) -> Option<UnderWay> {
        self.under_way.get(&request).copied().filter(|under_way| under_way.link == link)
    }

    /// No more answers are expected to this.
    pub(crate) fn settle(&mut self, request: u64) {
        if let Some(under_way) = self.under_way.remove(&request)
            && under_way.owed
        {
            self.nodes.paid(under_way.link);
        }
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn forget(&mut self, request: u64) {
        if let Some(under_way) = self.under_way.get_mut(&request) {
            under_way.purpose = Purpose::Forgotten;
        }
    }

    /// Goes on as a new process. Nodes need not be told: stamps say it.
    pub(crate) fn renew(&mut self) {
        let process = ProcessId(self.random.next());
        self.clock.renew(self.now, process);
        self.effects.push(Effect::Renewed(process));
    }

    /// Says who we are.
    pub(crate) fn hello(&mut self, link: u64) {
        let body = Request::Hello { version: VERSION, process: self.clock.process() };
        let (stream, purpose) = (Stream::Control, Purpose::Hello);
        self.ask_link(link, Outbound { stream, body, contents: Vec::new(), purpose });
    }

    /// Takes everything that was under way on a lost connection, by number.
    pub(crate) fn lose(&mut self, link: u64) -> Vec<(u64, Purpose)> {
        let lost: Vec<(u64, Purpose)> = self
            .under_way
            .iter()
            .filter(|(_, under_way)| under_way.link == link)
            .map(|(request, under_way)| (*request, under_way.purpose))
            .collect();
        for (request, _) in &lost {
            self.under_way.remove(request);
        }
        lost
    }
}
