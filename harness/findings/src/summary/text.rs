//! The results as text for a person: aligned, with units, the verdict last and the line to paste after it.

use std::fmt::Write as _;

use super::{FailureReport, Reproduction, RunReport, Unreported, Verdict};
use kvsim_api::coverage::Coverage;
use kvsim_api::units::{SeedRange, bytes, nanoseconds, thousands};
use kvsim_drive::tally::{Tally, Times, as_f64};

/// Whether the text may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// It goes to a terminal.
    On,
    /// It does not, or the person asked for none.
    Off,
}

impl Colour {
    /// A text in this colour, where there are colours.
    pub fn paint(self, code: &str, text: &str) -> String {
        match self {
            Colour::On => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::Off => text.to_owned(),
        }
    }

    /// A text that stands out.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// A text that stands back.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// Everything about one run.
#[must_use]
pub fn summary(report: &RunReport, colour: Colour) -> String {
    let mut page = Page {
        text: String::new(),
        colour,
    };
    let tally = &report.tally;
    let profile = report.profile.as_deref().unwrap_or("device of its own");
    let heading = colour.bold(&report.scenario);
    let guest = format!("{} {}", report.guest_name, short(&report.guest_hash));
    let _ = writeln!(
        page.text,
        "{heading}  {}",
        colour.dim(&format!("on {profile}, guest {guest}"))
    );
    page.row("seeds", &thousands(report.seed_count()), &seeds(report));
    page.row("crashes", &thousands(tally.crashes()), &crashes(tally));
    page.row(
        "writes checked",
        &thousands(tally.writes_checked()),
        &kinds_of_writes(tally),
    );
    page.row("reads checked", &thousands(tally.reads_checked), "");
    page.row("operations", &thousands(tally.operations), &statuses(tally));
    page.row(
        "recoveries",
        &thousands(tally.recoveries),
        &recoveries(tally),
    );
    if tally.reports_accepted + tally.devices_replaced + tally.open_retries > 0 {
        page.row(
            "damage reported",
            &thousands(tally.damage_reported),
            &damage(tally),
        );
    }
    if tally.excused_losses > 0 {
        page.row(
            "excused",
            &thousands(tally.excused_losses),
            "acknowledged writes lost that a lie of the device, or a flush that only orders, explains",
        );
    }
    page.faults(tally);
    coverage_points(&report.coverage, |figure, note| {
        page.row("coverage points", figure, note);
    });
    not_asked(&report.not_asked, |figure, note| {
        page.row("not asked", figure, note);
    });
    page.predicted(tally);
    page.row("simulated", &long_time(tally.virtual_ns), &real(report));
    page.row(
        "traces",
        &short(&report.trace_hash),
        &colour.dim(&report.trace_hash),
    );
    page.verdict(report);
    if let Some(violation) = &report.failure {
        page.text.push_str(&failure(violation, colour));
    }
    page.text
}

/// The verdict alone, on one line.
#[must_use]
pub fn verdict_line(report: &RunReport, colour: Colour) -> String {
    let (word, why) = verdict(report);
    format!(
        "{} {}: {why}",
        colour.paint(word.1, word.0),
        report.scenario
    )
}

struct Page {
    text: String,
    colour: Colour,
}

impl Page {
    fn row(&mut self, label: &str, figure: &str, note: &str) {
        let line = format!("  {label:<16} {figure:>12}   {note}");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn faults(&mut self, tally: &Tally) {
        let mut label = "faults fired";
        for (kind, fired) in tally
            .faults
            .iter()
            .filter(|(_, fired)| fired.asked || fired.fired > 0)
        {
            let occasions = match (fired.fired, fired.possible) {
                (0, 0) => "never: there was no occasion".to_owned(),
                (0, possible) => format!("never, in {} occasions", thousands(possible)),
                (_, possible) => format!("of {} occasions", thousands(possible)),
            };
            let note = format!("{:<22} {occasions}", kind.replace('_', " "));
            self.row(label, &thousands(fired.fired), &note);
            label = "";
        }
    }

    fn predicted(&mut self, tally: &Tally) {
        if tally.working_operations == 0 {
            return;
        }
        let rate = tally.operations_per_second();
        let figure = if rate < 100.0 {
            format!("{rate:.1}")
        } else {
            thousands(rounded(rate))
        };
        let mut note = format!("operations/s in {} of work", long_time(tally.working_ns));
        if tally.user_bytes_written > 0 {
            let factor = as_f64(tally.device_bytes_written) / as_f64(tally.user_bytes_written);
            let (device, user) = (
                bytes(tally.device_bytes_written),
                bytes(tally.user_bytes_written),
            );
            let _ = write!(
                note,
                "; {device} written for {user} (×{factor:.2}), {} flushes",
                thousands(tally.device_flushes)
            );
        }
        self.row("predicted", &figure, &note);
        let header = format!(
            "{:<17}{:>11}{:>10}{:>10}{:>10}",
            "latency", "p50", "p99", "p99.9", "max"
        );
        self.row("", "", &self.colour.dim(&header));
        for (operation, times) in &tally.latency {
            let line = latency(operation, times);
            self.row("", &thousands(times.count()), &line);
        }
    }

    fn verdict(&mut self, report: &RunReport) {
        let (word, why) = verdict(report);
        let padded = format!("{:>12}", word.0);
        let _ = writeln!(
            self.text,
            "  {:<16} {}   {why}",
            self.colour.bold("verdict"),
            self.colour.paint(word.1, &padded)
        );
    }
}

/// How many of the guest's coverage points were reached, and which were not; nothing of a guest without coverage points.
pub fn coverage_points(coverage: &Coverage, mut row: impl FnMut(&str, &str)) {
    if coverage.coverage_points.is_empty() {
        return;
    }
    let missed: Vec<&str> = coverage.missed().collect();
    let mut note = format!("of {}", coverage.coverage_points.len());
    if !missed.is_empty() {
        let _ = write!(note, "; never: {}", missed.join(", "));
    }
    row(&coverage.reached().to_string(), &note);
}

/// What the guest does not offer, so that nobody asked for it; nothing if it offers all.
pub fn not_asked(missing: &[String], mut row: impl FnMut(&str, &str)) {
    if !missing.is_empty() {
        let note = format!("the guest does not offer {}", missing.join(", "));
        row(&missing.len().to_string(), &note);
    }
}

/// The last line of a command that was given several scenarios: how many ended in which way. Names what did not pass.
#[must_use]
pub fn totals<'a>(
    ended: impl Iterator<Item = (&'a str, &'a Verdict)>,
    unreported: &'a [Unreported],
    asked: usize,
) -> Option<String> {
    let (mut passed, mut failed, mut inconclusive) = (0_u64, Vec::new(), Vec::new());
    for (name, verdict) in ended {
        match verdict {
            Verdict::Pass => passed += 1,
            Verdict::Violation => failed.push(name),
            Verdict::Inconclusive(_) => inconclusive.push(name),
        }
    }
    let refused: Vec<&str> = unreported.iter().map(|it| it.scenario.as_str()).collect();
    let run = passed + (failed.len() + inconclusive.len() + refused.len()) as u64;
    if asked < 2 {
        return None;
    }
    let mut text = thousands(run);
    if run < asked as u64 {
        let _ = write!(text, " of {}", thousands(asked as u64));
    }
    let _ = write!(text, " run, {} passed", thousands(passed));
    for (names, end) in [
        (failed, "failed"),
        (inconclusive, "inconclusive"),
        (refused, "without a result"),
    ] {
        if !names.is_empty() {
            let count = thousands(names.len() as u64);
            let _ = write!(text, ", {count} {end} ({})", names.join(", "));
        }
    }
    Some(text)
}

/// A violation and how to see it again.
#[must_use]
pub fn failure(failure: &FailureReport, colour: Colour) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n  {}  seed {}",
        colour.bold(&failure.property),
        failure.seed
    );
    let _ = writeln!(text, "  {}", failure.sentence);
    for detail in failure.details() {
        let _ = writeln!(text, "    {detail}");
    }
    if let Some(blame) = &failure.blame {
        let _ = writeln!(text, "  {} {blame}", colour.bold("blame:"));
    }
    match &failure.reproduced {
        Some(Reproduction::Exact) => text
            .push_str("\n  Reproduced exactly: the same property and the same trace as saved.\n"),
        Some(Reproduction::SameProperty { changed }) => {
            let _ = writeln!(
                text,
                "\n  The same property fails, by another trace than the saved one: {changed}."
            );
        }
        Some(Reproduction::OtherProperty { saved }) => {
            let _ = writeln!(text, "\n  Not the saved failure, which was of {saved}.");
        }
        None => {}
    }
    if failure.unsaved.is_some() {
        text.push_str("\n  The failing case could not be saved.\n");
    }
    if let Some(replay) = &failure.replay {
        let _ = writeln!(text, "\n  replay: {}", colour.bold(replay));
    }
    text
}

