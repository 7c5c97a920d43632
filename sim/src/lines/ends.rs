//! The ends of lines: closed by either side, forsaken, cut and healed, or gone with a process.
//!
//! What this file does not do: it carries nothing but what a cut has held.

use gaggle_client_core::Event as ClientEvent;
use gaggle_core::event::{ClientId, Event};
use rand::RngExt;

use super::{Caller, End, Lines, News, Said};
use crate::actor::Actor;
use crate::carrier::Goodbye;
use crate::world::{Happening, World};

impl World {
    /// A client closes a connection.
    pub(crate) fn hang_up(&mut self, actor: usize, link: u64) {
        let Actor::Client(client) = &mut self.town.actors[actor] else { return };
        let id = client.line(link);
        client.drop_link(link);
        if let Some(id) = id {
            self.leave_line(id, Goodbye::Said);
        }
    }

    /// A client is gone without a word.
    pub(crate) fn forsake(&mut self, id: ClientId) {
        self.leave_line(id, Goodbye::Unsaid);
    }

    /// The client's end goes; the node is told, or has to find out.
    fn leave_line(&mut self, id: ClientId, goodbye: Goodbye) {
        let soon = self.now + self.way();
        let Some(line) = self.town.lines.by_id.get_mut(&id) else { return };
        line.client_end = End::Gone;
        if line.used {
            self.judge.lost(self.now, line.place(id));
        }
        let cut = self.town.lines.cuts.contains(&(line.actor, line.node));
        let (actor, since) = (line.actor, self.now);
        if line.node_end == End::Gone {
            self.town.lines.by_id.remove(&id);
        } else if goodbye == Goodbye::Said && !cut {
            // Behind all that was said before.
            let last = line.arrives.iter().map(|stream| stream[0]).max().unwrap_or_default();
            self.at(soon.max(last + 1), Happening::Client(actor, News::Forsaken(id, since)));
        } else {
            let at = since + self.options.client_idle();
            self.at(at, Happening::Client(actor, News::Forsaken(id, since)));
        }
    }

    /// The node's end of a line goes, because the client left it or was not heard for long.
    pub(super) fn forsaken(&mut self, id: ClientId, since: u64) {
        let Some(line) = self.town.lines.by_id.get_mut(&id) else { return };
        let healed = line.client_end == End::Open && line.silent_since != Some(since);
        if healed || line.node_end == End::Gone {
            return;
        }
        (line.node_end, line.mute) = (End::Gone, true);
        if line.used {
            self.judge.lost(self.now, line.place(id));
        }
        let (at, life, client_end) = (line.node, line.life, line.client_end);
        if client_end == End::Gone {
            self.town.lines.by_id.remove(&id);
        }
        if self.processes[at].life == life {
            self.feed(at, Event::ClientClosed(id));
        }
    }

    /// A client has lost a connection.
    pub(super) fn lose(&mut self, id: ClientId) {
        let Some(line) = self.town.lines.open_mut(id) else { return };
        line.client_end = End::Gone;
        if line.used {
            self.judge.lost(self.now, line.place(id));
        }
        let (actor, caller, node_end) = (line.actor, line.caller, line.node_end);
        if node_end == End::Gone {
            self.town.lines.by_id.remove(&id);
        }
        match caller {
            Caller::Client { link, .. } => self.turn(actor, Some(ClientEvent::Lost { link })),
            Caller::Hand => {}
        }
    }

    /// A client sends a sign of life on a silent line: a node that is back does not know it.
    pub(super) fn listen(&mut self, id: ClientId, since: u64) {
        let Some(line) = self.town.lines.open(id) else { return };
        if line.silent_since != Some(since) {
            return;
        }
        let (actor, node) = (line.actor, line.node);
        let passes = !self.town.lines.cuts.contains(&(actor, node));
        let unknown = line.node_end == End::Gone && passes && self.processes[node].is_awake();
        if unknown || self.now >= since + self.options.client_idle() {
            return self.lose(id);
        }
        let next = self.now + self.options.client_idle() / 3;
        self.at(next, Happening::Client(actor, News::Listen(id, since)));
    }

