//! The table of a suite, and under it what is wrong.

use std::fmt::Write as _;

use super::{Ended, Part};
use kvsim_findings::summary::text::Colour;

fn word(ended: Ended) -> (&'static str, &'static str) {
    match ended {
        Ended::Pass => ("PASS", "32"),
        Ended::Failed => ("FAILED", "31"),
        Ended::Inconclusive => ("INCONCLUSIVE", "33"),
        Ended::LeftOut => ("-", "2"),
    }
}

/// One line of the table.
#[must_use]
pub fn line(part: &Part, colour: Colour) -> String {
    let (word, code) = word(part.ended);
    let time = match part.ended {
        Ended::LeftOut => String::new(),
        _ => format!("{:.1} s", part.elapsed.as_secs_f64()),
    };
    let mut seen = part.seen.clone();
    if let Some(left_out) = &part.left_out {
        let before = if seen.is_empty() { "" } else { "; " };
        let _ = write!(seen, "{before}left out: {left_out}");
    }
    let word = colour.paint(code, &format!("{word:<12}"));
    format!("  {:<14}  {word}  {time:>8}   {seen}\n", part.name)
}

/// What is wrong, and how to see it again; and how the parts ended.
#[must_use]
pub fn ending(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        if let Some(wrong) = &part.wrong {
            let _ = writeln!(text, "\n  {}\n    {wrong}", part.name);
        }
        if let Some(replay) = &part.replay {
            let _ = writeln!(text, "    again: {replay}");
        }
    }
    let count = |ended| parts.iter().filter(|part| part.ended == ended).count();
    let kinds = [
        (Ended::Pass, "passed"),
        (Ended::Failed, "failed"),
        (Ended::Inconclusive, "inconclusive"),
        (Ended::LeftOut, "left out"),
    ];
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(ended, name)| (count(*ended), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let _ = write!(text, "\n{} parts: {}", parts.len(), kinds.join(", "));
    let cut = |part: &&Part| part.ended != Ended::LeftOut && part.left_out.is_some();
    match parts.iter().filter(cut).count() {
        0 => {}
        cut => {
            let _ = write!(text, "; {cut} cut short, since the time was over");
        }
    }
    text.push('\n');
    text
}
