//! Leases of deliveries that are being worked on: extended when half of them is over, so that one
//! extension may fail and be repeated before the message goes to another consumer.
//!
//! Extensions that are due within a moment of each other travel together. A lease whose receipt
//! is stale, or that ended before an extension was answered, is let go, and the application is
//! told: the message may be another consumer's already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaggle_wire::Receipt;

use crate::desk::Desk;
use crate::event::Effect;
use crate::parcel::{Failure, Settled, Verb};
use crate::settlements::Item;
use crate::timers::Timer;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    kept: BTreeMap<u64, Kept>,
    due: BTreeSet<(Duration, u64)>,
}

#[derive(Debug)]
struct Kept {
    receipt: Receipt,
    visibility: Duration,
    end: Duration,
    /// When it is to be extended; `None` while that is under way.
    due: Option<Duration>,
}

impl Leases {
    pub(crate) fn keep(
        &mut self,
        desk: &mut Desk,
        lease: u64,
        receipt: Receipt,
        (remaining, visibility): (Duration, Duration),
    ) {
        let end = desk.now.mono + remaining;
        self.kept.insert(lease, Kept { receipt, visibility, end, due: None });
        self.set_due(desk, lease, desk.now.mono + remaining / 2);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn unkeep(&mut self, desk: &mut Desk, lease: u64) {
        if let Some(due) = self.kept.remove(&lease).and_then(|kept| kept.due) {
            self.due.remove(&(due, lease));
            self.watch(desk);
        }
    }

    /// The extensions to make now.
    pub(crate) fn due(&mut self, desk: &mut Desk) -> Vec<Item> {
        let mut items = Vec::new();
        let soon = desk.now.mono + TOGETHER;
        while let Some((at, lease)) = self.due.first().copied()
            && at <= soon
        {
            self.due.pop_first();
            let Some(kept) = self.kept.get_mut(&lease) else { continue };
            kept.due = None;
            let visibility_ms = u64::try_from(kept.visibility.as_millis()).unwrap_or(u64::MAX);
            let verb = Verb::Extend(visibility_ms);
            items.push(Item::of_lease(lease, verb, kept.receipt.clone(), kept.end));
        }
        self.watch(desk);
        items
    }

    /// What became of an extension.
    pub(crate) fn extended(
        &mut self,
        desk: &mut Desk,
        lease: u64,
        result: &Result<Settled, Failure>,
    ) {
        let Some(kept) = self.kept.get_mut(&lease) else { return };
        if let Ok(Settled::Extended(ms)) = result {
            let remaining = Duration::from_millis(*ms);
            kept.end = desk.now.mono + remaining;
            self.set_due(desk, lease, desk.now.mono + remaining / 2);
        } else {
            // The work may go on, and so does the wait for it; there is only nothing to extend.
            kept.due = None;
            desk.effects.push(Effect::LeaseLost { lease });
        }
    }

    fn set_due(&mut self, desk: &mut Desk, lease: u64, at: Duration) {
        if let Some(kept) = self.kept.get_mut(&lease) {
            kept.due = Some(at);
            self.due.insert((at, lease));
            self.watch(desk);
        }
    }

    fn watch(&self, desk: &mut Desk) {
        match self.due.first() {
            Some((at, _)) => desk.timers.set(Timer::Leases, *at),
            None => desk.timers.clear(&Timer::Leases),
        }
    }
}

/// Far less than half a lease of the shortest sensible length (1 s).
const TOGETHER: Duration = Duration::from_millis(50);
