//! Scenarios: written by hand, small, each about one thing that must hold.

mod clients;
mod clocks;
mod cut;
mod deleting;
mod expiry;
mod flow;
mod forming;
mod leases;
mod limits;
mod repair;
mod restart;
mod support;
