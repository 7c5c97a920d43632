//! The simulator on the command line: a seed, a swarm, a plan from a file, a failure made smaller.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use gaggle_sim::goals::Goal;
use gaggle_sim::plan::{self, Plan};
use gaggle_sim::planted::{self, hunt::Hunt, trial};
use gaggle_sim::storm::{self, Outcome};
use gaggle_sim::{Detail, scenarios, shrink, swarm::Swarm};

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
    /// Runs seeds until one fails, and prints it.
    First {
        /// The first one.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// The last one.
        #[arg(long, default_value_t = HUNT_SEEDS)]
        to: u64,
        /// What does not count: the number of a promise.
        #[arg(long)]
        besides: Vec<String>,
        /// Threads; one for each processor when not told.
        #[arg(long)]
        jobs: Option<usize>,
    },
    /// Plants bugs, and looks whether they are found.
    Planted {
        /// Which one; all when not told.
        name: Option<String>,
        /// How many seeds there are to find it.
        #[arg(long, default_value_t = HUNT_SEEDS)]
        seeds: u64,
        /// Threads; one for each processor when not told.
        #[arg(long)]
        jobs: Option<usize>,
    },
    /// Runs a scenario, or lists them all.
    Scenario {
        /// Its name.
        name: Option<String>,
    },
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
        Command::First { from, to, besides, jobs } => {
            first(&Hunt { from, to, jobs: threads(jobs), besides })
        }
        Command::Planted { name, seeds, jobs } => plant(name.as_deref(), seeds, threads(jobs)),
        Command::Scenario { name: Some(name) } => scenario(&name),
        Command::Scenario { name: None } => {
            scenarios::all().for_each(|scenario| println!("{}", scenario.name));
            ExitCode::SUCCESS
        }
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
    let swarm = Swarm {
        from: from.unwrap_or_else(fresh),
        seeds: seeds.unwrap_or(u64::MAX),
        jobs: threads(jobs),
    };
    let totals = swarm.run(|line| println!("{line}"));
    let hours = totals.nanos as f64 / 3600e9;
    for (goal, name) in Goal::ALL {
        println!("{name}: in {} seeds", totals.met.get(&goal).copied().unwrap_or_default());
    }
    let missed = totals.missed();
    if !missed.is_empty() {
        println!("FAILED: in no seed: {}", missed.join(", "));
    }
    println!(
        "seeds {} passed {} failed {} steps {} simulated {hours:.2} hours faults {} sometimes \
         {}/{}",
        totals.seeds,
        totals.seeds - totals.failed,
        totals.failed,
        totals.steps,
        totals.faults,
        totals.met.len(),
        Goal::ALL.len(),
    );
    if totals.failed == 0 && missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn scenario(name: &str) -> ExitCode {
    let Some(scenario) = scenarios::all().find(|scenario| scenario.name == name) else {
        return failed(&format!("there is no scenario {name}"));
    };
    match scenario.run() {
        Ok(()) => {
            println!("passed");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("FAILED {}: {}", failure.promise, failure.why);
            println!(
                "again: GAGGLE_SIM_REPORT=1 cargo run --release -p gaggle-sim -- scenario {name}"
            );
            ExitCode::FAILURE
        }
    }
}

fn first(hunt: &Hunt) -> ExitCode {
    match hunt.run(None) {
        Some(found) => {
            println!("{}", found.to_line());
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

fn plant(name: Option<&str>, seeds: u64, jobs: usize) -> ExitCode {
    let named = |bug: &&planted::Bug| name.is_none_or(|name| name == bug.name);
    let bugs: Vec<_> = planted::BUGS.iter().filter(named).collect();
    let prepared = |bug: &&&planted::Bug| match trial::prepare(***bug) {
        Ok(()) => true,
        Err(error) => failed_bug(bug.name, &error),
    };
    // All is built before the first hunt: hunts need no compiler.
    let ready: Vec<_> = bugs.iter().filter(prepared).collect();
    println!("{} of {} planted bugs are ready", ready.len(), bugs.len());
    let held = |bug: &&&planted::Bug| match trial::hold(***bug, seeds, jobs) {
        Ok(trial) => {
            println!("{trial}");
            trial.is_good()
        }
        Err(error) => failed_bug(bug.name, &error),
    };
    let good = ready.iter().filter(|bug| held(bug)).count();
    println!("{good} of {} planted bugs found, each within {seeds} seeds", bugs.len());
    if good == bugs.len() && good > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn failed_bug(name: &str, error: &dyn std::fmt::Display) -> bool {
    println!("{name:<26} {error}");
    false
}

fn threads(told: Option<usize>) -> usize {
    told.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
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

/// Seeds within which a planted bug is found.
const HUNT_SEEDS: u64 = 2000;
/// Small, so that it is easily told.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    (now % 1_000_000_000) as u64
}

/// Enough to meet every kind of fault.
const META_SEEDS: u64 = 5;
