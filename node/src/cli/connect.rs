//! Where the cluster is: the flags that every command shares, and the way from them to a client.
//!
//! Precedence is flag, then environment, then profile: `--connect`, `--cluster`, GAGGLE_CONNECT,
//! GAGGLE_CLUSTER, the profile `dev`. `--node` narrows whichever of them to one node. What this
//! file does not do: it does not know what a profile looks like.

use std::env;

use clap::Args;
use gaggle_client::{Client, ConnectError, ConnectOptions};

use super::failure::{Exit, Failure};
use crate::profile::{self, Profile, ProfileError};

/// Where the cluster is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Where the cluster is")]
pub(crate) struct ConnectArgs {
    /// The cluster: gaggle://HOST:PORT,HOST:PORT?ca=FILE&cert=FILE&key=FILE [env: GAGGLE_CONNECT]
    #[arg(long, value_name = "URL", conflicts_with = "cluster")]
    pub(crate) connect: Option<String>,
    /// Talk to the node at this address alone: no spreading, no failover
    #[arg(long, value_name = "ADDR")]
    pub(crate) node: Option<String>,
    /// The profile of the cluster: a name, or a path if it has a slash [env: GAGGLE_CLUSTER]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) cluster: Option<String>,
}

impl ConnectArgs {
    /// Whether the command line or the environment names a cluster.
    pub(crate) fn names_cluster(&self) -> bool {
        self.connect.is_some()
            || self.cluster.is_some()
            || self.node.is_some()
            || variable("GAGGLE_CONNECT").is_some()
            || variable("GAGGLE_CLUSTER").is_some()
    }

    /// A client of the cluster.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        connect(self.options()?).await
    }

    /// How to connect.
    pub(crate) fn options(&self) -> Result<ConnectOptions, Failure> {
        let options = self.cluster_options()?;
        Ok(match &self.node {
            Some(address) => options.node_only(address.clone()),
            None => options,
        })
    }

    fn cluster_options(&self) -> Result<ConnectOptions, Failure> {
        let url = match (&self.connect, &self.cluster) {
            (None, None) => variable("GAGGLE_CONNECT"),
            (url, _) => url.clone(),
        };
        if let Some(url) = url {
            return ConnectOptions::parse(&url).map_err(|error| no_connection(&error));
        }
        let named = self.cluster.clone().or_else(|| variable("GAGGLE_CLUSTER"));
        let name = named.as_deref().unwrap_or(profile::DEFAULT_NAME);
        let profile = Profile::load(name).map_err(|error| no_profile(&error, named.is_some()))?;
        profile.connect_options().map_err(|error| no_connection(&error))
    }
}

/// Connects as the options say.
pub(crate) async fn connect(options: ConnectOptions) -> Result<Client, Failure> {
    Client::connect_with(options).await.map_err(|error| no_connection(&error))
}

/// An empty variable is as good as none.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn no_connection(error: &ConnectError) -> Failure {
    Failure::of("cannot connect to the cluster", error)
}

fn no_profile(error: &ProfileError, named: bool) -> Failure {
    const WHAT: &str = "do not know where the cluster is";
    match error {
        ProfileError::NotFound(_) if !named => Failure::new(
            Exit::Usage,
            WHAT,
            error,
            "start one here with `gaggle dev`, or name one with --connect or --cluster",
        ),
        _ => Failure::new(Exit::Usage, WHAT, error, "check --cluster and GAGGLE_CLUSTER"),
    }
}
