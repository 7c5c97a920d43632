//! The driver: the one task that holds the state of a client and drives its core.
//!
//! It wakes when handles have commands, links have reports or a timer is due, takes everything
//! that has come by then, tells the core, and does what that says. So what comes together is
//! handled together: sends share frames, confirms of a frame are passed out in one go, and no
//! message has a task or a lock of its own.
//!
//! Shutdown: once every handle is gone or the client is closed, consumers are stopped, sends and
//! settlements get their results, then the links are closed. What this file does not do: it
//! decides nothing that the core could.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gaggle_client_core::{
    Ask, Config, Core, Effect, Event, Failure, Now, Settle, Subscription, Verb,
};
use gaggle_wire::Receipt;
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::arrival::Arrival;
use crate::clock::Clock;
use crate::command::{Command, Shared};
use crate::dialer::Dialer;
use crate::error::{ConnectError, ReceiveError};
use crate::link::{Link, Report};
use crate::options::ConnectOptions;
use crate::shelf::Shelf;
use crate::waiters::Waiters;

/// Starts the driver and waits until a node has said welcome.
pub(crate) async fn start(
    options: ConnectOptions,
    commands: UnboundedReceiver<Command>,
    shared: Arc<Shared>,
) -> Result<(), ConnectError> {
    let seed = SysRng.try_next_u64().map_err(std::io::Error::other)?;
    let config = Config {
        reach: options.reach,
        seeds: options.addresses.len(),
        danger_clock_skew_ns: options.danger_clock_skew_ns,
        ..Config::default()
    };
    let (reports_in, reports) = unbounded_channel();
    let (arrival, wait) = Arrival::new(options.addresses.len());
    let driver = Driver {
        core: Core::open(config, seed),
        clock: Clock::start(),
        dialer: Arc::new(Dialer::new(&options)?),
        shared,
        reports: reports_in,
        links: HashMap::new(),
        waiters: Waiters::default(),
        consumers: HashMap::new(),
        leases: HashMap::new(),
        unclaimed: Vec::new(),
        arrival,
        closing: None,
    };
    let task = tokio::spawn(driver.run(Inbox { commands, reports }));
    let result = wait.within(options.connect_timeout).await;
    if result.is_err() {
        task.abort();
    }
    result
}

/// What wakes the driver.
struct Inbox {
    commands: UnboundedReceiver<Command>,
    reports: UnboundedReceiver<Report>,
}

struct Driver {
    core: Core,
    clock: Clock,
    dialer: Arc<Dialer>,
    shared: Arc<Shared>,
    /// For the links.
    reports: UnboundedSender<Report>,
    links: HashMap<u64, Link>,
    waiters: Waiters,
    consumers: HashMap<u64, OpenConsumer>,
    /// Who works on what is being extended.
    leases: HashMap<u64, watch::Sender<bool>>,
    /// Received by nobody: whoever asked for it was gone when it came.
    unclaimed: Vec<Receipt>,
    arrival: Arrival,
    closing: Option<Closing>,
}

struct OpenConsumer {
    shelf: Arc<Shelf>,
    done: Option<oneshot::Sender<()>>,
}

struct Closing {
    done: Vec<oneshot::Sender<()>>,
}

impl Driver {
    async fn run(mut self, mut inbox: Inbox) {
        let mut commands = Vec::with_capacity(COMMANDS);
        let mut reports = Vec::with_capacity(REPORTS);
        let mut effects = Vec::new();
        let alarm = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(alarm);
        loop {
            let closed = self.closing.is_some();
            tokio::select! {
                taken = inbox.commands.recv_many(&mut commands, COMMANDS),
                    if !(closed && inbox.commands.is_closed()) =>
                {
                    if taken == 0 {
                        self.close(None, &mut effects);
                    }
                }
                _ = inbox.reports.recv_many(&mut reports, REPORTS) => {}
                () = &mut alarm => {}
            }
            while commands.len() < COMMANDS
                && let Ok(command) = inbox.commands.try_recv()
            {
                commands.push(command);
            }
            while reports.len() < REPORTS
                && let Ok(report) = inbox.reports.try_recv()
            {
                reports.push(report);
            }
            let now = self.clock.now();
            for report in reports.drain(..) {
                self.report(now, report, &mut effects);
            }
            for command in commands.drain(..) {
                self.command(now, command, &mut effects);
            }
            self.settle_down(now, &mut effects);
            let busy = self.waiters.is_asking() || !self.core.is_idle();
            if self.closing.is_some() && !busy {
                return self.end(inbox).await;
            }
            let latest = now.mono + IDLE_ALARM;
            let wakeup = self.core.next_wakeup().map_or(latest, |at| at.min(latest));
            let wakeup = Instant::from_std(self.clock.instant_of(wakeup));
            if alarm.deadline() != wakeup {
                alarm.as_mut().reset(wakeup);
            }
        }
    }

