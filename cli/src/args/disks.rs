//! What the commands on a real disk can be asked for.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use kvsim_harness::bench::native::SPACE_PERCENT;
use kvsim_harness::scenario::parse_duration;

use super::values::{count, jobs, parse_option, rate, whole};
use super::{PLACE, RESULTS, WORK};
use crate::complete;

/// `kvsim bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Scenarios whose workloads are measured: files, or names of those that ship [default: `durable`]
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::benchmarks))]
    pub(crate) scenarios: Vec<PathBuf>,
    /// Measure on a real disk, and not on the simulated device
    #[arg(long, help_heading = PLACE)]
    pub(crate) real_disk: bool,
    /// A directory on the disk to measure [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = PLACE)]
    pub(crate) dir: Option<PathBuf>,
    /// Engines to measure, in turns, or `all`; the first is compared with the best of the others [default: kvsim]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = PLACE)]
    pub(crate) engines: Vec<String>,
    /// Compare the path without fsync with a plain file: 4 KiB writes, 100 under way, unless other scenarios, engines, clients or
    /// tasks are named
    #[arg(long, requires = "real_disk", help_heading = PLACE)]
    pub(crate) no_fsync: bool,
    /// Load each engine once, and measure one scenario after the other on that; each finds what those before it have written. For data that take long to load
    #[arg(long, requires = "real_disk", conflicts_with_all = ["openings", "profile"], help_heading = WORK)]
    pub(crate) load_once: bool,
    /// Measure openings after a crash, and not the workload: all keys of the scenario are written in random order; then, --rounds times, the process writes on, is
    /// killed, and what it left is opened
    #[arg(long, requires = "real_disk", conflicts_with_all = ["no_fsync", "clients", "tasks", "rate", "profile", "report"], help_heading = WORK)]
    pub(crate) openings: bool,
    /// Keys and values that are made durable before each kill, in MiB
    #[arg(long, value_name = "MIB", requires = "openings", default_value = "64", value_parser = clap::value_parser!(u64).range(1..=1 << 20), help_heading = WORK)]
    pub(crate) log_mib: u64,
    /// Threads that use the database [default: the scenario's]
    #[arg(long, value_name = "N", conflicts_with = "tasks", value_parser = clap::value_parser!(u32).range(1..), help_heading = WORK)]
    pub(crate) clients: Option<u32>,
    /// Asynchronous tasks on one thread, in place of threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = WORK)]
    pub(crate) tasks: Option<u32>,
    /// How long each round is measured
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "8s", help_heading = WORK)]
    pub(crate) duration: Duration,
    /// How long each round runs before it is measured
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s", help_heading = WORK)]
    pub(crate) warm_up: Duration,
    /// Turns of each engine
    #[arg(long, value_name = "N", default_value = "5", value_parser = count, help_heading = WORK)]
    pub(crate) rounds: NonZeroU32,
    /// When writes are acknowledged [default: as the scenario says]
    #[arg(long, value_enum, help_heading = WORK)]
    pub(crate) durability: Option<DurabilityArg>,
    /// Open loop: requests a second of all clients, due whatever the answers do
    #[arg(long, value_name = "N", value_parser = rate, help_heading = WORK)]
    pub(crate) rate: Option<f64>,
    /// Memory for the caches of each engine, in MiB
    #[arg(long, value_name = "MIB", default_value = "512", value_parser = whole::<u64>, help_heading = PLACE)]
    pub(crate) cache_mib: u64,
    /// Memory for the entries of kvsim's index, in MiB, beside its cache; 0: all of them are in memory
    #[arg(long, value_name = "MIB", requires = "real_disk", default_value = "0", value_parser = clap::value_parser!(u64).range(..=1 << 20), help_heading = PLACE)]
    pub(crate) index_mib: u64,
    /// A further option of kvsim's engine, such as --option inline_bytes=192
    #[arg(long, value_name = "NAME=VALUE", requires = "real_disk", value_parser = parse_option, help_heading = PLACE)]
    pub(crate) option: Vec<(String, String)>,
    /// All memory that an engine's process may take, in MiB, its clients and what the system caches of its files included. For root on Linux [default: what there is]
    #[arg(long, value_name = "MIB", requires = "real_disk", value_parser = clap::value_parser!(u64).range(16..=1 << 30), help_heading = PLACE)]
    pub(crate) memory_mib: Option<u64>,
    /// The file that kvsim begins with, in percent of the data: the less room, the more garbage collection. It grows if it must
    #[arg(long, value_name = "PERCENT", requires = "real_disk", default_value_t = SPACE_PERCENT, value_parser = clap::value_parser!(u64).range(100..=2000), help_heading = PLACE)]
    pub(crate) space: u64,
    /// Take my word that the drive's cache survives a power cut; every figure will say so
    #[arg(long, help_heading = PLACE)]
    pub(crate) assume_power_loss_protection: bool,
    /// Predict with this profile: a file of `kvsim calibrate`, or the name of one that ships. It is printed beside what is measured
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = ArgValueCompleter::new(complete::profiles), help_heading = RESULTS)]
    pub(crate) profile: Option<PathBuf>,
    /// Write the results as a page for a browser: bars, latency curves, and all that was said of them
    #[arg(long, value_name = "FILE.html", requires = "real_disk", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) report: Option<PathBuf>,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Write the results as a table for a spreadsheet: a row for each round
    #[arg(long, value_name = "FILE.csv", requires = "real_disk", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) csv: Option<PathBuf>,
    /// Write the results as a table in Markdown: a row for each engine
    #[arg(long, value_name = "FILE.md", requires = "real_disk", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) markdown: Option<PathBuf>,
    /// Change a field of the scenario, such as --set workload.keys=1000
    #[arg(long, value_name = "PATH=VALUE", add = ArgValueCompleter::new(complete::fields), help_heading = WORK)]
    pub(crate) set: Vec<String>,
}

