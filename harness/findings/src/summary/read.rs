//! Reading back what `kvsim run --shard I/N --json` printed: what it takes to merge it, and no more.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::json::{Failure, Guest, RealJson, SCHEMA};
use super::part::Part;
use super::{FailureReport, Real, RunReport, Verdict};
use kvsim_api::coverage::Coverage;
use kvsim_api::units::SeedRange;
use kvsim_drive::tally::Tally;

#[derive(Deserialize)]
struct Document {
    schema: String,
    runs: Vec<Run>,
    errors: Vec<Error>,
}

#[derive(Deserialize)]
struct Error {
    scenario: String,
    message: String,
}

#[derive(Deserialize)]
struct Run {
    scenario: String,
    profile: Option<String>,
    guest: Guest,
    #[serde(default)]
    not_asked: Vec<String>,
    #[serde(default)]
    marks: Coverage,
    failure: Option<Failure>,
    part: Option<Part>,
    real: RealJson,
}

/// The reports in a document; beside what they are merged by they are blank.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub fn read(text: &str) -> Result<Vec<RunReport>, String> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| format!("it is no {SCHEMA}: {error}"))?;
    if document.schema != SCHEMA {
        return Err(format!("it is {} and not {SCHEMA}", document.schema));
    }
    if let Some(error) = document.errors.first() {
        return Err(format!(
            "{} came to no result there: {}",
            error.scenario, error.message
        ));
    }
    document.runs.into_iter().map(report).collect()
}

fn report(run: Run) -> Result<RunReport, String> {
    let Some(part) = run.part else {
        return Err(format!(
            "{} was run without `--shard`, so there is nothing to be merged",
            run.scenario
        ));
    };
    let elapsed = Duration::try_from_secs_f64(run.real.seconds)
        .map_err(|error| format!("its times: {error}"))?;
    Ok(RunReport {
        scenario: run.scenario,
        profile: run.profile,
        guest_name: run.guest.name,
        guest_hash: run.guest.hash,
        seeds_asked: SeedRange {
            start: part.seeds.start,
            end: part.seeds.end,
        },
        seeds_done: Vec::new(),
        tally: Tally::default(),
        trace_hash: String::new(),
        verdict: Verdict::Pass,
        never_fired: Vec::new(),
        not_asked: run.not_asked,
        coverage: run.marks,
        failure: run.failure.map(failure),
        part: Some(part),
        real: Real {
            elapsed,
            jobs: run.real.jobs,
        },
    })
}

fn failure(failure: Failure) -> FailureReport {
    FailureReport {
        seed: failure.seed,
        property: failure.property,
        sentence: failure.sentence,
        facts: failure.facts,
        crash: failure.crash,
        trace_hash: failure.trace_hash,
        file: failure.file.map(PathBuf::from),
        unsaved: failure.unsaved,
        replay: failure.replay,
        reproduced: None,
        blame: failure.blame.map(|said| said.blame),
        story: None,
    }
}
