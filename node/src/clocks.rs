//! The only lines of a node that ask the system for time.
//!
//! Both readings are taken together and handed down with every event, so that everything below
//! can be run with other clocks. The steady one starts some time before the process, because
//! zero is a moment that nothing lies before.
//!
//! What this file does not do: it judges no clock. A wall clock before 1970 reads as 1970.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gaggle_core::now::{Mono, Now, Wall};

/// The clocks of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    start: Instant,
}

impl Clocks {
    /// Starts the steady clock.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Reads both.
    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { mono: Mono(nanos(self.start.elapsed() + HEAD_START)), wall: Wall(nanos(wall)) }
    }

    /// When it will be this late.
    pub(crate) fn instant(&self, at: Mono) -> Instant {
        self.start + Duration::from_nanos(at.0).saturating_sub(HEAD_START)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// More than any timer looks back.
const HEAD_START: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_found_again() {
        let clocks = Clocks::start();
        let now = clocks.now();
        let later = now.mono.plus(Duration::from_secs(5));
        let wait = clocks.instant(later) - clocks.instant(now.mono);
        assert_eq!(wait, Duration::from_secs(5));
        assert!(clocks.now().mono >= now.mono);
    }
}
