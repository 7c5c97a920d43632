//! When each message is due, at a fixed rate.
//!
//! A thread of its own keeps the time: a timer of the async runtime has a grain of 1 ms, which
//! would be as much as what is measured. What this file does not do: it does not skip what
//! nobody took; a producer that lags finds its due messages waiting, with the moments at which
//! they should have left.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// The due moments of every producer, in turn.
#[derive(Debug)]
pub(super) struct Pace {
    dues: Vec<mpsc::UnboundedReceiver<Instant>>,
}

impl Pace {
    /// Starts the clock.
    pub(super) fn new(rate: f64, producers: usize) -> Self {
        let (senders, dues): (Vec<_>, Vec<_>) =
            (0..producers.max(1)).map(|_| mpsc::unbounded_channel()).unzip();
        // It ends when all producers have gone.
        std::thread::spawn(move || tick(rate, &senders));
        Self { dues }
    }

    /// One for each producer.
    pub(super) fn into_dues(self) -> Vec<mpsc::UnboundedReceiver<Instant>> {
        self.dues
    }
}

fn tick(rate: f64, producers: &[mpsc::UnboundedSender<Instant>]) {
    let started = Instant::now();
    for (number, producer) in (0_u64..).zip(producers.iter().cycle()) {
        let due = started + due_after(number, rate);
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        if producer.send(due).is_err() && producers.iter().all(mpsc::UnboundedSender::is_closed) {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53 messages")]
fn due_after(number: u64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_producer_has_its_turn_and_dues_are_evenly_apart() {
        let mut dues = Pace::new(1000.0, 2).into_dues();
        let [first, second] = &mut dues[..] else { panic!("two producers") };
        let (a, b) = (first.recv().await.unwrap(), second.recv().await.unwrap());
        let c = first.recv().await.unwrap();
        assert_eq!(b - a, Duration::from_millis(1));
        assert_eq!(c - a, Duration::from_millis(2));
    }
}
