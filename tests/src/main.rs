//! The program under test: `gaggle`, built with the tests, so that they never run a stale one.

use std::process::ExitCode;

fn main() -> ExitCode {
    gaggle_node::cli::main()
}
