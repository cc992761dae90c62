//! The report of a hunt as JSON.

use serde_json::{Value, json};

use super::catalogue::How;
use super::host::HostReport;
use super::{Hunted, Mutant, Report, Small, Tried};
use kvsim_search::exploration::left_out::{LeftOutSite, SiteEnd};

/// The name and version of the form.
pub const SCHEMA: &str = "kvsim.mutants/2";

/// The report, and the exit code that goes with it.
#[must_use]
pub fn document(report: &Report, exit_code: u8) -> Value {
    let (median, worst) = report.times().unzip();
    json!({
        "schema": SCHEMA,
        "kvsim": env!("CARGO_PKG_VERSION"),
        "exit_code": exit_code,
        "guest": { "name": report.guest.0, "hash": report.guest.1 },
        "jobs": report.jobs,
        "interrupted": report.interrupted,
        "mutants": report.hunted.iter().map(hunted).collect::<Vec<_>>(),
        "controls": report.controls.iter().map(tried).collect::<Vec<_>>(),
        "total": report.hunted.len(),
        "missed": report.missed().map(|it| it.mutant.name()).collect::<Vec<_>>(),
        "blamed_wrong": report.misblamed().map(Mutant::name).collect::<Vec<_>>(),
        "median_s": median.map(|time| time.as_secs_f64()),
        "worst_s": worst.map(|time| time.as_secs_f64()),
    })
}

/// The name and version of the form of mutants of the host.
pub const HOST_SCHEMA: &str = "kvsim.mutants.host/1";

/// The reports of the scenarios, and the exit code that goes with them.
#[must_use]
pub fn host_document(reports: &[HostReport], exit_code: u8) -> Value {
    let scenario = |report: &HostReport| {
        json!({
            "scenario": report.scenario,
            "interrupted": report.interrupted,
            "sites": report.sites.iter().map(site).collect::<Vec<_>>(),
        })
    };
    json!({
        "schema": HOST_SCHEMA,
        "kvsim": env!("CARGO_PKG_VERSION"),
        "exit_code": exit_code,
        "scenarios": reports.iter().map(scenario).collect::<Vec<_>>(),
    })
}

fn site(left_out: &LeftOutSite) -> Value {
    let (end, why) = match &left_out.end {
        SiteEnd::Caught(failure) => ("caught", Some(failure.property.clone())),
        SiteEnd::Equivalent(why) => ("equivalent", Some(why.clone())),
        SiteEnd::Undecided => ("undecided", None),
        SiteEnd::Missed(why) => ("missed", Some(why.clone())),
    };
    json!({
        "op": left_out.site.op,
        "kind": left_out.site.kind,
        "event": left_out.site.event,
        "end": end,
        "why": why,
        "points": left_out.points,
        "states": left_out.states,
        "elapsed_s": left_out.elapsed.as_secs_f64(),
    })
}

fn hunted(hunted: &Hunted) -> Value {
    let caught = hunted.caught();
    json!({
        "mutant": hunted.mutant.name(),
        "bugs": hunted.mutant.bugs(),
        "sentence": hunted.mutant.sentence(),
        "caught": caught.is_some(),
        "states": hunted.states(),
        "elapsed_s": hunted.elapsed().as_secs_f64(),
        "tried": hunted.tried.iter().map(tried).collect::<Vec<_>>(),
        "small": match &hunted.small {
            Some(Ok(it)) => small(it),
            Some(Err(why)) => json!({ "not_shrunk": why }),
            None => Value::Null,
        },
    })
}

fn tried(tried: &Tried) -> Value {
    let how = match tried.trial.how {
        How::Explore => "explore",
        How::Seeds => "seeds",
    };
    json!({
        "scenario": tried.trial.name,
        "how": how,
        "states": tried.states,
        "elapsed_s": tried.elapsed.as_secs_f64(),
        "remark": tried.remark,
        "failure": tried.failure.as_ref().map(|failure| json!({
            "property": failure.property,
            "sentence": failure.sentence,
            "seed": failure.seed,
            "file": failure.file,
            "replay": failure.replay,
        })),
    })
}

fn small(small: &Small) -> Value {
    json!({
        "requests": small.requests,
        "crashes": small.crashes,
        "persisted_writes": small.persisted,
        "blame": small.blame,
        "blame_wanted": small.fix.wanted(),
        "blame_is_right": small.is_blamed_right,
        "elapsed_s": small.elapsed.as_secs_f64(),
    })
}