fn verdict(report: &RunReport) -> ((&'static str, &'static str), String) {
    match (&report.verdict, &report.failure) {
        (Verdict::Pass, Some(failure)) => (
            ("PASS", "32"),
            format!("{} was violated, as expected", failure.property),
        ),
        (Verdict::Pass, None) => {
            let mut why = "nothing acknowledged was lost".to_owned();
            match report.tally.crashes_in_a_row {
                0 => {}
                1 => why.push_str(", 1 crash deep"),
                deep => {
                    let _ = write!(why, ", up to {} crashes deep", thousands(deep));
                }
            }
            if report.tally.excused_losses > 0 {
                why.push_str(" but what the device may lose or lied about");
            }
            if report.tally.damage_reported > 0 {
                why.push_str("; damage was reported, not passed on");
            }
            if !report.never_fired.is_empty() {
                let _ = write!(why, "; never fired: {}", report.never_fired.join(", "));
            }
            (("PASS", "32"), why)
        }
        (Verdict::Violation, failure) => {
            let property = failure
                .as_ref()
                .map_or("a property", |failure| failure.property.as_str());
            (("VIOLATION", "31"), format!("{property} does not hold"))
        }
        (Verdict::Inconclusive(reasons), _) => (("INCONCLUSIVE", "33"), reasons.join("; ")),
    }
}

