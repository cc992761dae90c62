//! Explorations as JSON, schema `kvsim.explore/1`. Fields are only ever added to a version; anything else makes a new one.

use serde::{Deserialize, Serialize};

use super::{ExploreReport, Level, PointCount};
use crate::summary::Verdict;

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
    recorded: Recorded,
    total: Level,
    depths: Vec<Level>,
    points: Vec<PointCount>,
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
    property: String,
    sentence: String,
    details: Vec<String>,
    crashes: u64,
    trace_hash: String,
    file: Option<String>,
    replay: Option<String>,
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

fn exploration(report: &ExploreReport) -> Exploration {
    let (kind, reasons) = match &report.verdict {
        Verdict::Pass => ("pass", Vec::new()),
        Verdict::Violation => ("violation", Vec::new()),
        Verdict::Inconclusive(reasons) => ("inconclusive", reasons.clone()),
    };
    let failures = report.failures.iter().map(|failure| Failure {
        property: failure.property.clone(),
        sentence: failure.sentence.clone(),
        details: failure.details.clone(),
        crashes: failure.crash,
        trace_hash: failure.trace_hash.clone(),
        file: failure.file.as_ref().map(|file| file.display().to_string()),
        replay: failure.replay.clone(),
    });
    Exploration {
        scenario: report.scenario.clone(),
        profile: report.profile.clone(),
        guest: Guest {
            name: report.guest_name.clone(),
            hash: report.guest_hash.clone(),
        },
        seed: report.seed,
        recorded: Recorded {
            requests: report.requests,
            events: report.events,
            crash_points: report.points_asked,
        },
        total: report.total(),
        depths: report.levels.clone(),
        points: report.points.clone(),
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
