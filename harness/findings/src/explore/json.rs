//! Explorations as JSON, schema `kvsim.explore/1`. Fields are only ever added to a version; anything else makes a new one.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::blame::Said;
use crate::explore::counts::WorkErrorCounts;
use crate::explore::report::{ExploreReport, Level, PointCount};
use crate::summary::{FailureReport, Verdict};
use kvsim_api::coverage::Coverage;
use kvsim_oracle::Facts;

/// The name and version of the schema.
pub const SCHEMA: &str = "kvsim.explore/1";

/// All explorations of one command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    schema: String,
    kvsim: String,
    explorations: Vec<Exploration>,
    exit_code: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct Exploration {
    scenario: String,
    profile: Option<String>,
    guest: Guest,
    seed: u64,
    /// `I/N` of a part.
    shard: Option<String>,
    recorded: Recorded,
    /// Whether `--for` ended it before all was seen.
    #[serde(default)]
    time_over: bool,
    total: Level,
    depths: Vec<Level>,
    points: Vec<PointCount>,
    #[serde(default)]
    work_errors: WorkErrorCounts,
    /// Absent in documents of older versions.
    #[serde(default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_asked: Vec<String>,
    #[serde(default)]
    marks: Coverage,
    verdict: VerdictJson,
    failures: Vec<Failure>,
    real: Real,
}

#[derive(Debug, Serialize, Deserialize)]
struct Guest {
    name: String,
    hash: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    requests: u64,
    events: u64,
    crash_points: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct VerdictJson {
    kind: String,
    reasons: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    crash_point: u64,
    property: String,
    sentence: String,
    details: Vec<String>,
    #[serde(default)]
    facts: Facts,
    crashes: u64,
    trace_hash: String,
    file: Option<String>,
    replay: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blame: Option<Said>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Real {
    seconds: f64,
    states_per_second: f64,
    cpu_seconds: Option<f64>,
    jobs: usize,
}

/// The document of all `reports`, with the exit code that the process is about to end with.
#[must_use]
pub fn document(reports: &[ExploreReport], exit_code: u8) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        kvsim: env!("CARGO_PKG_VERSION").to_owned(),
        explorations: reports.iter().map(exploration).collect(),
        exit_code,
    }
}

/// The reports in a document that `kvsim explore --json` printed.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub fn read(text: &str) -> Result<Vec<ExploreReport>, String> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| format!("it is no {SCHEMA}: {error}"))?;
    if document.schema != SCHEMA {
        return Err(format!("it is {} and not {SCHEMA}", document.schema));
    }
    document.explorations.into_iter().map(report).collect()
}

fn report(exploration: Exploration) -> Result<ExploreReport, String> {
    let seed = exploration.seed;
    let (failure_points, failures) = exploration
        .failures
        .into_iter()
        .map(|failure| {
            let report = FailureReport {
                seed,
                property: failure.property,
                sentence: failure.sentence,
                facts: failure.facts,
                crash: failure.crashes,
                trace_hash: failure.trace_hash,
                file: failure.file.map(PathBuf::from),
                unsaved: None,
                replay: failure.replay,
                blame: failure.blame.map(|said| said.blame),
                reproduced: None,
                story: None,
            };
            (failure.crash_point, report)
        })
        .unzip();
    let seconds = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).map_err(|error| format!("its times: {error}"))
    };
    Ok(ExploreReport {
        scenario: exploration.scenario,
        profile: exploration.profile,
        guest_name: exploration.guest.name,
        guest_hash: exploration.guest.hash,
        seed,
        requests: exploration.recorded.requests,
        events: exploration.recorded.events,
        points_asked: exploration.recorded.crash_points,
        points: exploration.points,
        time_over: exploration.time_over,
        work_errors: exploration.work_errors,
        levels: exploration.depths,
        not_asked: exploration.not_asked,
        coverage: exploration.marks,
        verdict: match exploration.verdict.kind.as_str() {
            "pass" => Verdict::Pass,
            "violation" => Verdict::Violation,
            "inconclusive" => Verdict::Inconclusive(exploration.verdict.reasons),
            other => return Err(format!("there is no verdict `{other}`")),
        },
        shard: exploration.shard.as_deref().map(parse_shard).transpose()?,
        failures,
        failure_points,
        elapsed: seconds(exploration.real.seconds)?,
        cpu: exploration.real.cpu_seconds.map(seconds).transpose()?,
        jobs: exploration.real.jobs,
    })
}

/// `I/N`: part I of N, counted from 0.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse_shard(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(number, count)| {
        Some((number.parse::<u64>().ok()?, count.parse::<u64>().ok()?))
    });
    match parts {
        Some((number, count)) if number < count => Ok((number, count)),
        Some((_, count)) if count > 0 => Err(format!(
            "`{text}`: shards are counted from 0, so the last one is {}/{count}",
            count - 1
        )),
        _ => Err(format!(
            "`{text}` is no shard; write I/N, such as 0/4 for the first of four"
        )),
    }
}

fn exploration(report: &ExploreReport) -> Exploration {
    let (kind, reasons) = match &report.verdict {
        Verdict::Pass => ("pass", Vec::new()),
        Verdict::Violation => ("violation", Vec::new()),
        Verdict::Inconclusive(reasons) => ("inconclusive", reasons.clone()),
    };
    let failures = report.failure_points.iter().zip(&report.failures);
    let failures = failures.map(|(point, failure)| Failure {
        crash_point: *point,
        property: failure.property.clone(),
        sentence: failure.sentence.clone(),
        details: failure.details(),
        facts: failure.facts.clone(),
        crashes: failure.crash,
        trace_hash: failure.trace_hash.clone(),
        file: failure.file.as_ref().map(|file| file.display().to_string()),
        replay: failure.replay.clone(),
        blame: failure.blame.as_ref().map(Said::from),
    });
    Exploration {
        scenario: report.scenario.clone(),
        profile: report.profile.clone(),
        guest: Guest {
            name: report.guest_name.clone(),
            hash: report.guest_hash.clone(),
        },
        seed: report.seed,
        shard: report
            .shard
            .map(|(number, count)| format!("{number}/{count}")),
        recorded: Recorded {
            requests: report.requests,
            events: report.events,
            crash_points: report.points_asked,
        },
        time_over: report.time_over,
        total: report.total(),
        depths: report.levels.clone(),
        points: report.points.clone(),
        work_errors: report.work_errors,
        not_asked: report.not_asked.clone(),
        marks: report.coverage.clone(),
        verdict: VerdictJson {
            kind: kind.to_owned(),
            reasons,
        },
        failures: failures.collect(),
        real: Real {
            seconds: report.elapsed.as_secs_f64(),
            states_per_second: report.states_per_second(),
            cpu_seconds: report.cpu.map(|cpu| cpu.as_secs_f64()),
            jobs: report.jobs,
        },
    }
}
