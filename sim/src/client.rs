//! A client: the core that is shipped, and its driver in virtual time.
//!
//! The contract between the two is that of the real driver (`client/src/driver.rs`): what has
//! happened is told, then the application speaks, then a tick, and what the core asks for is done
//! in order, until nothing follows. The application hears of results and deliveries at once, as a
//! task does that is always run next; pauses of the whole client are the world's.
//!
//! Invariants: the core is told nothing of connections that it has hung up; a client that was
//! paused hears all that came meanwhile before it does anything. What this file does not do: it
//! carries nothing (`lines.rs`) and wants nothing (`apps/`).

use std::collections::BTreeMap;

use bytes::Bytes;
use gaggle_client_core::{Config, Core, Effect, Event};
use gaggle_core::event::ClientId;
use gaggle_wire::{Request, Response, ResponseFrame};

use crate::actor::{Act, Desk};
use crate::apps::{App, Handle};
use crate::town::Traits;
use crate::watch::Watch;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Client {
    core: Core,
    traits: Traits,
    watch: Watch,
    pub(crate) app: App,
    /// Its connections; without a name while they are being made.
    links: BTreeMap<u64, Option<ClientId>>,
    /// The last ticket, or name of a consumer or a lease.
    last_name: u64,
    wake_at: Option<u64>,
    /// What has come while it was paused.
    backlog: Option<Vec<Event>>,
    effects: Vec<Effect>,
}

impl Client {
    pub(crate) fn new(now: u64, (config, seed): (Config, u64), traits: Traits, app: App) -> Self {
        Self {
            core: Core::open(config, seed),
            watch: Watch::new(now, traits.clock),
            traits,
            app,
            links: BTreeMap::new(),
            last_name: 0,
            wake_at: None,
            backlog: None,
            effects: Vec::new(),
        }
    }

    /// What it is like.
    pub(crate) fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Something happens, and everything follows that is to follow at this moment.
    pub(crate) fn turn(&mut self, event: Option<Event>, desk: &mut Desk<'_>) {
        if let Some(backlog) = &mut self.backlog {
            backlog.extend(event);
            return;
        }
        self.hear(event, desk);
        self.settle_down(desk);
    }

    /// It was to be woken; whether that is still so.
    pub(crate) fn wake(&mut self, desk: &mut Desk<'_>) {
        if self.wake_at == Some(desk.now) {
            self.wake_at = None;
            self.turn(None, desk);
        }
    }

    pub(crate) fn pause(&mut self) {
        self.backlog.get_or_insert_default();
    }

    pub(crate) fn resume(&mut self, desk: &mut Desk<'_>) {
        let Some(backlog) = self.backlog.take() else { return };
        for event in backlog {
            self.hear(Some(event), desk);
        }
        self.settle_down(desk);
    }

    fn hear(&mut self, event: Option<Event>, desk: &mut Desk<'_>) {
        let Some(event) = event else { return };
        if let Event::Lost { link } = event
            && self.links.remove(&link).is_none()
        {
            return;
        }
        let now = self.watch.now(desk.now);
        self.core.handle(now, event, &mut self.effects);
    }

    fn settle_down(&mut self, desk: &mut Desk<'_>) {
        let now = self.watch.now(desk.now);
        let mut said = Vec::new();
        self.handle(&mut said, desk, App::wake);
        loop {
            for event in said.drain(..) {
                self.core.handle(now, event, &mut self.effects);
            }
            self.core.handle(now, Event::Tick, &mut self.effects);
            let effects = std::mem::take(&mut self.effects);
            for effect in effects {
                self.perform(effect, &mut said, desk);
            }
            if said.is_empty() {
                break;
            }
        }
        self.plan_wake(desk);
    }

