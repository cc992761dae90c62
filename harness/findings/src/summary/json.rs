//! The results as JSON, schema `kvsim.run/2`. Fields are only ever added to a version; anything else makes a new one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::part::Part;
use super::{FailureReport, Found, Reproduction, RunReport, Verdict};
use crate::blame::Said;
use kvsim_api::coverage::Coverage;
use kvsim_drive::tally::{Tally, Times};
use kvsim_oracle::Facts;

/// The name and version of the schema.
pub const SCHEMA: &str = "kvsim.run/2";
/// The name and version of the schema of one failure.
pub const FAILURE_SCHEMA: &str = "kvsim.failure/2";

/// All runs of one command.
#[derive(Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    kvsim: &'static str,
    runs: Vec<Run>,
    errors: Vec<ErrorJson>,
    exit_code: u8,
}

/// A scenario that came to no run.
#[derive(Debug, Serialize)]
struct ErrorJson {
    scenario: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct Run {
    scenario: String,
    profile: Option<String>,
    guest: Guest,
    seeds: Seeds,
    crashes: Crashes,
    clean_closes: u64,
    checked: Checked,
    operations: Operations,
    faults: Vec<Fault>,
    never_fired: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not_asked: Vec<String>,
    coverage_points: Coverage,
    recoveries: Recoveries,
    damage: Damage,
    predicted: Predicted,
    events: u64,
    virtual_ns: u64,
    trace_hash: String,
    verdict: VerdictJson,
    failure: Option<Failure>,
    /// Of a shard only.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<Part>,
    real: RealJson,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Guest {
    pub(super) name: String,
    pub(super) hash: String,
}

#[derive(Debug, Serialize)]
struct Seeds {
    asked: String,
    done: Vec<String>,
    count: u64,
}

#[derive(Debug, Serialize)]
struct Crashes {
    total: u64,
    power: u64,
    process: u64,
    in_recovery: u64,
}

#[derive(Debug, Serialize)]
struct Checked {
    writes: u64,
    durable_writes: u64,
    relaxed_writes: u64,
    reads: u64,
}

#[derive(Debug, Serialize)]
struct Operations {
    total: u64,
    by_status: BTreeMap<Cow<'static, str>, u64>,
}

#[derive(Debug, Serialize)]
struct Fault {
    kind: String,
    asked: bool,
    possible: u64,
    fired: u64,
}

#[derive(Debug, Serialize)]
struct Recoveries {
    count: u64,
    twice: u64,
    p50_ns: u64,
    max_ns: u64,
}

#[derive(Debug, Serialize)]
struct Damage {
    reported: u64,
    reports_explained: u64,
    excused_losses: u64,
    open_failures: u64,
    devices_replaced: u64,
    open_retries: u64,
}

#[derive(Debug, Serialize)]
struct Predicted {
    operations_per_second: f64,
    working_ns: u64,
    latency: Vec<Latency>,
    user_bytes_written: u64,
    device_bytes_written: u64,
    device_flushes: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    operation: String,
    count: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

#[derive(Debug, Serialize)]
struct VerdictJson {
    kind: &'static str,
    reasons: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) seed: u64,
    pub(super) property: String,
    pub(super) sentence: String,
    details: Vec<String>,
    #[serde(default)]
    pub(super) facts: Facts,
    pub(super) crash: u64,
    pub(super) trace_hash: String,
    pub(super) file: Option<String>,
    pub(super) unsaved: Option<String>,
    pub(super) replay: Option<String>,
    reproduced: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blame: Option<Said>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RealJson {
    pub(super) seconds: f64,
    crashes_per_second: f64,
    pub(super) jobs: usize,
}

/// The document of all that was found, with the exit code that the process is about to end with.
#[must_use]
pub fn document(found: &Found, exit_code: u8) -> Document {
    Document {
        schema: SCHEMA,
        kvsim: env!("CARGO_PKG_VERSION"),
        runs: found.reports.iter().map(run).collect(),
        errors: found
            .unreported
            .iter()
            .map(|unreported| ErrorJson {
                scenario: unreported.scenario.clone(),
                message: unreported.message.clone(),
            })
            .collect(),
        exit_code,
    }
}

fn run(report: &RunReport) -> Run {
    let tally = &report.tally;
    let (kind, reasons) = match &report.verdict {
        Verdict::Pass => ("pass", Vec::new()),
        Verdict::Violation => ("violation", Vec::new()),
        Verdict::Inconclusive(reasons) => ("inconclusive", reasons.clone()),
    };
    Run {
        scenario: report.scenario.clone(),
        profile: report.profile.clone(),
        guest: Guest {
            name: report.guest_name.clone(),
            hash: report.guest_hash.clone(),
        },
        seeds: Seeds {
            asked: report.seeds_asked.to_string(),
            done: report.seeds_done.iter().map(ToString::to_string).collect(),
            count: report.seed_count(),
        },
        crashes: Crashes {
            total: tally.crashes(),
            power: tally.power_cuts,
            process: tally.process_kills,
            in_recovery: tally.crashes_in_recovery,
        },
        clean_closes: tally.clean_closes,
        checked: Checked {
            writes: tally.writes_checked(),
            durable_writes: tally.durable_writes_checked,
            relaxed_writes: tally.relaxed_writes_checked,
            reads: tally.reads_checked,
        },
        operations: Operations {
            total: tally.operations,
            by_status: tally.by_status.clone(),
        },
        faults: faults(tally),
        never_fired: report.never_fired.clone(),
        not_asked: report.not_asked.clone(),
        coverage_points: report.coverage.clone(),
        recoveries: Recoveries {
            count: tally.recoveries,
            twice: tally.recovered_twice,
            p50_ns: tally.recovery_ns.quantile_ns(0.5),
            max_ns: tally.recovery_ns.max_ns(),
        },
        damage: Damage {
            reported: tally.damage_reported,
            reports_explained: tally.reports_accepted,
            excused_losses: tally.excused_losses,
            open_failures: tally.open_failures,
            devices_replaced: tally.devices_replaced,
            open_retries: tally.open_retries,
        },
        predicted: Predicted {
            operations_per_second: tally.operations_per_second(),
            working_ns: tally.working_ns,
            latency: tally
                .latency
                .iter()
                .map(|(operation, times)| latency(operation, times))
                .collect(),
            user_bytes_written: tally.user_bytes_written,
            device_bytes_written: tally.device_bytes_written,
            device_flushes: tally.device_flushes,
        },
        events: tally.events,
        virtual_ns: tally.virtual_ns,
        trace_hash: report.trace_hash.clone(),
        verdict: VerdictJson { kind, reasons },
        failure: report.failure.as_ref().map(failure),
        part: report.part.clone(),
        real: RealJson {
            seconds: report.real.elapsed.as_secs_f64(),
            crashes_per_second: report.crashes_per_second(),
            jobs: report.real.jobs,
        },
    }
}

fn faults(tally: &Tally) -> Vec<Fault> {
    let all = tally.faults.iter();
    all.map(|(kind, f)| Fault {
        kind: kind.clone(),
        asked: f.asked,
        possible: f.possible,
        fired: f.fired,
    })
    .collect()
}

fn latency(operation: &str, times: &Times) -> Latency {
    Latency {
        operation: operation.to_owned(),
        count: times.count(),
        p50_ns: times.quantile_ns(0.5),
        p99_ns: times.quantile_ns(0.99),
        p999_ns: times.quantile_ns(0.999),
        max_ns: times.max_ns(),
    }
}

/// One failure alone, with what it was made from.
#[derive(Debug, Serialize)]
pub struct OneFailure {
    schema: &'static str,
    kvsim: &'static str,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
    failure: Failure,
}

/// The document of a failure that was made small or blamed; `size` says what it came down to.
#[must_use]
pub fn one_failure(report: &FailureReport, size: Option<String>, exit_code: u8) -> OneFailure {
    OneFailure {
        schema: FAILURE_SCHEMA,
        kvsim: env!("CARGO_PKG_VERSION"),
        exit_code,
        size,
        failure: failure(report),
    }
}

fn failure(failure: &FailureReport) -> Failure {
    Failure {
        seed: failure.seed,
        property: failure.property.clone(),
        sentence: failure.sentence.clone(),
        details: failure.details(),
        facts: failure.facts.clone(),
        crash: failure.crash,
        trace_hash: failure.trace_hash.clone(),
        file: failure.file.as_ref().map(|file| file.display().to_string()),
        unsaved: failure.unsaved.clone(),
        replay: failure.replay.clone(),
        reproduced: failure
            .reproduced
            .as_ref()
            .map(|reproduction| match reproduction {
                Reproduction::Exact => "exact".into(),
                Reproduction::SameProperty { .. } => "same_property".into(),
                Reproduction::OtherProperty { .. } => "other_property".into(),
            }),
        blame: failure.blame.as_ref().map(Said::from),
    }
}
