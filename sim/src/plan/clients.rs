//! Clients of a plan: what their applications do, and how far their clocks are off.
//!
//! Numbers, stamps, attempts and connections are not in a plan: they are the client's own, which
//! is the one that is shipped. What this file does not do: how each is done is in `apps/`.

use gaggle_wire::{NodeId, QueueName};
use serde::{Deserialize, Serialize};

use crate::apps::consumer::{Habits, Manner, Mode};
use crate::apps::producer;
use crate::options::{Span, place};
use crate::town::Traits;
use crate::watch::ClockError;

/// A producer: it sends in goes, as many at once as it may.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProducerPlan {
    /// Messages in all.
    pub messages: u64,
    /// Messages of one go.
    pub batch: Span,
    /// Pause between two goes, in milliseconds.
    pub every_ms: Span,
    /// How many may be without a result.
    pub open_max: usize,
    /// Of a thousand messages so many have an ordering key.
    pub keyed: u32,
    /// How long a send may take, in milliseconds.
    pub within_ms: Span,
    /// By how much its calendar is off, in milliseconds.
    #[serde(default)]
    pub skew_ms: i64,
    /// How much its clocks run fast, in millionths.
    #[serde(default)]
    pub drift: i32,
}

/// A consumer: it streams or polls, works on some messages at once, and settles each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerPlan {
    /// The only node it uses, if it is bound to one.
    pub node: Option<u64>,
    /// How it receives.
    pub mode: ModePlan,
    /// How many messages it works on at once.
    pub workers: usize,
    /// How long it works on a message, at most, in milliseconds.
    pub think_ms: u64,
    /// Of a thousand leases so many are kept while it works.
    #[serde(default)]
    pub keeps: u32,
    /// Of a thousand messages it forgets so many.
    #[serde(default)]
    pub forgets: u32,
    /// Of a thousand messages it gives back so many.
    #[serde(default)]
    pub releases: u32,
    /// With what delay at most, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Of a thousand messages so many are deleted when their leases are long over.
    #[serde(default)]
    pub late: u32,
    /// Of a thousand deletes so many are made twice.
    #[serde(default)]
    pub twice: u32,
}

/// How a consumer receives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ModePlan {
    /// A stream with this much credit.
    Stream(u64),
    /// Receives of so many at most, one after the other.
    Poll(u32),
}

impl ProducerPlan {
    pub(crate) fn plan(&self) -> producer::Plan {
        producer::Plan {
            queue: queue_name(),
            messages: self.messages,
            batch: self.batch,
            every: (self.every_ms.0 * MS, self.every_ms.1 * MS),
            open_max: self.open_max,
            keyed: self.keyed,
            within: (self.within_ms.0 * MS, self.within_ms.1 * MS),
        }
    }

    pub(crate) fn traits(&self) -> Traits {
        let skew = self.skew_ms.saturating_mul(MS.cast_signed());
        Traits { node: None, clock: ClockError { skew, drift: self.drift } }
    }
}

impl ConsumerPlan {
    /// One that deletes whatever it gets.
    #[must_use]
    pub fn good(node: Option<u64>, mode: ModePlan) -> Self {
        let (keeps, forgets, releases, delay_ms, late, twice) = (0, 0, 0, 0, 0, 0);
        let (workers, think_ms) = (4, 100);
        Self { node, mode, workers, think_ms, keeps, forgets, releases, delay_ms, late, twice }
    }

    pub(crate) fn habits(&self) -> Habits {
        Habits {
            queue: queue_name(),
            mode: match self.mode {
                ModePlan::Stream(credit) => Mode::Stream { credit },
                ModePlan::Poll(max) => Mode::Poll { max, wait_ms: 2000 },
            },
            visibility_ms: None,
            workers: self.workers,
            manner: Manner {
                think: (0, self.think_ms * MS),
                keeps: self.keeps,
                forgets: self.forgets,
                releases: self.releases,
                delay: (0, self.delay_ms),
                late: self.late,
                twice: self.twice,
            },
        }
    }

    pub(crate) fn traits(&self) -> Traits {
        Traits { node: self.node.map(|node| place(NodeId(node))), ..Traits::default() }
    }
}

/// The queue of a plan.
pub(crate) fn queue_name() -> QueueName {
    QueueName::parse("q").expect("it is a name")
}

const MS: u64 = 1_000_000;
