//! The lane: what waits to be sent to one partition, numbered and stamped already.
//!
//! Numbers are dense from 1 and stamps rise with them, both given when a message enters, so the
//! order within a partition is that in which the application sent (P8).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::{Label, Refusal, SEND_MAX};

use crate::config::Config;
use crate::desk::Desk;

/// A message that is not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) ticket: u64,
    /// The hash of its ordering key.
    pub(super) key: Option<u64>,
    pub(super) label: Label,
    pub(super) content: Bytes,
    pub(super) deadline: Duration,
    /// Whether it may have been stored.
    pub(super) doubt: bool,
    /// Whether it was given a second id, or a second queue: that is tried once.
    pub(super) renewed: bool,
    /// The last thing that a node said of it.
    pub(super) last: Option<Refusal>,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The number that was given last.
    last: u64,
    waiting: VecDeque<Item>,
    bytes: usize,
    /// No deadline of what waits is before this.
    earliest: Option<Duration>,
    /// Batches that are not finished.
    pub(super) under_way: usize,
    /// Batches that have left.
    pub(super) batches: u64,
}

impl Lane {
    /// Numbers and stamps a message and lets it wait.
    pub(super) fn push(&mut self, desk: &mut Desk, mut item: Item) {
        self.identify(desk, &mut item);
        self.bytes += item.content.len();
        self.note_deadline(item.deadline);
        self.waiting.push_back(item);
    }

    /// Lets messages wait again, before all others. Their ids are void: `renew` must follow.
    pub(super) fn put_front(&mut self, items: Vec<Item>) {
        for item in items.into_iter().rev() {
            self.bytes += item.content.len();
            self.note_deadline(item.deadline);
            self.waiting.push_front(item);
        }
    }

    fn note_deadline(&mut self, deadline: Duration) {
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
    }

    fn identify(&mut self, desk: &mut Desk, item: &mut Item) {
        self.last += 1;
        item.label.number = self.last;
        item.label.stamp = desk.clock.stamp(desk.now);
    }

    /// Starts over under a new process.
    pub(super) fn renew(&mut self, desk: &mut Desk) {
        self.last = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        for item in &mut waiting {
            self.identify(desk, item);
        }
        self.waiting = waiting;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether something may leave. A lone message never waits for company; while a batch is under
    /// way, the next one gathers until it is worth a frame.
    pub(super) fn may_send(&self, config: &Config) -> bool {
        let worth = self.waiting.len() >= config.batch_worth
            || self.bytes >= config.batch_worth * WORTH_BYTES;
        match self.under_way {
            0 => !self.is_idle(),
            under_way => worth && under_way < config.batches_max,
        }
    }

    /// Whether more of them would only wait here.
    pub(super) fn is_full(&self, config: &Config) -> bool {
        self.under_way > 0 && self.waiting.len() >= config.batch_worth
    }

    /// Takes the next batch.
    pub(super) fn cut(&mut self, config: &Config) -> Vec<Item> {
        let mut count = 0;
        let mut bytes = 0;
        for item in self.waiting.iter().take(SEND_MAX) {
            if count > 0 && bytes + item.content.len() > config.batch_bytes {
                break;
            }
            count += 1;
            bytes += item.content.len();
        }
        self.bytes -= bytes;
        let batch = self.waiting.drain(..count).collect();
        if self.waiting.is_empty() {
            self.earliest = None;
        }
        batch
    }

    /// Takes out what can wait no longer.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Item> {
        let (expired, waiting): (Vec<Item>, Vec<Item>) =
            self.waiting.drain(..).partition(|item| item.deadline <= now);
        self.waiting = waiting.into();
        self.bytes = self.waiting.iter().map(|item| item.content.len()).sum();
        self.earliest = self.waiting.iter().map(|item| item.deadline).min();
        expired
    }

    pub(super) fn first_deadline(&self) -> Option<Duration> {
        self.earliest
    }
}

/// What a message of a batch that is worth a frame weighs.
const WORTH_BYTES: usize = 1024;
