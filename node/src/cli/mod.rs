//! The command line: one file per command.
//!
//! A command reads its arguments, asks the cluster through the client like any other program,
//! prints, and ends with one of the exit codes of `failure.rs`. Data goes to stdout, everything
//! else to stderr, and what is printed with `--json` is a contract. What these files do not do:
//! they hold no logic of the queue, and they keep no state between commands but profiles.

mod bench;
mod bench_report;
mod cert;
mod clock;
mod completions;
mod connect;
mod demo;
mod demo_ledger;
mod dev;
mod failure;
mod lines;
mod local;
mod node;
mod output;
mod peek;
mod prompt;
mod queue;
mod receive;
mod restore;
mod send;
mod serve;
mod settle;
mod status;
mod stop;
mod values;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use failure::{Exit, Failure};

/// Gaggle: a leaderless, durable message queue.
#[derive(Debug, Parser)]
#[command(
    name = "gaggle",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = AFTER_HELP
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Args),
    Demo(demo::Args),
    Send(send::Args),
    Receive(receive::Args),
    Peek(peek::Args),
    Delete(settle::DeleteArgs),
    Extend(settle::ExtendArgs),
    Release(settle::ReleaseArgs),
    #[command(subcommand)]
    Queue(queue::Command),
    #[command(subcommand)]
    Node(node::Command),
    Status(status::Args),
    Clock(clock::Args),
    Serve(serve::Args),
    Restore(restore::Args),
    #[command(subcommand)]
    Cert(cert::Command),
    Bench(bench::Args),
    Completions(completions::Args),
}

const AFTER_HELP: &str = "\
Start here:
  gaggle demo                         three nodes, one of them killed, nothing lost
  gaggle dev                          a cluster on this machine, until Ctrl-C
  gaggle queue create orders
  gaggle send orders 'hello'
  gaggle receive orders --delete

Where the cluster is: --connect URL, else --cluster PROFILE, else GAGGLE_CONNECT, else
GAGGLE_CLUSTER, else the profile that `gaggle dev` wrote.
Durations are written 30s, 5m, 250ms; sizes 64KiB, 1MiB.
Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 unavailable or timed out, 5 part of a
batch failed, 10 unhealthy.";

/// Runs the command line of this process and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // An error here means that nobody reads what is printed.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let quiet = !matches!(cli.command, Command::Serve(_));
    start_log(if quiet { "off" } else { "info" });
    let ended = run(cli.command);
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprint!("{failure}");
            failure.exit.into()
        }
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Dev(args) => wait_for(dev::run(args)),
        Command::Demo(args) => wait_for(demo::run(args)),
        Command::Send(args) => wait_for(send::run(args)),
        Command::Receive(args) => wait_for(receive::run(args)),
        Command::Peek(args) => wait_for(peek::run(args)),
        Command::Delete(args) => wait_for(settle::delete(args)),
        Command::Extend(args) => wait_for(settle::extend(args)),
        Command::Release(args) => wait_for(settle::release(args)),
        Command::Queue(command) => wait_for(queue::run(command)),
        Command::Node(command) => wait_for(node::run(command)),
        Command::Status(args) => wait_for(status::run(args)),
        Command::Clock(args) => wait_for(clock::run(args)),
        Command::Serve(args) => wait_for(serve::run(args)),
        Command::Restore(args) => restore::run(args),
        Command::Cert(command) => cert::run(command),
        Command::Bench(args) => wait_for(bench::run(args)),
        Command::Completions(args) => completions::run(&args),
    }
}

/// Runs a command that waits for the network.
fn wait_for(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(Exit::Failed, "cannot start", error, "check the limits of this system")
    })?;
    let ended = runtime.block_on(command);
    // A thread that waits for a terminal must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Logs go to stderr; GAGGLE_LOG says which, as in `GAGGLE_LOG=debug` or `gaggle_node=trace`.
fn start_log(usual: &str) {
    let filter = EnvFilter::try_from_env("GAGGLE_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means that a test in this process has set one.
    let _ = log.with_ansi(false).try_init();
}

#[cfg(test)]
mod tests;
