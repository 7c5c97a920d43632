//! `gaggle dev`: a cluster on this machine until Ctrl-C.
//!
//! One process per node, so that one can be killed; started again on the same directory it has
//! its messages back. It writes a profile, by which the other commands find it.

use std::path::PathBuf;

use super::failure::{Exit, Failure};
use super::stop::Stop;
use super::{local, output};
use crate::cluster::Cluster;
use crate::profile::{self, Profile, ProfileError};

/// Run a cluster on this machine until Ctrl-C.
///
/// Every node is a process of its own on the loopback, with certificates of a throw-away
/// authority. What is in the cluster stays in DIR and is there again the next time.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Where messages, certificates and logs are kept [default: ~/.local/share/gaggle/PROFILE]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The UDP port of the first node; the others have the next ones
    #[arg(long, value_name = "P", default_value_t = 7400)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The profile to write: a name, or a path if it has a slash
    #[arg(long, value_name = "PROFILE", env = "GAGGLE_CLUSTER")]
    #[arg(default_value = profile::DEFAULT_NAME)]
    cluster: String,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let mut stop = Stop::listen()?;
    profile::path_of(&args.cluster).map_err(|error| no_profile(&error))?;
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => default_dir(&args.cluster)?,
    };
    let addresses = local::addresses_from(args.port, usize::from(args.nodes))?;
    let mut cluster = local::prepare(&dir, addresses)?;
    let path = save_profile(&cluster, &args.cluster)?;
    output::note(format!("starting {} nodes in {}", cluster.len(), cluster.dir().display()));
    let started = tokio::select! {
        started = local::start(&mut cluster) => started.map(Some),
        () = stop.asked() => Ok(None),
    };
    let ended = match started {
        Ok(Some(client)) => {
            client.close().await;
            let told = tell(&cluster, &args, &path);
            if told.is_ok() {
                watch(&mut cluster, &mut stop).await;
            }
            told
        }
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    output::note("stopping the nodes");
    cluster.stop_all().await.map_err(|error| local::explain(&error))?;
    ended.map(|()| Exit::Done)
}

/// A profile at a path of its own keeps its cluster beside it.
fn default_dir(cluster: &str) -> Result<PathBuf, Failure> {
    if cluster.contains('/') {
        return Ok(PathBuf::from(cluster).with_extension("d"));
    }
    profile::data_dir(cluster).map_err(|error| no_profile(&error))
}

fn save_profile(cluster: &Cluster, name: &str) -> Result<PathBuf, Failure> {
    let files = cluster.credential_paths();
    let profile = Profile {
        addresses: (0..cluster.len()).map(|index| cluster.address(index).to_string()).collect(),
        ca: files.ca.clone(),
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        dev: Some(cluster.dir().to_owned()),
    };
    profile.save(name).map_err(|error| no_profile(&error))
}

fn no_profile(error: &ProfileError) -> Failure {
    let remedy = match error {
        ProfileError::Foreign(_) => "choose another name with --cluster",
        ProfileError::NoHome => "set HOME, or name a path with --cluster and --dir",
        _ => "check --cluster and the rights on the directory",
    };
    Failure::usage("cannot write the profile of the cluster", error, remedy)
}

fn tell(cluster: &Cluster, args: &Args, profile: &std::path::Path) -> Result<(), Failure> {
    let addresses: Vec<String> =
        (0..cluster.len()).map(|index| cluster.address(index).to_string()).collect();
    let flag = match args.cluster.as_str() {
        profile::DEFAULT_NAME => String::new(),
        name => format!(" --cluster {name}"),
    };
    output::line(format!("{} nodes are ready: {}", addresses.len(), addresses.join(" ")))?;
    output::line(format!("messages and logs: {}", cluster.dir().display()))?;
    output::line(format!("profile: {}", profile.display()))?;
    output::line("\nin another terminal:")?;
    output::line(format!("  gaggle queue create orders{flag}"))?;
    output::line(format!("  gaggle send orders 'hello'{flag}"))?;
    output::line(format!("  gaggle receive orders --delete{flag}"))?;
    output::line(format!("  gaggle status{flag}"))?;
    let last = cluster.len() - 1;
    if let Some(pid) = cluster.pid(last).filter(|_| last > 0) {
        let node = cluster.id(last);
        output::line(format!("  kill -9 {pid}     # node {node}; nothing confirmed is lost"))?;
    }
    output::line("\nCtrl-C stops it.")
}

/// Waits for the end. A node that was killed can be started by hand from its config file.
async fn watch(cluster: &mut Cluster, stop: &mut Stop) {
    loop {
        tokio::select! {
            () = stop.asked() => return,
            index = local::any_end(cluster) => {
                let node = cluster.id(index);
                eprintln!("node {node} ended; its log is {}", cluster.log_path(index).display());
                let config = cluster.config_path(index);
                eprintln!("start it again with: gaggle serve --config {}", config.display());
            }
        }
    }
}
