//! Starting a cluster on this machine for a command, and saying what went wrong with it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use gaggle_client::Client;

use super::connect::connect;
use super::failure::{Exit, Failure};
use super::status::wait_until_healthy;
use crate::cluster::{Cluster, ClusterError, Plan, free_addresses};

/// Prepares a cluster of this very program.
pub(crate) fn prepare(dir: &Path, addresses: Vec<SocketAddr>) -> Result<Cluster, Failure> {
    let plan = Plan::of_this_program(dir, addresses).map_err(|error| explain(&error))?;
    Cluster::prepare(plan).map_err(|error| explain(&error))
}

/// Prepares and starts a cluster on free ports, and waits until it is ready.
pub(crate) async fn start_on_free_ports(
    dir: &Path,
    nodes: usize,
) -> Result<(Cluster, Client), Failure> {
    let addresses = free_addresses(nodes).map_err(|error| explain(&error))?;
    let mut cluster = prepare(dir, addresses)?;
    let client = start(&mut cluster).await?;
    Ok((cluster, client))
}

/// Starts all nodes and waits until status shows all of them ready; a node that ends meanwhile
/// ends the wait.
pub(crate) async fn start(cluster: &mut Cluster) -> Result<Client, Failure> {
    cluster.start_all().map_err(|error| explain(&error))?;
    let options = cluster.connect_options().map_err(|error| explain(&error))?;
    let members = cluster.len();
    let ready = async {
        let client = connect(options.connect_timeout(READY_WITHIN)).await?;
        wait_until_healthy(&client, members, READY_WITHIN).await?;
        Ok(client)
    };
    tokio::select! {
        ready = ready => ready,
        index = any_end(cluster) => Err(ended(cluster, index)),
    }
}

/// Waits until the process of a node ends by itself, and says which.
pub(crate) async fn any_end(cluster: &mut Cluster) -> usize {
    loop {
        for index in 0..cluster.len() {
            if cluster.ended(index).is_some() {
                return index;
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// What to say when a node ended that should not have.
pub(crate) fn ended(cluster: &Cluster, index: usize) -> Failure {
    let log = cluster.log_path(index);
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let told = text.lines().rev().find_map(|line| line.strip_prefix("why: ").map(str::to_owned));
    let last = told.or_else(|| text.lines().last().map(str::to_owned));
    Failure::new(
        Exit::Failed,
        format!("node {} ended", cluster.id(index)),
        last.unwrap_or_else(|| "it said nothing".to_owned()),
        format!("look at its log: {}", log.display()),
    )
}

/// Addresses on the loopback from this port on, all of them free.
pub(crate) fn addresses_from(port: u16, count: usize) -> Result<Vec<SocketAddr>, Failure> {
    let what = || format!("cannot use {count} ports from {port} on");
    let remedy = "choose others with --port";
    (0..count)
        .map(|index| {
            let port = u16::try_from(index).ok().and_then(|index| port.checked_add(index));
            let port = port.ok_or_else(|| Failure::usage(what(), "there are 65535", remedy))?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            UdpSocket::bind(address)
                .map_err(|error| Failure::usage(what(), format!("{address}: {error}"), remedy))?;
            Ok(address)
        })
        .collect()
}

/// What a trouble with a cluster on this machine means for the user.
pub(crate) fn explain(error: &ClusterError) -> Failure {
    let remedy = match error {
        ClusterError::Cert(_) | ClusterError::Tls(_) => "take another directory, or empty this one",
        ClusterError::File { .. } => "check the rights on the directory and the room on the disk",
        ClusterError::Process { .. } | ClusterError::Ports(_) => "check the limits of this system",
    };
    Failure::new(Exit::Failed, "cannot run a cluster on this machine", error, remedy)
}

/// A debug build on a busy machine reads its disks and meets its peers in a few seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Soon enough for a person.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
