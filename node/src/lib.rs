//! A node of Gaggle: what the core decides, done with sockets, disks and clocks; and the command
//! line over it.
//!
//! The core is pure and in a crate of its own. Here one task owns it (`driver`), a thread commits
//! its rows (`store`), the network carries its envelopes and the requests of clients (`net`), and
//! [`Server`] starts and stops all of it. Above that stands the command line ([`cli`]), which
//! speaks to clusters through the client like any other program, and what it needs to run some on
//! this machine ([`cluster`], [`cert`], [`profile`], [`load`]).
//!
//! What this crate does not do: it decides nothing about messages.

mod bodies;
pub mod cert;
pub mod cli;
mod clocks;
pub mod cluster;
pub mod config;
mod driver;
mod entropy;
pub mod load;
pub mod net;
pub mod profile;
pub mod restore;
pub mod server;
mod shutdown;
pub mod store;

pub use driver::DriveError;
pub use server::{Addresses, ServeError, Server};
