//! What is done from time to time.

use std::time::Duration;

use gaggle_wire::{ProcessId, QueueId};

use super::Node;
use crate::effect::Effects;
use crate::envelope::{Envelope, Wanted};
use crate::ledger::{Key, Write, record};
use crate::now::{Mono, Now};
use crate::ranges::Ranges;
use crate::session::PartitionId;
use crate::timer::Timer;

impl Node {
    pub(super) fn every_second(&mut self, now: Now, effects: &mut Effects) {
        self.timers.at_latest(Timer::Second, now.mono.plus(self.config.open_after));
        let now = self.judge_clock(now);
        self.say_all(&self.clock_told(now), effects);
        for queue in self.reception.withdraw(now.mono, WITHDRAW_AFTER) {
            self.say_all(&Envelope::Want { queue, wanted: Wanted::No }, effects);
        }
        self.write_disks(effects);
        self.ask_open(now, effects);
        self.fetch_lost(now, effects);
        self.compare_next(now, effects);
        let peers: Vec<_> = self.sessions.iter().map(|(node, _)| node).collect();
        for peer in peers {
            self.push_tombstones(now, peer, PUSH_AFTER, effects);
            if self.sessions.with(peer).is_some_and(|session| !session.is_given()) {
                // Its disk may have room again.
                self.make_up(now, peer, effects);
            }
        }
        self.burials.pushed(now.mono, PUSH_AFTER);
        self.collect_tombstones(now, effects);
        self.join_tombstones(now, effects);
        self.look_for_absent(now, effects);
        let grown = now.mono.since(self.run.window_began) >= self.config.resend_window;
        if grown {
            self.run.window_began = now.mono;
            self.ask_deleted(now, effects);
        }
        let ids: Vec<PartitionId> = self.partitions.keys().copied().collect();
        for id in ids {
            if let Some(partition) = self.partitions.get_mut(&id) {
                partition.forget_told(now.mono);
                if grown {
                    partition.known.grow_old();
                }
            }
            self.write_settled(id, effects);
            self.trim_rounds(id, effects);
            self.look_for_expired(now, id, effects);
            self.arm(now, id);
        }
        self.tell_readiness(now, effects);
    }

    /// Writes down which messages of a partition are settled.
    pub(super) fn write_settled(&mut self, id: PartitionId, effects: &mut Effects) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        for (process, settled) in partition.known.write_settled() {
            let key = Key::Settled(id.0, id.1, process).encode();
            effects.write(match settled {
                Some(settled) => Write::Put { key, value: record::encode(&settled) },
                None => Write::Delete { key },
            });
        }
    }

    /// Enough hosts have these; of some of them not all.
    pub(super) fn settled(
        &mut self,
        messages: Vec<(QueueId, u16, ProcessId, Ranges)>,
        lacking: Vec<(QueueId, u16, ProcessId, Ranges)>,
    ) {
        for (queue, number, process, numbers) in lacking {
            if let Some(partition) = self.partitions.get_mut(&(queue, number)) {
                partition.known.lacking_somewhere(&[(process, numbers)]);
            }
        }
        for (queue, number, process, numbers) in messages {
            let Some(partition) = self.partitions.get_mut(&(queue, number)) else { continue };
            partition.known.settle(process, &numbers);
            self.reconsider((queue, number));
        }
    }

    /// Tells the other holders what has gathered: settled messages, buried tombstones, leases.
    pub(super) fn tell_in_bulk(&mut self, now: Now, effects: &mut Effects) {
        let flat = |news: super::News| {
            let each = news.into_iter();
            each.map(|((queue, part, process), numbers)| (queue, part, process, numbers)).collect()
        };
        let mut lacking = std::mem::take(&mut self.sends.lacking);
        for (node, settled) in std::mem::take(&mut self.sends.settled) {
            let lacking = flat(lacking.remove(&node).unwrap_or_default());
            self.say(node, Envelope::Settled { messages: flat(settled), lacking }, effects);
        }
        for (node, batches) in self.burials.take_news() {
            let commits = self.run.commits.told();
            self.say(node, Envelope::BuriedAt { batches, commits }, effects);
        }
        let age = self.config.tell_leases_after;
        self.tell_leases(now, None, age, effects);
        let untold = self.partitions.values().filter_map(|p| p.flights.first_untold()).min();
        if let Some(since) = untold {
            self.timers.at_latest(Timer::Bulk, since.plus(age));
        }
    }

    /// Requests whose time is up.
    pub(super) fn deadlines(&mut self, now: Now, effects: &mut Effects) {
        self.sends_overdue(now, effects);
        self.deletes_overdue(now, effects);
        self.calls_overdue(now, effects);
        self.waits_overdue(now, effects);
        self.drained(now, effects);
        self.leave(now, effects);
        if let Some(next) = self.next_deadline() {
            self.timers.at_latest(Timer::Deadlines, next);
        }
    }

    fn next_deadline(&self) -> Option<Mono> {
        let sends = self.sends.under_way.values().map(|sending| sending.deadline).min();
        let drain = match self.run.drain {
            super::Drain::Until(until) | super::Drain::Told(until) => Some(until),
            super::Drain::No | super::Drain::Done => None,
        };
        [
            sends,
            self.burials.next_deadline(),
            self.desk.calls.next_deadline(),
            self.reception.next_deadline(),
            drain,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// How long after its last waiter a queue is still wanted: consumers come back at once.
const WITHDRAW_AFTER: Duration = Duration::from_secs(1);
/// How long a block of tombstones may be open before its holder pushes it itself: with a look
/// every second, everybody in session has it within 2 s (P4).
pub(super) const PUSH_AFTER: Duration = Duration::from_millis(900);
