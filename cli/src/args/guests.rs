//! What the commands for those who write a guest can be asked for.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use kvsim_harness::scenario::parse_duration;

use super::values::{jobs, parse_option};
use super::{RESULTS, SEEDS, WHAT};

/// `kvsim new-guest`
#[derive(Debug, Args)]
pub(crate) struct NewGuestArgs {
    /// The language
    #[arg(long, value_enum)]
    pub(crate) lang: LanguageArg,
    /// An engine that uses files, built for WASI, in place of one on a block device
    #[arg(long)]
    pub(crate) files: bool,
    /// The directory, which must not be there yet or be empty
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

/// `kvsim check-guest`
#[derive(Debug, Args)]
pub(crate) struct CheckGuestArgs {
    /// A WebAssembly module
    #[arg(value_name = "FILE.wasm", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Tell the guest an option of its own
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_option, help_heading = WHAT)]
    pub(crate) option: Vec<(String, String)>,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Print only the rules that are broken, and the counts
    #[arg(long, short, help_heading = RESULTS)]
    pub(crate) quiet: bool,
}

/// `kvsim suite`
#[derive(Debug, Args)]
pub(crate) struct SuiteArgs {
    /// A WebAssembly module
    #[arg(long, value_name = "FILE.wasm", value_hint = ValueHint::FilePath, help_heading = WHAT)]
    pub(crate) guest: PathBuf,
    /// Tell the guest an option of its own
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_option, help_heading = WHAT)]
    pub(crate) option: Vec<(String, String)>,
    /// End after so long, and say what was left out: 60s, 5m, 1h30m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "10m", help_heading = SEEDS)]
    pub(crate) duration: Duration,
    /// Seeds, or states, that run side by side [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs, help_heading = SEEDS)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print the results as JSON and nothing else
    #[arg(long, help_heading = RESULTS)]
    pub(crate) json: bool,
    /// Where failing cases are saved
    #[arg(long, value_name = "DIR", default_value = "failures", value_hint = ValueHint::DirPath, help_heading = RESULTS)]
    pub(crate) failures: PathBuf,
}

/// `--lang`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanguageArg {
    /// Rust, built by cargo
    Rust,
    /// Go, built by go; with --files only
    Go,
    /// C, built by clang or Zig
    C,
    /// Zig
    Zig,
}
