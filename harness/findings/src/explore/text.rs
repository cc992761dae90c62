//! An exploration as text for a person.

use std::fmt::Write as _;

use crate::explore::counts::{ErrorCounts, WorkErrorCounts};
use crate::explore::report::{ExploreReport, Level};
use crate::summary::Verdict;
use crate::summary::text::{Colour, coverage_points, failure, not_asked, rounded, short};
use kvsim_api::units::thousands;

/// Everything about one exploration.
#[must_use]
pub fn summary(report: &ExploreReport, colour: Colour) -> String {
    let mut text = String::new();
    let profile = report.profile.as_deref().unwrap_or("device of its own");
    let guest = format!("{} {}", report.guest_name, short(&report.guest_hash));
    let _ = writeln!(
        text,
        "{}  {}",
        colour.bold(&report.scenario),
        colour.dim(&format!("on {profile}, guest {guest}"))
    );
    let mut row = |label: &str, figure: u64, note: &str| {
        let line = format!("  {label:<16} {:>14}   {note}", thousands(figure));
        text.push_str(line.trim_end());
        text.push('\n');
    };
    row(
        "recorded",
        report.requests,
        &format!(
            "requests, {} world events, seed {}",
            thousands(report.events),
            report.seed
        ),
    );
    let seen = report.points.len() as u64;
    let points = if seen == report.points_asked {
        "all of the recording".to_owned()
    } else {
        format!("of {} of the recording", thousands(report.points_asked))
    };
    row("crash points", seen, &points);
    if let Some((number, count)) = report.shard {
        row(
            "shard",
            number,
            &format!("of {count}, from 0: its states alone are judged"),
        );
    }
    for (depth, level) in (1..).zip(&report.levels) {
        if report.levels.len() > 1 {
            row(
                &format!("depth {depth}"),
                level.points,
                &format!("crash points after {} crashes", depth - 1),
            );
        }
        level_rows(level, &mut row);
    }
    work_errors(&report.work_errors, &mut row);
    let total = report.total();
    row(
        "states/s",
        rounded(report.states_per_second()),
        &format!(
            "{} in {:.1} s of real time, {} recoveries, {} jobs{}",
            thousands(total.checked),
            report.elapsed.as_secs_f64(),
            thousands(total.recoveries),
            report.jobs,
            report
                .states_per_cpu_second()
                .map_or_else(String::new, |rate| {
                    format!("; {} per second of a core", thousands(rounded(rate)))
                })
        ),
    );
    left_out(&total, &report.work_errors, &mut text);
    coverage_points(&report.coverage, |figure, note| {
        let _ = writeln!(text, "  {:<16} {figure:>14}   {note}", "coverage points");
    });
    not_asked(&report.not_asked, |figure, note| {
        let _ = writeln!(text, "  {:<16} {figure:>14}   {note}", "not asked");
    });
    let (word, why) = verdict(report);
    let _ = writeln!(
        text,
        "  {:<16} {}   {why}",
        colour.bold("verdict"),
        colour.paint(word.1, &format!("{:>14}", word.0))
    );
    for violation in &report.failures {
        text.push_str(&failure(violation, colour));
    }
    text
}

/// The verdict alone, on one line.
#[must_use]
pub fn verdict_line(report: &ExploreReport, colour: Colour) -> String {
    let (word, why) = verdict(report);
    format!(
        "{} {}: {why}",
        colour.paint(word.1, word.0),
        report.scenario
    )
}

fn level_rows(level: &Level, row: &mut impl FnMut(&str, u64, &str)) {
    row("possible", level.possible, "states within the bounds");
    if level.taken < level.possible {
        row(
            "sampled",
            level.possible - level.taken,
            "of them left out by states_per_point",
        );
    }
    row(
        "skipped",
        level.skipped,
        "of them seen before: same bytes, same obligations",
    );
    row("distinct", level.distinct, "new");
    row("checked", level.checked, "recovered and judged");
    if level.reported > 0 {
        row(
            "reported",
            level.reported,
            "of them damage or a device error that a fault explains",
        );
    }
    let ErrorCounts {
        tried,
        refused,
        opened,
    } = level.errors;
    if tried > 0 {
        row(
            "device errors",
            tried,
            &format!(
                "recoveries in which a read, write or flush failed: {} refused, {} opened all the same",
                thousands(refused),
                thousands(opened)
            ),
        );
    }
}

fn work_errors(counts: &WorkErrorCounts, row: &mut impl FnMut(&str, u64, &str)) {
    if counts.runs() == 0 {
        return;
    }
    row(
        "work errors",
        counts.runs(),
        &format!(
            "runs in which one operation failed: a read in {}, a write in {}, a flush in {}; {} crash points after it, {} states",
            thousands(counts.reads),
            thousands(counts.writes),
            thousands(counts.flushes),
            thousands(counts.points),
            thousands(counts.states)
        ),
    );
}

fn left_out(total: &Level, errors: &WorkErrorCounts, text: &mut String) {
    let left_out = &total.left_out;
    let mut label = "bounds left out";
    for (count, what) in [
        (
            left_out.sampled,
            "crash points: states beyond states_per_point",
        ),
        (
            left_out.subsets,
            "crash points: subsets beyond subset_writes",
        ),
        (
            left_out.several_torn,
            "crash points: more torn writes than torn_writes",
        ),
        (
            left_out.tears,
            "crash points: tears of writes beyond tear_sectors, and tears within a sector elsewhere",
        ),
        (
            left_out.orders,
            "crash points: orders of many writes over the same sectors",
        ),
        (
            errors.ops_left_out,
            "operations that did not fail, beyond work_errors_max",
        ),
        (
            errors.drops_left_out,
            "failing flushes: subsets that they drop, beyond work_errors_drops",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {label:<16} {:>14}   {what}", thousands(count));
            label = "";
        }
    }
}

fn verdict(report: &ExploreReport) -> ((&'static str, &'static str), String) {
    match (&report.verdict, report.failures.first()) {
        (Verdict::Pass, Some(failure)) => (
            ("PASS", "32"),
            format!("{} was violated, as expected", failure.property),
        ),
        (Verdict::Pass, None) => {
            let depth = match report.depth() {
                1 => "1 crash deep".to_owned(),
                deep => format!("{deep} crashes deep"),
            };
            let mut why = format!("nothing acknowledged is lost in any of these states, {depth}");
            if report.time_over {
                let (done, all) = (report.points_done() as u64, report.points_asked);
                let (done, all) = (thousands(done), thousands(all));
                let _ = write!(why, "; the time ended after {done} of {all} crash points");
            }
            (("PASS", "32"), why)
        }
        (Verdict::Violation, failure) => {
            let property = failure.map_or("a property", |failure| failure.property.as_str());
            (("VIOLATION", "31"), format!("{property} does not hold"))
        }
        (Verdict::Inconclusive(reasons), _) => (("INCONCLUSIVE", "33"), reasons.join("; ")),
    }
}
