//! Connections between nodes as QUIC would give them: two ordered lanes each way, ended by
//! either side, by silence, or by the death of a process.
//!
//! An end of a connection that the other side left without a word stays open until it has been
//! silent for the idle timeout, so half-open connections and their late deaths are as usual here
//! as they are outside. What is said into a cut waits for its end, as retransmission would have
//! it, and is lost with the connection.
//!
//! Invariant: nothing is delivered to an end that is not open. What this file does not do: it
//! keeps no time and draws nothing; the world does.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gaggle_core::envelope::{Envelope, Lane};

/// All connections and cuts.
#[derive(Debug, Default)]
pub(crate) struct Network {
    links: BTreeMap<u64, [End; 2]>,
    next: u64,
    /// From where to where nothing comes through.
    cuts: BTreeSet<(usize, usize)>,
    /// Whose machines are suspended: nothing comes through to or from them.
    suspended: BTreeSet<usize>,
    /// Where gossip gathers meanwhile.
    clogs: BTreeMap<(usize, usize), Vec<Bytes>>,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) node: usize,
    pub(crate) open: bool,
    /// When its node was told of it.
    pub(crate) met: Option<u64>,
    /// When the last envelope of each lane comes out here.
    arrives: [u64; 2],
    /// What was said into a cut.
    held: Vec<Envelope>,
    /// Since when nothing comes through to here.
    pub(crate) silent_since: Option<u64>,
}

impl Network {
    /// Whether something sent now would come through.
    pub(crate) fn passes(&self, from: usize, to: usize) -> bool {
        let suspended = |node| self.suspended.contains(node);
        !self.cuts.contains(&(from, to)) && ![from, to].iter().any(suspended)
    }

    /// A new connection, both ends of which open at these times.
    pub(crate) fn connect(&mut self, ends: [(usize, u64); 2]) -> u64 {
        self.next += 1;
        let end = |(node, at)| End {
            node,
            open: true,
            met: None,
            arrives: [at, at],
            held: Vec::new(),
            silent_since: None,
        };
        self.links.insert(self.next, ends.map(end));
        self.next
    }

    /// An end of a connection.
    pub(crate) fn end(&self, link: u64, end: usize) -> Option<&End> {
        self.links.get(&link).map(|ends| &ends[end])
    }

    /// Which end of the connection a node has, if it is open.
    pub(crate) fn end_of(&self, link: u64, node: usize) -> Option<usize> {
        let ends = self.links.get(&link)?;
        (0..2).find(|end| ends[*end].node == node && ends[*end].open)
    }

    /// Whether a node has an open end of a connection to another.
    pub(crate) fn is_linked(&self, node: usize, to: usize) -> bool {
        self.links.values().any(|ends| {
            (0..2).any(|at| ends[at].node == node && ends[at].open && ends[1 - at].node == to)
        })
    }

    /// An end is up now; the node that has it, if it is still open.
    pub(crate) fn meet(&mut self, now: u64, link: u64, end: usize) -> Option<usize> {
        let end = &mut self.links.get_mut(&link)?[end];
        end.met = Some(now);
        end.open.then_some(end.node)
    }

    /// Whether two nodes have a connection that both were told of.
    pub(crate) fn is_met(&self, node: usize, to: usize) -> bool {
        self.met_since(node, to).is_some()
    }

    /// Since when two nodes have a connection that both were told of: when the first was.
    pub(crate) fn met_since(&self, node: usize, to: usize) -> Option<u64> {
        self.links.values().find_map(|[one, other]| {
            let between = [(one.node, other.node), (other.node, one.node)].contains(&(node, to));
            let up = between && one.open && other.open;
            up.then(|| Some(one.met?.min(other.met?))).flatten()
        })
    }

    /// Says something to an end: when it comes out, if it was sent to arrive at `at`; or not, if
    /// it is held by a cut.
    pub(crate) fn send(
        &mut self,
        link: u64,
        to: usize,
        envelope: Envelope,
        at: u64,
    ) -> Option<(u64, Envelope)> {
        let ends = self.links.get(&link)?;
        let passes = self.passes(ends[1 - to].node, ends[to].node);
        let end = &mut self.links.get_mut(&link)?[to];
        if !passes || !end.held.is_empty() {
            end.held.push(envelope);
            return None;
        }
        let lane = usize::from(envelope.lane() == Lane::Copies);
        let at = at.max(end.arrives[lane] + 1);
        end.arrives[lane] = at;
        Some((at, envelope))
    }

