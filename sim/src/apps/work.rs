//! Work: what a consumer has in hand, from the taking of a delivery to its settlement.
//!
//! What this file does not do: it takes nothing; see `consumer.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use gaggle_client_core::Verb;
use gaggle_wire::{DeliveryLabel, Receipt};

use super::Handle;
use crate::options::Span;

/// How a consumer works.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// How long it works on a message.
    pub(crate) think: Span,
    /// Of a thousand leases so many are kept while it works.
    pub(crate) keeps: u32,
    /// Of a thousand messages it forgets so many.
    pub(crate) forgets: u32,
    /// Of a thousand messages it gives back so many.
    pub(crate) releases: u32,
    /// With this delay, in milliseconds.
    pub(crate) delay: Span,
    /// Of a thousand messages so many are deleted when their leases are long over.
    pub(crate) late: u32,
    /// Of a thousand deletes so many are made twice.
    pub(crate) twice: u32,
}

impl Manner {
    /// It works for so long, and deletes.
    pub(crate) fn good(think: Span) -> Self {
        let (keeps, forgets, releases, late, twice) = (0, 0, 0, 0, 0);
        Self { think, keeps, forgets, releases, delay: (0, 0), late, twice }
    }
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) manner: Manner,
    jobs: Vec<Job>,
    /// Settlements under way, by ticket, and the leases that are kept until their end.
    settling: BTreeMap<u64, Option<u64>>,
}

#[derive(Debug)]
struct Job {
    due: u64,
    receipt: Receipt,
    kept: Option<u64>,
    end: End,
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug)]
enum End {
    Forget,
    Release,
    Delete,
}

impl Work {
    pub(super) fn new(manner: Manner) -> Self {
        Self { manner, jobs: Vec::new(), settling: BTreeMap::new() }
    }

    /// How many deliveries are being worked on.
    pub(super) fn count(&self) -> usize {
        self.jobs.len()
    }

    /// Begins to work on a delivery that came then.
    pub(super) fn begin(&mut self, delivery: DeliveryLabel, came: u64, handle: &mut Handle<'_>) {
        let DeliveryLabel { receipt, lease_ms, .. } = delivery;
        handle.judge.begins(&receipt);
        let lease = Duration::from_millis(lease_ms);
        let over = came + nanos(lease);
        let manner = &self.manner;
        let mut due = handle.now + handle.within(manner.think);
        let end = if handle.chance(manner.forgets) {
            End::Forget
        } else if handle.chance(manner.releases) {
            End::Release
        } else {
            End::Delete
        };
        let keeps = handle.chance(manner.keeps);
        if handle.chance(manner.late) && !keeps {
            due = due.max(over + nanos(lease) / 4);
        }
        let remaining = Duration::from_nanos(over.saturating_sub(handle.now));
        let kept = keeps.then(|| handle.keep(receipt.clone(), remaining, lease));
        self.jobs.push(Job { due, receipt, kept, end });
    }

    /// Ends what is due.
    pub(super) fn wake(&mut self, handle: &mut Handle<'_>) {
        let due = self.jobs.extract_if(.., |job| job.due <= handle.now);
        let due: Vec<Job> = due.collect();
        for Job { receipt, kept, end, .. } in due {
            let ticket = match end {
                End::Forget => {
                    if let Some(lease) = kept {
                        handle.unkeep(lease);
                    }
                    continue;
                }
                End::Release => {
                    let delay = handle.within(self.manner.delay);
                    handle.settle(Verb::Release(delay), receipt)
                }
                End::Delete => {
                    if handle.chance(self.manner.twice) {
                        let again = handle.settle(Verb::Delete, receipt.clone());
                        self.settling.insert(again, None);
                    }
                    handle.settle(Verb::Delete, receipt)
                }
            };
            self.settling.insert(ticket, kept);
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<u64> {
        self.jobs.iter().map(|job| job.due).min()
    }

    /// A settlement has its result. A lease is kept until then.
    pub(super) fn settled(&mut self, ticket: u64, handle: &mut Handle<'_>) {
        let kept = self.settling.remove(&ticket).expect("a result for what has none coming");
        if let Some(lease) = kept {
            handle.unkeep(lease);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("leases are short")
}
