//! One life of the node: from an opened store to its end, the loop around the core.
//!
//! ```text
//!   inputs --> event --> Node::handle --> effects
//!                                          |  writes            words
//!                                          v                      |
//!                              groups: gathering -> running ------+--> voices --> streams
//!                                                     |           '--> reader (contents, rows)
//!                                                   writer
//! ```
//!
//! All events that wait are handled before a commit is started, and all that come while it runs
//! make up the next one: under load groups grow by themselves, and a lone write is committed at
//! once. Contents are taken from memory when an effect is made, before anything is evicted; what
//! is not there is read after the commit, and words of one stream wait for each other then.
//!
//! Invariants: write before speak, by `groups.rs`. A failure of the store ends the life; nothing
//! that it had not said is ever said.
//!
//! What this file does not do: it opens and closes nothing; see `driver.rs`. What comes in is in
//! `hearing.rs`, what goes out in `speaking.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gaggle_core::Node;
use gaggle_core::effect::{Effect, Effects, Stop};
use gaggle_core::event::{Event, Missed, Surroundings};
use gaggle_core::ledger::{MessageKey, Write};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::commits::Commits;
use super::groups::Groups;
use super::held::Held;
use super::input::{Input, Urgent};
use super::recent::Recent;
use super::speaking::Reading;
use super::voices::Voices;
use super::word::{Path, Word};
use crate::bodies::Bodies;
use crate::clocks::Clocks;
use crate::net::Network;
use crate::net::close::Close;
use crate::net::corridor::dial::Dials;
use crate::store::{Change, Page, Reserve, Scan, StoreError, Threads, ThreadsEvent, Wanted};

/// Why a life ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It was asked to, and has handed everything over or ran out of time.
    Stopped(oneshot::Sender<()>),
    /// The store is of no use any more.
    Failed(StoreError),
    /// The socket is of no use any more.
    Deaf,
    /// The core says that it has to.
    Told(Stop),
    /// The core says that it has to be opened anew: it is another host from now on, or none.
    Renewed,
    /// Nobody can ask it any more.
    Abandoned,
}

/// What a life needs.
pub(crate) struct Parts {
    pub(crate) node: Node,
    pub(crate) threads: Threads<Word>,
    pub(crate) reports: UnboundedReceiver<ThreadsEvent<Word>>,
    pub(crate) network: Arc<Network>,
    pub(crate) bodies: Bodies,
    pub(crate) clocks: Clocks,
    pub(crate) number: u64,
    pub(crate) reserve: Reserve,
    pub(crate) socket_buffer_bytes: u64,
}

/// Where events come from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) inputs: Receiver<Input>,
    pub(crate) urgent: Receiver<Urgent>,
}

/// A node that is open.
pub(crate) struct Life {
    pub(super) parts: Parts,
    effects: Effects,
    pub(super) groups: Groups<Change, Wanted<Word>>,
    /// Bytes of contents in the gathering group.
    gathered_bytes: usize,
    commits: Commits,
    /// How late the loop was for what was due.
    late: Recent,
    pub(crate) voices: Voices,
    /// Words that the reader has, by stream: the next ones of that stream follow them.
    pub(super) reading: BTreeMap<Path, Reading>,
    /// Words whose stream has no room.
    pub(super) held: Held,
    /// Contents that could not be read, of which the core is to be told, with the answers that
    /// went without them.
    pub(super) lost: Vec<(MessageKey, Option<Missed>)>,
    /// Who wants to know when all is handed over, and until when that may take.
    pub(super) stopping: Option<(oneshot::Sender<()>, Instant)>,
    pub(super) drained: bool,
    pub(super) renewed: bool,
    pub(super) deaf: bool,
    /// Why the core has to end.
    told_to_end: Option<Stop>,
    /// Whether the core was told that the disk is full.
    full: bool,
}

