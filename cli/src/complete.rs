//! What shells complete beyond names of options and files: names of scenarios, profiles, mutants and engines, and paths of `--set`.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::CompletionCandidate;
use clap_complete::engine::{PathCompleter, ValueCompleter};
use kvsim_harness::mutants::Mutant;
use kvsim_harness::mutants::catalogue::TRIALS;
use kvsim_harness::scenario::{self, BUILTIN_PROFILES, Purpose, SHIPPED};

/// The variable by which a shell asks for completions.
pub(crate) const VARIABLE: &str = "KVSIM_COMPLETE";

fn named(
    names: impl Iterator<Item = (&'static str, Option<&'static str>)>,
    current: &OsStr,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let near = names.filter(|(name, _)| name.starts_with(&*current));
    near.map(|(name, help)| CompletionCandidate::new(name).help(help.map(Into::into)))
        .collect()
}

fn or_files(mut names: Vec<CompletionCandidate>, current: &OsStr) -> Vec<CompletionCandidate> {
    let is_kept = |path: &Path| path.extension().is_some_and(|it| it == "toml");
    names.extend(PathCompleter::any().filter(is_kept).complete(current));
    names
}

fn shipped(purpose: Purpose) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let of_purpose = SHIPPED.iter().filter(move |it| it.purpose == purpose);
    of_purpose.map(|shipped| (shipped.name, None))
}

/// Scenarios to crash: shipped ones and files.
pub(crate) fn scenarios(current: &OsStr) -> Vec<CompletionCandidate> {
    let all = shipped(Purpose::Crash).chain(shipped(Purpose::Files));
    or_files(named(all, current), current)
}

/// Scenarios to measure: shipped ones and files.
pub(crate) fn benchmarks(current: &OsStr) -> Vec<CompletionCandidate> {
    or_files(named(shipped(Purpose::Bench), current), current)
}

/// Profiles: shipped ones and files.
pub(crate) fn profiles(current: &OsStr) -> Vec<CompletionCandidate> {
    let names = BUILTIN_PROFILES.iter().map(|(name, _)| (*name, None));
    or_files(named(names, current), current)
}

/// Mutants.
pub(crate) fn mutants(current: &OsStr) -> Vec<CompletionCandidate> {
    let all = Mutant::ALL.iter();
    named(all.map(|it| (it.name(), Some(it.sentence()))), current)
}

/// Scenarios that mutants are hunted with.
pub(crate) fn trials(current: &OsStr) -> Vec<CompletionCandidate> {
    named(TRIALS.iter().map(|trial| (trial.name, None)), current)
}

/// Fields of a scenario.
pub(crate) fn fields(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let near = scenario::set_paths();
    let near = near.iter().filter(|(path, _)| path.starts_with(&*current));
    near.map(|(path, help)| CompletionCandidate::new(path).help(Some((*help).into())))
        .collect()
}
