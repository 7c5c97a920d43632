//! A guest: a client that is none of the plan's, and asks a node for one thing or another.
//!
//! It waits for no answer; the oracle hears it. What this file does not do: when a guest comes is
//! in the plan.

use gaggle_wire::{
    Attempt, ChangeMode, Label, Loss, Message, NodeId, ProcessId, Request, SettingsChange, Stamp,
};

use crate::options::place;
use crate::oracle::FullName;
use crate::plan::{Errand, queue_name};
use crate::process::EPOCH;
use crate::world::World;

impl World {
    /// A guest asks a node for something. A queue is created with these settings.
    pub(crate) fn visit(&mut self, guest: usize, at: usize, (errand, as_was): Visit) {
        if !self.is_up(at) {
            return;
        }
        self.report.line(self.now, format_args!("guest at {}: {errand:?}", at + 1));
        let name = queue_name();
        let request = match errand {
            Errand::Purge => Some(Request::PurgeQueue { name }),
            Errand::Delete => Some(Request::DeleteQueue { name }),
            Errand::Create => Some(Request::CreateQueue { name, change: as_was }),
            Errand::Set(ms) => {
                let visibility_timeout_ms = Some(ms);
                let change = SettingsChange { visibility_timeout_ms, ..Default::default() };
                Some(Request::SetQueue { name, change, mode: ChangeMode::Apply })
            }
            Errand::Remove(node) => {
                self.removal_asked(place(NodeId(node)), Loss::Refused);
                Some(Request::RemoveNode { node: NodeId(node), loss: Loss::Refused })
            }
            Errand::RemoveAnyway(node) => {
                self.removal_asked(place(NodeId(node)), Loss::Accepted);
                Some(Request::RemoveNode { node: NodeId(node), loss: Loss::Accepted })
            }
            Errand::Keep(node) => Some(Request::KeepNode { node: NodeId(node) }),
            Errand::SendAgain => self.old_message().map(send),
            Errand::SendAhead(ms) => self.message_ahead(ms).map(send),
        };
        if let Some(request) = request {
            self.ask(guest, at, request);
        }
    }

    /// A message that its client may still send again: the one that was deleted first, if there is
    /// one.
    fn old_message(&self) -> Option<(FullName, Label)> {
        let window = u64::try_from(self.options.resend_window.as_nanos()).unwrap_or(u64::MAX);
        let recent = self.judge.oracle.fates().filter(|(_, fate)| {
            let sent = fate.confirmed.map(|(at, _)| at);
            !fate.excused && sent.is_some_and(|sent| sent + window / 2 > self.now)
        });
        let oldest = recent.min_by_key(|(_, fate)| fate.deleted.unwrap_or(u64::MAX));
        oldest.map(|(name, fate)| (*name, fate.label))
    }

    /// A message of a client of its own, whose clock is ahead.
    fn message_ahead(&mut self, ms: u64) -> Option<(FullName, Label)> {
        let queue = self.judge.oracle.latest(&queue_name())?;
        // Two may come at one step, and are two clients all the same.
        let is_free =
            |process: &ProcessId| self.judge.oracle.fate(&(queue, 0, *process, 1)).is_none();
        let process = (GUESTS + self.steps()..).map(ProcessId).find(is_free)?;
        let time = EPOCH + self.now + ms * 1_000_000;
        let stamp = Stamp { time, count: 0, process };
        let (label, _) = Message::new("ahead").pack(1, stamp, 0).expect("it is small");
        Some(((queue, 0, process, 1), label))
    }
}

/// What a guest comes for, and how a queue that it creates is to be.
pub(crate) type Visit = (Errand, SettingsChange);

fn send(((queue, partition, ..), label): (FullName, Label)) -> Request {
    let (attempt, within_ms) = (Attempt::Again, WITHIN_MS);
    Request::Send { queue, partition, attempt, within_ms, labels: vec![label] }
}

/// Far from the process ids that are drawn, in all likelihood.
const GUESTS: u64 = 1 << 40;
/// How long a node may take for it.
const WITHIN_MS: u32 = 1000;
