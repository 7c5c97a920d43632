//! The only lines of a node that ask the system for time.
//!
//! Both readings are taken together and handed down with every event, so that everything below
//! can be run with other clocks. The steady one starts some time before the process, because
//! zero is a moment that nothing lies before. Where there is one it is the clock that also counts
//! the time for which the machine was suspended, so that a node finds how long it was away.
//!
//! The runtime's own timers stand still meanwhile, and what is due is found late: at the next thing
//! that comes, or by as much as its timer still had to run. That is a second at most, for a node
//! wakes every second, and harmless: no event is handled before the clock was read.
//!
//! What this file does not do: it judges no clock. A wall clock before 1970 reads as 1970.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gaggle_core::now::{Mono, Now, Wall};

/// The clocks of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    start: Duration,
}

impl Clocks {
    /// Starts the steady clock.
    pub(crate) fn start() -> Self {
        Self { start: steady() }
    }

    /// Reads both.
    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { mono: self.mono(), wall: Wall(nanos(wall)) }
    }

    fn mono(&self) -> Mono {
        Mono(nanos(steady().saturating_sub(self.start) + HEAD_START))
    }

    /// When it will be this late, unless the machine is suspended before.
    pub(crate) fn instant(&self, at: Mono) -> Instant {
        let (now, mono) = (Instant::now(), self.mono());
        now.checked_sub(mono.since(at)).unwrap_or(now) + at.since(mono)
    }
}

/// The clock that does not stand still with its machine.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn steady() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).expect("it counts from the start of the machine")
}

/// The clock that does not go back; it may stand still with its machine.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn steady() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
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
        let wait = clocks.instant(later).duration_since(Instant::now());
        assert!((Duration::from_secs(4)..=Duration::from_secs(5)).contains(&wait), "{wait:?}");
        let past = clocks.instant(now.mono.minus(Duration::from_secs(1)));
        assert!(past.elapsed() >= Duration::from_secs(1), "{:?}", past.elapsed());
        assert!(clocks.now().mono >= now.mono);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_steady_clock_is_the_one_that_counts_while_the_machine_is_suspended() {
        let uptime = std::fs::read_to_string("/proc/uptime").expect("there is one on Linux");
        let seconds: f64 = uptime.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        assert!((steady().as_secs_f64() - seconds).abs() < 5.0, "{seconds}: {:?}", steady());
    }
}
