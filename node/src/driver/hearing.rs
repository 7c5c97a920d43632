//! Hearing: from what the network hands in to events of the core.
//!
//! Contents go into memory before the event that brings their labels is handled, so that its
//! effects find them. Invariant: of a client or link that this life does not know nothing is
//! heard; it belongs to a former life, or was given up. What this file does not do: it parses
//! nothing; that was done at the door.

use std::time::{Duration, Instant};

use bytes::Bytes;
use gaggle_core::event::{Event, LinkId, Reply};
use gaggle_core::ledger::MessageKey;
use gaggle_wire::{Refusal, Request, Response};

use super::input::{Asked, Input, Said, Urgent};
use super::life::Life;
use crate::net::close::Close;
use crate::net::corridor::dial::Dials;

impl Life {
    pub(super) fn urgent(&mut self, urgent: Urgent, dials: &mut Dials) {
        match urgent {
            Urgent::Gossip { from, packet } => self.handle(Event::Gossip { from, packet }, dials),
            Urgent::Deaf => self.deaf = true,
            Urgent::Stop(done) => {
                self.stopping = Some((done, Instant::now() + DRAIN_MAX));
                self.handle(Event::Drain, dials);
            }
        }
    }

    pub(super) fn take(&mut self, input: Input, dials: &mut Dials) {
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
                    self.held.forget_client(client);
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
                    self.held.forget_link(older);
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
        what: Result<(Request, Vec<Bytes>), Refusal>,
        dials: &mut Dials,
    ) {
        let kept = what.and_then(|(request, contents)| {
            if let Request::Send { queue, partition, labels, .. } = &request {
                let messages = labels.iter().zip(&contents).map(|(label, content)| {
                    let (queue, partition, stamp) = (*queue, *partition, label.stamp);
                    (MessageKey { queue, partition, stamp }, *label, content.clone())
                });
                self.parts.bodies.keep(reply, messages, self.held.bytes())?;
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
            self.held.forget_link(link);
            self.handle(Event::LinkDown { link }, dials);
        }
    }
}

/// How long a drain may take before the node stops all the same.
const DRAIN_MAX: Duration = Duration::from_secs(10);
