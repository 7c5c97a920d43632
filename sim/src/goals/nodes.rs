//! Goals that nodes see: by what they hear and count, and by how their processes end.
//!
//! What this file does not do: it does not look at clients.

use gaggle_core::envelope::Envelope;
use gaggle_core::ledger::MessageKey;
use gaggle_core::table::Entry;
use gaggle_wire::MessageId;

use super::Goal;
use crate::world::World;

impl World {
    /// A node is about to hear something from another.
    pub(crate) fn goals_heard(&mut self, at: usize, from: usize, envelope: &Envelope) {
        let goal = match envelope {
            Envelope::Yield
                if self.is_back(at) && self.has_messages(at) && self.has_messages(from) =>
            {
                Goal::YieldToReturned
            }
            Envelope::Table { entries, .. } if self.is_back(at) => {
                let Some(node) = &self.processes[at].node else { return };
                let outdated = |entry: &&Entry| entry.is_deleted() && node.has_queue(entry.id);
                let Some(old) = entries.iter().find(outdated) else { return };
                if !entries.iter().any(|entry| entry.name == old.name && !entry.is_deleted()) {
                    return;
                }
                Goal::QueueRenewed
            }
            Envelope::HandOver if self.is_late(from) => Goal::LateHandedOver,
            Envelope::HandOver => Goal::HandedOver,
            Envelope::MakeUp { items, .. } if self.processes[at].wiped && !items.is_empty() => {
                Goal::WipedRefilled
            }
            Envelope::MakeUp { items, .. } if self.is_back(at) && !items.is_empty() => {
                Goal::CopyMadeUp
            }
            Envelope::Copy { queue, partition, labels, .. } => {
                let Some(node) = &self.processes[at].node else { return };
                let gone = labels.iter().any(|label| {
                    let id = MessageId { process: label.stamp.process, number: label.number };
                    node.has_tombstone(*queue, *partition, id)
                });
                if !gone {
                    return;
                }
                Goal::DeleteOvertakes
            }
            _ => return,
        };
        self.judge.goals.note(goal);
    }

    /// A process is about to be killed.
    pub(crate) fn goals_killed(&mut self, at: usize) {
        if self.is_back(at) && !self.is_ready(at) {
            self.judge.goals.note(Goal::CrashInRecovery);
        }
    }

    /// What a node has counted; its run, or the run of all, is about to end.
    pub(crate) fn goals_counted(&mut self, at: usize) {
        let Some(node) = &self.processes[at].node else { return };
        for (counter, goal) in COUNTED {
            if node.counter(counter) > 0 {
                self.judge.goals.note(goal);
            }
        }
    }

    /// A node is about to be started.
    pub(crate) fn goals_started(&mut self, at: usize) {
        let seen = |other: &usize| *other != at && self.network.is_linked(*other, at);
        if self.processes[at].life > 0 && (0..self.processes.len()).any(|other| seen(&other)) {
            self.judge.goals.note(Goal::BackUnnoticed);
        }
    }

    /// Whether a node is up that was up before.
    fn is_back(&self, at: usize) -> bool {
        self.processes[at].node.is_some() && self.processes[at].life > 1
    }

    fn has_messages(&self, at: usize) -> bool {
        self.processes[at].disk.keys().any(|key| MessageKey::is_message(key))
    }
}

/// Counters of a node that tell of a goal.
const COUNTED: [(&str, Goal); 8] = [
    ("compared_different", Goal::ComparedDifferent),
    ("stamps_refused", Goal::ClockRefused),
    ("clock_sick_times", Goal::ClockSick),
    ("copies_refilled", Goal::RotRefilled),
    ("stand_ins", Goal::StandIn),
    ("leases_expired", Goal::LeaseExpired),
    ("pauses_by_wall", Goal::SuspensionNoticed),
    ("queues_forgotten", Goal::QueueForgotten),
];
