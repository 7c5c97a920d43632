//! placeholder
mod name;
pub use name::{NodeId, ProcessId, QueueName, QueueNameError};
mod stamp;
pub use stamp::Stamp;
