//! A plan: all that a run is made of, as data.
//!
//! A seed is drawn into a plan ([`draw()`]), and a run executes a plan and nothing else, so that a
//! run can be kept in a file, replayed, and made smaller. What a plan leaves open (the delay of
//! each packet, jitter) comes from one generator that its seed starts: the same plan is the same
//! run.
//!
//! What this room does not do: it runs nothing; see `storm.rs`.

mod class;
mod clients;
mod deed;
mod draw;
mod file;
mod guest;
mod own;

pub use class::Class;
pub(crate) use clients::queue_name;
pub use clients::{ConsumerPlan, ModePlan, ProducerPlan};
pub use deed::{ClientName, Deed, RowLoss, Timed};
pub(crate) use draw::STRICT_FROM;
pub use draw::draw;
pub use file::FileError;
pub use guest::Errand;

use gaggle_wire::{Order, SettingsChange};
use serde::{Deserialize, Serialize};

use crate::options::Options;

/// All that a run is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Whether nothing in here explains that a message comes twice (P3).
    pub calm: bool,
    /// How long the storm lasts, in milliseconds.
    pub storm_ms: u64,
    /// Of the nodes so many are there at the beginning; others may join.
    pub founders: usize,
    /// The classes of faults from which it was drawn: for who reads it.
    pub classes: Vec<Class>,
    /// The cluster.
    pub options: Options,
    /// The queue.
    pub queue: QueuePlan,
    /// Who sends.
    #[serde(default)]
    pub producers: Vec<ProducerPlan>,
    /// Who receives.
    #[serde(default)]
    pub consumers: Vec<ConsumerPlan>,
    /// What happens, by time.
    #[serde(default)]
    pub deeds: Vec<Timed>,
}

/// How the queue is made; see [`gaggle_wire::Settings`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the settings")]
pub struct QueuePlan {
    pub partitions: u16,
    pub replicas: u8,
    pub confirms: u8,
    pub at_least: u8,
    pub visibility_timeout_ms: u64,
    /// The window of a strict queue, in milliseconds; none for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
}

impl Plan {
    /// Deeds that are faults: what no operator would do on purpose.
    #[must_use]
    pub fn faults(&self) -> usize {
        self.deeds.iter().filter(|timed| timed.deed.is_fault()).count()
    }
}

impl Plan {
    /// Whether all who receive do so at one node of several.
    pub(crate) fn is_lone(&self) -> bool {
        let mut nodes = self.consumers.iter().map(|consumer| consumer.node);
        let first = nodes.next().flatten();
        self.options.nodes > 1 && first.is_some() && nodes.all(|node| node == first)
    }
}

impl QueuePlan {
    pub(crate) fn change(self) -> SettingsChange {
        SettingsChange {
            partitions: Some(self.partitions),
            replicas: Some(self.replicas),
            confirms: Some(self.confirms),
            at_least: Some(self.at_least),
            visibility_timeout_ms: Some(self.visibility_timeout_ms),
            order: self.window_ms.map(|_| Order::Strict),
            window_ms: self.window_ms,
            ..SettingsChange::default()
        }
    }
}
