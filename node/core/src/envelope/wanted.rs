//! Whether anybody at a node waits for messages of a queue. What this file does not do: who is
//! offered what is decided in `reception`.

use serde::{Deserialize, Serialize};

/// Whether a node wants messages of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// Consumers wait.
    Yes,
    /// No more.
    No,
}
