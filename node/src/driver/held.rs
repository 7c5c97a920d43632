//! Words that wait because their stream has no room: what is large does not pile up encoded.
//!
//! A frame that waits in an outbox is a second copy of its contents, one for every node it goes
//! to, and an outbox that is too full ends its connection. So what carries contents waits here
//! while much waits there already: by its contents in memory where these are on no disk yet
//! (copies of messages under way, which the limit of sends counts), else by its labels alone, to
//! be read again when there is room.
//!
//! Invariants: words of one stream leave in the order in which they came. What is held of sends
//! and what is kept of them stay together below one limit. What this file does not do: it neither
//! speaks nor reads, and it does not know how full an outbox is; see `speaking.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use gaggle_core::envelope::Envelope;
use gaggle_core::event::{ClientId, LinkId};

use super::word::{Path, Word};
use crate::store::{Content, Wanted};

/// What is held back, stream by stream.
#[derive(Debug, Default)]
pub(super) struct Held {
    lines: BTreeMap<Path, Line>,
    /// Of contents in memory that go to other nodes, and of all labels.
    copies_bytes: usize,
    /// Of contents in memory that go to clients.
    answers_bytes: usize,
}

/// What waits for room on one stream.
#[derive(Debug)]
struct Line {
    words: VecDeque<Wanted<Word>>,
    labels: usize,
    /// Since when the other end has been watched, and what it had taken then.
    watched: (Instant, usize),
}

impl Held {
    /// Whether something waits on this stream: what comes now has to wait behind it.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.lines.contains_key(path)
    }

    /// Whether something waits for another node.
    pub(super) fn has_links(&self) -> bool {
        self.lines.keys().any(|path| matches!(path, Path::Link(..)))
    }

    /// The streams on which something waits.
    pub(super) fn paths(&self) -> Vec<Path> {
        self.lines.keys().copied().collect()
    }

    /// Bytes that count as sends under way.
    pub(super) fn bytes(&self) -> usize {
        self.copies_bytes
    }

    /// Puts a word behind the others of its stream. `stored` says that its contents are on disk.
    /// Whether the line is still one that may be.
    pub(super) fn push(
        &mut self,
        path: Path,
        mut wanted: Wanted<Word>,
        stored: bool,
        taken: usize,
    ) -> bool {
        let full = self.answers_bytes + here(&wanted) > ANSWERS_MAX;
        let let_go = match &wanted.word {
            // The node that coordinates a send need not store it.
            Word::Envelope { envelope: Envelope::Copy { .. }, .. } => false,
            // What another node granted need not be on this disk.
            Word::Answer { .. } => full,
            _ => stored,
        };
        if let_go {
            let messages = wanted.word.messages();
            for (content, (key, label)) in wanted.contents.iter_mut().zip(messages) {
                *content = Content::Stored(key, label);
            }
        }
        self.count(path, here(&wanted), labels(&wanted), usize::saturating_add);
        let line = self.lines.entry(path).or_insert_with(|| Line {
            words: VecDeque::new(),
            labels: 0,
            watched: (Instant::now(), taken),
        });
        line.labels += labels(&wanted);
        line.words.push_back(wanted);
        matches!(path, Path::Link(..)) || line.labels <= LABELS_MAX
    }

    /// Takes the word out that may be said first.
    pub(super) fn pop(&mut self, path: &Path) -> Option<Wanted<Word>> {
        let line = self.lines.get_mut(path)?;
        let wanted = line.words.pop_front();
        if let Some(wanted) = &wanted {
            line.labels -= labels(wanted);
        }
        if line.words.is_empty() {
            self.lines.remove(path);
        }
        if let Some(wanted) = &wanted {
            self.count(*path, here(wanted), labels(wanted), usize::saturating_sub);
        }
        wanted
    }

    /// A client is gone.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.forget(|path| matches!(path, Path::Answers(of, _) if *of == client));
    }

    /// A link is gone.
    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.forget(|path| matches!(path, Path::Link(of, _) if *of == link));
    }

    /// Whether the node at the other end takes too little of what waits for it. `taken` is all
    /// that it has taken so far.
    pub(super) fn is_stuck(&mut self, path: &Path, now: Instant, taken: usize) -> bool {
        let Some(line) = self.lines.get_mut(path) else { return false };
        let (since, before) = line.watched;
        if taken - before >= TAKEN_MIN {
            line.watched = (now, taken);
            return false;
        }
        now.saturating_duration_since(since) >= TAKEN_WITHIN
    }

    fn forget(&mut self, is_gone: impl Fn(&Path) -> bool) {
        for path in self.paths().into_iter().filter(is_gone) {
            while self.pop(&path).is_some() {}
        }
    }

    fn count(&mut self, path: Path, here: usize, labels: usize, change: fn(usize, usize) -> usize) {
        let counted = match path {
            Path::Answers(..) => &mut self.answers_bytes,
            Path::Link(..) => &mut self.copies_bytes,
        };
        *counted = change(*counted, here);
        self.copies_bytes = change(self.copies_bytes, labels * LABEL_BYTES);
    }
}

