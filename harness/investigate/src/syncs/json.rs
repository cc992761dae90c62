//! The report for programs.

use serde_json::{Value, json};

use super::{Line, Report};
use kvsim_search::exploration::sync_places::PlaceEnd;

/// The name and version of the form.
pub const SCHEMA: &str = "kvsim.syncs/1";

/// The reports of the scenarios, and the exit code that goes with them.
#[must_use]
pub fn document(reports: &[Report], exit_code: u8) -> Value {
    let scenario = |report: &Report| {
        json!({
            "scenario": report.scenario,
            "guest": report.guest,
            "interrupted": report.interrupted,
            "control": { "violation": report.control.0, "states": report.control.1 },
            "left_out": report.lines.len(),
            "caught": report.caught().count(),
            "unneeded": report.unneeded().count(),
            "undecided": report.undecided().count(),
            "blamed": report.blamed().count(),
            "blamed_right": report.blamed().filter(|it| it.is_right).count(),
            "places": report.lines.iter().map(line).collect::<Vec<_>>(),
        })
    };
    json!({
        "schema": SCHEMA,
        "kvsim": env!("CARGO_PKG_VERSION"),
        "exit_code": exit_code,
        "scenarios": reports.iter().map(scenario).collect::<Vec<_>>(),
    })
}

fn line(line: &Line) -> Value {
    let place = &line.place;
    let (end, why, sampled) = match &line.left_out.end {
        PlaceEnd::Caught(failure) => ("caught", Some(failure.sentence.clone()), None),
        PlaceEnd::Unneeded { sampled } => ("unneeded", None, Some(*sampled)),
        PlaceEnd::Undecided(why) => ("undecided", Some(why.clone()), None),
    };
    let frames = place.frames.iter().map(|frame| {
        json!({
            "function": frame.function,
            "file": frame.file,
            "line": frame.line,
            "module_offset": frame.module_offset,
        })
    });
    let (blamed, unblamed) = match &line.blamed {
        Some(Ok(it)) => (
            Some(json!({
                "is_right": it.is_right,
                "sentence": it.blame.to_string(),
                "blame": it.blame,
                "requests": it.requests,
                "is_small": it.is_small,
                "replay": it.failure.replay,
                "file": it.failure.file,
            })),
            None,
        ),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    json!({
        "place": place.place,
        "synced": place.synced,
        "path": place.path,
        "call": place.call,
        "calls": place.calls,
        "frames": frames.collect::<Vec<_>>(),
        "nth": line.left_out.nth,
        "end": end,
        "why": why,
        "sampled_points": sampled,
        "points": line.left_out.points,
        "states": line.left_out.states,
        "own_violations": line.left_out.own,
        "elapsed_s": line.left_out.elapsed.as_secs_f64(),
        "blamed": blamed,
        "not_blamed": unblamed,
    })
}
