//! placeholder
pub mod cert;
pub mod net;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod load;
pub mod profile;
mod bodies;
mod clocks;
mod driver;
mod entropy;
pub mod server;
mod shutdown;
pub mod store;

pub use driver::DriveError;
pub use server::{Addresses, ServeError, Server};
