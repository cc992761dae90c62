//! The page of `kvsim run` and `kvsim replay`.

use maud::{Markup, html};

use super::{coverage, failure, table, verdict, whole, without_result};
use crate::page::chart::{Curve, colour, curves};
use kvsim_api::units::{nanoseconds, thousands};
use kvsim_drive::tally::{Tally, Times, as_f64};
use kvsim_findings::summary::text::{self, Colour};
use kvsim_findings::summary::{Found, RunReport};

/// Points of a curve.
const POINTS: u32 = 60;
/// Points for each nine.
const POINTS_PER_NINE: u32 = 20;

/// The page of all runs of one command.
#[must_use]
pub fn page(found: &Found) -> String {
    let body = html! {
        @for report in &found.reports { (section(report)) }
        (without_result(&found.unreported))
    };
    whole("kvsim run", &body)
}

fn section(report: &RunReport) -> Markup {
    let tally = &report.tally;
    html! {
        h2 { (report.scenario) }
        p.setting {
            "on " (report.profile.as_deref().unwrap_or("a device of its own")) ", guest " (report.guest_name) " " code { (report.guest_hash) }
        }
        (verdict(&report.verdict, &text::verdict_line(report, Colour::Off)))
        @if let Some(violation) = &report.failure { (failure::section(violation)) }
        h3 { "What was done" }
        (table(&[
            ("seeds", format!("{}: {}", thousands(report.seed_count()), text::seeds(report))),
            ("crashes", format!("{}: {}", thousands(tally.crashes()), text::crashes(tally))),
            ("writes checked", format!("{}, {}", thousands(tally.writes_checked()), text::kinds_of_writes(tally))),
            ("reads checked", thousands(tally.reads_checked)),
            ("operations", format!("{}: {}", thousands(tally.operations), text::statuses(tally))),
            ("recoveries", format!("{}, {}", thousands(tally.recoveries), text::recoveries(tally))),
            ("virtual time", nanoseconds(tally.virtual_ns)),
            ("traces of all seeds", report.trace_hash.clone()),
        ]))
        (faults(tally))
        (coverage(&report.coverage))
        (latencies(tally))
    }
}

fn faults(tally: &Tally) -> Markup {
    if tally.faults.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Faults" }
        div.wide { table {
            thead { tr { th { "fault" } th { "fired" } th { "occasions" } } }
            tbody { @for (kind, fired) in &tally.faults { tr {
                td { (kind.replace('_', " ")) }
                @if fired.asked && fired.fired == 0 { td.failed { "never" } } @else { td { (thousands(fired.fired)) } }
                td { (thousands(fired.possible)) }
            } } }
        } }
    }
}

/// Latencies and recovery times, as curves and as figures.
fn latencies(tally: &Tally) -> Markup {
    let recovery = (tally.recovery_ns.count() > 0).then_some(("recovery", &tally.recovery_ns));
    let all: Vec<(&str, &Times)> = tally
        .latency
        .iter()
        .map(|(name, times)| (name.as_str(), times))
        .chain(recovery)
        .collect();
    if all.is_empty() {
        return html! {};
    }
    let drawn: Vec<Curve> = all.iter().map(|(name, times)| curve(name, times)).collect();
    html! {
        h3 { "Latency and recovery, in virtual time" }
        figure {
            figcaption {
                @for (index, (name, _)) in all.iter().enumerate() {
                    span class=(format!("key {}", colour("fill", index))) {} (name) " "
                }
            }
            (curves("Virtual time by share of the operations", &drawn))
        }
        div.wide { table {
            thead { tr { th { "what" } th { "count" } th { "p50" } th { "p99" } th { "p99.9" } th { "max" } } }
            tbody { @for (name, times) in &all { tr {
                td { (name) }
                td { (thousands(times.count())) }
                @for quantile in [0.5, 0.99, 0.999] { td { (nanoseconds(times.quantile_ns(quantile))) } }
                td { (nanoseconds(times.max_ns())) }
            } } }
        } }
    }
}

fn curve(name: &str, times: &Times) -> Curve {
    let count = as_f64(times.count());
    let shares = (0..=POINTS).map(|step| {
        let nines = f64::from(step) / f64::from(POINTS_PER_NINE);
        1.0 - 10_f64.powf(-nines)
    });
    Curve {
        label: name.to_owned(),
        // Beyond one operation there is no tail to speak of.
        points: shares
            .filter(|share| (1.0 - share) * count >= 1.0)
            .map(|share| (share, as_f64(times.quantile_ns(share))))
            .collect(),
    }
}
