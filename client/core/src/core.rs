//! The client without its runtime: the only place that sees all its rooms, and passes what one
//! has found out to the next. It decides nothing itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{ProcessId, QueueName, Request, Response, ResponseFrame, Retry, Stamp, Welcome};

use crate::asks::Asks;
use crate::clock::StampClock;
use crate::config::Config;
use crate::consumers::Consumers;
use crate::desk::{Desk, Outbound, Purpose};
use crate::estimate::ClockEstimate;
use crate::event::{Effect, Event, Stream};
use crate::leases::Leases;
use crate::nodes::Greeted;
use crate::now::Now;
use crate::parcel::Parcel;
use crate::queues::{Queues, Resolve, Waiting};
use crate::random::Random;
use crate::sender::Sender;
use crate::settlements::Settlements;
use crate::timers::Timer;

/// A client as a state machine: told what happens and when, it says what is to be done.
#[derive(Debug)]
pub struct Core {
    desk: Desk,
    queues: Queues,
    sender: Sender,
    asks: Asks,
    settlements: Settlements,
    consumers: Consumers,
    leases: Leases,
    connected: bool,
}

impl Core {
    /// A client that begins. All its randomness comes from the seed, its first process id too.
    #[must_use]
    pub fn open(config: Config, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let process = ProcessId(random.next());
        let clock = StampClock::new(process, config.danger_clock_skew_ns);
        Self {
            desk: Desk::new(config, clock, random),
            queues: Queues::default(),
            sender: Sender::default(),
            asks: Asks::default(),
            settlements: Settlements::default(),
            consumers: Consumers::default(),
            leases: Leases::default(),
            connected: false,
        }
    }

