//! Scenarios: written by hand, small, each about one thing that must hold.

mod clients;
mod cut;
mod deleting;
mod expiry;
mod flow;
mod forming;
mod leases;
mod repair;
mod restart;
mod support;
