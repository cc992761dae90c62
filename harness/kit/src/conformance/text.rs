//! The results of the rules, as text for a person: a line for each rule; under a broken rule, what was expected, what
//! came and what to do.

use std::fmt::Write as _;

use super::rule::{Conformance, Outcome};
use kvsim_findings::summary::text::Colour;

/// The whole table, and how many rules hold.
#[must_use]
pub fn table(report: &Conformance, colour: Colour, quiet: bool) -> String {
    let hash = report.hash.get(..12).unwrap_or(&report.hash);
    let mut text = format!(
        "{}  {}\n",
        colour.bold(&report.guest),
        colour.dim(&format!("guest ABI 1, module {hash}"))
    );
    for checked in &report.rules {
        let (name, about) = (checked.rule.name, checked.rule.about);
        let (word, code, note) = match &checked.outcome {
            Outcome::Holds(_) | Outcome::NotAsked(_) if quiet => continue,
            Outcome::NotReached(_) if quiet => continue,
            Outcome::Holds(seen) => ("ok", "32", seen.clone()),
            Outcome::Broken(_) => ("FAILED", "31", about.to_owned()),
            Outcome::NotAsked(why) => ("-", "2", format!("not asked: {why}")),
            Outcome::NotReached(rule) => ("-", "2", format!("not reached: {rule} failed")),
        };
        let word = colour.paint(code, &format!("{word:<6}"));
        let _ = writeln!(
            text,
            "{}",
            format!("  {word}  {name:<21}  {note}").trim_end()
        );
        if let Outcome::Broken(breach) = &checked.outcome {
            let lines = [
                ("expected", &breach.expected[..]),
                ("came", &breach.came),
                ("to do", checked.rule.help),
            ];
            for (label, line) in lines {
                let _ = writeln!(text, "            {label:<8}  {line}");
            }
        }
    }
    let _ = writeln!(text, "{}", counts(report));
    text
}

/// How many rules hold, are broken, and were left aside.
#[must_use]
pub fn counts(report: &Conformance) -> String {
    let (hold, broken) = (report.hold(), report.broken());
    let aside = report.rules.len() - hold - broken;
    let mut text = format!("{} rules: {hold} hold, {broken} failed", report.rules.len());
    if aside > 0 {
        let _ = write!(text, ", {aside} not asked");
    }
    text
}
