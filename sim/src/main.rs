//! The simulator on the command line: one seed, many seeds, or one seed twice.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use gaggle_sim::Detail;
use gaggle_sim::storm::{self, Outcome};

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
    },
    /// Runs many seeds, and prints those that fail.
    Swarm {
        /// How many; without end when not told.
        #[arg(long)]
        seeds: Option<u64>,
        /// The first one; drawn when none is told.
        #[arg(long)]
        from: Option<u64>,
    },
    /// Runs seeds twice and compares: the same seed gives the same run.
    Meta,
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        LAST.with_borrow_mut(|last| *last = panic.to_string().replace('\n', " "));
    }));
    match Arguments::parse().command {
        Command::Run { seed, named, report } => {
            let seed = seed.or(named).unwrap_or_else(fresh);
            run(seed, if report { Detail::Print } else { Detail::Hash })
        }
        Command::Swarm { seeds, from } => {
            swarm(from.unwrap_or_else(fresh), seeds.unwrap_or(u64::MAX))
        }
        Command::Meta => meta(),
    }
}

thread_local! {
    /// What the last panic of this thread said.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

fn attempt(seed: u64, detail: Detail) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| storm::run(seed, detail)))
        .map_err(|_| LAST.with_borrow(Clone::clone))
}

fn run(seed: u64, detail: Detail) -> ExitCode {
    println!("seed {seed}");
    match attempt(seed, detail) {
        Ok(outcome) => {
            let seconds = outcome.nanos as f64 / 1e9;
            println!(
                "passed: {} steps, {seconds:.1} s simulated, {} messages confirmed, hash {:016x}",
                outcome.steps, outcome.confirmed, outcome.hash
            );
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("FAILED: {why}");
            println!("again: cargo run --release -p gaggle-sim -- run {seed} --report");
            ExitCode::FAILURE
        }
    }
}

fn swarm(from: u64, seeds: u64) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, passed, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (steps, nanos) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        break;
                    }
                    let seed = from.wrapping_add(number);
                    match attempt(seed, Detail::Off) {
                        Ok(outcome) => {
                            passed.fetch_add(1, Ordering::Relaxed);
                            steps.fetch_add(outcome.steps, Ordering::Relaxed);
                            nanos.fetch_add(outcome.nanos, Ordering::Relaxed);
                        }
                        Err(why) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            println!("seed {seed} FAILED: {why}");
                        }
                    }
                }
            });
        }
    });
    let (passed, failed) = (passed.into_inner(), failed.into_inner());
    let hours = nanos.into_inner() as f64 / 3600e9;
    let rate = (passed + failed) as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.1} seeds per second");
    println!(
        "seeds {} passed {passed} failed {failed} steps {} simulated {hours:.2} hours",
        passed + failed,
        steps.into_inner()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn meta() -> ExitCode {
    for seed in 1..=META_SEEDS {
        let once = attempt(seed, Detail::Hash).map(|outcome| outcome.hash);
        let again = attempt(seed, Detail::Hash).map(|outcome| outcome.hash);
        if once != again || once.is_err() {
            println!("seed {seed} FAILED: {once:?} and {again:?}");
            return ExitCode::FAILURE;
        }
    }
    println!("seeds 1 to {META_SEEDS} give the same run twice");
    ExitCode::SUCCESS
}

fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    (now % 1_000_000_000) as u64
}

/// Enough to meet every kind of fault.
const META_SEEDS: u64 = 5;
