//! `gaggle completions`: a completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::failure::{Exit, Failure};
use super::{Cli, output};

/// Print a completion script for a shell.
///
/// For bash: gaggle completions bash > ~/.local/share/bash-completion/completions/gaggle
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gaggle", &mut script);
    output::bytes(script.trim_ascii_end())?;
    Ok(Exit::Done)
}
