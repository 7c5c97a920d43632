//! Pace: how fast work in the background may go, so that foreground traffic is not held up.
//!
//! Work is paid for after it was done: the next piece waits as long as the last one costs at the
//! rate. Nothing is saved up while there is nothing to do, so a burst is one piece at most. What
//! this file does not do: it sets no timers.

use std::time::Duration;

use crate::now::Mono;

/// When the next piece of work may begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    next: Mono,
    bytes: u64,
    pieces: u64,
}

impl Pace {
    /// When the next piece may begin.
    pub(crate) fn next(&self) -> Mono {
        self.next
    }

    /// Pays for so many bytes, in so many messages, at a rate in bytes per second.
    pub(crate) fn pay(&mut self, now: Mono, (bytes, messages): (u64, u64), rate: u64) {
        self.next = now.plus(cost(bytes, rate));
        self.bytes += bytes;
        self.pieces += messages;
    }

    /// How long so many messages take at this rate, if they are as large as those so far.
    pub(crate) fn estimate(&self, messages: u64, rate: u64) -> Duration {
        let each = self.bytes.checked_div(self.pieces).unwrap_or(SIZE_GUESS);
        cost(messages.saturating_mul(each), rate)
    }
}

fn cost(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How large a message is taken to be before any was seen.
const SIZE_GUESS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_piece_waits_for_what_the_last_one_cost() {
        let mut pace = Pace::default();
        let start = Mono(5_000_000_000);
        assert_eq!(pace.estimate(2, 1024), Duration::from_secs(2), "a guess before anything");
        pace.pay(start, (500, 5), 1000);
        assert_eq!(pace.next(), start.plus(Duration::from_millis(500)));
        assert_eq!(pace.estimate(20, 1000), Duration::from_secs(2));
        let later = start.plus(Duration::from_mins(1));
        pace.pay(later, (100, 1), 1000);
        assert_eq!(pace.next(), later.plus(Duration::from_millis(100)), "nothing is saved up");
    }
}
