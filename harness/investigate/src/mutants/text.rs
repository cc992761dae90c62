//! The report of a hunt as text: a table of mutants, one of controls, and the score.

use std::fmt::Write as _;
use std::time::Duration;

use super::fix::Fix;
use super::host::HostReport;
use super::{Hunted, Mutant, Report, Small, Tried};
use kvsim_api::units::thousands;
use kvsim_findings::summary::text::Colour;
use kvsim_search::exploration::left_out::{LeftOutSite, SiteEnd, SiteKind};

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
    let mut text = format!(
        "  {} requests, {} crashes, {} persisted writes, {}\n    blame: {}",
        small.requests,
        small.crashes,
        small.persisted,
        milliseconds(small.elapsed),
        small.blame
    );
    if !small.is_blamed_right {
        let _ = write!(text, "\n    WRONG: it should be {}", small.fix.wanted());
    }
    text
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
    text.push_str(&shrunk(report, colour));
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

/// How small they became, and what blame says of them; nothing if that was not asked for.
fn shrunk(report: &Report, colour: Colour) -> String {
    let mut times: Vec<Duration> = report.shrunk().map(|(_, small)| small.elapsed).collect();
    times.sort_unstable();
    let (Some(worst), Some(median)) = (times.last(), times.get(times.len().saturating_sub(1) / 2))
    else {
        return String::new();
    };
    let count =
        |is: &dyn Fn(&Small) -> bool| report.shrunk().filter(|(_, small)| is(small)).count();
    let is_order = |small: &Small| matches!(small.fix, Fix::Durable | Fix::Wait | Fix::LaterAnswer);
    let is_reuse = |small: &Small| small.fix == Fix::LaterReuse;
    let is_none =
        |small: &Small| matches!(small.fix, Fix::NoOrder | Fix::Checked | Fix::StillNeeded);
    let mut text = format!(
        "{} shrunk, {} of them to at most 5 requests and 3 persisted writes; median {}, worst {}\n\
         blame is right for {} of them: {} of {} in which a flush or an answer is misplaced, {} of {} that use space again too early, and {} of \
         {} that are not of order\n",
        times.len(),
        count(&Small::is_small),
        milliseconds(*median),
        milliseconds(*worst),
        count(&|small| small.is_blamed_right),
        count(&|small| small.is_blamed_right && is_order(small)),
        count(&is_order),
        count(&|small| small.is_blamed_right && is_reuse(small)),
        count(&is_reuse),
        count(&|small| small.is_blamed_right && is_none(small)),
        count(&is_none),
    );
    let wrong: Vec<&str> = report.misblamed().map(Mutant::name).collect();
    if !wrong.is_empty() {
        let _ = writeln!(
            text,
            "{}: {}",
            colour.paint("31", "WRONG BLAME"),
            wrong.join(", ")
        );
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

/// The head of the table of sites of a scenario.
#[must_use]
pub fn host_head(scenario: &str, colour: Colour) -> String {
    let line = format!(
        "{:<10} {:>7}  {:<13} {:>7} {:>7}  {:<10}",
        scenario, "op", "left out", "points", "states", ""
    );
    colour.bold(line.trim_end()) + "\n"
}

/// The line of one site.
#[must_use]
pub fn host_line(number: usize, left_out: &LeftOutSite, colour: Colour) -> String {
    let kind = match left_out.site.kind {
        SiteKind::Flush => "flush",
        SiteKind::WriteThrough => "write-through",
    };
    let (word, paint, why) = match &left_out.end {
        SiteEnd::Caught(failure) => ("caught", "32", failure.property.as_str()),
        SiteEnd::Equivalent(why) => ("equivalent", "32", why.as_str()),
        SiteEnd::Undecided => ("undecided", "33", "the recording ends before it is covered"),
        SiteEnd::Missed(why) => ("MISSED", "31", why.as_str()),
    };
    format!(
        "{number:<10} {:>7}  {kind:<13} {:>7} {:>7}  {} {why}\n",
        left_out.site.op,
        left_out.points,
        thousands(left_out.states),
        colour.paint(paint, &format!("{word:<10}")),
    )
}

/// The score of one scenario's sites.
#[must_use]
pub fn host_score(report: &HostReport) -> String {
    let caught = report.count(|end| matches!(end, SiteEnd::Caught(_)));
    let equivalent = report.count(|end| matches!(end, SiteEnd::Equivalent(_)));
    let undecided = report.count(|end| matches!(end, SiteEnd::Undecided));
    let mut times: Vec<Duration> = report.sites.iter().map(|site| site.elapsed).collect();
    times.sort_unstable();
    let middle = times.len().saturating_sub(1) / 2;
    let mut text = format!(
        "{}: {} left out, {caught} caught, {equivalent} equivalent, {undecided} undecided, {} missed",
        report.scenario,
        report.sites.len(),
        report.missed().count(),
    );
    if let (Some(median), Some(worst)) = (times.get(middle), times.last()) {
        let _ = write!(
            text,
            "; median {}, worst {}",
            milliseconds(*median),
            milliseconds(*worst)
        );
    }
    if report.interrupted {
        text.push_str("; interrupted");
    }
    text + "\n\n"
}

fn milliseconds(time: Duration) -> String {
    format!(
        "{} ms",
        thousands(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    )
}