    /// Does what is to be done, until nothing more follows from it.
    fn settle_down(&mut self, now: Now, effects: &mut Vec<Effect>) {
        loop {
            self.core.handle(now, Event::Tick, effects);
            for effect in effects.drain(..) {
                self.perform(effect);
            }
            if self.unclaimed.is_empty() {
                return;
            }
            let within = self.shared.request_timeout;
            for receipt in std::mem::take(&mut self.unclaimed) {
                let verb = Verb::Release(0);
                let settle = Settle { ticket: NOBODY, verb, receipt, within };
                self.core.handle(now, Event::Settle(settle), effects);
            }
        }
    }

    fn report(&mut self, now: Now, report: Report, effects: &mut Vec<Effect>) {
        match report {
            Report::Dialled(link) => self.core.handle(now, Event::Dialled { link }, effects),
            Report::Frames(link, frames) => {
                for (response, contents) in frames {
                    self.core.handle(now, Event::Frame { link, response, contents }, effects);
                }
            }
            Report::Lost(link, loss) => {
                if let Some(lost) = self.links.remove(&link) {
                    self.arrival.failed(lost.target, loss);
                    self.core.handle(now, Event::Lost { link }, effects);
                }
            }
        }
    }

    fn command(&mut self, now: Now, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Send(posted) => {
                for mut posted in posted {
                    if self.closing.is_some() {
                        let _ = posted.done.send(Err(Failure::Closed));
                        continue;
                    }
                    posted.parcel.ticket = self.waiters.send(posted.done, posted.permits);
                    self.core.handle(now, Event::Send(posted.parcel), effects);
                }
            }
            Command::Ask { request, within, done } => {
                if self.closing.is_some() {
                    let _ = done.send(Err(Failure::Closed));
                    return;
                }
                let ticket = self.waiters.ask(&request, done);
                self.core.handle(now, Event::Ask(Ask { ticket, request, within }), effects);
            }
            Command::Settle { verb, receipts, done } => {
                let within = self.shared.request_timeout;
                for (ticket, receipt) in self.waiters.settle(receipts.len(), done).zip(receipts) {
                    let settle = Settle { ticket, verb, receipt, within };
                    self.core.handle(now, Event::Settle(settle), effects);
                }
            }
            Command::Subscribe { subscription, shelf } => {
                self.subscribe(now, subscription, shelf, effects);
            }
            Command::Taken { consumer } => self.taken(now, consumer, effects),
            Command::Unsubscribe { consumer, done } => {
                if let Some(open) = self.consumers.get_mut(&consumer) {
                    open.done = done.or_else(|| open.done.take());
                    self.stop_consumer(now, consumer, effects);
                }
            }
            Command::Keep { lease, receipt, remaining, visibility, lost } => {
                self.leases.insert(lease, lost);
                let event = Event::Keep { lease, receipt, remaining, visibility };
                self.core.handle(now, event, effects);
            }
            Command::Unkeep { lease } => {
                self.leases.remove(&lease);
                self.core.handle(now, Event::Unkeep { lease }, effects);
            }
            Command::Clock { done } => {
                let _ = done.send(self.core.clock(now));
            }
            Command::Close { done } => self.close(Some(done), effects),
        }
    }

    fn subscribe(
        &mut self,
        now: Now,
        subscription: Subscription,
        shelf: Arc<Shelf>,
        effects: &mut Vec<Effect>,
    ) {
        if self.closing.is_some() {
            return shelf.end(Some(ReceiveError::Closed));
        }
        self.consumers.insert(subscription.consumer, OpenConsumer { shelf, done: None });
        self.core.handle(now, Event::Subscribe(subscription), effects);
    }

    fn taken(&mut self, now: Now, consumer: u64, effects: &mut Vec<Effect>) {
        if let Some(open) = self.consumers.get(&consumer) {
            let (run, taken) = open.shelf.taken();
            self.core.handle(now, Event::Taken { consumer, run, taken }, effects);
        }
    }

    /// What lies on the shelf is taken by nobody from now on.
    fn stop_consumer(&mut self, now: Now, consumer: u64, effects: &mut Vec<Effect>) {
        if let Some(open) = self.consumers.get(&consumer) {
            open.shelf.end(None);
        }
        self.taken(now, consumer, effects);
        self.core.handle(now, Event::Unsubscribe { consumer }, effects);
    }

    /// Begins the end.
    fn close(&mut self, done: Option<oneshot::Sender<()>>, effects: &mut Vec<Effect>) {
        let closing = self.closing.get_or_insert_with(|| Closing { done: Vec::new() });
        closing.done.extend(done);
        self.shared.room.close();
        self.waiters.end_receives();
        let now = self.clock.now();
        let consumers: Vec<u64> = self.consumers.keys().copied().collect();
        for consumer in consumers {
            self.stop_consumer(now, consumer, effects);
        }
    }

    async fn end(mut self, mut inbox: Inbox) {
        inbox.commands.close();
        self.dialer.close().await;
        self.links.clear();
        for done in self.closing.take().into_iter().flat_map(|closing| closing.done) {
            let _ = done.send(());
        }
        // Who asked for the end in the meantime is answered by the channel being gone.
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { link, target } => {
                let (dialer, reports) = (Arc::clone(&self.dialer), self.reports.clone());
                self.links.insert(link, Link::dial(link, target, dialer, reports));
            }
            Effect::HangUp { link } => {
                self.links.remove(&link);
            }
            Effect::Transmit { link, stream, frame, contents } => {
                if let Some(link) = self.links.get(&link) {
                    link.transmit(stream, frame, contents);
                }
            }
            Effect::Connected => self.arrival.tell(Ok(())),
            Effect::Rejected(refusal) => self.arrival.tell(Err(ConnectError::Refused(refusal))),
            Effect::Sent { ticket, result } => self.waiters.sent(ticket, result),
            Effect::Answered { ticket, result } => {
                self.unclaimed.extend(self.waiters.answered(ticket, result));
            }
            Effect::Settled { ticket, result } => self.waiters.settled(ticket, result),
            Effect::Deliver { consumer, run, deliveries } => {
                if let Some(open) = self.consumers.get(&consumer) {
                    open.shelf.put(run, deliveries);
                }
            }
            Effect::Sweep { consumer } => {
                if let Some(open) = self.consumers.get(&consumer) {
                    open.shelf.sweep();
                }
            }
            Effect::Ended { consumer, reason } => {
                if let Some(open) = self.consumers.remove(&consumer) {
                    open.shelf.end(reason.map(ReceiveError::from));
                    if let Some(done) = open.done {
                        let _ = done.send(());
                    }
                }
            }
            Effect::LeaseLost { lease } => {
                tracing::warn!("the lease of a message that is being worked on is lost");
                if let Some(lost) = self.leases.get(&lease) {
                    lost.send_replace(true);
                }
            }
            Effect::Renewed(process) => {
                tracing::warn!(%process, "the clock was ahead; stamps are made anew");
            }
        }
    }
}

/// The ticket of what nobody waits for; others begin at 1.
const NOBODY: u64 = 0;
/// How much is taken at once: enough for one wakeup to serve a burst, little enough for the
/// answers to it not to wait for all of the next one.
const COMMANDS: usize = 1024;
const REPORTS: usize = 256;
/// The alarm when nothing is due: far off, but no overflow.
const IDLE_ALARM: Duration = Duration::from_secs(3600);