/// Bytes of a word's contents, wherever they are.
pub(super) fn length(contents: &[Content]) -> usize {
    let length = |content: &Content| match content {
        Content::Here(content) => content.len(),
        Content::Stored(_, label) => label.content_length(),
        Content::Lost(_) => 0,
    };
    contents.iter().map(length).sum()
}

/// Bytes of its contents that are in memory.
fn here(wanted: &Wanted<Word>) -> usize {
    let here = wanted.contents.iter().filter(|content| matches!(content, Content::Here(_)));
    here.map(|content| length(std::slice::from_ref(content))).sum()
}

/// A word counts as a label, for what it takes itself.
fn labels(wanted: &Wanted<Word>) -> usize {
    wanted.contents.len() + 1
}

/// What a label and its place take, rounded up.
const LABEL_BYTES: usize = 512;

/// Contents that wait in memory for clients; beyond, they are read again.
const ANSWERS_MAX: usize = 64 * 1024 * 1024;

/// What may wait for one stream of a client: far more than a consumer's credit, 8 MiB of labels.
const LABELS_MAX: usize = 16 * 1024;

/// A node takes so much within so long of what waits for it, or it does not read. One whose disk
/// is busy with a large commit takes nothing meanwhile, and has twice the time after which a commit
/// that hangs ends its part in deliveries.
const TAKEN_MIN: usize = 4 * 1024 * 1024;
/// See [`TAKEN_MIN`].
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gaggle_core::envelope::Lane;
    use gaggle_core::event::Reply;
    use gaggle_wire::{Message, ProcessId, QueueId, Response, Stamp};

    use super::*;

    const LINK: Path = Path::Link(LinkId(1), Lane::Copies);
    const CLIENT: Path = Path::Answers(ClientId(1), 2);

    fn copy(time: u64) -> Wanted<Word> {
        let stamp = Stamp { time, count: 0, process: ProcessId(1) };
        let (label, content) =
            Message::new(Bytes::from_static(b"body")).pack(time, stamp, 0).unwrap();
        let envelope = Envelope::Copy {
            batch: time,
            queue: QueueId(Stamp::ZERO),
            partition: 0,
            accepted: Stamp::ZERO,
            holders: Vec::new(),
            attempt: gaggle_wire::Attempt::First,
            labels: vec![label],
        };
        let word = Word::Envelope { link: LinkId(1), envelope };
        Wanted { word, since: Instant::now(), contents: vec![Content::Here(content)] }
    }

    fn answer() -> Wanted<Word> {
        let reply = Reply { client: ClientId(1), stream: 2, request: 3 };
        let word = Word::Answer { reply, response: Response::Done };
        Wanted { word, since: Instant::now(), contents: Vec::new() }
    }

    fn batch(wanted: &Wanted<Word>) -> u64 {
        match &wanted.word {
            Word::Envelope { envelope: Envelope::Copy { batch, .. }, .. } => *batch,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn copies_keep_their_contents_and_their_order_and_are_counted_until_they_go() {
        let mut held = Held::default();
        for time in 1..=3 {
            assert!(held.push(LINK, copy(time), true, 0));
        }
        assert!(held.has(&LINK) && held.has_links());
        assert_eq!(held.bytes(), 3 * (4 + 2 * LABEL_BYTES));
        for time in 1..=3 {
            let wanted = held.pop(&LINK).unwrap();
            assert_eq!(batch(&wanted), time);
            assert!(matches!(wanted.contents[..], [Content::Here(_)]), "it may be on no disk here");
        }
        assert!(!held.has(&LINK));
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn a_node_that_takes_too_little_of_what_waits_is_stuck_and_one_that_takes_it_is_not() {
        let mut held = Held::default();
        assert!(!held.is_stuck(&LINK, Instant::now() + 2 * TAKEN_WITHIN, 0), "nothing waits");
        held.push(LINK, copy(1), false, 7);
        let start = Instant::now();
        assert!(!held.is_stuck(&LINK, start, 8));
        assert!(held.is_stuck(&LINK, start + TAKEN_WITHIN, 6 + TAKEN_MIN));
        assert!(!held.is_stuck(&LINK, start + TAKEN_WITHIN, 7 + TAKEN_MIN));
        assert!(!held.is_stuck(&LINK, start + TAKEN_WITHIN, 7 + TAKEN_MIN), "it is watched anew");
    }

    #[test]
    fn a_client_that_lets_too_many_answers_wait_is_told_apart() {
        let mut held = Held::default();
        for _ in 0..LABELS_MAX {
            assert!(held.push(CLIENT, answer(), true, 0));
        }
        assert!(!held.push(CLIENT, answer(), true, 0));
        held.forget_client(ClientId(1));
        assert!(!held.has(&CLIENT));
        assert_eq!(held.bytes(), 0);
    }
}
