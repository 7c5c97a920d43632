//! placeholder
mod name;
pub use name::{NodeId, ProcessId, QueueName, QueueNameError};
mod stamp;
pub use stamp::Stamp;
mod identity;
pub use identity::{
    ClientName, ClientNameError, ClusterName, ClusterNameError, Identity, IdentityError, Role,
};
