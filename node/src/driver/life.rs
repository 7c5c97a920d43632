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
//! What this file does not do: it opens and closes nothing; see `driver.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gaggle_core::Node;
use gaggle_core::effect::{Effect, Effects};
use gaggle_core::envelope::Envelope;
use gaggle_core::event::{Event, LinkId, Reply, Surroundings};
use gaggle_core::ledger::{MessageKey, Write};
use gaggle_wire::{Request, Response};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::commits::Commits;
use super::groups::Groups;
use super::input::{Asked, Input, Said, Urgent};
use super::voices::Voices;
use super::word::{Complete, Path, Word};
use crate::bodies::Bodies;
use crate::clocks::Clocks;
use crate::net::Network;
use crate::net::close::Close;
use crate::net::corridor::dial::Dials;
use crate::store::{Change, Content, StoreError, Threads, ThreadsEvent, Wanted};

/// Why a life ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It was asked to, and has handed everything over or ran out of time.
    Stopped(oneshot::Sender<()>),
    /// The store is of no use any more.
    Failed(StoreError),
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
    parts: Parts,
    effects: Effects,
    groups: Groups<Change, Wanted<Word>>,
    commits: Commits,
    pub(crate) voices: Voices,
    /// Words that the reader has, by stream: the next ones of that stream follow them.
    reading: BTreeMap<Path, usize>,
    lost: Vec<MessageKey>,
    stopping: Option<(oneshot::Sender<()>, Instant)>,
    drained: bool,
}

impl Life {
    /// A life that has not begun.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            parts,
            effects: Effects::new(),
            groups: Groups::new(),
            commits: Commits::new(),
            voices: Voices::default(),
            reading: BTreeMap::new(),
            lost: Vec::new(),
            stopping: None,
            drained: false,
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
            let open = self.groups.gathered() < GATHERED_MAX;
            tokio::select! {
                biased;
                Some(report) = self.parts.reports.recv() => {
                    if let Err(error) = self.report(report, dials) {
                        return End::Failed(error);
                    }
                }
                Some(urgent) = sources.urgent.recv() => self.urgent(urgent, dials),
                () = sleep_until(patience.map_or(due, |until| until.min(due)).into()) => {
                    if Instant::now() < due {
                        // The commit has waited long enough for company.
                        continue;
                    }
                    woken = Instant::now();
                    if self.stopping.as_ref().is_none_or(|(_, at)| woken < *at) {
                        self.handle(Event::Wakeup, dials);
                    }
                }
                _ = tick.tick() => self.measure(dials),
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
        let (_, deadline) = self.stopping.as_ref()?;
        if self.drained || Instant::now() >= *deadline {
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
        let surroundings = Surroundings {
            disk_bytes: self.parts.threads.bytes(),
            socket_buffer_bytes: self.parts.socket_buffer_bytes,
            commit_running_ms: self.commits.running().map_or(0, |start| millis(start.elapsed())),
            commit_p99_ms: millis(self.commits.p99_of_window()),
        };
        self.handle(Event::Measured(surroundings), dials);
    }

    fn urgent(&mut self, urgent: Urgent, dials: &mut Dials) {
        match urgent {
            Urgent::Gossip { from, packet } => self.handle(Event::Gossip { from, packet }, dials),
            Urgent::Stop(done) => {
                self.stopping = Some((done, Instant::now() + DRAIN_MAX));
                self.handle(Event::Drain, dials);
            }
        }
    }

    fn take(&mut self, input: Input, dials: &mut Dials) {
        match input {
            Input::ClientOpened { client, door, request, answers } => {
                self.voices.open_client(client, door, answers);
                let welcome = Response::Welcome(self.parts.node.welcome());
                self.answer_now(Reply { client, stream: 0, request }, welcome);
                self.handle(Event::ClientOpened(client), dials);
            }
            Input::StreamOpened { client, stream, answers } => {
                self.voices.open_stream(client, stream, answers);
            }
            Input::Asked { client, stream, asked } => {
                for Asked { request, what } in asked {
                    // A client that a former life closed is not known to this one.
                    if self.voices.has_client(client) {
                        self.asked(Reply { client, stream, request }, what, dials);
                    }
                }
            }
            Input::StreamClosed { client, stream } => self.voices.close_stream(client, stream),
            Input::ClientClosed(client) => {
                if self.voices.close_client(client) {
                    self.handle(Event::ClientClosed(client), dials);
                    self.parts.bodies.release_client(client);
                }
            }
            Input::LinkUp { link, hello, corridor, life } => {
                if life != self.parts.number {
                    corridor.close(Close::Replaced);
                    return;
                }
                if let Some(older) = self.voices.open_link(link, corridor) {
                    self.handle(Event::LinkDown { link: older }, dials);
                }
                self.handle(Event::LinkUp { link, hello }, dials);
            }
            Input::Said { link, said } => {
                for said in said {
                    if self.voices.has_link(link) {
                        self.said(link, said, dials);
                    }
                }
            }
            Input::LinkDown(link) => self.link_down(link, Close::NotWanted, dials),
        }
    }

    fn asked(
        &mut self,
        reply: Reply,
        what: Result<(Request, Vec<bytes::Bytes>), gaggle_wire::Refusal>,
        dials: &mut Dials,
    ) {
        let kept = what.and_then(|(request, contents)| {
            if let Request::Send { queue, partition, labels, .. } = &request {
                let messages = labels.iter().zip(&contents).map(|(label, content)| {
                    let (queue, partition, stamp) = (*queue, *partition, label.stamp);
                    (MessageKey { queue, partition, stamp }, *label, content.clone())
                });
                self.parts.bodies.keep(reply, messages)?;
            }
            Ok(request)
        });
        match kept {
            Ok(request) => self.handle(Event::Request { reply, request }, dials),
            Err(refusal) => self.answer_now(reply, Response::Refused(refusal)),
        }
    }

    fn said(&mut self, link: LinkId, Said { envelope, contents }: Said, dials: &mut Dials) {
        if !contents.is_empty() {
            let messages = envelope.messages().into_iter().zip(contents);
            self.parts.bodies.insert(messages.map(|((key, label), body)| (key, label, body)));
        }
        self.handle(Event::Envelope { link, envelope }, dials);
    }

    fn link_down(&mut self, link: LinkId, why: Close, dials: &mut Dials) {
        if self.voices.close_link(link, why) {
            self.handle(Event::LinkDown { link }, dials);
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
            }
            ThreadsEvent::Loaded { load, rows, end } => {
                self.handle(Event::Loaded { load, rows, end }, dials);
            }
            ThreadsEvent::Read(wanted) => {
                self.read(wanted.word.path());
                self.voice(wanted);
            }
            ThreadsEvent::Failed(error) => return Err(error),
        }
        while let Some(key) = self.lost.pop() {
            self.handle(Event::BodyLost(key), dials);
        }
        Ok(())
    }

