//! The only lines of the client that ask the system for the time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gaggle_client_core::Now;

/// The time since a client began, as its core wants to be told.
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        // Before 1970 the clock is wrong anyway; the cluster's time replaces it.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            mono: self.origin.elapsed(),
            wall: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// When the core's clock will show this.
    pub(crate) fn instant_of(&self, mono: std::time::Duration) -> Instant {
        self.origin + mono
    }
}

/// Steady time.
pub(crate) fn instant() -> Instant {
    Instant::now()
}