    /// A process is gone, and with it the node's ends of its lines.
    pub(crate) fn node_gone(&mut self, at: usize, goodbye: Goodbye) {
        let lines = self.town.lines.by_id.iter();
        let here = lines.filter(|(_, line)| line.node == at && line.node_end == End::Open);
        let ids: Vec<ClientId> = here.map(|(id, _)| *id).collect();
        for id in ids {
            let soon = self.now + self.way();
            let first = self.now + self.draw((0, self.options.client_idle() / 3));
            // What is still under way is lost when a packet of it has to be sent again.
            let mute = goodbye == Goodbye::Unsaid && self.rng.random();
            let Lines { by_id, of_hands, cuts, .. } = &mut self.town.lines;
            let line = by_id.get_mut(&id).expect("it was listed");
            (line.node_end, line.mute) = (End::Gone, mute);
            line.silent_since = Some(self.now);
            let actor = line.actor;
            let of_hand = of_hands.remove(&(actor, at)).is_some();
            let said = goodbye == Goodbye::Said && !cuts.contains(&(actor, at));
            if line.client_end == End::Gone {
                by_id.remove(&id);
            } else if said || of_hand {
                let last = line.arrives.iter().map(|stream| stream[1]).max().unwrap_or_default();
                self.at(soon.max(last + 1), Happening::Client(actor, News::Lost(id)));
            } else {
                self.at(first, Happening::Client(actor, News::Listen(id, self.now)));
            }
        }
    }

    /// Cuts a client from a node.
    pub fn cut_client(&mut self, actor: usize, node: usize) {
        self.report.line(self.now, format_args!("cut client {actor} - {}", node + 1));
        // What is held by the cut comes late.
        self.judge.weather.disturb();
        self.town.lines.cuts.insert((actor, node));
        self.judge.oracle.cut(self.now, (actor, node));
        let (since, idle) = (self.now, self.options.client_idle());
        for id in self.town.lines.between(actor, node) {
            let line = self.town.lines.by_id.get_mut(&id).expect("it was listed");
            line.silent_since.get_or_insert(since);
            let noticed = since + idle + self.draw((0, idle / 4));
            self.at(since + idle, Happening::Client(actor, News::Listen(id, since)));
            self.at(noticed, Happening::Client(actor, News::Forsaken(id, since)));
        }
    }

    /// Breaks the connection between a client and a node: both learn of it soon, and answers that
    /// are under way are lost.
    pub fn break_line(&mut self, actor: usize, node: usize) {
        self.report.line(self.now, format_args!("break client {actor} - {}", node + 1));
        self.judge.weather.disturb();
        for id in self.town.lines.between(actor, node) {
            let soon = self.way();
            let line = self.town.lines.by_id.get_mut(&id).expect("it was listed");
            if line.client_end == End::Gone || line.node_end == End::Gone {
                continue;
            }
            (line.node_end, line.mute) = (End::Gone, true);
            self.judge.lost(self.now, line.place(id));
            // Behind what was under way to the node: that may have been done.
            let last = line.arrives.iter().map(|stream| stream[0]).max().unwrap_or_default();
            let (life, event) = (line.life, Event::ClientClosed(id));
            self.at(last + 1, Happening::Event { at: node, life, event });
            self.at(self.now + soon, Happening::Client(actor, News::Lost(id)));
        }
    }

    /// Heals such a cut: what was held goes on its way.
    pub fn heal_client(&mut self, actor: usize, node: usize) {
        self.report.line(self.now, format_args!("heal client {actor} - {}", node + 1));
        self.judge.weather.disturb();
        self.town.lines.cuts.remove(&(actor, node));
        let suspended = self.processes[node].suspended.is_some();
        if !suspended {
            self.judge.oracle.healed((actor, node));
        }
        for id in self.town.lines.between(actor, node) {
            let line = self.town.lines.by_id.get_mut(&id).expect("it was listed");
            if line.node_end == End::Open && !suspended {
                line.silent_since = None;
            }
            for said in std::mem::take(&mut line.held).into_iter().flatten() {
                match said {
                    Said::Request(stream, frame) => self.on_its_way(id, stream, frame),
                    Said::Answer(stream, spoken) => self.say_to_client(id, stream, spoken),
                }
            }
        }
    }

    /// Heals all cuts between clients and nodes.
    pub fn heal_clients(&mut self) {
        for (actor, node) in self.town.lines.cuts.clone() {
            self.heal_client(actor, node);
        }
    }
}
