//! The page of `kvsim explore`.

use maud::{Markup, html};

use super::{coverage, failure, table, verdict, whole, without_result};
use kvsim_api::units::thousands;
use kvsim_drive::tally::as_f64;
use kvsim_findings::explore::{ExploreReport, PointCount, text};
use kvsim_findings::summary::Unreported;
use kvsim_findings::summary::text::Colour;

/// Columns of the picture of crash points; each stands for several where there are more.
const COLUMNS_MAX: usize = 400;
/// Rows of the table of crash points; each stands for several where there are more.
const ROWS_MAX: usize = 200;
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 24.0;

/// The page of all explorations of one command.
#[must_use]
pub fn page(reports: &[ExploreReport], unreported: &[Unreported]) -> String {
    let body = html! {
        @for report in reports { (section(report)) }
        (without_result(unreported))
    };
    whole("kvsim explore", &body)
}

fn section(report: &ExploreReport) -> Markup {
    html! {
        h2 { (report.scenario) }
        p.setting {
            "on " (report.profile.as_deref().unwrap_or("a device of its own")) ", guest " (report.guest_name) " " code { (report.guest_hash) }
        }
        (verdict(&report.verdict, &text::verdict_line(report, Colour::Off)))
        @for violation in &report.failures { (failure::section(violation)) }
        h3 { "What was explored" }
        (table(&[
            ("recorded", format!("{} requests, {} world events, seed {}", thousands(report.requests), thousands(report.events), report.seed)),
            ("crash points", format!("{} of {}", thousands(report.points.len() as u64), thousands(report.points_asked))),
        ]))
        (levels(report))
        (points(report))
        (coverage(&report.coverage))
    }
}

fn levels(report: &ExploreReport) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th { "crashes in a row" } th { "crash points" } th { "possible states" } th { "skipped: seen before" } th { "distinct" } th { "checked" }
                th { "reported" } th { "recoveries" }
            } }
            tbody { @for (depth, level) in (1..).zip(&report.levels) { tr {
                td { (depth) }
                @for count in [level.points, level.possible, level.skipped, level.distinct, level.checked, level.reported, level.recoveries] {
                    td { (thousands(count)) }
                }
            } } }
        } }
    }
}

/// Neighbouring crash points as one.
struct Group {
    first: usize,
    last: usize,
    at_ns: u64,
    pending: u64,
    sum: PointCount,
}

fn groups(points: &[PointCount], most: usize) -> Vec<Group> {
    let size = points.len().div_ceil(most).max(1);
    let group = |(index, part): (usize, &[PointCount])| {
        let sum = |of: fn(&PointCount) -> u64| part.iter().map(of).fold(0, u64::saturating_add);
        Group {
            first: index * size,
            last: index * size + part.len() - 1,
            at_ns: part.first().map_or(0, |point| point.at_ns),
            pending: part.iter().map(|point| point.pending).max().unwrap_or(0),
            sum: PointCount {
                possible: sum(|point| point.possible),
                skipped: sum(|point| point.skipped),
                distinct: sum(|point| point.distinct),
                checked: sum(|point| point.checked),
                in_flush: part.iter().any(|point| point.in_flush),
                ..PointCount::default()
            },
        }
    };
    points.chunks(size).enumerate().map(group).collect()
}

fn points(report: &ExploreReport) -> Markup {
    if report.points.is_empty() {
        return html! {};
    }
    html! {
        h3 { "States by crash point" }
        figure {
            figcaption {
                span.key.fill7 {} "possible " span.key.fill2 {} "new and checked. From the left the first crash point to the last; the height is logarithmic."
            }
            (picture(&groups(&report.points, COLUMNS_MAX)))
        }
        details {
            summary { "As figures" }
            div.wide { table {
                thead { tr {
                    th { "crash point" } th { "virtual time" } th { "most pending" } th { "in a flush" } th { "possible" } th { "skipped" }
                    th { "distinct" } th { "checked" }
                } }
                tbody { @for group in groups(&report.points, ROWS_MAX) { tr {
                    td { @if group.first == group.last { (group.first) } @else { (group.first) "–" (group.last) } }
                    td { (format!("{}.{:06} ms", group.at_ns / 1_000_000, group.at_ns % 1_000_000)) }
                    td { (group.pending) }
                    td { @if group.sum.in_flush { "yes" } }
                    @for count in [group.sum.possible, group.sum.skipped, group.sum.distinct, group.sum.checked] { td { (thousands(count)) } }
                } } }
            } }
        }
    }
}

fn picture(groups: &[Group]) -> Markup {
    let tallest = groups
        .iter()
        .map(|group| group.sum.possible)
        .max()
        .unwrap_or(1);
    let top = log(tallest).max(1.0);
    let height = |count: u64| (HEIGHT - BOTTOM) * log(count) / top;
    let width = (WIDTH - LEFT) / as_f64(groups.len() as u64);
    let bar = |index: usize, count: u64, class: &str| {
        let tall = height(count);
        html! {
            rect class=(class) x=(format!("{:.2}", LEFT + width * as_f64(index as u64))) y=(format!("{:.1}", HEIGHT - BOTTOM - tall))
                width=(format!("{:.2}", (width * 0.9).max(0.5))) height=(format!("{tall:.1}")) {}
        }
    };
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" {
            title { "Possible and checked states by crash point" }
            text x="4" y="12" { (thousands(tallest)) }
            line.grid x1=(format!("{LEFT:.1}")) x2=(format!("{WIDTH:.1}")) y1=(format!("{:.1}", HEIGHT - BOTTOM)) y2=(format!("{:.1}", HEIGHT - BOTTOM)) {}
            @for (index, group) in groups.iter().enumerate() {
                (bar(index, group.sum.possible, "fill7"))
                (bar(index, group.sum.checked, "fill2"))
            }
            text x=(format!("{LEFT:.1}")) y=(format!("{:.1}", HEIGHT - 6.0)) { "0" }
            text x=(format!("{:.1}", WIDTH - 4.0)) y=(format!("{:.1}", HEIGHT - 6.0)) text-anchor="end" {
                (groups.last().map_or(0, |group| group.last))
            }
        }
    }
}

/// A logarithm that is 0 of nothing.
fn log(count: u64) -> f64 {
    (as_f64(count) + 1.0).log10()
}
