//! Everybody who can be spoken to: clients by their streams, nodes by their links.
//!
//! Frames are encoded here, once, and put into the outbox of their stream. To somebody who is
//! gone nothing is said, silently: that they are gone is told as an event.
//!
//! Invariant: at most one link per node; a newer one takes the place of an older one, whose end
//! is then told first. What this file does not do: it keeps no order; `groups.rs` does.

use std::collections::HashMap;

use bytes::Bytes;
use gaggle_core::envelope::Envelope;
use gaggle_core::event::{ClientId, LinkId, Reply};
use gaggle_wire::frame::{self, FRAME_LENGTH_MAX};
use gaggle_wire::{NodeId, Response, ResponseFrame, Welcome};

use super::word::Path;
use crate::net::close::Close;
use crate::net::corridor::Link;
use crate::net::door::Client;
use crate::net::outbox::{Outbox, Pile};

/// Who can be spoken to.
#[derive(Debug, Default)]
pub(crate) struct Voices {
    clients: HashMap<ClientId, Guest>,
    links: HashMap<LinkId, Carried>,
    by_node: HashMap<NodeId, LinkId>,
}

#[derive(Debug)]
struct Guest {
    door: Client,
    streams: HashMap<u32, Outbox>,
}

#[derive(Debug)]
struct Carried {
    corridor: Link,
    /// Closed by us; its end is told when its streams have ended.
    given_up: bool,
}

impl Voices {
    /// A client is there, with its first stream.
    pub(crate) fn open_client(&mut self, client: ClientId, door: Client, answers: Outbox) {
        let streams = HashMap::from([(0, answers)]);
        self.clients.insert(client, Guest { door, streams });
    }

    /// Whether a client is there.
    pub(crate) fn has_client(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// A client has one more stream.
    pub(crate) fn open_stream(&mut self, client: ClientId, stream: u32, answers: Outbox) {
        if let Some(guest) = self.clients.get_mut(&client) {
            guest.streams.insert(stream, answers);
        }
    }

    /// A client finished a stream.
    pub(crate) fn close_stream(&mut self, client: ClientId, stream: u32) {
        if let Some(guest) = self.clients.get_mut(&client) {
            guest.streams.remove(&stream);
        }
    }

    /// A client is gone; whether it was known.
    pub(crate) fn close_client(&mut self, client: ClientId) -> bool {
        self.clients.remove(&client).is_some()
    }

    /// A link is up. The one whose place it takes is returned: it is closed and gone.
    pub(crate) fn open_link(&mut self, link: LinkId, corridor: Link) -> Option<LinkId> {
        let older = self.by_node.insert(corridor.node(), link);
        self.links.insert(link, Carried { corridor, given_up: false });
        let older = older.filter(|older| *older != link)?;
        self.links.remove(&older)?.corridor.close(Close::Replaced);
        Some(older)
    }

    /// Whether what comes on a link is still of interest.
    pub(crate) fn has_link(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|carried| !carried.given_up)
    }

    /// Closes a link: nothing more is said or heard on it, and its end is told later.
    pub(crate) fn give_up_link(&mut self, link: LinkId, why: Close) {
        if let Some(carried) = self.links.get_mut(&link) {
            carried.given_up = true;
            carried.corridor.close(why);
        }
    }

    /// A link is gone; whether it was known.
    pub(crate) fn close_link(&mut self, link: LinkId, why: Close) -> bool {
        let Some(Carried { corridor, .. }) = self.links.remove(&link) else { return false };
        if self.by_node.get(&corridor.node()) == Some(&link) {
            self.by_node.remove(&corridor.node());
        }
        corridor.close(why);
        true
    }

    /// Answers a client.
    pub(crate) fn answer(&self, reply: Reply, clock: u64, body: Response, contents: &[Bytes]) {
        let Some(guest) = self.clients.get(&reply.client) else { return };
        let Some(answers) = guest.streams.get(&reply.stream) else { return };
        let frame = ResponseFrame { request: reply.request, clock, body };
        answers.answer(&guest.door, frame::encode(&frame, contents));
    }

    /// Tells every client the members, on its first stream.
    pub(crate) fn welcome(&self, clock: u64, welcome: Welcome) {
        let body = Response::Welcome(welcome);
        let frame = frame::encode(&ResponseFrame { request: 0, clock, body }, []);
        for guest in self.clients.values() {
            if let Some(answers) = guest.streams.get(&0) {
                answers.answer(&guest.door, frame.clone());
            }
        }
    }

    /// Says something to another node.
    pub(crate) fn say(&self, link: LinkId, envelope: &Envelope, contents: &[Bytes]) {
        let carried = self.links.get(&link).filter(|carried| !carried.given_up);
        let Some(Carried { corridor, .. }) = carried else { return };
        let frame = frame::encode(envelope, contents);
        if frame.len() > FRAME_LENGTH_MAX {
            tracing::error!(bytes = frame.len(), "an envelope is longer than a frame may be");
            corridor.close(Close::BadFrame);
            return;
        }
        corridor.send(envelope.lane(), frame);
    }

    /// What waits to be written on the connection of a stream that is there.
    pub(crate) fn pile(&self, path: &Path) -> Option<&Pile> {
        match path {
            Path::Answers(client, stream) => {
                Some(self.clients.get(client)?.streams.get(stream)?.pile())
            }
            Path::Link(link, _) => {
                let carried = self.links.get(link).filter(|carried| !carried.given_up);
                Some(carried?.corridor.pile())
            }
        }
    }

    /// Ends the connection of a stream whose other end does not read.
    pub(crate) fn give_up(&mut self, path: &Path) {
        match path {
            Path::Answers(client, _) => {
                if let Some(guest) = self.clients.get(client) {
                    guest.door.close(Close::NotReading);
                }
            }
            Path::Link(link, _) => self.give_up_link(*link, Close::NotReading),
        }
    }

    /// Ends every connection: what was not answered stays unknown.
    pub(crate) fn close_all(&mut self, why: Close) {
        for guest in self.clients.values() {
            guest.door.close(why);
        }
        for carried in self.links.values() {
            carried.corridor.close(why);
        }
        *self = Self::default();
    }

    /// Finishes every stream behind what was said last.
    pub(crate) fn finish(&mut self) {
        *self = Self::default();
    }
}
