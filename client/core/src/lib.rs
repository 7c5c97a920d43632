//! The pure part of Gaggle's client: numbering, stamping, batching, resend, failover, hedging,
//! consumers, lease extension.
//!
//! No IO, no clock, no randomness of its own, no async: [`Core`] is told what happens and when,
//! and says what is to be done, so that the same code runs in an application and in a simulated
//! world where a seed decides everything. `gaggle-client` is its runtime for applications.
//!
//! Reading order: [`Event`] and [`Effect`] (the whole surface), `core.rs` (who passes what to
//! whom), then the rooms: `nodes.rs` (whom to ask), `queues.rs` and `sender/` (the way of a
//! message), `settlements.rs`, `consumers.rs`, `leases.rs`, `asks.rs`, and what they share:
//! `desk.rs`, `clock.rs`, `timers.rs`.

mod asks;
mod clock;
mod config;
mod consumers;
mod core;
mod desk;
mod estimate;
mod event;
mod latency;
mod leases;
mod nodes;
mod now;
mod parcel;
mod queues;
mod random;
mod sender;
mod settlements;
mod timers;

pub use config::{Config, Reach, SEND_WITHIN_MAX};
pub use core::Core;
pub use estimate::{ClockEstimate, NodeClock};
pub use event::{Effect, Event, Stream, Target};
pub use gaggle_wire::{key_hash, partition_of};
pub use now::Now;
pub use parcel::{
    Answer, Ask, Confirmed, Delivered, Failure, Parcel, Settle, Settled, Subscription, Verb,
};

#[cfg(test)]
mod tests;