    /// Closes an end; whether it was open.
    pub(crate) fn close(&mut self, link: u64, end: usize) -> bool {
        let Some(ends) = self.links.get_mut(&link) else { return false };
        let was = std::mem::replace(&mut ends[end].open, false);
        ends[end].held.clear();
        if !ends[0].open && !ends[1].open {
            self.links.remove(&link);
        }
        was
    }

    /// Nothing comes through to an end any more, from now on; whether that is news.
    pub(crate) fn silence(&mut self, link: u64, end: usize, now: u64) -> bool {
        let Some(ends) = self.links.get_mut(&link) else { return false };
        let end = &mut ends[end];
        let news = end.open && end.silent_since.is_none();
        if news {
            end.silent_since = Some(now);
        }
        news
    }

    /// Connections of which a node has an open end: link and end.
    pub(crate) fn of(&self, node: usize) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        for (link, ends) in &self.links {
            let own = (0..2).filter(|end| ends[*end].node == node && ends[*end].open);
            found.extend(own.map(|end| (*link, end)));
        }
        found
    }

    /// Cuts one direction; the ends that hear nothing any more.
    pub(crate) fn cut(&mut self, from: usize, to: usize) -> Vec<(u64, usize)> {
        self.cuts.insert((from, to));
        self.ends(from, to)
    }

    /// Heals one direction: what was held goes on its way, to the ends that hear again.
    pub(crate) fn heal(&mut self, from: usize, to: usize) -> Vec<(u64, usize, Vec<Envelope>)> {
        if self.cuts.remove(&(from, to)) { self.free(from, to) } else { Vec::new() }
    }

    /// What was held goes on its way if nothing stands in it any more.
    fn free(&mut self, from: usize, to: usize) -> Vec<(u64, usize, Vec<Envelope>)> {
        let mut freed = Vec::new();
        if !self.passes(from, to) {
            return freed;
        }
        for (link, at) in self.ends(from, to) {
            let ends = self.links.get_mut(&link).expect("it was listed");
            if ends[1 - at].open {
                ends[at].silent_since = None;
            }
            freed.push((link, at, std::mem::take(&mut ends[at].held)));
        }
        freed
    }

    /// The machine of a node is suspended: the ends that hear nothing any more.
    pub(crate) fn suspend(&mut self, node: usize) -> Vec<(u64, usize)> {
        self.suspended.insert(node);
        let mut found = Vec::new();
        for (link, ends) in
            self.links.iter().filter(|(_, ends)| ends.iter().any(|end| end.node == node))
        {
            found.extend((0..2).filter(|end| ends[*end].open).map(|end| (*link, end)));
        }
        found
    }

    /// The machine of a node goes on, or has ended: what was held goes on its way.
    pub(crate) fn wake(&mut self, node: usize) -> Vec<(u64, usize, Vec<Envelope>)> {
        self.suspended.remove(&node);
        let others: BTreeSet<usize> = self.links.values().flatten().map(|end| end.node).collect();
        let pairs = others.into_iter().filter(|other| *other != node);
        pairs.flat_map(|other| [self.free(node, other), self.free(other, node)].concat()).collect()
    }

    /// A direction that is cut is clogged only.
    pub(crate) fn begin_clog(&mut self, from: usize, to: usize) {
        self.clogs.entry((from, to)).or_default();
    }

    /// Keeps a packet of gossip for later, if its direction is clogged; whether it is.
    pub(crate) fn clog(&mut self, from: usize, to: usize, packet: &Bytes) -> bool {
        let clog = self.clogs.get_mut(&(from, to));
        let kept = clog.map(|packets| packets.push(packet.clone()));
        kept.is_some()
    }

    /// A direction is clogged no more: what gathered.
    pub(crate) fn unclog(&mut self, from: usize, to: usize) -> Vec<Bytes> {
        self.clogs.remove(&(from, to)).unwrap_or_default()
    }

    /// All cuts.
    pub(crate) fn cuts(&self) -> Vec<(usize, usize)> {
        self.cuts.iter().copied().collect()
    }

    fn ends(&self, from: usize, to: usize) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        for (link, ends) in &self.links {
            let hears = |end: &usize| {
                ends[*end].node == to && ends[1 - *end].node == from && ends[*end].open
            };
            found.extend((0..2).filter(hears).map(|end| (*link, end)));
        }
        found
    }
}
