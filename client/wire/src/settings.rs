//! The settings of a queue: what may be chosen, within which limits, and what is chosen when
//! nothing is said.
//!
//! Settings arrive as a [`SettingsChange`], in which what is not named stays as it is; applying
//! one to [`Settings`] gives valid settings or says which setting is wrong and why. So a node
//! never has invalid ones. What this file does not do: it does not say when a change was made;
//! the table gives each field a stamp.

use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::message::BODY_LENGTH_MAX;

/// The settings of a queue, all of them, valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Parts that are placed on hosts independently; fixed when the queue is created.
    pub partitions: u16,
    /// How long a message that was received stays hidden, in milliseconds; never less than 100.
    pub visibility_timeout_ms: u64,
    /// R: hosts that should hold each message.
    pub replicas: u8,
    /// W: hosts that must have a message on disk before it is confirmed.
    pub confirms: u8,
    /// The fewest hosts with which a send is confirmed while W hosts are not in session; W itself
    /// unless the queue prefers availability.
    pub at_least: u8,
    /// The longest body, in bytes.
    pub message_size_max: u32,
    /// Age since acceptance at which a message may be discarded unread, in milliseconds.
    pub retention_ms: u64,
    /// How long after its acceptance a message is not yet ready, in milliseconds.
    pub delay_ms: u64,
    /// In which order messages come; fixed when the queue is created.
    pub order: Order,
    /// How long a strict queue waits after the stamp of a message for earlier ones, in
    /// milliseconds.
    pub window_ms: u64,
    /// What makes a message of a strict queue late.
    pub late_by: LateBy,
}

/// In which order the messages of a queue come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Roughly in the order of their stamps; nothing waits for anything.
    #[default]
    BestEffort,
    /// By ordering key exactly in the order of their stamps, whatever host took them.
    Strict,
}

/// When a message of a strict queue is late, if its stamp lies at or below the watermark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LateBy {
    /// When something newer of its ordering key was released.
    #[default]
    Key,
    /// Always.
    Watermark,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            partitions: 8,
            visibility_timeout_ms: 30_000,
            replicas: 3,
            confirms: 2,
            at_least: 2,
            message_size_max: 1024 * 1024,
            retention_ms: 4 * DAY_MS,
            delay_ms: 0,
            order: Order::BestEffort,
            window_ms: 200,
            late_by: LateBy::Key,
        }
    }
}

impl Settings {
    /// The defaults of a node that runs alone: one copy.
    #[must_use]
    pub fn standalone() -> Self {
        Self { replicas: 1, confirms: 1, at_least: 1, ..Self::default() }
    }
}

/// What to set; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// See [`Settings::partitions`]; only at creation.
    pub partitions: Option<u16>,
    /// See [`Settings::visibility_timeout_ms`].
    pub visibility_timeout_ms: Option<u64>,
    /// See [`Settings::replicas`].
    pub replicas: Option<u8>,
    /// See [`Settings::confirms`].
    pub confirms: Option<u8>,
    /// See [`Settings::at_least`]; follows `confirms` when only that is named.
    pub at_least: Option<u8>,
    /// See [`Settings::message_size_max`].
    pub message_size_max: Option<u32>,
    /// See [`Settings::retention_ms`].
    pub retention_ms: Option<u64>,
    /// See [`Settings::delay_ms`].
    pub delay_ms: Option<u64>,
    /// See [`Settings::order`]; only at creation.
    pub order: Option<Order>,
    /// See [`Settings::window_ms`].
    pub window_ms: Option<u64>,
    /// See [`Settings::late_by`].
    pub late_by: Option<LateBy>,
}

impl SettingsChange {
    /// The settings of a new queue: what is named here over the defaults.
    ///
    /// # Errors
    /// [`Refusal::BadSetting`]; nothing is done.
    pub fn create(&self, defaults: Settings) -> Result<Settings, Refusal> {
        let changed = self.merge(Settings {
            partitions: self.partitions.unwrap_or(match self.order {
                Some(Order::Strict) => 1,
                Some(Order::BestEffort) | None => defaults.partitions,
            }),
            order: self.order.unwrap_or(defaults.order),
            ..defaults
        });
        changed.check()
    }

