//! `gaggle serve`: one node, until it is told to stop.
//!
//! SIGTERM and Ctrl-C drain it: it accepts no more, hands custody and leases over and closes its
//! store. Settings come from flags, then GAGGLE_*, then the file.

use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use gaggle_core::OpenError;
use tokio::sync::oneshot;

use super::failure::{Exit, Failure};
use super::stop::Stop;
use super::values;
use crate::config::{ConfigError, ServeConfig, ServeOptions, Size, Span};
use crate::driver::DriveError;
use crate::server::{ServeError, Server};

/// Run one node of a cluster, until SIGTERM.
///
/// The node takes its id and the name of its cluster from its certificate; `gaggle cert` makes
/// one. What the config file may say is what the flags say, with _ for -.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The config file, TOML
    #[arg(long, value_name = "FILE", env = "GAGGLE_CONFIG")]
    config: Option<PathBuf>,
    /// The UDP address to listen at, for nodes and clients
    #[arg(long, value_name = "ADDR", env = "GAGGLE_LISTEN")]
    listen: Option<SocketAddr>,
    /// The address at which other nodes reach this one
    #[arg(long, value_name = "ADDR", env = "GAGGLE_ADVERTISE")]
    advertise: Option<SocketAddr>,
    /// The address at which clients reach it, if that is another one
    #[arg(long, value_name = "ADDR", env = "GAGGLE_ADVERTISE_CLIENT")]
    advertise_client: Option<SocketAddr>,
    /// Addresses of other nodes, host:port
    #[arg(long, value_name = "ADDR", env = "GAGGLE_SEEDS", value_delimiter = ',')]
    seeds: Option<Vec<String>>,
    /// Its zone: copies of a message are spread over zones
    #[arg(long, value_name = "ZONE", env = "GAGGLE_ZONE")]
    zone: Option<String>,
    /// Run alone, with one copy of every message; `--standalone=false` if the file says so
    #[arg(long, value_name = "BOOL", env = "GAGGLE_STANDALONE")]
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    standalone: Option<bool>,
    /// The directory of the store
    #[arg(long, value_name = "DIR", env = "GAGGLE_DATA")]
    data: Option<PathBuf>,
    /// The authority that signs nodes
    #[arg(long, value_name = "FILE", env = "GAGGLE_NODE_CA")]
    node_ca: Option<PathBuf>,
    /// The authority that signs clients
    #[arg(long, value_name = "FILE", env = "GAGGLE_CLIENT_CA")]
    client_ca: Option<PathBuf>,
    /// The certificate of this node
    #[arg(long, value_name = "FILE", env = "GAGGLE_CERTIFICATE")]
    certificate: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", env = "GAGGLE_KEY")]
    key: Option<PathBuf>,
    /// Make each commit in two phases; slower, and safe from bodies that forge checksums
    #[arg(long, value_name = "BOOL", env = "GAGGLE_TWO_PHASE_COMMIT")]
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    two_phase_commit: Option<bool>,
    #[command(flatten)]
    limits: Limits,
    /// Stop when stdin closes: for whoever starts nodes and must leave none behind
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// What a node may use up, and how patient it is.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Limits")]
struct Limits {
    /// Memory for pages of the store [default: 16MiB]
    #[arg(long, value_name = "SIZE", env = "GAGGLE_STORE_CACHE", value_parser = size)]
    store_cache: Option<Size>,
    /// Memory for bodies of messages [default: 12MiB]
    #[arg(long, value_name = "SIZE", env = "GAGGLE_BODY_CACHE", value_parser = size)]
    body_cache: Option<Size>,
    /// Bytes of sends under way at once [default: 256MiB]
    #[arg(long, value_name = "SIZE", env = "GAGGLE_SENDS_MAX", value_parser = size)]
    sends_max: Option<Size>,
    /// Connections of clients [default: 4096]
    #[arg(long, value_name = "N", env = "GAGGLE_CLIENTS_MAX")]
    clients_max: Option<usize>,
    /// Connections per second from one address; five times as many at once [default: 200]
    #[arg(long, value_name = "N", env = "GAGGLE_ARRIVALS_MAX")]
    arrivals_max: Option<NonZeroU32>,
    /// How long a silent node is suspected before it is down [default: 900ms]
    #[arg(long, value_name = "DURATION", env = "GAGGLE_SUSPICION", value_parser = span)]
    suspicion: Option<Span>,
    /// How long to wait at the start for nodes that were there before [default: 10s]
    #[arg(long, value_name = "DURATION", env = "GAGGLE_SERVE_ALONE_AFTER", value_parser = span)]
    serve_alone_after: Option<Span>,
    /// How far ahead of this clock a stamp may lie [default: 500ms]
    #[arg(long, value_name = "DURATION", env = "GAGGLE_DRIFT_MAX", value_parser = span)]
    drift_max: Option<Span>,
}

fn size(text: &str) -> Result<Size, String> {
    values::size(text).map(Size)
}

