//! `gaggle restore`: a node whose disk was put back from a copy becomes a new host.
//!
//! The work is in `crate::restore`; here it gets its arguments and says how it ended.

use super::failure::{Exit, Failure};
use super::output;
use super::serve;
use crate::driver::DriveError;
use crate::restore::{RestoreError, restore};
use crate::store::StoreError;

/// Announce that the disk of a node was put back from a copy, before the node is started on it.
///
/// What was deleted since the copy was made is still on such a disk, and what came since is not. So
/// the node becomes a new host under its old id: the others give it what it should hold, and it
/// hands out nothing that no other host has, and drops what all others say not to have: do not do
/// this to the last copy that there is. It takes the settings of `gaggle serve`, of which `data`
/// and the certificates matter.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    node: serve::Args,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let config = args.node.config("restore the node")?;
    let node = restore(&config).map_err(|error| explain(&error))?;
    output::line(format!("node {node} is a new host from now on"))?;
    output::note("next: start it again");
    Ok(Exit::Done)
}

fn explain(error: &RestoreError) -> Failure {
    let (exit, remedy) = match error {
        RestoreError::Credentials(_) => (Exit::Usage, "check the four certificate files"),
        RestoreError::NoStore(_) => {
            (Exit::Usage, "check `data`; a node that starts on an empty directory needs no restore")
        }
        RestoreError::Store(DriveError::Store(StoreError::InUse)) => {
            (Exit::Failed, "stop the node first")
        }
        RestoreError::Store(_) => (
            Exit::Failed,
            "take another copy, or remove the whole directory to start as an empty host",
        ),
    };
    Failure::new(exit, "cannot restore the node", error, remedy)
}
