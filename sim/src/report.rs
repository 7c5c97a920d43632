//! The report of a run: one line per event, and a hash over all lines.
//!
//! The hash is what two runs of one seed are compared by; the lines are for who has to understand
//! a failure. What this file does not do: it judges nothing.

use std::collections::VecDeque;
use std::fmt::Arguments;

/// What becomes of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing is written or hashed: the fastest.
    Off,
    /// Lines are hashed, and the last ones kept.
    Hash,
    /// Lines are hashed and printed.
    Print,
}

/// The report of a run.
#[derive(Debug)]
pub(crate) struct Report {
    detail: Detail,
    hash: u64,
    last: VecDeque<String>,
}

impl Report {
    pub(crate) fn new(detail: Detail) -> Self {
        Self { detail, hash: 0xcbf2_9ce4_8422_2325, last: VecDeque::new() }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, now: u64, what: Arguments<'_>) {
        if self.detail == Detail::Off {
            return;
        }
        let line = format!("{:>12.6} {what}", now as f64 / 1e9);
        // FNV-1a: small, and nobody attacks it.
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.detail == Detail::Print {
            println!("{line}");
        }
        self.last.push_back(line);
        if self.last.len() > LAST_MAX {
            self.last.pop_front();
        }
    }

    /// The last lines.
    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }

    /// The hash of all lines so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// Lines that are kept for a failure.
const LAST_MAX: usize = 200;