impl Life {
    /// A life that has not begun.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            parts,
            effects: Effects::new(),
            groups: Groups::new(),
            gathered_bytes: 0,
            commits: Commits::new(),
            late: Recent::new(),
            voices: Voices::default(),
            reading: BTreeMap::new(),
            held: Held::default(),
            lost: Vec::new(),
            stopping: None,
            drained: false,
            renewed: false,
            deaf: false,
            told_to_end: None,
            full: false,
        }
    }

    /// The threads of its store, to be closed.
    pub(crate) fn into_threads(self) -> Threads<Word> {
        self.parts.threads
    }

    /// The node.
    pub(crate) fn node(&self) -> &Node {
        &self.parts.node
    }

    /// Starts, and returns when what makes this life another one than the last is durable.
    pub(crate) async fn begin(&mut self, dials: &mut Dials) -> Result<(), StoreError> {
        self.handle(Event::Started, dials);
        self.measure(dials);
        self.commit();
        while self.commits.running().is_some() {
            let report = self.parts.reports.recv().await.expect("the threads are there");
            self.report(report, dials)?;
        }
        Ok(())
    }

    /// Handles events until the end.
    pub(crate) async fn run(&mut self, sources: &mut Sources, dials: &mut Dials) -> End {
        let mut tick = interval(MEASURE_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut inputs = Vec::new();
        let mut woken = Instant::now();
        loop {
            self.commit();
            if let Some(end) = self.ended() {
                return end;
            }
            let due = self.due(woken);
            let patience = self.commits.patience(self.groups.gathered());
            let open =
                self.gathered_bytes < GATHERED_BYTES_MAX && self.groups.gathered() < GATHERED_MAX;
            tokio::select! {
                biased;
                Some(report) = self.parts.reports.recv() => {
                    if let Err(error) = self.report(report, dials) {
                        return End::Failed(error);
                    }
                }
                Some(urgent) = sources.urgent.recv() => self.urgent(urgent, dials),
                () = self.parts.network.writers.room() => self.release_held(),
                () = sleep_until(patience.map_or(due, |until| until.min(due)).into()) => {
                    if Instant::now() < due {
                        // The commit has waited long enough for company.
                        continue;
                    }
                    woken = Instant::now();
                    self.late.record(woken.saturating_duration_since(due));
                    if self.stopping.as_ref().is_none_or(|(_, at)| woken < *at) {
                        self.handle(Event::Wakeup, dials);
                    }
                }
                at = tick.tick() => {
                    self.late.record(at.elapsed());
                    self.give_up_stuck();
                    self.measure(dials);
                }
                count = sources.inputs.recv_many(&mut inputs, INPUTS_MAX), if open => {
                    if count == 0 {
                        return End::Abandoned;
                    }
                    for input in inputs.drain(..) {
                        self.take(input, dials);
                    }
                    self.parts.bodies.evict();
                    self.commit();
                    // Readers and writers of streams get their turn, and more comes together.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn ended(&mut self) -> Option<End> {
        if self.deaf {
            return Some(End::Deaf);
        }
        if let Some(why) = self.told_to_end {
            return Some(End::Told(why));
        }
        if self.renewed && self.stopping.is_none() {
            return Some(End::Renewed);
        }
        let (_, deadline) = self.stopping.as_ref()?;
        let said = self.drained && !self.held.has_links();
        if said || self.renewed || Instant::now() >= *deadline {
            let (done, _) = self.stopping.take()?;
            return Some(End::Stopped(done));
        }
        None
    }

    /// When to wake the core. A core that is never content would else keep everybody else out.
    fn due(&self, woken: Instant) -> Instant {
        let far = woken + Duration::from_secs(3600);
        let due = self.parts.node.next_wakeup().map_or(far, |at| self.parts.clocks.instant(at));
        let due = self.stopping.as_ref().map_or(due, |(_, deadline)| due.min(*deadline));
        due.max(woken + WAKEUP_PAUSE)
    }

    fn measure(&mut self, dials: &mut Dials) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let disk = self.parts.reserve.measure(self.parts.threads.spare_bytes());
        self.full = disk.is_full();
        let surroundings = Surroundings {
            disk_bytes: self.parts.threads.bytes(),
            disk_free_bytes: disk.free,
            disk_total_bytes: disk.total,
            socket_buffer_bytes: self.parts.socket_buffer_bytes,
            commit_running_ms: self.commits.running().map_or(0, |start| millis(start.elapsed())),
            commit_p99_ms: millis(self.commits.p99_of_window()),
            loop_p99_ms: millis(self.late.p99_of_window()),
        };
        self.handle(Event::Measured(surroundings), dials);
        self.handle(Event::Counted(self.parts.network.closes.counted()), dials);
    }

    /// A disk may be filled between two measurements, so each commit looks whether it is full.
    fn look_for_room(&mut self, dials: &mut Dials) {
        if !self.full && self.parts.reserve.is_short(self.parts.threads.spare_bytes()) {
            self.measure(dials);
        }
    }

    fn report(&mut self, report: ThreadsEvent<Word>, dials: &mut Dials) -> Result<(), StoreError> {
        match report {
            ThreadsEvent::Committed { took } => {
                self.commits.ended(took);
                // The next group is on its way before anything is said about the last one.
                let words = self.groups.end();
                self.commit();
                for word in words {
                    self.speak(word);
                }
                self.look_for_room(dials);
            }
            ThreadsEvent::Loaded { load, page: Page { rows, end, damaged } } => {
                self.handle(Event::Loaded { load, rows, end, damaged }, dials);
            }
            ThreadsEvent::Read(wanted) => {
                self.read(&wanted);
                self.voice(wanted);
                self.release_held();
            }
            ThreadsEvent::Failed(error) => return Err(error),
        }
        while let Some((key, missed)) = self.lost.pop() {
            self.handle(Event::BodyLost { key, missed }, dials);
        }
        Ok(())
    }

    pub(super) fn handle(&mut self, event: Event, dials: &mut Dials) {
        let mut effects = std::mem::take(&mut self.effects);
        self.parts.node.handle(self.parts.clocks.now(), event, &mut effects);
        // All writes of a batch stand before all of its words, wherever they are in the list.
        let mut words = Vec::new();
        for effect in effects.drain() {
            match effect {
                Effect::Write(write) => self.write(write),
                effect => words.push(effect),
            }
        }
        for effect in words {
            self.perform(effect, dials);
        }
        self.effects = effects;
    }

    fn write(&mut self, write: Write) {
        let content = match &write {
            Write::PutMessage { key, label, .. } => self.parts.bodies.content(key, label),
            Write::Delete { key } => {
                if let Some(key) = MessageKey::parse(key) {
                    self.parts.bodies.remove(&key);
                }
                None
            }
            Write::Put { .. } | Write::PutHeader { .. } | Write::DeleteRange { .. } => None,
        };
        self.gathered_bytes += content.as_ref().map_or(0, Bytes::len);
        self.groups.write(Change { write, content });
    }

    fn perform(&mut self, effect: Effect, dials: &mut Dials) {
        match effect {
            Effect::Write(write) => self.write(write),
            Effect::Send { link, envelope } => self.say(Word::Envelope { link, envelope }),
            Effect::SendNow { link, envelope } => self.say_now(link, envelope),
            Effect::Answer { reply, response } => {
                self.say(Word::Answer { reply, response });
                self.parts.bodies.release(reply);
            }
            Effect::Welcome(welcome) => self.voices.welcome(self.clock(), welcome),
            Effect::Gossip { to, node, packet } => {
                self.parts.network.gossip.send(&self.parts.network, to, node, packet);
            }
            Effect::Links(links) => dials.set(links),
            // That it is down is told when its streams have ended.
            Effect::CloseLink(link) => self.voices.give_up_link(link, Close::NotWanted),
            Effect::Load { load, from, to, limit, contents } => {
                self.say(Word::Load { load, scan: Scan { from, to, limit, contents } });
            }
            Effect::Drained => self.say(Word::Drained),
            Effect::Renewed => self.say(Word::Renewed),
            Effect::Stop(why) => self.told_to_end = Some(why),
        }
    }

    pub(super) fn clock(&self) -> u64 {
        self.parts.node.clock(self.parts.clocks.now())
    }

    /// Commits what has gathered, unless it is better to wait for more.
    fn commit(&mut self) {
        if self.commits.patience(self.groups.gathered()).is_some() {
            return;
        }
        if let Some(changes) = self.groups.start() {
            self.commits.started(changes.len());
            self.gathered_bytes = 0;
            self.parts.threads.commit(changes);
        }
    }
}

/// Inputs that are handled before a commit is started and others get their turn. Each is what one
/// reader found at one wakeup.
const INPUTS_MAX: usize = 64;

/// Changes that gather while a commit runs before nothing more is taken in: what is sent then
/// waits in the streams. A stuck disk must not fill the memory.
const GATHERED_MAX: usize = 65_536;
const GATHERED_BYTES_MAX: usize = 64 * 1024 * 1024;

const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Timers of the core are in milliseconds.
const WAKEUP_PAUSE: Duration = Duration::from_millis(1);
