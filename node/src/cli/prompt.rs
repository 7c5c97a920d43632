//! Asking before something is destroyed.
//!
//! Without a terminal there is nobody to ask, so the command is refused rather than taken for
//! meant: scripts say `--yes`.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;

use super::failure::Failure;

/// Whether the user was asked already.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ConfirmArgs {
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

impl ConfirmArgs {
    /// Asks whether to do this, unless that is clear.
    pub(crate) fn ask(self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        let refused =
            |why: &str| Failure::usage(format!("did not {what}"), why, "say --yes if it is meant");
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(refused("there is no terminal to ask at"));
        }
        eprint!("Really {what}? Type yes: ");
        // Where even that cannot be shown, the answer will not be yes.
        let _ = io::stderr().flush();
        let mut answer = String::new();
        match io::stdin().lock().read_line(&mut answer) {
            Ok(_) if answer.trim() == "yes" => Ok(()),
            _ => Err(refused("the answer was not yes")),
        }
    }
}
