//! The owner task of a client.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::command::{Command, Shared};
use crate::error::ConnectError;
use crate::options::ConnectOptions;

pub(crate) async fn start(
    _options: ConnectOptions,
    _inbox: mpsc::UnboundedReceiver<Command>,
    _shared: Arc<Shared>,
) -> Result<(), ConnectError> {
    Ok(())
}
