//! The ground floor of a Gaggle node: a pure state machine.
//!
//! Five rules hold in here:
//!
//! 1. No IO, no clock, no threads, no async: what happens comes in as an [`event::Event`], what
//!    is wanted goes out as an [`effect::Effect`], and time is told ([`now::Now`]).
//! 2. No randomness but the seeded generator that is made at open.
//! 3. No hash-ordered collection: the order of iteration is behaviour.
//! 4. Labels, not luggage: the core decides on ids, stamps and sizes; bodies stay outside.
//! 5. Rooms do not call each other; only [`Node`] sees them all.
//!
//! A stranger's walk: [`event`], [`effect`], `node.rs`, then the rooms: `clock` (stamps),
//! `session` (who may hand out), `queue` (ready and in flight), `custody` (held, gone, counting
//! copies, tombstones), `reception` (who waits), [`table`] (queues and ranking), `membership`
//! (who is there), [`ledger`] (what is written down). [`rounds`] (the agreed release of strict
//! queues) is not called by the node yet.

mod calls;
mod clock;
pub mod config;
mod custody;
pub mod effect;
pub mod envelope;
pub mod event;
mod lag;
pub mod ledger;
mod membership;
mod node;
pub mod now;
mod queue;
pub mod ranges;
mod reception;
pub mod rounds;
mod session;
mod space;
pub mod table;
mod timer;

pub use config::Config;
pub use membership::PACKET_SIZE_LIMIT;
pub use node::{Holdings, Node, OpenError};
pub use space::{Space, full_below};
