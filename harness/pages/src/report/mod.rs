//! Runs and explorations as pages: for a failure its story, for what went well what was done, and for both which coverage points were reached.
//!
//! Invariant: the same seed gives the same bytes, for no real time is told; a page's size is bounded, however long the run was.

mod blocks;
pub mod board;
mod explore;
mod failure;
mod lanes;
pub mod mutants;
mod run;
mod story;

use maud::{Markup, html};

use crate::page::document;
pub use explore::page as explore_page;
use kvsim_api::coverage::Coverage;
use kvsim_api::units::thousands;
use kvsim_findings::summary::{FailureReport, Unreported, Verdict};
pub use run::page as run_page;

/// The page of one failure.
#[must_use]
pub fn failure_page(failure: &FailureReport) -> String {
    whole("kvsim replay", &failure::section(failure))
}

pub(crate) fn whole(title: &str, body: &Markup) -> String {
    let body = html! {
        (lanes::patterns())
        p.setting { "kvsim " (env!("CARGO_PKG_VERSION")) }
        (body)
    };
    document(title, &body)
}

/// Scenarios that came to no result, and why.
fn without_result(unreported: &[Unreported]) -> Markup {
    html! {
        @for unreported in unreported {
            h2 { (unreported.scenario) }
            p.verdict { strong.violation { "NOT RUN" } " it came to no result" }
            pre { (unreported.message) }
        }
    }
}

/// The line that a terminal ends with, its first word told by colour too.
fn verdict(verdict: &Verdict, line: &str) -> Markup {
    let why = line.split_once(' ').map_or(line, |(_, why)| why);
    html! {
        p.verdict {
            @match verdict {
                Verdict::Pass => strong.pass { "PASS" },
                Verdict::Violation => strong.violation { "VIOLATION" },
                Verdict::Inconclusive(_) => strong.inconclusive { "INCONCLUSIVE" },
            }
            " " (why)
        }
    }
}

/// Rows of a name and what there is to say.
fn table(rows: &[(&str, String)]) -> Markup {
    html! {
        table.facts { tbody {
            @for (name, value) in rows { tr { th { (name) } td { (value) } } }
        } }
    }
}

fn coverage(coverage: &Coverage) -> Markup {
    if coverage.coverage_points.is_empty() {
        return html! {};
    }
    let is_recorded = coverage
        .coverage_points
        .iter()
        .any(|coverage_point| coverage_point.recorded > 0);
    html! {
        h3 { "Coverage points of the guest: " (coverage.reached()) " of " (coverage.coverage_points.len()) " reached" }
        div.wide { table {
            thead { tr { th { "coverage point" } th { "reached" } @if is_recorded { th { "before any crash" } } } }
            tbody { @for coverage_point in &coverage.coverage_points { tr {
                td { (coverage_point.name) }
                @if coverage_point.is_missed() { td.failed { "never" } }
                @else if coverage_point.unreachable && coverage_point.reached == 0 { td { "cannot be here" } }
                @else { td { (thousands(coverage_point.reached)) } }
                @if is_recorded { td { @if coverage_point.recorded > 0 { (thousands(coverage_point.recorded)) } } }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::parsed::{Parsed, parse};
    use kvsim_api::coverage::CoveragePoint;
    use kvsim_drive::control::Control;
    use kvsim_drive::run::{Tracing, run_seed};
    use kvsim_findings::story::Story;
    use kvsim_oracle::Facts;
    use kvsim_scenario::parse as scenario;

    /// A run of a few crashes as if it had failed, with markup wherever a text can come from elsewhere.
    fn failure(sets: &[&str]) -> FailureReport {
        let text = r#"
            profile = "nvme_consumer"
            [run]
            seeds = "3"
            events_per_crash = 400
            [workload]
            clients = 3
            keys = 20
            [faults]
            torn = 0.5
        "#;
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let scenario = scenario("page", "page", text.to_owned(), None, &sets)
            .unwrap_or_else(|error| panic!("{error}"));
        let program = kvsim_scenario::guest::load(None).expect("the built-in guest");
        let result = run_seed(&scenario, &program, 3, &Control::default(), Tracing::Record);
        FailureReport {
            seed: 3,
            property: "prefix".to_owned(),
            sentence: "the <b>write</b> & more".to_owned(),
            facts: Facts::default(),
            crash: 2,
            trace_hash: result.trace_hash,
            file: None,
            unsaved: None,
            replay: Some("kvsim replay '<i>'".to_owned()),
            reproduced: None,
            blame: None,
            story: Some(Story {
                recording: Arc::new(result.recording.expect("it was recorded")),
                facts: Facts {
                    key: Some("<script>alert(1)</script>".to_owned()),
                    op: Some(1),
                    expected: Some("a \"value\" of op 1".to_owned()),
                    found: Some("nothing <at all>".to_owned()),
                    ..Facts::default()
                },
                scenario: "x = \"</pre><script>\"\n".repeat(20_000),
            }),
        }
    }

    fn read(failure: &FailureReport) -> (Parsed, usize) {
        let page = whole("a page", &super::failure::section(failure));
        (parse(&page), page.len())
    }

    /// Goal: a failure's page says all there is to say and nothing else: what came from elsewhere is no markup, and the time line has its
    /// lanes, its cut and its answers. Method: a run of real crashes with hostile texts around it, read as a browser would.
    #[test]
    fn a_failure_is_told_and_escaped() {
        let failure = failure(&["run.crashes=2"]);
        let (parsed, _) = read(&failure);
        for wanted in [
            "the <b>write</b> & more",
            "<script>alert(1)</script>",
            "nothing <at all>",
            "kvsim replay '<i>'",
            "client 2",
            "op 1: ",
            "bytes more: the saved case has them",
        ] {
            assert!(parsed.has(wanted), "{wanted:?} is not on the page");
        }
        assert_eq!((parsed.count("b"), parsed.count("i")), (0, 0));
        let classes = |class: &str| parsed.attributes.iter().filter(|own| *own == class).count();
        assert!(classes("ack") > 3, "answers are drawn");
        assert!(classes("cut") >= 2, "cuts are drawn");
        assert!(
            parsed
                .attributes
                .iter()
                .any(|own| own.contains("hot") || own == "lanes")
        );
        assert_eq!(read(&failure).1, read(&failure).1);
    }

    /// Goal: a page stays readable, however long the run was. Method: many crashes against few.
    #[test]
    fn a_long_run_makes_no_long_page() {
        let long = failure(&["run.crashes=30"]);
        let (parsed, bytes) = read(&long);
        assert!(parsed.has("Before this: "), "what came before is summed up");
        assert!(bytes < 1_500_000, "{bytes} bytes");
    }

    /// Goal: a coverage point that nothing reached is told from one that nothing can reach, in words. Method: one of each.
    #[test]
    fn coverage_points_are_told_apart() {
        let coverage_point = |name: &str, reached, unreachable| CoveragePoint {
            name: name.to_owned(),
            reached,
            unreachable,
            ..CoveragePoint::default()
        };
        let all = Coverage {
            coverage_points: vec![
                coverage_point("a.reached", 1_234, false),
                coverage_point("b.missed", 0, false),
                coverage_point("c.excused", 0, true),
            ],
        };
        let parsed = parse(&whole("coverage", &coverage(&all)));
        for wanted in ["1 of 3 reached", "1,234", "never", "cannot be here"] {
            assert!(parsed.has(wanted), "{wanted:?}");
        }
        let none = parse(&whole("coverage", &coverage(&Coverage::default())));
        assert_eq!(none.count("table"), 0);
    }
}
