//! What a queue's own rule may take: purges, deletions and ages.
//!
//! It may take what is there from when it is asked for until it is answered, and a little longer
//! what comes meanwhile. A deletion goes by name: a queue that was created before it was answered
//! may be the one that it took, which hosts behind a cut do not know for long. What this
//! file does not do: what disks lose is excused elsewhere.

use gaggle_wire::{QueueId, QueueName, Refusal, Response};

use super::{Oracle, What};

impl Oracle {
    /// A rule of the queue may take its messages from now on: purge, retention, deletion.
    pub fn excuse(&mut self, queue: QueueId) {
        for (name, fate) in &mut self.fates {
            fate.excused |= name.0 == queue;
        }
    }

    /// A purge or a deletion may take all that is there. What is in flight goes too, and comes anew
    /// if it is sent again.
    fn sweep(&mut self, queue: QueueId) {
        self.excuse(queue);
        for (_, fate) in self.fates.iter_mut().filter(|(name, _)| name.0 == queue) {
            fate.deliveries.iter_mut().for_each(|seen| seen.ended = true);
        }
    }

    /// A purge or a deletion is asked for: from now on it may take what is there.
    pub(super) fn take(&mut self, name: &QueueName, delete: bool) -> What {
        let of_name = self.queues.values().filter(|queue| queue.name == *name);
        let ids: Vec<QueueId> = of_name.map(|queue| queue.id).collect();
        self.doomed.entry(name.clone()).or_default().0 += 1;
        for id in &ids {
            self.sweep(*id);
        }
        What::Take { delete, name: name.clone(), ids }
    }

    /// Whether a rule may take what is sent to a queue now. It goes by name: whoever has not
    /// answered yet may do it to a queue that is created meanwhile.
    pub(super) fn is_doomed(&self, now: u64, id: QueueId) -> bool {
        let name = self.queues.get(&id).map(|queue| &queue.name);
        let doom = name.and_then(|name| self.doomed.get(name));
        // Some nodes may not know for long that it is deleted.
        let deleted = self.deleted.contains_key(&id) || self.perhaps_deleted.contains(&id);
        deleted || doom.is_some_and(|(open, until)| *open > 0 || now < *until)
    }

    /// A purge or a deletion was answered. What was confirmed before it was asked for is taken, if
    /// it was done; what was sent meanwhile may be.
    pub(super) fn taken(
        &mut self,
        (asked_at, now): (u64, u64),
        (name, ids): (&QueueName, &[QueueId]),
        delete: bool,
        said: &Response,
    ) {
        let nothing = matches!(said, Response::Refused(Refusal::QueueNotFound { .. }));
        if let (Some((open, until)), true) =
            (self.doomed.get_mut(name), nothing || *said == Response::Done)
        {
            (*open, *until) = (*open - 1, now + CLOCKS);
        }
        if *said != Response::Done {
            return;
        }
        if delete {
            self.deleted.extend(ids.iter().map(|id| (*id, now)));
            let of_name = self.queues.values().filter(|queue| queue.name == *name);
            let meanwhile = of_name.map(|queue| queue.id).filter(|id| !ids.contains(id));
            self.perhaps_deleted.extend(meanwhile);
        }
        for id in ids {
            self.sweep(*id);
        }
        for (_, fate) in self.fates.iter_mut().filter(|(name, _)| ids.contains(&name.0)) {
            // A purge takes what was accepted before it; what is sent twice may be accepted twice,
            // for nobody knows any more what a purge has taken.
            let over = delete || fate.unheard == 0;
            if over && fate.confirmed.is_some_and(|(at, _)| at + CLOCKS < asked_at) {
                fate.taken.get_or_insert(now);
            }
        }
    }
}

/// How far stamps of two nodes may be apart: a purge goes by that of acceptance. The drift bound,
/// by which one may be ahead of its wall clock, and that by which two of those may differ.
const CLOCKS: u64 = 1_000_000_000;
