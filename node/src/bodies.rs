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
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use gaggle_core::event::{ClientId, Reply};
use gaggle_core::ledger::MessageKey;
use gaggle_wire::{Label, Refusal};

/// The contents in memory.
#[derive(Debug)]
pub(crate) struct Bodies {
    contents: HashMap<Place, Entry>,
    /// By arrival; entries whose content is gone or came anew are skipped.
    ages: VecDeque<(Place, u64)>,
    /// What came last, in order: it is mostly asked for in that order at once.
    newest: Newest,
    kept: BTreeMap<Reply, usize>,
    next_age: u64,
    bytes: usize,
    budget: usize,
    kept_bytes: usize,
    kept_max: usize,
}

/// Where a message lies. Stamps are unique, so they are enough to find it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(MessageKey);

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0.stamp.to_bytes());
    }
}

/// The contents under one key: one, unless somebody made two messages with one id.
#[derive(Debug)]
struct Entry {
    body: Body,
    others: Vec<Body>,
}

#[derive(Debug)]
struct Body {
    crc: u32,
    content: Bytes,
    age: u64,
    /// The last send that brought it: it is kept as long as that is not answered.
    keeper: Option<Reply>,
}

/// Contents in the order in which they came, with a finger at the one that is expected next.
#[derive(Debug, Default)]
struct Newest {
    bodies: Vec<(MessageKey, u32, Bytes)>,
    next: usize,
}

impl Bodies {
    /// Room for `budget` bytes, and for `kept_max` bytes of unanswered sends.
    pub(crate) fn new(budget: usize, kept_max: usize) -> Self {
        Self {
            contents: HashMap::new(),
            ages: VecDeque::new(),
            newest: Newest::default(),
            kept: BTreeMap::new(),
            next_age: 0,
            bytes: 0,
            budget,
            kept_bytes: 0,
            kept_max,
        }
    }

    /// Takes contents in, until the budget needs their room.
    pub(crate) fn insert(&mut self, messages: impl Iterator<Item = (MessageKey, Label, Bytes)>) {
        self.newest.clear();
        for (key, label, content) in messages {
            self.place(key, label.crc, content, None);
        }
    }

    /// Takes the contents of a send in, until it is answered. `held` bytes are under way besides:
    /// copies that other nodes have not taken yet.
    ///
    /// # Errors
    /// [`Refusal::LimitReached`] when too much is under way; nothing is taken in.
    pub(crate) fn keep(
        &mut self,
        reply: Reply,
        messages: impl Iterator<Item = (MessageKey, Label, Bytes)> + Clone,
        held: usize,
    ) -> Result<(), Refusal> {
        let bytes: usize = messages.clone().map(|(.., content)| weight(&content)).sum();
        self.release(reply);
        if self.kept_bytes + held + bytes > self.kept_max {
            return Err(Refusal::LimitReached {
                what: "bytes of sends under way".to_owned(),
                limit: self.kept_max as u64,
            });
        }
        self.kept.insert(reply, bytes);
        self.kept_bytes += bytes;
        self.newest.clear();
        for (key, label, content) in messages {
            self.place(key, label.crc, content, Some(reply));
        }
        Ok(())
    }

    /// A send was answered, or its client is gone: its contents may go.
    pub(crate) fn release(&mut self, reply: Reply) {
        if let Some(bytes) = self.kept.remove(&reply) {
            self.kept_bytes -= bytes;
        }
    }

    /// Releases every send of a client.
    pub(crate) fn release_client(&mut self, client: ClientId) {
        let first = Reply { client, stream: 0, request: 0 };
        let of_client = self.kept.range(first..).take_while(|(reply, _)| reply.client == client);
        let replies: Vec<Reply> = of_client.map(|(reply, _)| *reply).collect();
        for reply in replies {
            self.release(reply);
        }
    }

    /// The content of this message, if it is here.
    pub(crate) fn content(&mut self, key: &MessageKey, label: &Label) -> Option<Bytes> {
        if let Some(content) = self.newest.content(key, label) {
            return Some(content);
        }
        let entry = self.contents.get(&Place(*key))?;
        let body = entry.find(label.crc, label.content_length())?;
        Some(body.content.clone())
    }

