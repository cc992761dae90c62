//! What the whole-system tests share: where things are, the naive guest, and properties whose seed is printed and can be given.

mod program;
mod property;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvsim_harness::campaign::Campaign;
use kvsim_harness::control::Control;
pub use kvsim_harness::guest::Program;
use kvsim_harness::scenario::{Scenario, load};
use kvsim_harness::summary::RunReport;
pub use program::{Ended, command, execute};
pub use property::check;

/// The folder of the whole workspace, whatever the working directory is.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("tests/ lies in the workspace")
        .to_path_buf()
}

/// The module of the naive guest: one flush for each commit, and defects by the option `break`. See `guests/naive`.
#[must_use]
pub fn naive_guest() -> &'static Path {
    Path::new(env!("KVSIM_NAIVE_GUEST"))
}

/// The module of the engine with mutants, which the option `mutant` switches on.
#[must_use]
pub fn mutants_guest() -> &'static Path {
    Path::new(env!("KVSIM_MUTANTS_GUEST"))
}

/// The built-in engine as a guest.
///
/// # Panics
/// If it cannot be loaded.
#[must_use]
pub fn builtin_guest() -> Arc<dyn Program> {
    kvsim_harness::guest::load(None).expect("the built-in guest loads")
}

/// A scenario of the workspace, such as `scenarios/powercut.toml`, with fields changed as `--set` does.
///
/// # Panics
/// If it cannot be loaded.
#[must_use]
pub fn scenario(path: impl AsRef<Path>, sets: &[&str]) -> Scenario {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    load(&root().join(path), &sets).unwrap_or_else(|error| panic!("{error}"))
}

/// All TOML files directly in a folder of the workspace, in the order of their names.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn toml_files(folder: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    files
}

/// As many seeds side by side as there are cores.
#[must_use]
pub fn all_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The names of all properties.
#[must_use]
pub fn properties() -> [&'static str; 11] {
    kvsim_harness::oracle::Property::ALL.map(kvsim_harness::oracle::Property::name)
}

/// Runs a scenario on a guest, with so many seeds side by side; nothing is saved.
///
/// # Panics
/// If something of kvsim's own fails.
#[must_use]
pub fn run(scenario: Scenario, program: &Arc<dyn Program>, jobs: NonZeroUsize) -> RunReport {
    run_saving(scenario, program, jobs, None)
}

/// The same, and what fails is saved in a folder.
///
/// # Panics
/// If something of kvsim's own fails.
#[must_use]
pub fn run_saving(
    scenario: Scenario,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    failures: Option<PathBuf>,
) -> RunReport {
    let campaign = Campaign {
        seeds: scenario.run.seeds,
        scenario: Arc::new(scenario),
        program: Arc::clone(program),
        shard: None,
        duration: None,
        jobs,
        strict: false,
        failures,
        trace: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(jobs.get() + 1)
        .enable_all()
        .build();
    let outcome = runtime
        .expect("threads can be started")
        .block_on(campaign.run(&Arc::new(Control::default())));
    outcome.unwrap_or_else(|error| panic!("{error}")).report
}
