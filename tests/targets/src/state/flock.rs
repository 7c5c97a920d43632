//! A few nodes and the links between them: what one says the other hears, in order, or never.
//!
//! Invariant: on a link each lane keeps its order, and what is under way when a link ends is lost,
//! as with the two streams of a connection. What this file does not do: nobody lies here.

use std::collections::{BTreeMap, VecDeque};

use arbitrary::Unstructured;
use gaggle_core::effect::Effect;
use gaggle_core::envelope::{Envelope, Lane};
use gaggle_core::event::{Event, LinkId};
use gaggle_wire::NodeId;

use super::House;
use super::walk::Walk;

/// A few nodes.
pub(super) struct Flock {
    pub(super) houses: Vec<House>,
    pub(super) walk: Walk,
    links: BTreeMap<LinkId, Link>,
    next: u64,
}

/// A connection: its ends, and what is under way to each of them on each lane.
struct Link {
    ends: [usize; 2],
    under_way: BTreeMap<(usize, Lane), VecDeque<Envelope>>,
}

impl Flock {
    /// So many nodes that know each other, and a queue.
    pub(super) fn new(nodes: usize, walk: Walk) -> Self {
        let houses = (1..=nodes as u64).map(House::new).collect();
        let mut flock = Self { houses, walk, links: BTreeMap::new(), next: 0 };
        for at in 0..nodes {
            for other in at + 1..nodes {
                flock.connect(at, other);
            }
        }
        flock.carry(MEETING);
        flock.walk.queue(&mut flock.houses[0]);
        flock.carry(MEETING);
        flock
    }

    /// A new connection, in place of an old one.
    pub(super) fn connect(&mut self, from: usize, to: usize) {
        if from == to || self.links.values().any(|link| link.joins(from, to)) {
            return;
        }
        self.next += 1;
        let link = LinkId(self.next);
        self.links.insert(link, Link { ends: [from, to], under_way: BTreeMap::new() });
        let hellos = [from, to].map(|at| Box::new(self.houses[at].node.hello()));
        let [first, second] = hellos;
        self.houses[from].handle(Event::LinkUp { link, hello: second });
        self.collect();
        self.houses[to].handle(Event::LinkUp { link, hello: first });
        self.collect();
    }

    /// A connection is lost with all that is under way.
    pub(super) fn disconnect(&mut self, u: &mut Unstructured<'_>) {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        if let Ok(link) = u.choose(&links) {
            self.end(*link, None);
        }
    }

    fn end(&mut self, link: LinkId, closed_by: Option<usize>) {
        let Some(Link { ends, .. }) = self.links.remove(&link) else { return };
        for at in ends.into_iter().filter(|at| Some(*at) != closed_by) {
            self.houses[at].handle(Event::LinkDown { link });
        }
    }

    /// Something under way arrives.
    pub(super) fn deliver(&mut self, u: &mut Unstructured<'_>) {
        let lanes = self.lanes();
        let Ok((link, end, lane)) = u.choose(&lanes).copied() else { return };
        for _ in 0..u.int_in_range(1..=4_u8).unwrap_or(1) {
            self.arrive(link, (end, lane));
            self.collect();
        }
    }

    /// All that is under way arrives, and what is said to that, for so many rounds.
    pub(super) fn carry(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for house in &mut self.houses {
                house.settle();
            }
            self.collect();
            let lanes = self.lanes();
            if lanes.is_empty() {
                return;
            }
            for (link, end, lane) in lanes {
                self.arrive(link, (end, lane));
                self.collect();
            }
        }
    }

    fn lanes(&self) -> Vec<(LinkId, usize, Lane)> {
        let of = |(id, link): (&LinkId, &Link)| {
            let id = *id;
            let busy = link.under_way.iter().filter(|(_, envelopes)| !envelopes.is_empty());
            busy.map(move |((end, lane), _)| (id, *end, *lane)).collect::<Vec<_>>()
        };
        self.links.iter().flat_map(of).collect()
    }

    fn arrive(&mut self, id: LinkId, lane: (usize, Lane)) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(envelope) = link.under_way.get_mut(&lane).and_then(VecDeque::pop_front) else {
            return;
        };
        let at = link.ends[lane.0];
        let life = self.houses[at].life;
        self.houses[at].handle(Event::Envelope { link: id, envelope });
        if self.houses[at].life != life {
            self.forget(at);
        }
    }

    /// Puts what the nodes said under way.
    pub(super) fn collect(&mut self) {
        for at in 0..self.houses.len() {
            for word in std::mem::take(&mut self.houses[at].words) {
                self.walk.learn(&word);
                match word {
                    Effect::Send { link, envelope } | Effect::SendNow { link, envelope } => {
                        self.say(at, link, envelope);
                    }
                    Effect::CloseLink(link) => self.end(link, Some(at)),
                    Effect::Gossip { to, packet, .. } => {
                        let to = usize::from(to.port()).wrapping_sub(7401);
                        if to != at && to < self.houses.len() {
                            let from = NodeId(at as u64 + 1);
                            self.houses[to].handle(Event::Gossip { from, packet });
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn say(&mut self, at: usize, link: LinkId, envelope: Envelope) {
        if let Some(link) = self.links.get_mut(&link)
            && let Some(own) = link.ends.iter().position(|end| *end == at)
        {
            let lane = (1 - own, envelope.lane());
            link.under_way.entry(lane).or_default().push_back(envelope);
        }
    }

    /// Something happens to one of them that has nothing to do with the others.
    pub(super) fn alone(&mut self, at: usize, u: &mut Unstructured<'_>) {
        let life = self.houses[at].life;
        self.walk.alone(&mut self.houses[at], u);
        if self.houses[at].life != life {
            self.forget(at);
        }
    }

    /// A process died and started again: its connections are gone.
    fn forget(&mut self, at: usize) {
        let of = |link: &Link| link.ends.contains(&at);
        let links: Vec<LinkId> =
            self.links.iter().filter(|(_, link)| of(link)).map(|(id, _)| *id).collect();
        for link in links {
            self.end(link, Some(at));
        }
    }
}

impl Link {
    fn joins(&self, a: usize, b: usize) -> bool {
        self.ends.contains(&a) && self.ends.contains(&b)
    }
}

/// Rounds of talk that a meeting takes.
const MEETING: usize = 40;
