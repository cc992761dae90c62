//! A failure on a page: what was expected and what came back, the time line up to the cut and beyond, the device at the cut, the case.

use maud::{Markup, html};

use super::story::{Story, Telling};
use super::{blocks, lanes};
use kvsim_api::units::{counted, thousands};
use kvsim_drive::timeline::{Entry, Kind};
use kvsim_findings::summary::{FailureReport, Reproduction};

/// Bytes of the scenario that are shown.
const SCENARIO_BYTES_MAX: usize = 200_000;

/// The section of a failure.
pub(super) fn section(failure: &FailureReport) -> Markup {
    html! {
        h3 { strong.violation { (failure.property) } " does not hold" }
        p.sentence { (failure.sentence) }
        @if let Some(blame) = &failure.blame { p.blame { strong { "Blame: " } (blame.to_string()) } }
        (facts(failure))
        @match &failure.story {
            Some(story) => (told(story)),
            None => p.setting { "The run was not recorded here; replay it with --report to see it." },
        }
    }
}

fn facts(failure: &FailureReport) -> Markup {
    let row = |name: &str, value: Markup| html! { tr { th { (name) } td { (value) } } };
    html! {
        table.facts { tbody {
            @match &failure.story {
                Some(story) => {
                    @let facts = &story.facts;
                    @if let Some(key) = &facts.key { (row("key", html! { code { (key) } })) }
                    @if let Some(expected) = &facts.expected { (row("expected", html! { (expected) })) }
                    @if let Some(found) = &facts.found { (row("found", html! { strong.violation { (found) } })) }
                    @if let Some(op) = facts.op { (row("operation", html! {
                        "op " (op)
                        @if let Some(client) = facts.client { " of client " (client) }
                        @if let Some(ns) = facts.handed_in_ns { ", handed in at " (moment(ns)) }
                        @if let Some(ns) = facts.acknowledged_ns { ", acknowledged at " (moment(ns)) }
                    })) }
                    @if facts.keys_wrong > 1 { (row("keys wrong", html! { (thousands(facts.keys_wrong)) })) }
                    @if facts.acknowledged_lost > 0 {
                        (row("lost", html! { (counted(facts.acknowledged_lost, "acknowledged write", "acknowledged writes")) }))
                    }
                    @if !facts.stack.is_empty() {
                        (row("backtrace", html! { @for function in &facts.stack { code { (function) } br; } }))
                    }
                }
                None => @for line in failure.details() { tr { td colspan="2" { (line) } } }
            }
            (row("seed", html! { (failure.seed) }))
            (row("trace of this seed", html! { code { (failure.trace_hash) } }))
            @if let Some(replay) = &failure.replay { (row("replay", html! { code { (replay) } })) }
            @if let Some(file) = &failure.file { (row("case", html! { (file.display().to_string()) })) }
            @if let Some(reproduced) = &failure.reproduced { (row("saved failure", html! { (again(reproduced)) })) }
        } }
    }
}

fn again(reproduced: &Reproduction) -> String {
    match reproduced {
        Reproduction::Exact => "reproduced exactly".to_owned(),
        Reproduction::SameProperty { changed } => {
            format!("the same property, by another trace: {changed}")
        }
        Reproduction::OtherProperty { saved } => format!("was of {saved}"),
    }
}

/// A moment as the oracle's sentences have it.
fn moment(ns: u64) -> String {
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}

fn told(story: &Story) -> Markup {
    let Some(telling) = Telling::of(story) else {
        return html! {};
    };
    let scene = telling.scene();
    let earlier = telling.earlier;
    html! {
        h3 { "What happened" }
        @if !telling.concerned.is_empty() {
            p.setting { "The operation concerned:" }
            (lines(&telling.concerned))
        }
        figure {
            figcaption {
                span.key.fill0 {} "writes " span.key.fill5 {} "reads and checks "
                span.key.fill7 {} "operations of the device " span.key.fill3 {} "flushes. "
                "A dot at the end of a request is its answer; a square one that is not ok. What was pending at the cut is marked as in the map below. "
                "Time is not to scale: long pauses are drawn short. Point at a bar to read what it is. "
                @if earlier.lines > 0 {
                    " Before this: " (counted(earlier.lines, "line", "lines")) ", with " (counted(earlier.requests, "request", "requests")) ", "
                    (counted(earlier.writes, "write", "writes")) ", " (counted(earlier.flushes, "flush", "flushes")) " and "
                    (counted(earlier.cuts, "cut", "cuts")) "."
                }
                @if telling.later > 0 { " After it: " (counted(telling.later, "line", "lines")) "." }
            }
            div.wide { (lanes::picture(&scene)) }
        }
        details {
            summary { "The same in words, " (telling.entries.len()) " lines" }
            (lines(&telling.entries))
        }
        @if let Some((cut, killed)) = scene.cut {
            h3 { "The device at the cut" }
            (blocks::section(cut, killed))
        }
        h3 { "The case" }
        details {
            summary { "The scenario that fails so, with every field" }
            pre { (bounded(&story.scenario)) }
        }
    }
}

fn lines(entries: &[Entry]) -> Markup {
    html! {
        pre.told {
            @for entry in entries {
                @if matches!(entry.kind, Kind::Cut(_)) { strong.violation { (entry.to_string()) } }
                @else { (entry.to_string()) }
                "\n"
            }
        }
    }
}

/// The beginning of a long text.
fn bounded(text: &str) -> String {
    if text.len() <= SCENARIO_BYTES_MAX {
        return text.to_owned();
    }
    let mut end = SCENARIO_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!(
        "{}\n… {} bytes more: the saved case has them",
        &text[..end],
        thousands((text.len() - end) as u64)
    )
}
