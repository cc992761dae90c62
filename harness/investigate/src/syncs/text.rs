//! The table of places, and the total.

use std::fmt::Write as _;

use super::{Line, Report};
use kvsim_api::units::thousands;
use kvsim_findings::summary::text::Colour;
use kvsim_search::blame::own_functions;
use kvsim_search::exploration::sync_places::{PlaceEnd, Synced};

/// The head of the table.
#[must_use]
pub fn head(scenario: &str, guest: &str, colour: Colour) -> String {
    let title = format!("{scenario}, guest {guest}: syncs left out, one place at a time\n");
    let line = format!(
        "{:<16} {:<9} {:>5} {:<10} {:>8} {:>8}  {:<6} {}\n",
        "place", "of a", "calls", "", "points", "states", "blame", "made in"
    );
    colour.bold(title.trim_end()) + "\n" + &colour.bold(line.trim_end()) + "\n"
}

/// The line of one place, and what blame says.
#[must_use]
pub fn line(line: &Line, colour: Colour) -> String {
    let (word, paint) = match &line.left_out.end {
        PlaceEnd::Caught(_) => ("caught", "32"),
        PlaceEnd::Unneeded { .. } => ("unneeded", "32"),
        PlaceEnd::Undecided(_) => ("UNDECIDED", "33"),
    };
    let of_a = match line.place.synced {
        Synced::File => "file",
        Synced::Directory => "directory",
    };
    let right = match &line.blamed {
        Some(Ok(blamed)) if blamed.is_right => "right",
        Some(Ok(_)) => "WRONG",
        Some(Err(_)) => "none",
        None => "",
    };
    let calls = match line.left_out.nth {
        Some(nth) => format!("#{nth}"),
        None => line.place.calls.to_string(),
    };
    let mut text = format!(
        "{:<16} {of_a:<9} {calls:>5} {} {:>8} {:>8}  {right:<6} {}\n",
        line.place.place,
        colour.paint(paint, &format!("{word:<10}")),
        line.left_out.points,
        thousands(line.left_out.states),
        made_in(line),
    );
    match &line.left_out.end {
        PlaceEnd::Caught(failure) => {
            let _ = writeln!(text, "    {}: {}", failure.property, failure.sentence);
        }
        PlaceEnd::Unneeded { sampled: 0 } => {
            let _ = writeln!(text, "    all states within the bounds pass");
        }
        PlaceEnd::Unneeded { sampled } => {
            let _ = writeln!(
                text,
                "    all states that were taken pass; {sampled} crash points have more than states_per_point"
            );
        }
        PlaceEnd::Undecided(why) => {
            let _ = writeln!(text, "    {why}");
        }
    }
    match &line.blamed {
        Some(Ok(blamed)) => {
            let small = if blamed.is_small {
                ""
            } else {
                ", not made small"
            };
            let _ = writeln!(
                text,
                "    blame ({} requests{small}): {}",
                blamed.requests, blamed.blame
            );
            if let Some(replay) = &blamed.failure.replay {
                let _ = writeln!(text, "    replay: {replay}");
            }
        }
        Some(Err(why)) => {
            let _ = writeln!(text, "    not blamed: {why}");
        }
        None => {}
    }
    if line.left_out.own > 0 {
        let _ = writeln!(
            text,
            "    {} further violations fail with all syncs as well and do not count",
            line.left_out.own
        );
    }
    text
}

/// What is synced, and the functions of the engine that do it.
fn made_in(line: &Line) -> String {
    format!(
        "{} of {}, {}",
        line.place.call,
        line.place.path,
        own_functions(&line.place.frames)
    )
}

/// The total.
#[must_use]
pub fn total(report: &Report) -> String {
    let blamed = report.blamed().count();
    let right = report.blamed().filter(|blamed| blamed.is_right).count();
    let mut text = format!(
        "{}, {}: {} left out, {} caught, {} unneeded within the bounds, {} undecided; blame names the sync in {right} of {blamed}",
        report.guest,
        report.scenario,
        report.lines.len(),
        report.caught().count(),
        report.unneeded().count(),
        report.undecided().count(),
    );
    let (own, judged) = &report.control;
    let _ = match own {
        None => write!(text, "; with all syncs {} states pass", thousands(*judged)),
        Some(own) => write!(
            text,
            "\n  with all syncs the engine fails by itself under this profile, so take a stronger one: {own}"
        ),
    };
    if report.interrupted {
        text.push_str("; interrupted");
    }
    text + "\n"
}
