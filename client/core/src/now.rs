//! The only time that exists in here: it is told.

use std::time::Duration;

/// Two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Steady time since some origin; never goes back. For everything that waits.
    pub mono: Duration,
    /// Calendar time of this machine, nanoseconds since 1970; may jump. Only the clock of stamps
    /// looks at it: until the cluster has told a better one, and to see that time has passed while
    /// the steady clock stood still.
    pub wall: u64,
}
