//! The simulator on the command line: a seed, a swarm, a plan from a file, a failure made smaller.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use gaggle_sim::plan::{self, Plan};
use gaggle_sim::storm::{self, Outcome};
use gaggle_sim::{Detail, shrink, swarm::Swarm};

/// The simulator of Gaggle: whole clusters in virtual time, from one seed.
#[derive(Parser)]
#[command(name = "gaggle-sim")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one seed.
    Run {
        /// The seed; drawn when none is told.
        seed: Option<u64>,
        /// The same as an option.
        #[arg(long = "seed", conflicts_with = "seed")]
        named: Option<u64>,
        /// Prints every event.
        #[arg(long)]
        report: bool,
        /// Prints the plan and runs nothing.
        #[arg(long)]
        plan: bool,
    },
    /// Runs many seeds, and prints those that fail.
    Swarm {
        /// How many; without end when not told.
        #[arg(long)]
        seeds: Option<u64>,
        /// The first one; drawn when none is told.
        #[arg(long)]
        from: Option<u64>,
        /// Threads; one for each processor when not told.
        #[arg(long)]
        jobs: Option<usize>,
    },
    /// Runs seeds twice and compares: the same seed gives the same run.
    Meta,
    /// Runs a plan from a file.
    Replay {
        /// The plan.
        file: PathBuf,
        /// Prints every event.
        #[arg(long)]
        report: bool,
    },
    /// Makes a plan that fails smaller, as long as it breaks the same promise.
    Shrink {
        /// The seed whose plan fails.
        #[arg(long, required_unless_present = "file")]
        seed: Option<u64>,
        /// Or a file with a plan that fails.
        #[arg(long, conflicts_with = "seed")]
        file: Option<PathBuf>,
        /// Where the small plan goes; it is printed when not told.
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { seed, named, report, plan } => {
            let seed = seed.or(named).unwrap_or_else(fresh);
            let drawn = plan::draw(seed);
            if plan {
                print!("{}", drawn.to_toml());
                return ExitCode::SUCCESS;
            }
            println!("seed {seed}");
            run(&drawn, report, &format!("run --seed {seed}"))
        }
        Command::Swarm { seeds, from, jobs } => swarm(seeds, from, jobs),
        Command::Meta => meta(),
        Command::Replay { file, report } => match Plan::load(&file) {
            Ok(plan) => run(&plan, report, &format!("replay {}", file.display())),
            Err(error) => failed(&error),
        },
        Command::Shrink { seed, file, out } => {
            let plan = match (seed, file) {
                (Some(seed), _) => plan::draw(seed),
                (None, Some(file)) => match Plan::load(&file) {
                    Ok(plan) => plan,
                    Err(error) => return failed(&error),
                },
                (None, None) => unreachable!("one of them is required"),
            };
            make_smaller(&plan, out.as_deref())
        }
    }
}

fn run(plan: &Plan, report: bool, again: &str) -> ExitCode {
    let outcome = storm::run(plan, if report { Detail::Print } else { Detail::Hash });
    let Outcome { steps, confirmed, hash, .. } = outcome;
    let seconds = outcome.nanos as f64 / 1e9;
    let Some(failure) = outcome.failure else {
        println!(
            "passed: {steps} steps, {seconds:.1} s simulated, {confirmed} messages confirmed, \
             hash {hash:016x}"
        );
        return ExitCode::SUCCESS;
    };
    println!("FAILED {}: {}", failure.promise, failure.why);
    println!("again: cargo run --release -p gaggle-sim -- {again} --report");
    ExitCode::FAILURE
}

fn swarm(seeds: Option<u64>, from: Option<u64>, jobs: Option<usize>) -> ExitCode {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let swarm = Swarm {
        from: from.unwrap_or_else(fresh),
        seeds: seeds.unwrap_or(u64::MAX),
        jobs: jobs.unwrap_or_else(all).max(1),
    };
    let totals = swarm.run(|line| println!("{line}"));
    let hours = totals.nanos as f64 / 3600e9;
    println!(
        "seeds {} passed {} failed {} steps {} simulated {hours:.2} hours faults {} sometimes 0/0",
        totals.seeds,
        totals.seeds - totals.failed,
        totals.failed,
        totals.steps,
        totals.faults,
    );
    if totals.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn meta() -> ExitCode {
    for seed in 1..=META_SEEDS {
        let plan = plan::draw(seed);
        let [once, again] = [(); 2].map(|()| storm::run(&plan, Detail::Hash));
        if once.hash != again.hash || once.failure.is_some() {
            let (one, other) = (once.hash, again.hash);
            println!("seed {seed} FAILED: {one:016x}, {other:016x}, {:?}", once.failure);
            return ExitCode::FAILURE;
        }
    }
    println!("seeds 1 to {META_SEEDS} give the same run twice");
    ExitCode::SUCCESS
}

fn make_smaller(plan: &Plan, out: Option<&Path>) -> ExitCode {
    let Some((small, failure)) = shrink::shrink(plan, &mut |line| eprintln!("{line}")) else {
        println!("passed: there is nothing to make smaller");
        return ExitCode::FAILURE;
    };
    let text = format!("# {}\n{}", failure.why, small.to_toml());
    match out {
        None => print!("{text}"),
        Some(path) => {
            if let Err(error) = std::fs::write(path, text) {
                return failed(&format!("{}: {error}", path.display()));
            }
            println!("{}: {}", failure.promise, failure.why);
            println!("again: cargo run --release -p gaggle-sim -- replay {}", path.display());
        }
    }
    ExitCode::SUCCESS
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

/// Small, so that it is easily told.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    (now % 1_000_000_000) as u64
}

/// Enough to meet every kind of fault.
const META_SEEDS: u64 = 5;
