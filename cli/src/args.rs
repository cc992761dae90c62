//! The command line: what can be asked for, and how it is written.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use kvsim_harness::scenario::{SeedRange, parse_duration};

/// Crashes a storage engine in a simulated world, thousands of times a second, and says whether every acknowledged write
/// came back. The same seed always gives the same run.
#[derive(Debug, Parser)]
#[command(
    name = "kvsim",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 nothing violated; 1 a violation; 2 wrong usage or scenario; 3 inconclusive; 70 internal error."
)]
pub(crate) struct Cli {
    /// Say more on stderr: -v what is done, -vv why, -vvv everything. KVSIM_LOG takes a filter such as `kvsim_sim=debug`.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run scenarios: crash, recover, check, again and again
    Run(RunArgs),
    /// Run a saved failing case again and say whether it fails in the same way
    Replay(ReplayArgs),
    /// Print a scenario with every default filled in, as TOML that can be run
    Explain(ExplainArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands into a directory
    Man {
        /// The directory
        #[arg(value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

/// `kvsim run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO", value_hint = ValueHint::FilePath)]
    pub(crate) scenarios: Vec<PathBuf>,
    /// Run this seed only
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub(crate) seed: Option<u64>,
    /// Run these seeds: A..B without B, A..=B with B
    #[arg(long, value_name = "A..B")]
    pub(crate) seeds: Option<SeedRange>,
    /// Go on with further seeds until the time is over: 60s, 5m, 1h30m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, conflicts_with = "seed")]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Exit 3 if a fault that was asked for never fired
    #[arg(long)]
    pub(crate) strict: bool,
    /// Where failing cases are saved
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath)]
    pub(crate) failures: PathBuf,
}

/// `kvsim replay`
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A failing case that `kvsim run` saved
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `kvsim explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A scenario file
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: PathBuf,
    /// Change a field first, such as --set workload.clients=1
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
}

/// What `run` and `replay` have in common.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Crash this WebAssembly module instead of the built-in engine
    #[arg(long, value_name = "FILE.wasm", value_hint = ValueHint::FilePath)]
    pub(crate) guest: Option<PathBuf>,
    /// Change a field of the scenario, such as --set workload.clients=1
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seeds that run side by side [default: one for each core]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
}

/// What comes out.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print the results as JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the results for a CI server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,
    /// Write every event of every seed, one a line; costs memory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,
    /// Show no progress, and only the verdict of what went well
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