    /// The settings of a queue after this change.
    ///
    /// # Errors
    /// [`Refusal::BadSetting`], also for another number of partitions or another order; nothing is
    /// done.
    pub fn apply(&self, present: Settings) -> Result<Settings, Refusal> {
        if self.partitions.is_some_and(|partitions| partitions != present.partitions) {
            return Err(bad("partitions", "is fixed when the queue is created"));
        }
        if self.order.is_some_and(|order| order != present.order) {
            return Err(bad("order", "is fixed when the queue is created"));
        }
        self.merge(present).check()
    }

    fn merge(&self, s: Settings) -> Settings {
        let confirms = self.confirms.unwrap_or(s.confirms);
        let follows = s.at_least == s.confirms || s.at_least > confirms;
        Settings {
            partitions: s.partitions,
            visibility_timeout_ms: self.visibility_timeout_ms.unwrap_or(s.visibility_timeout_ms),
            replicas: self.replicas.unwrap_or(s.replicas),
            confirms,
            at_least: self.at_least.unwrap_or(if follows { confirms } else { s.at_least }),
            message_size_max: self.message_size_max.unwrap_or(s.message_size_max),
            retention_ms: self.retention_ms.unwrap_or(s.retention_ms),
            delay_ms: self.delay_ms.unwrap_or(s.delay_ms),
            order: s.order,
            window_ms: self.window_ms.unwrap_or(s.window_ms),
            late_by: self.late_by.unwrap_or(s.late_by),
        }
    }
}

impl Settings {
    fn check(self) -> Result<Self, Refusal> {
        let checks = [
            ((1..=PARTITIONS_MAX).contains(&self.partitions), "partitions", "is 1 to 256"),
            (self.visibility_timeout_ms <= VISIBILITY_MAX_MS, "visibility", "is 0 s to 12 h"),
            ((1..=REPLICAS_MAX).contains(&self.replicas), "replicas", "is 1 to 7"),
            (
                (1..=self.replicas).contains(&self.confirms),
                "confirms",
                "is at least 1 and at most the replicas",
            ),
            (
                (1..=self.confirms).contains(&self.at_least),
                "at-least",
                "is at least 1 and at most the confirms",
            ),
            (
                (1..=BODY_LENGTH_MAX).contains(&(self.message_size_max as usize)),
                "message-size-max",
                "is 1 byte to 16 MiB",
            ),
            (
                (RETENTION_MIN_MS..=RETENTION_MAX_MS).contains(&self.retention_ms),
                "retention",
                "is 1 s to 14 days",
            ),
            (self.delay_ms <= DELAY_MAX_MS, "delay", "is 0 s to 14 days"),
            (self.window_ms <= WINDOW_MAX_MS, "window", "is 0 s to 1 min"),
            (
                self.order == Order::BestEffort || self.delay_ms == 0,
                "delay",
                "is not there yet for a strict queue",
            ),
            (
                self.order == Order::BestEffort || self.partitions <= STRICT_PARTITIONS_MAX,
                "partitions",
                "is 1 to 64 for a strict queue",
            ),
        ];
        match checks.iter().find(|(holds, ..)| !holds) {
            None => Ok(self),
            Some((_, setting, why)) => Err(bad(setting, why)),
        }
    }
}

fn bad(setting: &str, why: &str) -> Refusal {
    Refusal::BadSetting { setting: setting.to_owned(), why: why.to_owned() }
}

const DAY_MS: u64 = 24 * 3600 * 1000;

