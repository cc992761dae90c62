//! The command line: what can be asked for, and how it is written.

mod disks;
mod examples;
mod guests;
mod values;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use kvsim_harness::explore::json::parse_shard;
use kvsim_harness::scenario::{SeedRange, parse_duration, parse_moment};
use values::{jobs, seed, whole};

use crate::complete;

pub(crate) use disks::{
    BenchArgs, CalibrateArgs, CrashDiskArgs, DriverArg, DurabilityArg, EngineProcessArgs,
};
pub(crate) use guests::{CheckGuestArgs, LanguageArg, NewGuestArgs, SuiteArgs};

// The groups of options in each `--help`.
const SEEDS: &str = "Seeds and time";
const WHAT: &str = "Scenario and guest";
const WORK: &str = "Workload";
const PLACE: &str = "Disk and engines";
const RESULTS: &str = "Results";

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
    after_help = "Begin with: kvsim run powercut\n\nExit codes: 0 nothing violated; 1 a violation; 2 wrong usage or scenario; 3 inconclusive; 70 internal error."
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
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Run a saved failing case, or each in a folder, again and say whether it fails in the same way
    #[command(after_help = examples::REPLAY)]
    Replay(ReplayArgs),
    /// Run one seed of a scenario, or a saved failing case, and print what happened: a line an event, in order
    #[command(after_help = examples::TRACE)]
    Trace(TraceArgs),
    /// Run a workload once, and check every state that a crash at any moment of it can leave
    #[command(after_help = examples::EXPLORE)]
    Explore(ExploreArgs),
    /// Explore engines that use files beside persistence profiles, and write a table, JSON and a page
    #[command(after_help = examples::BOARD)]
    Board(BoardArgs),
    /// Put the results of the shards of a run or an exploration together
    #[command(after_help = examples::MERGE)]
    Merge(MergeArgs),
    /// Switch on mutants of the engine, one at a time, and say whether each is caught
    #[command(after_help = examples::MUTANTS)]
    Mutants(MutantsArgs),
    /// Leave out the syncs of an engine that uses files, one place in its code at a time, and say whether each is noticed
    #[command(after_help = examples::SYNCS)]
    Syncs(SyncsArgs),
    /// Measure a workload: on a real disk, beside other engines, or predicted on the simulated device
    #[command(after_help = examples::BENCH)]
    Bench(BenchArgs),
    /// Hold one engine for a benchmark, and do what is asked for on standard input
    #[command(hide = true)]
    EngineProcess(EngineProcessArgs),
    /// Measure a disk, and the machine around it, into a profile for the simulated device
    #[command(after_help = examples::CALIBRATE)]
    Calibrate(CalibrateArgs),
    /// Work on a real disk, record every write and flush, and crash the recording at every point
    #[command(after_help = examples::CRASH_DISK)]
    CrashDisk(CrashDiskArgs),
    /// Write an engine in Rust, Go, C or Zig that builds, passes, and has mistakes to switch on
    #[command(after_help = examples::NEW_GUEST)]
    NewGuest(NewGuestArgs),
    /// Check a module against every rule of the guest ABI, before anything is crashed
    #[command(after_help = examples::CHECK_GUEST)]
    CheckGuest(CheckGuestArgs),
    /// Check a module, then crash it in four scenarios, and print one table
    #[command(after_help = examples::SUITE)]
    Suite(SuiteArgs),
    /// Print a scenario with every default filled in, as TOML that can be run
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// List the scenarios and device profiles that ship, each with what it shows
    #[command(after_help = examples::SCENARIOS)]
    Scenarios {
        /// Print the list as JSON and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Print what a shell needs to complete options, files, scenarios, mutants and paths of --set
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands into a directory
    #[command(after_help = examples::MAN)]
    Man {
        /// The directory
        #[arg(value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

/// `kvsim run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Scenarios: files, or names of those that ship (see `kvsim scenarios`)
    #[arg(required = true, value_name = "SCENARIO", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::scenarios))]
    pub(crate) scenarios: Vec<PathBuf>,
    /// Run this seed only
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = seed, help_heading = SEEDS)]
    pub(crate) seed: Option<u64>,
    /// Run these seeds: A..B without B, A..=B with B
    #[arg(long, value_name = "A..B", help_heading = SEEDS)]
    pub(crate) seeds: Option<SeedRange>,
    /// Go on with further seeds until the time is over: 60s, 5m, 1h30m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, conflicts_with = "seed", help_heading = SEEDS)]
    pub(crate) duration: Option<Duration>,
    /// Run only part I of N of the seeds, counted from 0; `kvsim merge` puts the JSON of all parts together
    #[arg(long, value_name = "I/N", value_parser = parse_shard, conflicts_with = "duration", help_heading = SEEDS)]
    pub(crate) shard: Option<(u64, u64)>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Exit 3 if a fault that was asked for never fired, or a coverage point of the guest was never reached
    #[arg(long, help_heading = RESULTS)]
    pub(crate) strict: bool,
    /// Where failing cases are saved
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath, help_heading = RESULTS)]
    pub(crate) failures: PathBuf,
}

