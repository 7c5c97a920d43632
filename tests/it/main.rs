//! Tests with real processes, sockets and disks, and the house's inspection of itself.
//!
//! One target with a module per subject, so that everything is linked once. What these tests do
//! not do: they do not try every order of events; the simulator does.

mod tidy;