/// More partitions than hosts and cores could use on the largest cluster (100 nodes).
pub const PARTITIONS_MAX: u16 = 256;
/// As in SQS.
pub const VISIBILITY_MAX_MS: u64 = 12 * 3600 * 1000;
/// As in SQS.
pub const RETENTION_MAX_MS: u64 = 14 * DAY_MS;
/// A message that may be discarded at once would never be delivered.
pub const RETENTION_MIN_MS: u64 = 1000;
/// No message may be delayed beyond the longest retention.
pub const DELAY_MAX_MS: u64 = RETENTION_MAX_MS;
/// A minute is longer than any producer should need to have a message accepted.
pub const WINDOW_MAX_MS: u64 = 60_000;
/// The hosts of each are named in the table, which every node has.
pub const STRICT_PARTITIONS_MAX: u16 = 64;
/// Seven copies survive any three hosts; more only costs.
pub const REPLICAS_MAX: u8 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        assert_eq!(SettingsChange::default().create(Settings::default()), Ok(Settings::default()));
        let alone = Settings::standalone();
        assert_eq!(SettingsChange::default().create(alone), Ok(alone));
    }

    #[test]
    fn at_least_follows_confirms_until_it_is_named() {
        let three = SettingsChange { confirms: Some(3), ..Default::default() };
        assert_eq!(three.create(Settings::default()).unwrap().at_least, 3);
        let low = SettingsChange { at_least: Some(1), ..Default::default() };
        let low = low.create(Settings::default()).unwrap();
        assert_eq!(three.apply(low).unwrap().at_least, 1);
    }

    /// A change, and the setting that it is refused for, if it is.
    type Case = (SettingsChange, Option<&'static str>);

    /// The least and the most of a setting are taken, and what lies beyond them is not.
    fn edges<T: Copy>(
        name: &'static str,
        set: fn(T) -> SettingsChange,
        taken: [T; 2],
        refused: &[T],
    ) -> Vec<Case> {
        let taken = taken.into_iter().map(|value| (set(value), None));
        taken.chain(refused.iter().map(|value| (set(*value), Some(name)))).collect()
    }

    fn with(change: impl FnOnce(&mut SettingsChange)) -> SettingsChange {
        // One copy is enough, so that replicas may be any.
        let (confirms, at_least) = (Some(1), Some(1));
        let mut changed = SettingsChange { confirms, at_least, ..SettingsChange::default() };
        change(&mut changed);
        changed
    }

    #[test]
    fn every_setting_is_taken_at_its_limits_and_refused_by_name_beyond_them() {
        let (hours, days) = (3_600_000, 24 * 3_600_000);
        let cases = [
            edges("partitions", |n| with(|c| c.partitions = Some(n)), [1, 256], &[0, 257]),
            edges("replicas", |n| with(|c| c.replicas = Some(n)), [1, 7], &[0, 8]),
            edges("confirms", |n| with(|c| c.confirms = Some(n)), [1, 3], &[0, 4]),
            edges(
                "visibility",
                |ms| with(|c| c.visibility_timeout_ms = Some(ms)),
                [0, 12 * hours],
                &[12 * hours + 1],
            ),
            edges(
                "message-size-max",
                |bytes| with(|c| c.message_size_max = Some(bytes)),
                [1, 16 << 20],
                &[0, (16 << 20) + 1, u32::MAX],
            ),
            edges(
                "retention",
                |ms| with(|c| c.retention_ms = Some(ms)),
                [1000, 14 * days],
                &[0, 999, 14 * days + 1],
            ),
            edges("delay", |ms| with(|c| c.delay_ms = Some(ms)), [0, 14 * days], &[14 * days + 1]),
        ];
        let three = |at_least| SettingsChange {
            confirms: Some(3),
            at_least: Some(at_least),
            ..SettingsChange::default()
        };
        let at_least = edges("at-least", three, [1, 3], &[0, 4]);
        for (change, refused) in cases.into_iter().flatten().chain(at_least) {
            let result = change.create(Settings::default());
            let named = result.as_ref().err().map(|refusal| match refusal {
                Refusal::BadSetting { setting, .. } => setting.as_str(),
                other => panic!("{other:?}"),
            });
            assert_eq!(named, refused, "{change:?}");
        }
    }

    #[test]
    fn partitions_never_change() {
        let change = SettingsChange { partitions: Some(4), ..Default::default() };
        assert!(change.apply(Settings::default()).is_err());
        assert!(change.create(Settings::default()).is_ok());
    }
}