    /// A message is gone for good.
    pub(crate) fn remove(&mut self, key: &MessageKey) {
        self.newest.clear();
        let Some(entry) = self.contents.remove(&Place(*key)) else { return };
        self.bytes -= entry.iter().map(|body| weight(&body.content)).sum::<usize>();
        // Of two messages with one id the other may be on its way still.
        for body in entry.into_bodies() {
            if self.is_kept(&body) {
                self.place(*key, body.crc, body.content, body.keeper);
            }
        }
    }

    /// Makes room. To be called when what the last events brought has been used.
    pub(crate) fn evict(&mut self) {
        self.forget_removed();
        let mut looked_at = 0;
        while self.bytes > self.budget + self.kept_bytes && looked_at < self.ages.len() {
            let Some((place, age)) = self.ages.pop_front() else { return };
            let Some(entry) = self.contents.get(&place) else { continue };
            let Some(body) = entry.iter().find(|body| body.age == age) else { continue };
            if self.is_kept(body) {
                self.ages.push_back((place, age));
                looked_at += 1;
                continue;
            }
            self.bytes -= weight(&body.content);
            self.newest.clear();
            if entry.others.is_empty() {
                self.contents.remove(&place);
            } else if let Some(entry) = self.contents.get_mut(&place) {
                entry.remove(age);
            }
        }
    }

    /// What was removed left its place in the order of ages.
    fn forget_removed(&mut self) {
        if self.ages.len() < AGES_SLACK + 2 * self.contents.len() {
            return;
        }
        let contents = &self.contents;
        self.ages.retain(|(place, age)| {
            contents.get(place).is_some_and(|entry| entry.iter().any(|body| body.age == *age))
        });
    }

    fn is_kept(&self, body: &Body) -> bool {
        body.keeper.is_some_and(|reply| self.kept.contains_key(&reply))
    }

    fn place(&mut self, key: MessageKey, crc: u32, content: Bytes, keeper: Option<Reply>) {
        use std::collections::hash_map::Entry as Slot;
        self.newest.push(key, crc, content.clone());
        let (place, age) = (Place(key), self.next_age);
        let length = content.len();
        let body = Body { crc, content, age, keeper };
        match self.contents.entry(place) {
            Slot::Vacant(slot) => {
                slot.insert(Entry { body, others: Vec::new() });
            }
            Slot::Occupied(mut slot) => {
                if let Some(present) = slot.get_mut().find_mut(crc, length) {
                    present.keeper = keeper.or(present.keeper);
                    return;
                }
                slot.get_mut().others.push(body);
            }
        }
        self.next_age += 1;
        self.bytes += length + ENTRY_BYTES;
        self.ages.push_back((place, age));
    }
}

impl Entry {
    fn iter(&self) -> impl Iterator<Item = &Body> {
        std::iter::once(&self.body).chain(&self.others)
    }

    fn into_bodies(self) -> impl Iterator<Item = Body> {
        std::iter::once(self.body).chain(self.others)
    }

    fn find(&self, crc: u32, length: usize) -> Option<&Body> {
        self.iter().find(|body| body.crc == crc && body.content.len() == length)
    }

    fn find_mut(&mut self, crc: u32, length: usize) -> Option<&mut Body> {
        let mut all = std::iter::once(&mut self.body).chain(&mut self.others);
        all.find(|body| body.crc == crc && body.content.len() == length)
    }

    /// Takes one of several out.
    fn remove(&mut self, age: u64) {
        if self.body.age == age
            && let Some(other) = self.others.pop()
        {
            self.body = other;
        } else {
            self.others.retain(|body| body.age != age);
        }
    }
}

impl Newest {
    fn clear(&mut self) {
        self.bodies.clear();
        self.next = 0;
    }

    fn push(&mut self, key: MessageKey, crc: u32, content: Bytes) {
        self.bodies.push((key, crc, content));
    }

    fn content(&mut self, key: &MessageKey, label: &Label) -> Option<Bytes> {
        let (there, crc, content) = self.bodies.get(self.next)?;
        if there != key || *crc != label.crc || content.len() != label.content_length() {
            return None;
        }
        self.next = (self.next + 1) % self.bodies.len();
        Some(content.clone())
    }
}

/// What a content takes up: itself, and what it takes to find it.
fn weight(content: &Bytes) -> usize {
    content.len() + ENTRY_BYTES
}

/// Below so many ages nobody counts those that are of no use.
const AGES_SLACK: usize = 1024;

/// A key twice, a body, and their share of the tables, rounded up.
const ENTRY_BYTES: usize = 256;

#[cfg(test)]
mod tests;
