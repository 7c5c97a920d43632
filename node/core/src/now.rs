//! The only time that exists on the ground floor: two readings, told with every event.
//!
//! `Mono` never goes back and drives leases and timers; `Wall` is the calendar, may be wrong and
//! may step, and drives stamps and ages. They are different types so that neither is taken for
//! the other. What this file does not do: it does not read clocks.

use std::time::Duration;

/// Steady time in nanoseconds since some moment before the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mono(pub u64);

/// Calendar time in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wall(pub u64);

/// Both readings, taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Steady time.
    pub mono: Mono,
    /// Calendar time.
    pub wall: Wall,
}

impl Mono {
    /// The time this much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// The time this much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }

    /// How long after `earlier` this is; zero when it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Wall {
    /// How long after the wall time `earlier`, in nanoseconds, this is; zero when it is not.
    #[must_use]
    pub fn since(self, earlier: u64) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
