//! `gaggle node`: members that are removed from the cluster, or stay after all.
//!
//! A removal goes on in the cluster while it is asked for here again and again; when this command
//! is stopped the node still leaves, and another one finishes it.

use std::time::{Duration, Instant};

use clap::Subcommand;
use gaggle_client::{Client, Loss, NodeId, Removing};
use serde_json::json;

use super::connect::ConnectArgs;
use super::failure::{Exit, Failure};
use super::prompt::ConfirmArgs;
use super::{output, values};

/// Remove a node from the cluster, or keep it.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Remove a node for good: what it holds is copied to others first, then it ends
    ///
    /// It takes nothing new from the beginning on. Its disk is never let in again; with an empty
    /// one the same node may join as a new host.
    Remove {
        #[command(flatten)]
        target: Target,
        /// Remove it although it, or another node, is away: what only they hold is lost
        #[arg(long)]
        accept_loss: bool,
        /// How long to wait until it is done; it goes on after that
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = values::duration)]
        timeout: Duration,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Keep a node that is being removed
    Keep {
        #[command(flatten)]
        target: Target,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct Target {
    /// The id of the node, as `gaggle status` shows it
    #[arg(value_name = "ID")]
    id: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Remove { target, accept_loss, timeout, confirm } => {
            confirm.ask(&format!("remove node {} from the cluster for good", target.id))?;
            let loss = if accept_loss { Loss::Accepted } else { Loss::Refused };
            let client = target.connect.client().await?;
            let removed = remove(&client, NodeId(target.id), loss, timeout).await;
            client.close().await;
            removed?;
            target.done("removed")
        }
        Command::Keep { target } => {
            let client = target.connect.client().await?;
            let kept = client.keep_node(NodeId(target.id)).await;
            client.close().await;
            kept.map_err(|error| Failure::of(format!("cannot keep node {}", target.id), &error))?;
            target.done("kept")
        }
    }
}

async fn remove(
    client: &Client,
    node: NodeId,
    loss: Loss,
    timeout: Duration,
) -> Result<(), Failure> {
    let deadline = Instant::now() + timeout;
    let mut told = None;
    loop {
        let removing = client.remove_node(node, loss).await;
        let cannot = |error| Failure::of(format!("cannot remove node {node}"), &error);
        let left = match removing.map_err(cannot)? {
            Removing::Removed => return Ok(()),
            Removing::Leaving { left } => left,
        };
        if let (Some(left), true) = (left, left != told) {
            output::note(format!("node {node} leaves: {left} messages depend on it"));
            told = Some(left);
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(
                Exit::Unavailable,
                format!("node {node} is not removed yet"),
                "messages still depend on it",
                "give the same command again to go on, or `gaggle node keep` to call it off",
            ));
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

impl Target {
    fn done(&self, what: &str) -> Result<Exit, Failure> {
        if self.json {
            output::object(&json!({ "node": self.id, what: true }))?;
        } else {
            output::line(format!("node {} is {what}", self.id))?;
        }
        Ok(Exit::Done)
    }
}

/// How long until it is asked again how far a removal is.
const ASK_AGAIN: Duration = Duration::from_millis(300);
