//! Scenarios: written by hand, small, each about one thing that must hold.

mod forming;
