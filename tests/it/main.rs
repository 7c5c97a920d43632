//! Tests with real processes, sockets and disks, and the house's inspection of itself.
//!
//! One target with a module per subject, so that everything is linked once. What these tests do
//! not do: they do not try every order of events; the simulator does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod bench;
mod clock;
mod cluster;
mod command_line;
mod cut;
mod delivery;
mod dev;
mod disk;
mod door;
mod errands;
mod full;
mod large;
mod memory;
mod operating;
mod removed;
mod restored;
mod serve;
mod serve_file;
mod shell;
mod status;
mod storms;
mod tidy;
mod verbs;
mod zones;

/// The program under test: see `src/main.rs`.
const EXECUTABLE: &str = env!("CARGO_BIN_EXE_gaggle-under-test");
