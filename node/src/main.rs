//! The program `gaggle`: its command line is a function of the library, so that tests can build
//! a fresh program of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    gaggle_node::cli::main()
}
