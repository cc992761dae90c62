//! The report of `kvsim mutants --shipped`: what a user gets who runs the scenarios that ship and shrinks the first failure.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Hunted, Report, Small};
use kvsim_findings::summary::text::Colour;
use kvsim_search::minimise::LIMIT;

/// The name and version of the form in JSON.
pub const SCHEMA: &str = "kvsim.mutants.shipped/1";

/// Requests of a small case at most.
pub const REQUESTS_MAX: usize = 5;

/// The head of the table.
#[must_use]
pub fn head(colour: Colour) -> String {
    let line = format!(
        "{:<32} {:<12} {:>5} {:>8}  {:>8} {:>7} {:>9} {:>8} {:>8} {:<5}  {}",
        "mutant",
        "scenario",
        "seed",
        "found",
        "requests",
        "crashes",
        "persisted",
        "small",
        "cpu",
        "ended",
        "blame"
    );
    colour.bold(&line) + "\n"
}

/// The rows of one mutant: what was found, how small it became, and what blame says.
#[must_use]
pub fn line(hunted: &Hunted, colour: Colour) -> String {
    let name = hunted.mutant.name();
    let Some(tried) = hunted.caught() else {
        let found = seconds(hunted.elapsed());
        return format!(
            "{name:<32} {:<12} {:>5} {found:>8}\n",
            colour.paint("31", &format!("{:<12}", "MISSED")),
            ""
        );
    };
    let seed = tried.failure.as_ref().map_or(0, |failure| failure.seed);
    let found = seconds(hunted.elapsed());
    let mut text = format!("{name:<32} {:<12} {seed:>5} {found:>8}  ", tried.trial.name);
    match &hunted.small {
        Some(Ok(small)) => text.push_str(&shrunk(small, colour)),
        Some(Err(why)) => {
            let _ = writeln!(text, "{}", colour.paint("31", why));
        }
        None => text.push('\n'),
    }
    text
}