/// The seeds that count, in words.
pub fn seeds(report: &RunReport) -> String {
    let ranges: Vec<String> = report.seeds_done.iter().map(SeedRange::to_string).collect();
    let mut text = match ranges.len() {
        0 => "none".to_owned(),
        1..=4 => ranges.join(", "),
        more => format!(
            "{}, … {} ranges … {}",
            ranges[0],
            more - 2,
            ranges[more - 1]
        ),
    };
    if let Some(part) = &report.part {
        let (number, count, all) = (part.number, part.count, part.seeds);
        text.push_str(&format!("; shard {number}/{count} of {all}"));
    }
    text
}

/// Crashes by kind.
pub fn crashes(tally: &Tally) -> String {
    let mut parts = Vec::new();
    for (count, what) in [
        (tally.power_cuts, "power cuts"),
        (tally.process_kills, "killed processes"),
        (tally.crashes_in_recovery, "of them in recovery"),
        (tally.clean_closes, "clean closes beside"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", thousands(count)));
        }
    }
    parts.join(" · ")
}

/// Writes by what was promised.
pub fn kinds_of_writes(tally: &Tally) -> String {
    let (durable, relaxed) = (tally.durable_writes_checked, tally.relaxed_writes_checked);
    format!(
        "acknowledged: {} durable · {} relaxed",
        thousands(durable),
        thousands(relaxed)
    )
}

/// Operations by how they ended.
pub fn statuses(tally: &Tally) -> String {
    let parts = tally
        .by_status
        .iter()
        .map(|(status, count)| format!("{} {}", thousands(*count), status.replace('_', " ")));
    parts.collect::<Vec<_>>().join(" · ")
}

/// Recoveries, and how long they took.
pub fn recoveries(tally: &Tally) -> String {
    let times = &tally.recovery_ns;
    let mut note = format!(
        "virtual time p50 {} · max {}",
        nanoseconds(times.quantile_ns(0.5)),
        nanoseconds(times.max_ns())
    );
    if tally.recovered_twice > 0 {
        let _ = write!(note, "; {} done twice", thousands(tally.recovered_twice));
    }
    note
}

fn damage(tally: &Tally) -> String {
    let mut parts = Vec::new();
    for (count, what) in [
        (tally.reports_accepted, "reports explained by a fault"),
        (tally.open_retries, "openings tried again"),
        (tally.devices_replaced, "devices replaced"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", thousands(count)));
        }
    }
    parts.join(" · ")
}

fn latency(operation: &str, times: &Times) -> String {
    let at = |quantile| nanoseconds(times.quantile_ns(quantile));
    format!(
        "{operation:<17}{:>11}{:>10}{:>10}{:>10}",
        at(0.5),
        at(0.99),
        at(0.999),
        nanoseconds(times.max_ns())
    )
}

fn real(report: &RunReport) -> String {
    let seconds = report.real.elapsed.as_secs_f64();
    let ratio = if seconds > 0.0 {
        as_f64(report.tally.virtual_ns) / 1e9 / seconds
    } else {
        0.0
    };
    let speed = if ratio < 10.0 {
        format!("{ratio:.1}")
    } else {
        thousands(rounded(ratio))
    };
    let states = thousands(rounded(report.crashes_per_second()));
    format!(
        "in {seconds:.1} s of real time (×{speed}) · {states} crash states/s · {} jobs",
        report.real.jobs
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate of this size, shown to a person"
)]
/// A rate without its fraction.
pub fn rounded(rate: f64) -> u64 {
    rate.round() as u64
}

/// Seconds, minutes, hours or days, whichever reads best.
fn long_time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..120 => nanoseconds(ns),
        120..7_200 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        7_200..172_800 => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// The beginning of a hash, enough to tell it from others at a glance.
pub fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}
