//! The report of a hunt as text: a table of mutants, one of controls, and the score.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Hunted, Report, Small, Tried};
use crate::scenario::thousands;
use crate::summary::text::Colour;

/// The head of the table of mutants.
#[must_use]
pub fn head(colour: Colour) -> String {
    let line = format!(
        "{:<32} {:>4}  {:<9} {:<22} {:<11} {:>9} {:>10}\n",
        "mutant", "bug", "", "property", "scenario", "states", "time"
    );
    colour.bold(line.trim_end()) + "\n"
}

/// The line of one mutant.
#[must_use]
pub fn line(hunted: &Hunted, colour: Colour) -> String {
    let bugs = hunted.mutant.bugs().iter().map(u8::to_string);
    let bugs = bugs.collect::<Vec<_>>().join(",");
    let (word, paint, property, scenario) = match hunted.caught() {
        Some(tried) => (
            "caught",
            "32",
            tried.failure.as_ref().map_or("", |it| it.property.as_str()),
            tried.trial.name,
        ),
        None => ("MISSED", "31", "", ""),
    };
    let mut text = format!(
        "{:<32} {bugs:>4}  {} {property:<22} {scenario:<11} {:>9} {:>10}",
        hunted.mutant.name(),
        colour.paint(paint, &format!("{word:<9}")),
        thousands(hunted.states()),
        milliseconds(hunted.elapsed()),
    );
    match &hunted.small {
        Some(Ok(small)) => text.push_str(&smaller(small)),
        Some(Err(why)) => {
            let _ = write!(text, "  (not shrunk: {why})");
        }
        None => {}
    }
    text.push('\n');
    for tried in &hunted.tried {
        if let Some(remark) = &tried.remark {
            let _ = writeln!(text, "    {}: {remark}", tried.trial.name);
        }
    }
    text
}

fn smaller(small: &Small) -> String {
    format!(
        "  {} requests, {} crashes, {} survivors, {}",
        small.requests,
        small.crashes,
        small.survivors,
        milliseconds(small.elapsed)
    )
}

/// The controls and the score.
#[must_use]
pub fn score(report: &Report, colour: Colour) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "\n{}", colour.bold("without a mutant"));
    for control in &report.controls {
        text.push_str(&control_line(control, colour));
    }
    let missed = report.missed().count();
    let caught = report.hunted.len() - missed;
    let _ = write!(text, "\n{caught} of {} caught", report.hunted.len());
    if let Some((median, worst)) = report.times() {
        let _ = write!(
            text,
            "; median {}, worst {}; {} jobs",
            milliseconds(median),
            milliseconds(worst),
            report.jobs
        );
    }
    text.push('\n');
    if missed > 0 {
        let names: Vec<&str> = report.missed().map(|hunted| hunted.mutant.name()).collect();
        let _ = writeln!(
            text,
            "{}: {}",
            colour.paint("31", "MISSED"),
            names.join(", ")
        );
    }
    if report.interrupted {
        text.push_str("interrupted; this is what is known so far\n");
    }
    text
}

fn control_line(control: &Tried, colour: Colour) -> String {
    let (word, paint) = match (&control.failure, &control.remark) {
        (Some(_), _) => ("VIOLATION", "31"),
        (None, Some(_)) => ("UNKNOWN", "33"),
        (None, None) => ("PASS", "32"),
    };
    let why = match (&control.failure, &control.remark) {
        (Some(failure), _) => format!("  {}: {}", failure.property, failure.sentence),
        (None, Some(remark)) => format!("  {remark}"),
        (None, None) => String::new(),
    };
    format!(
        "{:<32}       {} {:>45} {:>10}{why}\n",
        control.trial.name,
        colour.paint(paint, &format!("{word:<9}")),
        thousands(control.states),
        milliseconds(control.elapsed),
    )
}

fn milliseconds(time: Duration) -> String {
    format!(
        "{} ms",
        thousands(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    )
}
