//! The contents of messages that are on their way, so that none is read back from disk that was
//! in memory a moment ago.
//!
//! The core decides on labels; this is the luggage. A content comes in with a send or a copy, is
//! written, copied to other holders, and most often delivered within moments, all from here.
//!
//! - By age: beyond the budget the oldest goes first. It is on disk by then.
//! - Kept: what belongs to a send that is not answered yet is on no disk for sure, so it stays
//!   until its answer, outside the budget and under a limit of its own.
//!
//! Invariant: a content is given out only for a label that it matches in length and checksum, so
//! two messages under one key (the core refuses one of them) are never taken for each other.
//! What this file does not do: it reads no disk.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use gaggle_core::event::Reply;
use gaggle_core::ledger::MessageKey;
use gaggle_wire::{Label, Refusal};

/// The contents in memory.
#[derive(Debug)]
pub(crate) struct Bodies {
    contents: HashMap<MessageKey, Vec<Body>>,
    /// What may go, oldest first; entries whose content is gone or came anew are skipped.
    ages: VecDeque<(MessageKey, u64)>,
    kept: BTreeMap<Reply, Kept>,
    next_age: u64,
    bytes: usize,
    budget: usize,
    kept_bytes: usize,
    kept_max: usize,
}

#[derive(Debug)]
struct Body {
    crc: u32,
    content: Bytes,
    age: u64,
    /// How many unanswered sends brought it.
    keepers: u32,
}

#[derive(Debug)]
struct Kept {
    messages: Vec<(MessageKey, u32)>,
    bytes: usize,
}

impl Bodies {
    /// Room for `budget` bytes, and for `kept_max` bytes of unanswered sends.
    pub(crate) fn new(budget: usize, kept_max: usize) -> Self {
        Self {
            contents: HashMap::new(),
            ages: VecDeque::new(),
            kept: BTreeMap::new(),
            next_age: 0,
            bytes: 0,
            budget,
            kept_bytes: 0,
            kept_max,
        }
    }

    /// Takes a content in, until the budget needs its room.
    pub(crate) fn insert(&mut self, key: MessageKey, label: &Label, content: Bytes) {
        self.place(key, label.crc, content, 0);
    }

    /// Takes the contents of a send in, until it is answered.
    ///
    /// # Errors
    /// [`Refusal::LimitReached`] when too much is under way; nothing is taken in.
    pub(crate) fn keep(
        &mut self,
        reply: Reply,
        messages: impl ExactSizeIterator<Item = (MessageKey, Label, Bytes)>,
    ) -> Result<(), Refusal> {
        let messages: Vec<_> = messages.collect();
        let bytes = messages.iter().map(|(.., content)| weight(content)).sum();
        if self.kept_bytes + bytes > self.kept_max {
            return Err(Refusal::LimitReached {
                what: "bytes of sends under way".to_owned(),
                limit: self.kept_max as u64,
            });
        }
        self.release(reply);
        let keys = messages.iter().map(|(key, label, _)| (*key, label.crc)).collect();
        self.kept.insert(reply, Kept { messages: keys, bytes });
        self.kept_bytes += bytes;
        for (key, label, content) in messages {
            self.place(key, label.crc, content, 1);
        }
        Ok(())
    }

    /// A send was answered, or its client is gone: its contents may go.
    pub(crate) fn release(&mut self, reply: Reply) {
        let Some(kept) = self.kept.remove(&reply) else { return };
        self.kept_bytes -= kept.bytes;
        for (key, crc) in kept.messages {
            let bodies = self.contents.get_mut(&key).into_iter().flatten();
            let Some(body) = bodies.into_iter().find(|body| body.crc == crc) else { continue };
            body.keepers -= 1;
            if body.keepers == 0 {
                // It is old by its arrival but was not on offer until now.
                body.age = self.next_age;
                self.ages.push_back((key, self.next_age));
                self.next_age += 1;
            }
        }
    }

    /// Releases every send of a client.
    pub(crate) fn release_client(&mut self, client: gaggle_core::event::ClientId) {
        let first = Reply { client, stream: 0, request: 0 };
        let of_client = self.kept.range(first..).take_while(|(reply, _)| reply.client == client);
        let replies: Vec<Reply> = of_client.map(|(reply, _)| *reply).collect();
        for reply in replies {
            self.release(reply);
        }
    }

    /// The content of this message, if it is here.
    pub(crate) fn content(&self, key: &MessageKey, label: &Label) -> Option<Bytes> {
        let bodies = self.contents.get(key)?;
        let right =
            |body: &&Body| body.crc == label.crc && body.content.len() == label.content_length();
        bodies.iter().find(right).map(|body| body.content.clone())
    }

    /// A message is gone for good: whatever is not kept for a send goes too.
    pub(crate) fn remove(&mut self, key: &MessageKey) {
        let Some(bodies) = self.contents.get_mut(key) else { return };
        let bytes = &mut self.bytes;
        bodies.retain(|body| {
            let stays = body.keepers > 0;
            if !stays {
                *bytes -= weight(&body.content);
            }
            stays
        });
        if bodies.is_empty() {
            self.contents.remove(key);
        }
    }

    /// Makes room. To be called when what the last events brought has been used.
    pub(crate) fn evict(&mut self) {
        self.forget_removed();
        while self.bytes - self.kept_bytes.min(self.bytes) > self.budget {
            let Some((key, age)) = self.ages.pop_front() else { return };
            let Some(bodies) = self.contents.get_mut(&key) else { continue };
            let old = |body: &Body| body.age == age && body.keepers == 0;
            if let Some(at) = bodies.iter().position(old) {
                let body = bodies.swap_remove(at);
                self.bytes -= weight(&body.content);
                if bodies.is_empty() {
                    self.contents.remove(&key);
                }
            }
        }
    }

    /// What was removed left its place in the order of ages.
    fn forget_removed(&mut self) {
        if self.ages.len() < AGES_SLACK + 2 * self.contents.len() {
            return;
        }
        let contents = &self.contents;
        self.ages.retain(|(key, age)| {
            contents.get(key).into_iter().flatten().any(|body| body.age == *age)
        });
    }

    fn place(&mut self, key: MessageKey, crc: u32, content: Bytes, keepers: u32) {
        let age = self.next_age;
        self.next_age += 1;
        let bodies = self.contents.entry(key).or_default();
        let same = |body: &&mut Body| body.crc == crc && body.content.len() == content.len();
        if let Some(body) = bodies.iter_mut().find(same) {
            body.keepers += keepers;
            return;
        }
        self.bytes += weight(&content);
        bodies.push(Body { crc, content, age, keepers });
        if keepers == 0 {
            self.ages.push_back((key, age));
        }
    }
}

/// What a content takes up: itself, and what it takes to find it.
fn weight(content: &Bytes) -> usize {
    content.len() + ENTRY_BYTES
}

/// Below so many ages nobody counts those that are of no use.
const AGES_SLACK: usize = 1024;

/// Two keys, a vector with one body and their share of the tables, rounded up.
const ENTRY_BYTES: usize = 256;

#[cfg(test)]
mod tests;