/// `kvsim explore`
#[derive(Debug, Args)]
pub(crate) struct ExploreArgs {
    /// Scenarios: files, or names of those that ship (see `kvsim scenarios`)
    #[arg(required = true, value_name = "SCENARIO", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::scenarios))]
    pub(crate) scenarios: Vec<PathBuf>,
    /// The seed of the run that is recorded, and of samples [default: the scenario's first]
    #[arg(long, value_name = "N", value_parser = seed, help_heading = SEEDS)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Show no progress, and only the verdict of what went well
    #[arg(long, short, help_heading = RESULTS)]
    pub(crate) quiet: bool,
    /// Write the results as a page for a browser: the time line of each failure, the device at the cut, states by crash point
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) report: Option<PathBuf>,
    /// Exit 3 if a crash point had more states than are taken of one, or a coverage point of the guest was never reached
    #[arg(long, help_heading = RESULTS)]
    pub(crate) strict: bool,
    /// Make each failure small, save that too, and say which single flush, write-through or later acknowledgement would fix it
    #[arg(long, visible_alias = "minimize", help_heading = RESULTS)]
    pub(crate) minimise: bool,
    /// End each scenario after so long, with what was seen by then: 60s, 5m, 1h30m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, conflicts_with = "shard", help_heading = SEEDS)]
    pub(crate) duration: Option<Duration>,
    /// Judge only part I of N, counted from 0; `kvsim merge` puts the JSON of all parts together
    #[arg(long, value_name = "I/N", value_parser = parse_shard, help_heading = SEEDS)]
    pub(crate) shard: Option<(u64, u64)>,
    /// Where failing cases are saved
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath, help_heading = RESULTS)]
    pub(crate) failures: PathBuf,
}

/// `kvsim board`
#[derive(Debug, Args)]
pub(crate) struct BoardArgs {
    /// Modules, or folders of modules; of a folder the engines that `engines/board.toml` lists [default: engines/out]
    #[arg(long, value_name = "DIR|FILE.wasm", num_args = 1.., value_hint = ValueHint::AnyPath, help_heading = WHAT)]
    pub(crate) engines: Vec<PathBuf>,
    /// Persistence profiles, one for each column
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_values = ["posix", "ext4_ordered", "process_kill"], help_heading = WHAT)]
    pub(crate) profiles: Vec<String>,
    /// The scenario that each cell runs: a file, or the name of one that ships
    #[arg(long, value_name = "SCENARIO", default_value = "files_board", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::scenarios), help_heading = WHAT)]
    pub(crate) scenario: PathBuf,
    /// Change a field of the scenario, such as --set explore.states_per_point=20
    #[arg(long, value_name = "PATH=VALUE", add = ArgValueCompleter::new(complete::fields), help_heading = WHAT)]
    pub(crate) set: Vec<String>,
    /// States that are judged side by side [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs, help_heading = WHAT)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Where cells, cases and results are kept: a finished cell there is not run again
    #[arg(long, value_name = "DIR", default_value = "board", value_hint = ValueHint::DirPath, help_heading = RESULTS)]
    pub(crate) out: PathBuf,
    /// Run nothing: write board.json, board.txt and board.html of --out again, from its board.json and its cases
    #[arg(long, conflicts_with_all = ["engines", "profiles", "scenario", "set", "jobs"], help_heading = RESULTS)]
    pub(crate) rewrite: bool,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short, help_heading = RESULTS)]
    pub(crate) quiet: bool,
}