    fn handle(
        &mut self,
        said: &mut Vec<Event>,
        desk: &mut Desk<'_>,
        work: impl FnOnce(&mut App, &mut Handle<'_>),
    ) {
        let mut handle = Handle {
            actor: desk.actor,
            now: desk.now,
            rng: desk.rng,
            judge: desk.judge,
            last_name: &mut self.last_name,
            said,
        };
        work(&mut self.app, &mut handle);
    }

    fn perform(&mut self, effect: Effect, said: &mut Vec<Event>, desk: &mut Desk<'_>) {
        match effect {
            Effect::Dial { link, target } => {
                self.links.insert(link, None);
                desk.acts.push(Act::Dial { link, target });
            }
            Effect::HangUp { link } => desk.acts.push(Act::HangUp { link }),
            Effect::Transmit { link, stream, frame, contents } => {
                if !self.links.contains_key(&link) {
                    return;
                }
                if let Request::Send { queue, partition, labels, .. } = &frame.body {
                    let place = (*queue, *partition);
                    desk.judge.travels(desk.actor, place, labels.iter().zip(&contents));
                }
                desk.acts.push(Act::Transmit { link, stream, frame });
            }
            Effect::Connected | Effect::LeaseLost { .. } | Effect::Renewed(_) => {}
            Effect::Rejected(refusal) => panic!("a client is rejected: {refusal}"),
            Effect::Sent { ticket, result } => {
                desk.judge.told_sent(desk.now, (desk.actor, ticket), &result);
                self.handle(said, desk, |app, handle| app.sent(ticket, &result, handle));
            }
            Effect::Answered { ticket, result } => {
                self.handle(said, desk, |app, handle| app.answered(ticket, result, handle));
            }
            Effect::Settled { ticket, result } => {
                desk.judge.told_settled(desk.now, (desk.actor, ticket), &result);
                self.handle(said, desk, |app, handle| app.settled(ticket, &result, handle));
            }
            Effect::Deliver { consumer, run, deliveries } => {
                let labels = deliveries.into_iter().map(|(label, _)| label).collect();
                self.handle(said, desk, |app, handle| {
                    app.delivered((consumer, run), labels, handle);
                });
            }
            Effect::Sweep { .. } => self.app.swept(),
            Effect::Ended { consumer, reason } => {
                self.handle(said, desk, |app, handle| {
                    app.ended(consumer, reason.as_ref(), handle);
                });
            }
        }
    }

    fn plan_wake(&mut self, desk: &mut Desk<'_>) {
        let core = self.core.next_wakeup().map(|mono| self.watch.when(mono));
        let Some(next) = core.into_iter().chain(self.app.next_wakeup()).min() else { return };
        let next = next.max(desk.now + 1);
        if self.wake_at.is_none_or(|present| present > next || present <= desk.now) {
            self.wake_at = Some(next);
            desk.acts.push(Act::Wake { at: next });
        }
    }

    /// The name of a connection, if it has one.
    pub(crate) fn line(&self, link: u64) -> Option<ClientId> {
        self.links.get(&link).copied().flatten()
    }

    /// Whether a connection is wanted and not yet made.
    pub(crate) fn is_dialling(&self, link: u64) -> bool {
        self.links.get(&link) == Some(&None)
    }

    /// A connection has got a name.
    pub(crate) fn set_line(&mut self, link: u64, line: ClientId) {
        self.links.insert(link, Some(line));
    }

    /// A connection is the core's no more.
    pub(crate) fn drop_link(&mut self, link: u64) {
        self.links.remove(&link);
    }

    /// The connections that have a name.
    pub(crate) fn lines(&self) -> Vec<ClientId> {
        self.links.values().flatten().copied().collect()
    }
}

/// What comes on a connection, as the core is told.
pub(crate) fn frame_of(link: u64, response: ResponseFrame) -> Event {
    // Contents are not simulated: what is handed out is judged by its label.
    let contents = match &response.body {
        Response::Deliveries { deliveries } => vec![Bytes::new(); deliveries.len()],
        _ => Vec::new(),
    };
    Event::Frame { link, response, contents }
}
