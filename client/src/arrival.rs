//! The arrival: how the first connection comes about, or why it does not.
//!
//! Whoever connects waits for it and is told once: that a node has said welcome, that a node has
//! said no, or that no address can ever do. Until then it keeps what the last attempt met, for
//! the case that the wait runs out. What this file does not do: it dials nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gaggle_client_core::Target;
use tokio::sync::oneshot;

use crate::error::ConnectError;
use crate::link::Loss;

/// The driver's side of the wait.
pub(crate) struct Arrival {
    /// `None` once it was told.
    done: Option<oneshot::Sender<Result<(), ConnectError>>>,
    last: Arc<Mutex<String>>,
    /// How many addresses there are, and which of them will never do.
    addresses: usize,
    hopeless: BTreeSet<usize>,
}

/// The side of whoever connects.
pub(crate) struct Wait {
    done: oneshot::Receiver<Result<(), ConnectError>>,
    last: Arc<Mutex<String>>,
}

impl Arrival {
    pub(crate) fn new(addresses: usize) -> (Self, Wait) {
        let (tell, done) = oneshot::channel();
        let last = Arc::new(Mutex::new("no answer in time".to_owned()));
        let wait = Wait { done, last: Arc::clone(&last) };
        (Self { done: Some(tell), last, addresses, hopeless: BTreeSet::new() }, wait)
    }

    /// Tells the outcome; later ones concern nobody.
    pub(crate) fn tell(&mut self, result: Result<(), ConnectError>) {
        if let Some(done) = self.done.take() {
            // Who no longer waits has given up, and the client with it.
            let _ = done.send(result);
        }
    }

    /// An attempt has failed.
    pub(crate) fn failed(&mut self, target: Target, loss: Loss) {
        if self.done.is_none() {
            return;
        }
        if let (Target::Seed(position), true) = (target, loss.hopeless) {
            self.hopeless.insert(position);
        }
        if self.hopeless.len() == self.addresses {
            self.tell(Err(ConnectError::NotAccepted { why: loss.why }));
        } else {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = loss.why;
        }
    }
}

impl Wait {
    /// Waits until it is told, or for so long.
    pub(crate) async fn within(self, timeout: Duration) -> Result<(), ConnectError> {
        match tokio::time::timeout(timeout, self.done).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => {
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Err(ConnectError::Unreachable { last })
            }
        }
    }
}
