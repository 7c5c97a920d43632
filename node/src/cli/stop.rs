//! The signals that ask a command to end: Ctrl-C and SIGTERM.
//!
//! They are listened for from one moment on and for as long as the command works: one that
//! comes while nothing is awaited is kept for the next that asks. What this file does not do: it
//! ends nothing.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::{Exit, Failure};

/// What asks a command to end.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// From now on these signals are asked for and end nothing by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Failed, "cannot wait for Ctrl-C", error, "check the system")
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Ends when one has come since the last that was awaited here.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