    /// The process under which stamps are made now.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.desk.clock.process()
    }

    /// What is known of the cluster's time; nothing before a node has answered.
    #[must_use]
    pub fn clock(&self, now: Now) -> Option<ClockEstimate> {
        self.desk.clock.told(now)
    }

    /// When [`Event::Tick`] is due next, if nothing happens before; on the steady clock.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Duration> {
        self.desk.timers.next()
    }

    /// Whether every send and settlement has its result, every consumer has ended and no lease is
    /// kept.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sender.is_idle()
            && self.queues.is_idle()
            && self.settlements.is_idle()
            && self.consumers.is_idle()
            && self.leases.is_idle()
    }

    /// Something happens. What is to be done is appended to the effects, to be done in order.
    pub fn handle(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        self.desk.now = now;
        self.desk.nodes.now = now.mono;
        std::mem::swap(&mut self.desk.effects, effects);
        match event {
            Event::Dialled { link } if self.desk.nodes.knows(link) => self.desk.hello(link),
            Event::Dialled { .. } => {}
            Event::Lost { link } => self.lost(link),
            Event::Frame { link, response, contents } => self.frame(link, response, contents),
            Event::Send(parcel) => self.send(parcel),
            Event::Ask(ask) => self.asks.ask(&mut self.desk, ask),
            Event::Settle(settle) => self.settlements.accept(&self.desk, settle),
            Event::Subscribe(subscription) => {
                self.consumers.subscribe(&mut self.desk, subscription);
            }
            Event::Taken { consumer, run, taken } => {
                self.consumers.taken(&mut self.desk, consumer, (run, taken));
            }
            Event::Unsubscribe { consumer } => {
                self.consumers.unsubscribe(&mut self.desk, consumer);
            }
            Event::Keep { lease, receipt, remaining, visibility } => {
                self.leases.keep(&mut self.desk, lease, receipt, (remaining, visibility));
            }
            Event::Unkeep { lease } => self.leases.unkeep(&mut self.desk, lease),
            Event::Tick => self.tick(),
        }
        std::mem::swap(&mut self.desk.effects, effects);
    }

    fn send(&mut self, mut parcel: Parcel) {
        parcel.within = parcel.within.min(self.desk.config.send_within_max);
        let Some(known) = self.queues.known(&parcel.queue) else {
            let name = Arc::clone(&parcel.queue);
            if self.queues.wait(&mut self.desk, parcel) == Resolve::Ask {
                self.asks.resolve(&mut self.desk, name);
            }
            return;
        };
        let lane = known.lane(parcel.key, |lane| self.sender.state(&self.desk, lane));
        self.sender.accept(&mut self.desk, lane, parcel);
    }

    fn tick(&mut self) {
        while let Some(timer) = self.desk.timers.pop_due(self.desk.now.mono) {
            self.due(timer);
        }
        self.pass_on();
        self.asks.flush(&mut self.desk);
        self.consumers.flush(&mut self.desk);
        self.settlements.flush(&mut self.desk);
        self.sender.flush(&mut self.desk);
        let Desk { nodes, now, config, timers, effects, .. } = &mut self.desk;
        for (link, target) in nodes.dial(now.mono, config, timers) {
            effects.push(Effect::Dial { link, target });
        }
    }

    fn due(&mut self, timer: Timer) {
        let desk = &mut self.desk;
        match timer {
            Timer::Dial => {} // Every tick looks at what is to be dialled.
            Timer::Link(link) => {
                if desk.nodes.is_dead(link, desk.now.mono, &desk.config, &mut desk.timers) {
                    self.hang_up(link);
                }
            }
            Timer::Batch(batch) => self.sender.batch_due(desk, batch),
            Timer::Lane(queue, partition) => self.sender.lane_due(desk, (queue, partition)),
            Timer::Queue(name) => self.queues.due(desk, &name),
            Timer::Ask(ask) => self.asks.due(desk, ask),
            Timer::Settlement(batch) => self.settlements.batch_due(desk, batch),
            Timer::PutOff => self.settlements.put_off_due(desk),
            Timer::Consumer(consumer) => self.consumers.due(desk, consumer),
            Timer::Leases => {
                for item in self.leases.due(desk) {
                    self.settlements.enqueue(item);
                }
            }
        }
    }

    /// Passes what one room has left for another.
    fn pass_on(&mut self) {
        for (lease, result) in self.settlements.take_leases() {
            self.leases.extended(&mut self.desk, lease, &result);
        }
        for stray in self.sender.take_astray() {
            let (name, resolve, stray) = self.queues.wait_again(&mut self.desk, stray);
            if let Some(stray) = stray {
                self.place(&name, Waiting::Again(stray));
            }
            if resolve == Resolve::Ask {
                self.asks.resolve(&mut self.desk, name);
            }
        }
        for (name, answer) in self.asks.take_resolved() {
            let (waiting, resolve) = self.queues.resolved(&mut self.desk, &name, answer);
            if resolve == Resolve::Ask {
                self.asks.resolve(&mut self.desk, Arc::clone(&name));
            }
            for waiting in waiting {
                self.place(&name, waiting);
            }
        }
    }

    /// Lets a message that waited for its queue into its lane.
    fn place(&mut self, name: &Arc<QueueName>, waiting: Waiting) {
        let known = self.queues.known(name).expect("it was resolved a moment ago");
        let key = match &waiting {
            Waiting::New { parcel, .. } => parcel.key,
            Waiting::Again(stray) => stray.key(),
        };
        let lane = known.lane(key, |lane| self.sender.state(&self.desk, lane));
        match waiting {
            Waiting::New { mut parcel, deadline } => {
                parcel.within = deadline.saturating_sub(self.desk.now.mono);
                self.sender.accept(&mut self.desk, lane, parcel);
            }
            Waiting::Again(stray) => self.sender.accept_stray(&mut self.desk, lane, stray),
        }
    }

    fn frame(&mut self, link: u64, response: ResponseFrame, contents: Vec<Bytes>) {
        if !self.desk.nodes.knows(link) {
            return;
        }
        let ResponseFrame { request, clock, body } = response;
        self.desk.nodes.heard(link, self.desk.now.mono);
        if request == 0 {
            if let Response::Welcome(welcome) = &body {
                self.greet(link, welcome);
            }
            return;
        }
        let Some(under_way) = self.desk.find(link, request) else { return };
        if let Response::Welcome(welcome) = &body
            && under_way.purpose == Purpose::Hello
        {
            self.greet(link, welcome);
        }
        if under_way.owed
            && let Some(node) = self.desk.nodes.node_at(link)
        {
            let now = self.desk.now;
            self.desk.clock.learn(now, node, under_way.sent, clock);
        }
        if let Response::Deliveries { deliveries } = &body {
            for delivery in deliveries {
                let Stamp { time, count, .. } = delivery.label.stamp;
                self.desk.clock.observe(self.desk.now, time, count);
            }
        }
        let desk = &mut self.desk;
        if !matches!(under_way.purpose, Purpose::Consumer(_)) {
            desk.settle(request);
        }
        match under_way.purpose {
            Purpose::Hello => {
                if let Response::Refused(refusal) = body {
                    if refusal.retry() == Retry::Never {
                        desk.effects.push(Effect::Rejected(refusal));
                    }
                    self.hang_up(link);
                }
            }
            Purpose::Batch(batch) => {
                self.sender.answered(desk, batch, (request, under_way.sent), body);
            }
            Purpose::Ask(ask) => self.asks.answered(desk, ask, body, contents),
            Purpose::Settlement(batch) => self.settlements.answered(desk, batch, body),
            Purpose::Consumer(id) => {
                self.consumers.answered(desk, (id, request), body, contents);
            }
            Purpose::Stop(consumer) => self.consumers.stopped(desk, consumer),
            Purpose::Forgotten => self.forgotten(body),
        }
    }

    /// An answer that nobody waits for any more. Deliveries in it would be hidden from everybody
    /// until their leases end.
    fn forgotten(&mut self, body: Response) {
        let Response::Deliveries { deliveries } = body else { return };
        for delivery in deliveries.into_iter().filter(|delivery| delivery.lease_ms > 0) {
            self.settlements.give_back(&self.desk, delivery.receipt);
        }
    }

    fn greet(&mut self, link: u64, welcome: &Welcome) {
        let desk = &mut self.desk;
        match desk.nodes.greet(link, welcome, &mut desk.timers) {
            Greeted::New if !self.connected => {
                self.connected = true;
                desk.effects.push(Effect::Connected);
            }
            Greeted::New | Greeted::Known => {}
            Greeted::Duplicate => return self.hang_up(link),
        }
        for link in self.desk.nodes.accused() {
            self.probe(link);
        }
    }

    /// Asks something of no consequence, to see whether a node that others call down is alive. No
    /// name begins like this, so the answer is short.
    fn probe(&mut self, link: u64) {
        let body = Request::ListQueues { prefix: "?".to_owned(), after: None };
        let (stream, purpose) = (Stream::Control, Purpose::Forgotten);
        self.desk.ask_link(link, Outbound { stream, body, contents: Vec::new(), purpose });
        let at = self.desk.now.mono + self.desk.config.silence_max_down;
        self.desk.timers.set(Timer::Link(link), at);
    }

    fn hang_up(&mut self, link: u64) {
        self.desk.effects.push(Effect::HangUp { link });
        self.lost(link);
    }

    fn lost(&mut self, link: u64) {
        let desk = &mut self.desk;
        desk.nodes.lose(link, desk.now.mono, &desk.config, &mut desk.random);
        desk.timers.clear(&Timer::Link(link));
        for (request, purpose) in desk.lose(link) {
            let desk = &mut self.desk;
            match purpose {
                Purpose::Batch(batch) => self.sender.lost(desk, batch, request),
                Purpose::Ask(ask) => self.asks.lost(desk, ask),
                Purpose::Settlement(batch) => self.settlements.lost(desk, batch),
                Purpose::Consumer(consumer) => self.consumers.lost(desk, consumer),
                Purpose::Stop(consumer) => self.consumers.stopped(desk, consumer),
                Purpose::Hello | Purpose::Forgotten => {}
            }
        }
    }
}