    /// The reader is done with one word of this stream.
    fn read(&mut self, path: Option<Path>) {
        let Some(path) = path else { return };
        let left = self.reading.remove(&path).map_or(0, |count| count - 1);
        if left > 0 {
            self.reading.insert(path, left);
        }
    }

    fn handle(&mut self, event: Event, dials: &mut Dials) {
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
            Effect::CloseLink(link) => self.voices.give_up_link(link),
            Effect::Load { load, from, to, limit } => {
                self.say(Word::Load { load, from, to, limit });
            }
            Effect::Drained => self.say(Word::Drained),
        }
    }

    /// Says something once the writes before it are durable.
    fn say(&mut self, word: Word) {
        let contents = self.contents_of(&word);
        if let Some(word) = self.groups.say(Wanted { word, contents }) {
            self.speak(word);
        }
    }

    /// Says something at once, unless its contents must be read.
    fn say_now(&mut self, link: LinkId, envelope: Envelope) {
        let word = Word::Envelope { link, envelope };
        let contents = self.contents_of(&word);
        let wanted = Wanted { word, contents };
        if is_whole(&wanted.contents) {
            self.voice(wanted);
        } else if let Some(wanted) = self.groups.say(wanted) {
            self.speak(wanted);
        }
    }

    fn contents_of(&mut self, word: &Word) -> Vec<Content> {
        let bodies = &mut self.parts.bodies;
        let find = |(key, label): (MessageKey, gaggle_wire::Label)| {
            bodies.content(&key, &label).map_or(Content::Stored(key, label), Content::Here)
        };
        word.messages().into_iter().map(find).collect()
    }

    /// Says what may be said, after what the reader still has for the same stream.
    fn speak(&mut self, wanted: Wanted<Word>) {
        let Some(path) = wanted.word.path() else { return self.voice(wanted) };
        match self.reading.get_mut(&path) {
            Some(count) => *count += 1,
            None if is_whole(&wanted.contents) => return self.voice(wanted),
            None => {
                self.reading.insert(path, 1);
            }
        }
        self.parts.threads.read(wanted);
    }

    fn voice(&mut self, Wanted { word, contents }: Wanted<Word>) {
        let (complete, lost) = word.complete(contents);
        self.lost.extend(lost);
        match complete {
            Complete::Whole(Word::Answer { reply, response }, contents) => {
                self.voices.answer(reply, self.clock(), response, &contents);
            }
            Complete::Whole(Word::Envelope { link, envelope }, contents) => {
                self.voices.say(link, &envelope, &contents);
            }
            Complete::Whole(Word::Load { load, from, to, limit }, _) => {
                self.parts.threads.load(load, from, to, limit);
            }
            Complete::Whole(Word::Drained, _) => self.drained = true,
            Complete::Broken(link) => self.voices.give_up_link(link),
        }
    }

    fn answer_now(&self, reply: Reply, response: Response) {
        self.voices.answer(reply, self.clock(), response, &[]);
    }

    fn clock(&self) -> u64 {
        self.parts.node.clock(self.parts.clocks.now())
    }

    /// Commits what has gathered, unless it is better to wait for more.
    fn commit(&mut self) {
        if self.commits.patience(self.groups.gathered()).is_some() {
            return;
        }
        if let Some(changes) = self.groups.start() {
            self.commits.started(changes.len());
            self.parts.threads.commit(changes);
        }
    }
}

fn is_whole(contents: &[Content]) -> bool {
    contents.iter().all(|content| matches!(content, Content::Here(_)))
}

/// Inputs that are handled before a commit is started and others get their turn. Each is what one
/// reader found at one wakeup.
const INPUTS_MAX: usize = 64;

/// Changes that gather while a commit runs before nothing more is taken in: what is sent then
/// waits in the streams. A stuck disk must not fill the memory.
const GATHERED_MAX: usize = 65_536;

/// How long a drain may take before the node stops all the same.
const DRAIN_MAX: Duration = Duration::from_secs(10);

const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Timers of the core are in milliseconds.
const WAKEUP_PAUSE: Duration = Duration::from_millis(1);