/// `kvsim engine-process`, which kvsim itself starts
#[derive(Debug, Args)]
pub(crate) struct EngineProcessArgs {
    /// The engine
    #[arg(value_name = "NAME")]
    pub(crate) engine: String,
    /// Where its database is
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// How it is opened, as JSON
    #[arg(value_name = "JSON")]
    pub(crate) settings: String,
}

/// `kvsim calibrate`
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// A directory on the disk to measure, or a block device, which is only read unless --write is given
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
    /// Write the profile into this file, and print what was measured [default: print the profile]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = RESULTS)]
    pub(crate) output: Option<PathBuf>,
    /// Measure writes on a block device too: what it holds is LOST
    #[arg(long, help_heading = PLACE)]
    pub(crate) write: bool,
    /// How long each size is measured at each depth, in each pass
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "100ms", help_heading = WORK)]
    pub(crate) cell: Duration,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value = "3", value_parser = count, help_heading = WORK)]
    pub(crate) passes: NonZeroU32,
}

/// `kvsim crash-disk`
#[derive(Debug, Args)]
pub(crate) struct CrashDiskArgs {
    /// A directory on the disk [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = PLACE)]
    pub(crate) dir: Option<PathBuf>,
    /// Different crash states to judge, at least
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..), help_heading = WORK)]
    pub(crate) states: u64,
    /// Recordings to judge with one flush or write-through left out, each of which has to be caught
    #[arg(long, value_name = "N", default_value = "40", value_parser = whole::<u64>, help_heading = WORK)]
    pub(crate) take_out: u64,
    /// Threads, and in other sessions tasks, that use the database
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = WORK)]
    pub(crate) clients: u32,
    /// The drivers that take turns [default: all that this system has]
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',', help_heading = PLACE)]
    pub(crate) drivers: Vec<DriverArg>,
    /// Decides what is written and which states are judged; thread and disk timing stay nondeterministic
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u64>, help_heading = WORK)]
    pub(crate) seed: u64,
    /// Threads that judge [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs, help_heading = WORK)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Where the disk as a crash left it is saved, if the engine does not recover from it as it must
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath, help_heading = RESULTS)]
    pub(crate) failures: PathBuf,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
}

/// `--drivers`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverArg {
    /// io_uring
    IoUring,
    /// A pool of threads that block
    Threads,
}

/// `--durability`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// Each commit on the medium, the drive's own cache flushed
    Full,
    /// Each commit where `fsync` puts it on this platform
    Os,
    /// Acknowledged when accepted
    Relaxed,
}