/// `kvsim mutants`
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// The mutants [default: all]
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::mutants))]
    pub(crate) names: Vec<String>,
    /// Print what there is, and do nothing
    #[arg(long, help_heading = WHAT)]
    pub(crate) list: bool,
    /// Take the engine as it is, and leave out one flush or write-through of a run at a time
    #[arg(long, conflicts_with_all = ["names", "minimise", "list"], help_heading = WHAT)]
    pub(crate) host: bool,
    /// Run scenarios that ship (small_swarm, small_faults, those for one subject each, powercut, kitchen_sink, swarm), shrink the first failure of each mutant as `replay --minimise` does, and say what a user gets
    #[arg(long, conflicts_with_all = ["host", "list", "scenarios", "minimise"], help_heading = WHAT)]
    pub(crate) shipped: bool,
    /// Hunt with these scenarios only
    #[arg(long = "scenario", value_name = "NAME,…", value_delimiter = ',', add = ArgValueCompleter::new(complete::trials), help_heading = WHAT)]
    pub(crate) scenarios: Vec<String>,
    /// Shrink each failure that says its steps, and say what is left of it
    #[arg(long, visible_alias = "minimize", help_heading = RESULTS)]
    pub(crate) minimise: bool,
    /// Stop shrinking and blaming a failure after this real time, with the smallest case so far: 60s, 5m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub(crate) duration: Duration,
    /// Hunt in this WebAssembly module, which knows the option `mutant`, in place of the built-in one
    #[arg(long, value_name = "FILE.wasm", value_hint = ValueHint::FilePath, help_heading = WHAT)]
    pub(crate) guest: Option<PathBuf>,
    /// States that are judged side by side [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs, help_heading = WHAT)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Write the results as a page for a browser: the score, what was missed, and how each mutant was caught
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["host", "list"], value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) report: Option<PathBuf>,
    /// Where failing cases are saved
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath, help_heading = RESULTS)]
    pub(crate) failures: PathBuf,
}

/// `kvsim syncs`
#[derive(Debug, Args)]
pub(crate) struct SyncsArgs {
    /// Scenarios: files, or names of those that ship (see `kvsim scenarios`)
    #[arg(required = true, value_name = "SCENARIO", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::scenarios))]
    pub(crate) scenarios: Vec<PathBuf>,
    /// The seed of the run that is recorded, and of samples [default: the scenario's first]
    #[arg(long, value_name = "N", value_parser = seed, help_heading = SEEDS)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Leave out each single sync, and not all of a place
    #[arg(long, help_heading = WHAT)]
    pub(crate) each_call: bool,
    /// Only the places whose numbers begin so
    #[arg(long = "place", value_name = "HEX,…", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) places: Vec<String>,
    /// Judge at most so many states of a place, or a few more
    #[arg(long, value_name = "N", default_value = "20000", help_heading = WHAT)]
    pub(crate) states: u64,
    /// Blame each failure as it was found, without making it small first
    #[arg(long, help_heading = RESULTS)]
    pub(crate) no_minimise: bool,
    /// Stop shrinking and blaming a failure after this real time, with the smallest case so far: 60s, 5m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub(crate) duration: Duration,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Where failing cases are saved, each place in a folder of its own
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath, help_heading = RESULTS)]
    pub(crate) failures: PathBuf,
}

/// `kvsim merge`
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// What `kvsim explore --shard I/N --json`, or `kvsim run` with the same, printed, for each I
    #[arg(required = true, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Print the results as JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit 3 if a coverage point of the guest was reached by none of the parts, or a fault that was asked for fired in none
    #[arg(long)]
    pub(crate) strict: bool,
}

