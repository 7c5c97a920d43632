//! The end of a node, in order.
//!
//! 1. The core was told to drain: it refused new sends, handed its custody and leases over, and
//!    said so (or ran out of time; see `driver/life.rs`).
//! 2. Every stream is finished behind its last answer, and we wait until the other ends have it:
//!    a connection that is closed at once may take answers with it that were already sent.
//! 3. The connections are closed with a reason, so that clients go elsewhere at once.
//! 4. The store is closed, so that the next start has nothing to repair.
//!
//! What this file does not do: signals are the command line's.

use std::sync::Arc;

use crate::driver::{
    self,
    life::{Life, Sources},
};
use crate::net::Network;
use crate::store::StoreError;

/// Ends a node whose core has drained.
pub(crate) async fn close(
    mut life: Life,
    network: &Arc<Network>,
    sources: Sources,
) -> Result<(), StoreError> {
    life.voices.finish();
    network.written().await;
    // Readers that wait for the driver find that there is none.
    drop(sources);
    network.close().await;
    driver::close(life).await
}