fn span(text: &str) -> Result<Span, String> {
    values::duration(text).map(Span)
}

impl Args {
    /// The settings of the node, to do this with it.
    pub(super) fn config(self, what: &str) -> Result<ServeConfig, Failure> {
        let file = self.config.clone();
        let config = ServeConfig::load(file.as_deref(), self.options());
        config.map_err(|error| misconfigured(what, &error))
    }

    fn options(self) -> ServeOptions {
        ServeOptions {
            data: self.data,
            listen: self.listen,
            advertise_peers: self.advertise,
            advertise_clients: self.advertise_client,
            seeds: self.seeds,
            zone: self.zone,
            standalone: self.standalone,
            node_ca: self.node_ca,
            client_ca: self.client_ca,
            certificate: self.certificate,
            key: self.key,
            store_cache: self.limits.store_cache,
            two_phase_commit: self.two_phase_commit,
            body_cache: self.limits.body_cache,
            sends_max: self.limits.sends_max,
            clients_max: self.limits.clients_max,
            arrivals_max: self.limits.arrivals_max,
            suspicion: self.limits.suspicion,
            serve_alone_after: self.limits.serve_alone_after,
            drift_max: self.limits.drift_max,
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let until_stdin_closes = args.until_stdin_closes;
    let config = args.config("start the node")?;
    let stop = stop_asked(until_stdin_closes)?;
    serve(config, stop).await
}

fn misconfigured(what: &str, error: &ConfigError) -> Failure {
    let remedy = match error {
        ConfigError::Unreadable { .. } => "check --config",
        ConfigError::Malformed { .. } => "mend the file; `gaggle serve --help` lists the settings",
        ConfigError::Missing(_) => "say it in the config file or as a flag",
        ConfigError::Bad { .. } => "choose a value within its limits",
    };
    Failure::usage(format!("cannot {what}"), error, remedy)
}

/// A future that ends when the node is to stop.
fn stop_asked(until_stdin_closes: bool) -> Result<impl Future<Output = ()>, Failure> {
    let mut stop = Stop::listen()?;
    let closed = until_stdin_closes.then(stdin_closed);
    Ok(async move {
        let closed = async {
            match closed {
                Some(closed) => drop(closed.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.asked() => {}
            () = closed => {}
        }
    })
}

/// A plain thread reads, because a read of the runtime's would keep the process from ending.
fn stdin_closed() -> oneshot::Receiver<()> {
    let (told, closed) = oneshot::channel();
    std::thread::spawn(move || {
        // Whatever is written there is of no interest, and an error is an end as well.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(told);
    });
    closed
}

async fn serve(config: ServeConfig, stop: impl Future<Output = ()>) -> Result<Exit, Failure> {
    let data = config.data.clone();
    let mut server = Server::start(config).await.map_err(|error| not_started(&error))?;
    let addresses = server.addresses();
    tracing::info!(
        node = server.node().0,
        listen = %addresses.listen,
        peers = %addresses.peers,
        clients = %addresses.clients,
        data = %data.display(),
        "the node runs"
    );
    tokio::select! {
        () = stop => {
            tracing::info!("draining");
            server.stop().await.map_err(|error| ended_badly(&error))?;
            tracing::info!("stopped");
            Ok(Exit::Done)
        }
        ended = server.ended() => {
            ended.map_err(|error| ended_badly(&error))?;
            Ok(Exit::Done)
        }
    }
}

fn not_started(error: &ServeError) -> Failure {
    let (exit, remedy) = match error {
        ServeError::Credentials(_) => (Exit::Usage, "check the four certificate files"),
        ServeError::NotAdvertised(_) => (Exit::Usage, "set `advertise`"),
        ServeError::UnknownSeed { .. } => (Exit::Usage, "check `seeds`"),
        ServeError::Net(_) => (Exit::Failed, "check `listen`; another program may have the port"),
        ServeError::Drive(DriveError::Rows(OpenError::Removed(_))) => (Exit::Failed, JOIN_ANEW),
        ServeError::Drive(DriveError::Rows(OpenError::OtherVersion(..))) => {
            (Exit::Failed, "run the version of Gaggle that wrote it; nothing was changed")
        }
        ServeError::Drive(_) => {
            (Exit::Failed, "check `data`: the disk, and that no other node uses it")
        }
        ServeError::Panicked(_) => (Exit::Failed, "start it again, and report this with the log"),
    };
    Failure::new(exit, "cannot start the node", error, remedy)
}

fn ended_badly(error: &ServeError) -> Failure {
    let remedy = match error {
        ServeError::Drive(DriveError::NameTaken { .. }) => {
            "give each node a certificate and a `data` of its own: gaggle cert node ID"
        }
        ServeError::Drive(DriveError::Rows(OpenError::Removed(_))) => JOIN_ANEW,
        _ => "what was confirmed is on the disk: start it again",
    };
    Failure::new(Exit::Failed, "the node ended", error, remedy)
}

const JOIN_ANEW: &str =
    "remove the directory `data`, or name another one, and it may join as a new host";
