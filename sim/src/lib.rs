//! The house in a bottle: the real core on a simulated network, disks, clocks and processes.
//!
//! What is real: `gaggle_core::Node` and `gaggle_client_core::Core`, unchanged. What is pretend:
//! all else. One seed decides faults, timing and workload; the same seed gives the same run.
//!
//! Reading order: [`options`], `world.rs` (time and events), `network.rs`, `disk.rs`,
//! `process.rs`, `carrier.rs` and `lives.rs` (what happens to them), `town.rs`, `lines/` and
//! `client.rs` (clients), `apps/` (what they are for), [`oracle`] (what clients know), `truth.rs`
//! (what applications are told), [`promises`] (what follows), [`goals`] (what has
//! to happen sometimes), [`plan`] (what a run is made of),
//! [`storm`] (a run), then [`swarm`] and [`shrink`].

mod actor;
mod agenda;
mod ailments;
mod apps;
mod carrier;
mod client;
mod deeds;
mod disk;
pub mod failure;
mod filling;
pub mod goals;
mod guest;
pub mod judge;
mod lateness;
mod lines;
mod liveness;
mod lives;
pub mod medium;
mod network;
pub mod options;
pub mod oracle;
pub mod plan;
pub mod planted;
mod process;
pub mod promises;
mod putting_back;
mod removing;
pub mod report;
pub mod scenarios;
pub mod shrink;
pub mod storm;
mod suspension;
pub mod swarm;
mod town;
mod trouble;
pub mod truth;
mod wall;
mod watch;
pub mod weather;
mod witness;
pub mod world;

pub use options::Options;
pub use report::Detail;
pub use suspension::Standstill;
pub use watch::ClockError;
pub use world::World;
