//! Speaking: words get their contents, wait for their commit, and leave in order.
//!
//! A content is looked for in memory when the word is made, before anything can be evicted. What
//! is not there is read by the reader once the word may be spoken; until that is back, later
//! words of the same stream go through the reader as well, which keeps their order. Control
//! streams carry no contents, so they never wait for it. What carries contents to somebody for
//! whom much waits already is held back (`held.rs`) until that has been taken.
//!
//! What this file does not do: which commit a word waits for is in `groups.rs`.

use std::time::Instant;

use gaggle_core::envelope::Envelope;
use gaggle_core::event::{LinkId, Reply};
use gaggle_core::ledger::MessageKey;
use gaggle_wire::{Label, Response};

use super::held;
use super::life::Life;
use super::word::{Complete, Path, Word};
use crate::net::close::Close;
use crate::net::outbox::Pile;
use crate::store::{Content, Wanted};

/// What the reader has for one stream.
#[derive(Debug, Default)]
pub(super) struct Reading {
    words: usize,
    bytes: usize,
}

impl Life {
    /// The reader is done with this word.
    pub(super) fn read(&mut self, wanted: &Wanted<Word>) {
        let Some(path) = wanted.word.path() else { return };
        let Some(reading) = self.reading.get_mut(&path) else { return };
        reading.words -= 1;
        // What was lost is not known by its length any more.
        reading.bytes = reading.bytes.saturating_sub(held::length(&wanted.contents));
        if reading.words == 0 {
            self.reading.remove(&path);
        }
    }

    /// Says something once the writes before it are durable.
    pub(super) fn say(&mut self, word: Word) {
        let contents = self.contents_of(&word);
        if let Some(word) = self.groups.say(Wanted { word, since: Instant::now(), contents }) {
            self.speak(word);
        }
    }

    /// Says something at once, unless its contents must be read.
    pub(super) fn say_now(&mut self, link: LinkId, envelope: Envelope) {
        let word = Word::Envelope { link, envelope };
        let contents = self.contents_of(&word);
        let wanted = Wanted { word, since: Instant::now(), contents };
        let path = wanted.word.path().expect("an envelope has a stream");
        if !is_whole(&wanted.contents) {
            if let Some(wanted) = self.groups.say(wanted) {
                self.speak(wanted);
            }
        } else if self.must_wait(&path, &wanted) {
            self.hold(path, wanted, false);
        } else {
            self.voice(wanted);
        }
    }

    fn contents_of(&mut self, word: &Word) -> Vec<Content> {
        let bodies = &mut self.parts.bodies;
        let find = |(key, label): (MessageKey, Label)| {
            bodies.content(&key, &label).map_or(Content::Stored(key, label), Content::Here)
        };
        word.messages().into_iter().map(find).collect()
    }

    /// Says what may be said, after what waits for the same stream.
    pub(super) fn speak(&mut self, wanted: Wanted<Word>) {
        let Some(path) = wanted.word.path() else { return self.voice(wanted) };
        if self.must_wait(&path, &wanted) {
            self.hold(path, wanted, true);
        } else {
            self.speak_on(path, wanted);
        }
    }

    /// Says it, after what the reader still has for the same stream.
    fn speak_on(&mut self, path: Path, wanted: Wanted<Word>) {
        if is_whole(&wanted.contents) && !self.reading.contains_key(&path) {
            return self.voice(wanted);
        }
        let reading = self.reading.entry(path).or_default();
        reading.words += 1;
        reading.bytes += held::length(&wanted.contents);
        self.parts.threads.read(wanted);
    }

    fn must_wait(&self, path: &Path, wanted: &Wanted<Word>) -> bool {
        self.held.has(path) || (!wanted.contents.is_empty() && !self.has_room(path))
    }

    /// To somebody who is gone everything can be said.
    fn has_room(&self, path: &Path) -> bool {
        let coming = self.reading.get(path).map_or(0, |reading| reading.bytes);
        self.voices.pile(path).is_none_or(|pile| pile.has_room(coming))
    }

    fn hold(&mut self, path: Path, wanted: Wanted<Word>, stored: bool) {
        let taken = self.voices.pile(&path).map_or(0, Pile::taken);
        if self.held.push(path, wanted, stored, taken) {
            self.release(path);
        } else {
            self.voices.give_up(&path);
        }
    }

    /// Says what was held back and has room now.
    pub(super) fn release_held(&mut self) {
        for path in self.held.paths() {
            self.release(path);
        }
    }

    fn release(&mut self, path: Path) {
        while self.held.has(&path) {
            if let Some(pile) = self.voices.pile(&path) {
                // Before the look, so that what is taken after it is told.
                pile.want_room();
            }
            if !self.has_room(&path) {
                return;
            }
            if let Some(wanted) = self.held.pop(&path) {
                self.speak_on(path, wanted);
            }
        }
    }

    /// Gives nodes up that do not take what waits for them.
    pub(super) fn give_up_stuck(&mut self) {
        for path in self.held.paths() {
            let Some(taken) = self.voices.pile(&path).map(Pile::taken) else { continue };
            let is_link = matches!(path, Path::Link(..));
            if is_link && self.held.is_stuck(&path, Instant::now(), taken) {
                self.voices.give_up(&path);
            }
        }
    }

    pub(super) fn voice(&mut self, Wanted { mut word, since, contents }: Wanted<Word>) {
        word.waited(since.elapsed());
        let (complete, mut lost) = word.complete(contents);
        self.lost.append(&mut lost);
        match complete {
            Complete::Whole(Word::Answer { reply, response }, contents) => {
                self.voices.answer(reply, self.clock(), response, &contents);
            }
            Complete::Whole(Word::Envelope { link, envelope }, contents) => {
                self.voices.say(link, &envelope, &contents);
            }
            Complete::Whole(Word::Load { load, scan }, _) => {
                self.parts.threads.load(load, scan);
            }
            Complete::Whole(Word::Drained, _) => self.drained = true,
            Complete::Whole(Word::Renewed, _) => self.renewed = true,
            Complete::Broken(link) => self.voices.give_up_link(link, Close::NotWanted),
        }
    }

    pub(super) fn answer_now(&self, reply: Reply, response: Response) {
        self.voices.answer(reply, self.clock(), response, &[]);
    }
}

fn is_whole(contents: &[Content]) -> bool {
    contents.iter().all(|content| matches!(content, Content::Here(_)))
}
