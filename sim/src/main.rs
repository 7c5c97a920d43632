//! The simulator on the command line.

fn main() {}
