//! The window: the first messages of a partition that are not in flight, in delivery order.
//!
//! Rows are read ahead in pages; what arrives behind the window's reach stays on disk until the
//! window comes there. So memory does not grow with the backlog (P12). While a page is being
//! read, what arrives is kept beside, because the read may have been before or after its commit.
//!
//! Invariant: every servable row up to the reach is in the window, in flight, or was skipped for
//! a reason that brings it back (not yet due, leased by another). What this file does not do: it
//! does not read and does not know why a row is skipped.

use std::collections::BTreeMap;

use gaggle_wire::{Label, Stamp};

use super::ListId;
use crate::custody::known::{Known, Seen};

/// What the window keeps of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) label: Label,
    pub(crate) accepted: Stamp,
    pub(crate) list: ListId,
    /// How often it was handed out.
    pub(crate) deliveries: u32,
}

/// Up to where the rows on disk are in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nothing was read.
    #[default]
    Cold,
    /// All up to this stamp.
    Until(Stamp),
    /// All.
    End,
}

/// The first messages of a partition.
#[derive(Debug, Default)]
pub(crate) struct Window {
    ready: BTreeMap<Stamp, Head>,
    reach: Reach,
    /// What arrived while a page is being read.
    beside: Option<BTreeMap<Stamp, Head>>,
    /// The first that found no room meanwhile.
    left_out: Option<Stamp>,
}

impl Window {
    /// Up to where rows are in the window.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether a page is being read.
    pub(crate) fn is_reading(&self) -> bool {
        self.beside.is_some()
    }

    /// How many are ready.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether this one is ready, or will be once the page is here.
    pub(crate) fn contains(&self, stamp: Stamp) -> bool {
        self.head(stamp).is_some()
    }

    /// The first one.
    pub(crate) fn first(&self) -> Option<&Head> {
        self.ready.first_key_value().map(|(_, head)| head)
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Head> {
        self.ready.values()
    }

    /// This one, if it is ready, or will be once the page is here.
    pub(crate) fn head(&self, stamp: Stamp) -> Option<&Head> {
        let beside = || self.beside.as_ref().and_then(|beside| beside.get(&stamp));
        self.ready.get(&stamp).or_else(beside)
    }

    /// Takes this one out.
    pub(crate) fn remove(&mut self, stamp: Stamp) -> Option<Head> {
        let beside = self.beside.as_mut().and_then(|beside| beside.remove(&stamp));
        self.ready.remove(&stamp).or(beside)
    }

    /// Takes out what is not held any more.
    pub(crate) fn drop_gone(&mut self, known: &Known) {
        let held = |head: &Head| known.seen(head.label.stamp.process, head.label.number);
        self.ready.retain(|_, head| held(head) == Seen::Held);
        if let Some(beside) = &mut self.beside {
            beside.retain(|_, head| held(head) == Seen::Held);
        }
    }

    /// A message has another holder list.
    pub(crate) fn relist(&mut self, stamp: Stamp, list: ListId) {
        let beside = self.beside.as_mut().and_then(|beside| beside.get_mut(&stamp));
        for head in self.ready.get_mut(&stamp).into_iter().chain(beside) {
            head.list = list;
        }
    }

    /// A stored message is ready, or one comes back. It is taken in if it lies within the reach;
    /// beyond `max` the last one is left to the disk again.
    pub(crate) fn arrive(&mut self, head: Head, max: usize) {
        let stamp = head.label.stamp;
        let within = match self.reach {
            Reach::Cold => false,
            Reach::Until(reach) => stamp <= reach,
            Reach::End => true,
        };
        if within {
            self.ready.insert(stamp, head);
            self.cut(max);
        } else if let Some(beside) = &mut self.beside {
            beside.insert(stamp, head);
            if beside.len() > max
                && let Some((stamp, _)) = beside.pop_last()
            {
                self.leave_out(stamp);
            }
        }
    }

    fn leave_out(&mut self, stamp: Stamp) {
        self.left_out = Some(self.left_out.map_or(stamp, |before| before.min(stamp)));
    }

    /// Starts to read the next page; after which stamp, or from the start.
    pub(crate) fn start_reading(&mut self) -> Option<Stamp> {
        self.beside = Some(BTreeMap::new());
        self.left_out = None;
        match self.reach {
            Reach::Cold => None,
            Reach::Until(stamp) => Some(stamp),
            Reach::End => Some(Stamp::MAX),
        }
    }

    /// A page was read: these heads, up to this reach.
    pub(crate) fn read(&mut self, heads: Vec<Head>, reach: Reach, max: usize) {
        let beside = self.beside.take().unwrap_or_default();
        // What found no room meanwhile is left to the disk, with all behind it.
        let out = self.left_out.take();
        // What came beside the page is newer: of its deliveries the page may not know (P3).
        for head in beside.into_values().chain(heads) {
            let stamp = head.label.stamp;
            let within = match reach {
                Reach::Until(reach) => stamp <= reach,
                Reach::End | Reach::Cold => true,
            };
            if within && out.is_none_or(|out| stamp < out) {
                self.ready.entry(stamp).or_insert(head);
            }
        }
        let last = self.ready.last_key_value().map_or(Stamp::ZERO, |(stamp, _)| *stamp);
        self.reach = match (out, reach) {
            (Some(out), Reach::Until(reach)) if reach < out => Reach::Until(reach),
            (Some(_), _) => Reach::Until(last),
            (None, reach) => reach,
        };
        self.cut(max);
    }

    fn cut(&mut self, max: usize) {
        while self.ready.len() > max {
            let popped = self.ready.pop_last();
            if let (Some((stamp, _)), true) = (popped, self.is_reading()) {
                // The page that is being read lies behind it.
                self.leave_out(stamp);
            }
            let last = self.ready.last_key_value().map_or(Stamp::ZERO, |(stamp, _)| *stamp);
            self.reach = Reach::Until(last);
        }
    }
}
