//! Who waits for messages: receives and streams that are open, and since when nothing came.
//!
//! A stream waits while it has credit for more. What this file does not do: it does not know
//! messages.

use std::collections::BTreeMap;

use gaggle_wire::QueueName;

use super::Place;

/// All that are open, by place and number of the request.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<(Place, u64), Wait>);

/// A receive or a stream.
#[derive(Clone, Debug)]
pub struct Wait {
    /// What it waits for.
    pub queue: QueueName,
    /// Since when it has waited: it began, or got something, or more credit.
    pub since: u64,
    /// How many may come in all; `None` for a receive, which ends with the first answer.
    limit: Option<u64>,
    came: u64,
}

impl Waits {
    pub(super) fn begin(
        &mut self,
        now: u64,
        which: (Place, u64),
        queue: &QueueName,
        limit: Option<u64>,
    ) {
        self.0.insert(which, Wait { queue: queue.clone(), since: now, limit, came: 0 });
    }

    /// A stream may get more.
    pub(super) fn credit(&mut self, now: u64, which: (Place, u64), limit: u64) {
        if let Some(wait) = self.0.get_mut(&which) {
            wait.since = now;
            wait.limit = wait.limit.max(Some(limit));
        }
    }

    /// So many came.
    pub(super) fn came(&mut self, now: u64, which: (Place, u64), count: u64) {
        let Some(wait) = self.0.get_mut(&which) else { return };
        if wait.limit.is_none() {
            self.0.remove(&which);
            return;
        }
        wait.since = now;
        wait.came += count;
    }

    /// It waits no more.
    pub(super) fn end(&mut self, which: (Place, u64)) {
        self.0.remove(&which);
    }

    /// The client has no connection there any more.
    pub(super) fn lost(&mut self, place: Place) {
        self.0.retain(|(of, _), _| *of != place);
    }

    /// Those that could be given something.
    pub(super) fn open(&self) -> impl Iterator<Item = (Place, &Wait)> {
        let open = self.0.iter().filter(|(_, wait)| wait.limit.is_none_or(|l| wait.came < l));
        open.map(|((place, _), wait)| (*place, wait))
    }
}
