//! Intake: how much may be in the making at once, over all clients.
//!
//! A frame may be 16 MiB, and a client may begin four of them and finish none. So a frame that
//! grows beyond a small size takes one of a few places, must be whole within a time, and waits
//! without being read on when there is no place: its client feels that as flow control.
//!
//! What this file does not do: nodes are trusted with the size of what they send.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for large frames of all clients.
#[derive(Clone, Debug)]
pub(crate) struct Intake(Arc<Semaphore>);

/// A place for one large frame.
#[derive(Debug)]
pub(crate) struct Large {
    _place: OwnedSemaphorePermit,
    /// When the frame must be whole.
    pub(crate) until: tokio::time::Instant,
}

impl Intake {
    /// All places are free.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(PLACES)))
    }

    /// Waits for a place.
    pub(crate) async fn large(&self) -> Large {
        let place = Arc::clone(&self.0).acquire_owned().await;
        let _place = place.expect("the places are never closed");
        Large { _place, until: tokio::time::Instant::now() + WHOLE_WITHIN }
    }
}

/// Up to so many bytes a frame needs no place: thousands of readers may have that much.
pub(crate) const SMALL: usize = 256 * 1024;

/// Half a gigabyte of unfinished frames at the worst.
const PLACES: usize = 32;

/// At 16 MiB that is 1.6 MiB/s; who is slower may send smaller messages.
pub(crate) const WHOLE_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn who_finds_no_place_waits_for_one() {
        let intake = Intake::new();
        let mut taken = Vec::new();
        for _ in 0..PLACES {
            taken.push(intake.large().await);
        }
        assert!(intake.large().now_or_never().is_none());
        taken.pop();
        assert!(intake.large().now_or_never().is_some());
    }
}