fn shrunk(small: &Small, colour: Colour) -> String {
    let (word, paint) = if small.is_blamed_right {
        ("right", "32")
    } else {
        ("WRONG", "31")
    };
    let mut text = format!(
        "{:>8} {:>7} {:>9} {:>8} {:>8} {:<5}  {}: {}\n",
        small.requests,
        small.crashes,
        small.persisted,
        seconds(small.elapsed),
        small.cpu.map_or_else(String::new, seconds),
        small.ended.word(),
        colour.paint(paint, word),
        small.blame
    );
    if !small.is_blamed_right {
        let _ = writeln!(text, "{:>34}it should be: {}", "", small.fix.wanted());
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The sums over all mutants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Mutants.
    pub mutants: usize,
    /// Of these, caught.
    pub caught: usize,
    /// Of these, shrunk to at most [`REQUESTS_MAX`] requests.
    pub small: usize,
    /// Caught and not shrunk at all: an error or a panic of kvsim.
    pub not_shrunk: usize,
    /// Shrunk and blamed within [`LIMIT`], and a second for what cannot be interrupted; or in no more processor time than that, on a machine with
    /// something else to do.
    pub in_time: usize,
    /// Blamed as the catalogue says.
    pub blamed_right: usize,
}

fn is_in_time(small: &Small) -> bool {
    let limit = LIMIT + Duration::from_secs(1);
    small.elapsed <= limit || small.cpu.is_some_and(|cpu| cpu <= limit)
}

/// Counts the rows.
#[must_use]
pub fn totals(report: &Report) -> Totals {
    let mut totals = Totals {
        mutants: report.hunted.len(),
        caught: report.hunted.len() - report.missed().count(),
        ..Totals::default()
    };
    for hunted in &report.hunted {
        match &hunted.small {
            Some(Ok(small)) => {
                totals.small += usize::from(small.requests <= REQUESTS_MAX);
                totals.in_time += usize::from(is_in_time(small));
                totals.blamed_right += usize::from(small.is_blamed_right);
            }
            Some(Err(_)) => totals.not_shrunk += 1,
            None => {}
        }
    }
    totals
}

/// The sums as text.
#[must_use]
pub fn score(report: &Report) -> String {
    let totals = totals(report);
    let mut text = format!(
        "\n{} of {} caught; {} shrunk to at most {REQUESTS_MAX} requests, {} within {} s; blame agrees with the catalogue for {}; {} not shrunk; {} jobs\n",
        totals.caught,
        totals.mutants,
        totals.small,
        totals.in_time,
        LIMIT.as_secs(),
        totals.blamed_right,
        totals.not_shrunk,
        report.jobs
    );
    if report.interrupted {
        text.push_str("interrupted; this is what is known so far\n");
    }
    text
}

/// The report as JSON, and the exit code that goes with it.
#[must_use]
pub fn document(report: &Report, exit_code: u8) -> Value {
    let totals = totals(report);
    json!({
        "schema": SCHEMA,
        "kvsim": env!("CARGO_PKG_VERSION"),
        "exit_code": exit_code,
        "guest": { "name": report.guest.0, "hash": report.guest.1 },
        "jobs": report.jobs,
        "interrupted": report.interrupted,
        "mutants": report.hunted.iter().map(row).collect::<Vec<_>>(),
        "total": totals.mutants,
        "caught": totals.caught,
        "small": totals.small,
        "not_shrunk": totals.not_shrunk,
        "in_time": totals.in_time,
        "blamed_right": totals.blamed_right,
    })
}

fn row(hunted: &Hunted) -> Value {
    let failure = hunted.caught().and_then(|tried| tried.failure.as_ref());
    json!({
        "mutant": hunted.mutant.name(),
        "scenario": hunted.caught().map(|tried| tried.trial.name),
        "seed": failure.map(|failure| failure.seed),
        "property": failure.map(|failure| failure.property.clone()),
        "file": failure.and_then(|failure| failure.file.clone()),
        "found_s": hunted.elapsed().as_secs_f64(),
        "small": match &hunted.small {
            Some(Ok(small)) => json!({
                "requests": small.requests,
                "crashes": small.crashes,
                "persisted_writes": small.persisted,
                "elapsed_s": small.elapsed.as_secs_f64(),
                "processor_s": small.cpu.map(|cpu| cpu.as_secs_f64()),
                "ended": small.ended.word(),
                "blame": small.blame,
                "blame_wanted": small.fix.wanted(),
                "blame_is_right": small.is_blamed_right,
                "file": small.file,
            }),
            Some(Err(why)) => json!({ "not_shrunk": why }),
            None => Value::Null,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::catalogue::SHIPPED;
    use crate::mutants::fix::Fix;
    use crate::mutants::{Ended, Mutant, Tried};

    fn hunted(mutant: Mutant, small: Option<Result<Small, String>>) -> Hunted {
        let failure = small
            .as_ref()
            .map(|_| kvsim_findings::summary::FailureReport {
                seed: 7,
                property: "prefix".to_owned(),
                sentence: String::new(),
                facts: kvsim_oracle::Facts::default(),
                crash: 1,
                trace_hash: String::new(),
                file: None,
                unsaved: None,
                replay: None,
                reproduced: None,
                story: None,
                blame: None,
            });
        Hunted {
            mutant,
            tried: vec![Tried {
                trial: SHIPPED[0],
                states: 1,
                failure,
                remark: None,
                elapsed: Duration::from_secs(1),
            }],
            small,
        }
    }

    fn small(requests: usize, right: bool, seconds: u64) -> Small {
        Small {
            requests,
            crashes: 1,
            persisted: 0,
            blame: "an ordering bug".to_owned(),
            fix: Fix::Durable,
            is_blamed_right: right,
            file: None,
            elapsed: Duration::from_secs(seconds),
            cpu: None,
            ended: Ended::Done,
        }
    }

    /// Goal: each row counts for what it is. Method: a small one, a large one that is blamed wrong and late, one that panicked, one missed.
    #[test]
    fn totals_count_each_kind_of_row() {
        let report = Report {
            hunted: vec![
                hunted(Mutant::ALL[0], Some(Ok(small(5, true, 1)))),
                hunted(Mutant::ALL[1], Some(Ok(small(6, false, 90)))),
                hunted(Mutant::ALL[2], Some(Err("internal error".to_owned()))),
                hunted(Mutant::ALL[3], None),
            ],
            jobs: 2,
            ..Report::default()
        };
        let expected = Totals {
            mutants: 4,
            caught: 3,
            small: 1,
            not_shrunk: 1,
            in_time: 1,
            blamed_right: 1,
        };
        assert_eq!(totals(&report), expected);
        let rows = report.hunted.iter().map(|row| line(row, Colour::Off));
        let text: String = rows.collect();
        for part in ["right: an ordering", "WRONG", "internal error", "MISSED"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(document(&report, 3)["mutants"][1]["small"]["requests"], 6);
    }
}
