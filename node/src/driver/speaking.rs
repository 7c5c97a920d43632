//! Speaking: words get their contents, wait for their commit, and leave in order.
//!
//! A content is looked for in memory when the word is made, before anything can be evicted. What
//! is not there is read by the reader once the word may be spoken; until that is back, later
//! words of the same stream go through the reader as well, which keeps their order. Control
//! streams carry no contents, so they never wait for it.
//!
//! What this file does not do: which commit a word waits for is in `groups.rs`.

use std::time::Instant;

use gaggle_core::envelope::Envelope;
use gaggle_core::event::{LinkId, Reply};
use gaggle_core::ledger::MessageKey;
use gaggle_wire::{Label, Response};

use super::life::Life;
use super::word::{Complete, Path, Word};
use crate::store::{Content, Wanted};

impl Life {
    /// The reader is done with one word of this stream.
    pub(super) fn read(&mut self, path: Option<Path>) {
        let Some(path) = path else { return };
        let left = self.reading.remove(&path).map_or(0, |count| count - 1);
        if left > 0 {
            self.reading.insert(path, left);
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
        if is_whole(&wanted.contents) {
            self.voice(wanted);
        } else if let Some(wanted) = self.groups.say(wanted) {
            self.speak(wanted);
        }
    }

    fn contents_of(&mut self, word: &Word) -> Vec<Content> {
        let bodies = &mut self.parts.bodies;
        let find = |(key, label): (MessageKey, Label)| {
            bodies.content(&key, &label).map_or(Content::Stored(key, label), Content::Here)
        };
        word.messages().into_iter().map(find).collect()
    }

    /// Says what may be said, after what the reader still has for the same stream.
    pub(super) fn speak(&mut self, wanted: Wanted<Word>) {
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
            Complete::Broken(link) => self.voices.give_up_link(link),
        }
    }

    pub(super) fn answer_now(&self, reply: Reply, response: Response) {
        self.voices.answer(reply, self.clock(), response, &[]);
    }
}

fn is_whole(contents: &[Content]) -> bool {
    contents.iter().all(|content| matches!(content, Content::Here(_)))
}
