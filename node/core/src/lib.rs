//! placeholder

pub mod config;
pub mod effect;
pub mod envelope;
pub mod event;
pub mod ledger;
mod membership;
mod node;
pub mod now;
pub mod ranges;
pub mod table;

pub use node::{Node, OpenError};
