//! The house in a bottle: the real core on a simulated network, disks, clocks and processes.
//!
//! What is real: `gaggle_core::Node`, unchanged. What is pretend: all else. One seed decides
//! faults, timing and workload; the same seed gives the same run.
//!
//! Reading order: [`options`], `world.rs` (time and events), `network.rs`, `disk.rs`,
//! `process.rs`, `carrier.rs` and `lives.rs` (what happens to them), `town.rs` and `actor.rs`
//! (clients), [`oracle`] (what clients know), [`promises`] (what follows), [`plan`] (what a run is
//! made of), [`storm`] (a run), then [`swarm`] and [`shrink`].

mod actor;
mod carrier;
mod consumer;
mod deeds;
mod disk;
pub mod failure;
pub mod judge;
mod liveness;
mod lives;
pub mod medium;
mod network;
pub mod options;
pub mod oracle;
pub mod plan;
pub mod planted;
mod process;
mod producer;
pub mod promises;
pub mod report;
#[cfg(test)]
mod scenarios;
pub mod shrink;
pub mod storm;
pub mod swarm;
mod town;
pub mod weather;
mod witness;
pub mod world;

pub use options::Options;
pub use report::Detail;
pub use world::World;