/// `kvsim replay`
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A failing case that `kvsim run` or `kvsim explore` saved, or a folder of such cases
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) file: PathBuf,
    /// Shrink it first and save the small one: fewer requests, smaller values, fewer persisted writes; and look for what is to blame
    #[arg(long, visible_alias = "minimize", help_heading = WHAT)]
    pub(crate) minimise: bool,
    /// The sentence of the small case has this text too: for an engine with several mistakes of one kind, which says something else of each
    #[arg(long, value_name = "TEXT", requires = "minimise", help_heading = WHAT)]
    pub(crate) says: Option<String>,
    /// Say which flushes, write-throughs or later acknowledgements would make it pass
    #[arg(long, help_heading = WHAT)]
    pub(crate) blame: bool,
    /// Write the files as the last crash left them, before the recovery that fails, into this directory, which is new or empty; and say
    /// what the engine answers that is started on them
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["minimise", "blame", "junit", "report", "trace"], help_heading = RESULTS)]
    pub(crate) write_files: Option<PathBuf>,
    /// Stop shrinking and blaming after this real time, with the smallest case so far: 60s, 5m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "60s", help_heading = WHAT)]
    pub(crate) duration: Duration,
    /// Where the small case is saved
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath, requires = "minimise", help_heading = RESULTS)]
    pub(crate) failures: PathBuf,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `kvsim trace`
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A scenario (a file, or the name of one that ships), or a failing case that was saved
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::scenarios))]
    pub(crate) file: PathBuf,
    /// The seed [default: the scenario's first]
    #[arg(long, value_name = "N", value_parser = seed, help_heading = SEEDS)]
    pub(crate) seed: Option<u64>,
    /// Begin at this virtual time: 12.345678ms, 350us, 2s
    #[arg(long, value_name = "TIME", value_parser = parse_moment, help_heading = SEEDS)]
    pub(crate) from: Option<u64>,
    /// End at this virtual time
    #[arg(long, value_name = "TIME", value_parser = parse_moment, help_heading = SEEDS)]
    pub(crate) to: Option<u64>,
    /// Print so many lines at most
    #[arg(long, value_name = "N", value_parser = whole::<u64>, help_heading = RESULTS)]
    pub(crate) limit: Option<u64>,
    /// Print each line as a JSON object
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Run this WebAssembly module instead of the built-in engine
    #[arg(long, value_name = "FILE.wasm", value_hint = ValueHint::FilePath, help_heading = WHAT)]
    pub(crate) guest: Option<PathBuf>,
    /// Change a field of the scenario, such as --set workload.clients=1
    #[arg(long, value_name = "PATH=VALUE", add = ArgValueCompleter::new(complete::fields), help_heading = WHAT)]
    pub(crate) set: Vec<String>,
}

/// `kvsim explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A scenario: a file, or the name of one that ships
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::scenarios))]
    pub(crate) scenario: PathBuf,
    /// The seed whose scenario it is, if it varies [default: the scenario's first]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Change a field first, such as --set workload.clients=1
    #[arg(long, value_name = "PATH=VALUE", add = ArgValueCompleter::new(complete::fields))]
    pub(crate) set: Vec<String>,
}

/// What the commands that crash guests have in common.
#[derive(Debug, Default, Args)]
pub(crate) struct CommonArgs {
    /// Crash this WebAssembly module instead of the built-in engine
    #[arg(long, value_name = "FILE.wasm", value_hint = ValueHint::FilePath, help_heading = WHAT)]
    pub(crate) guest: Option<PathBuf>,
    /// Change a field of the scenario, such as --set workload.clients=1
    #[arg(long, value_name = "PATH=VALUE", add = ArgValueCompleter::new(complete::fields), help_heading = WHAT)]
    pub(crate) set: Vec<String>,
    /// Seeds, or states, that run side by side [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs, help_heading = WHAT)]
    pub(crate) jobs: Option<NonZeroUsize>,
}

/// What comes out.
#[derive(Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Write the results for a CI server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) junit: Option<PathBuf>,
    /// Write the results as a page for a browser: the time line of a failure, the device at the cut, faults, latencies
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) report: Option<PathBuf>,
    /// Write every event of every seed, one a line; costs memory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) trace: Option<PathBuf>,
    /// Show no progress, and only the verdict of what went well
    #[arg(long, short, help_heading = RESULTS)]
    pub(crate) quiet: bool,
}
