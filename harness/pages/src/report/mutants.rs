//! The page of `kvsim mutants`: the score, what was missed, then every mutant with how it was caught and what blame says.
//!
//! Invariant: no real time, so the same hunt gives the same bytes.

use maud::{Markup, html};

use super::whole;
use kvsim_api::units::thousands;
use kvsim_investigate::mutants::{Hunted, Report, Small, Tried};

/// The page of one hunt.
#[must_use]
pub fn page(report: &Report) -> String {
    let (all, missed) = (report.hunted.len(), report.missed().count());
    let (name, hash) = &report.guest;
    let is_shrunk = report.hunted.iter().any(|hunted| hunted.small.is_some());
    let body = html! {
        p.setting { "guest " (name) " " code { (hash) } }
        p.verdict {
            @if missed == 0 && !report.interrupted { strong.pass { "ALL CAUGHT" } }
            @else if missed == 0 { strong.inconclusive { "INTERRUPTED" } }
            @else { strong.violation { "MISSED" } }
            " " (all - missed) " of " (all) " caught"
            @for hunted in report.missed() { ", " (hunted.mutant.name()) " missed" }
        }
        h2 { "Mutants" }
        div.wide { table {
            thead { tr {
                th { "mutant" } th { "end" } th { "property" } th { "scenario" } th { "states" }
                @if is_shrunk { th { "small case" } th { "blame" } }
            } }
            tbody { @for hunted in &report.hunted { (row(hunted, is_shrunk)) } }
        } }
        @if !report.controls.is_empty() {
            h2 { "Without a mutant" }
            div.wide { table {
                thead { tr { th { "scenario" } th { "end" } th { "states" } th { "why" } } }
                tbody { @for control in &report.controls { (unmutated(control)) } }
            } }
        }
    };
    whole("kvsim mutants", &body)
}

fn row(hunted: &Hunted, is_shrunk: bool) -> Markup {
    let caught = hunted.caught();
    let failure = caught.and_then(|tried| tried.failure.as_ref());
    html! { tr {
        td { code { (hunted.mutant.name()) } br; (hunted.mutant.sentence()) }
        @if caught.is_some() { td { "caught" } } @else { td.failed { "missed" } }
        td { @if let Some(failure) = failure { (failure.property) } }
        td {
            @if let Some(tried) = caught { (tried.trial.name) }
            @for tried in &hunted.tried { @if let Some(remark) = &tried.remark { " " (tried.trial.name) ": " (remark) } }
        }
        td { (thousands(hunted.states())) }
        @match &hunted.small {
            Some(Ok(small)) => (shrunk(small)),
            Some(Err(why)) => { td.failed { "not shrunk: " (why) } td {} }
            None => @if is_shrunk { td {} td {} }
        }
    } }
}

fn shrunk(small: &Small) -> Markup {
    html! {
        td { (small.requests) " requests, " (small.crashes) " crashes, " (small.persisted) " persisted writes" }
        @if small.is_blamed_right { td { (small.blame) } }
        @else { td.failed { (small.blame) br; "It should be " (small.fix.wanted()) "." } }
    }
}

fn unmutated(control: &Tried) -> Markup {
    html! { tr {
        td { (control.trial.name) }
        @match (&control.failure, &control.remark) {
            (Some(failure), _) => {
                td.failed { "violation" } td { (thousands(control.states)) } td { (failure.property) ": " (failure.sentence) }
            }
            (None, Some(remark)) => { td { "unknown" } td { (thousands(control.states)) } td { (remark) } }
            (None, None) => { td { "pass" } td { (thousands(control.states)) } td {} }
        }
    } }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::parsed::parse;
    use kvsim_investigate::mutants::Mutant;
    use kvsim_investigate::mutants::catalogue::TRIALS;

    /// Goal: what was missed stands above the table, and nothing is taken for markup. Method: a mutant that none caught, with a remark of
    /// markup, and a control that could not be run.
    #[test]
    fn what_was_missed_is_said_first() {
        let tried = |remark: &str| Tried {
            trial: TRIALS[0],
            states: 1_234,
            failure: None,
            remark: Some(remark.to_owned()),
            elapsed: Duration::from_secs(1),
        };
        let hunted = Hunted {
            mutant: Mutant::ALL[0],
            tried: vec![tried("<b>no</b> & more")],
            small: Some(Err("it <i>cannot</i> be".to_owned())),
        };
        let report = Report {
            guest: ("it".to_owned(), "abc".to_owned()),
            jobs: 2,
            hunted: vec![hunted],
            controls: vec![tried("interrupted")],
            interrupted: false,
        };
        let parsed = parse(&page(&report));
        for wanted in [
            "MISSED",
            "0 of 1 caught",
            Mutant::ALL[0].sentence(),
            "1,234",
            "<b>no</b> & more",
            "it <i>cannot</i> be",
            "Without a mutant",
            "unknown",
        ] {
            assert!(parsed.has(wanted), "{wanted:?} is not on the page");
        }
        assert_eq!((parsed.count("b"), parsed.count("i")), (0, 0));
    }
}
