//! A scenario with every default filled in, as TOML that loads again to the same scenario, with a word on each field.

use serde::Serialize;

use super::fields::FIELDS;
use crate::case::Case;
use crate::scenario::{Expect, FailureRecord, Scenario};

/// The column in which the comments begin, where the value leaves room.
const COMMENT_COLUMN: usize = 44;

/// Renders the whole scenario; of one that varies, what all seeds have in common: [`Scenario::of_seed`] gives the rest.
///
/// # Panics
/// Never: every scenario that loads can be written.
#[must_use]
pub fn explain(scenario: &Scenario) -> String {
    const FITS: &str = "a scenario is made of tables, strings, numbers and booleans";
    let mut plain = scenario.clone();
    let case = plain.case.take();
    let mut toml = toml::to_string(&plain).expect(FITS);
    // The device counts for nothing where there are files, and could not be loaded beside them. It comes last.
    if plain.files.is_some()
        && let Some(at) = toml.find("\n[device]\n")
    {
        toml.truncate(at + 1);
    }
    let Some(case) = case else {
        return annotate(&toml);
    };
    // What failed and how to get there come before settings that say little. One request a line: they are many, and are there to
    // be read and to be taken out.
    let head = toml::to_string(&Head::of(&plain)).expect(FITS);
    let case = toml::to_string_pretty(&CaseTable { case }).expect(FITS);
    let rest = toml
        .strip_prefix(&head)
        .expect("a scenario begins with its head");
    annotate(&format!("{head}\n{case}{rest}"))
}

/// The fields with which a scenario begins, in its order.
#[derive(Serialize)]
struct Head<'a> {
    name: &'a str,
    description: &'a str,
    expect: Expect,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a FailureRecord>,
}

impl Head<'_> {
    fn of(scenario: &Scenario) -> Head<'_> {
        Head {
            name: &scenario.name,
            description: &scenario.description,
            expect: scenario.expect,
            profile: scenario.profile.as_deref(),
            failure: scenario.failure.as_ref(),
        }
    }
}

/// The steps of a failing case under the name that they have in a scenario.
#[derive(Serialize)]
struct CaseTable {
    case: Case,
}

/// Adds the comment of each field to its line.
fn annotate(toml: &str) -> String {
    let mut text = String::new();
    let mut table = String::new();
    let mut open_quote: Option<&str> = None;
    for line in toml.lines() {
        if let Some(quote) = open_quote {
            if line.contains(quote) {
                open_quote = None;
            }
            text.push_str(line);
            text.push('\n');
            continue;
        }
        let mut comment = None;
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_matches(['[', ']']).to_owned();
            comment = describe(&table);
        } else if let Some((key, value)) = line.split_once(" = ") {
            let path = if table.is_empty() {
                key.to_owned()
            } else {
                format!("{table}.{key}")
            };
            comment = describe(&path);
            open_quote = ["\"\"\"", "'''"]
                .into_iter()
                .find(|quote| value.starts_with(quote) && value.matches(quote).count() == 1);
        }
        match comment.filter(|_| open_quote.is_none()) {
            Some(comment) => text.push_str(&format!("{line:COMMENT_COLUMN$} # {comment}\n")),
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// What the field at a dotted path means. An entry that ends with `.*` stands for all fields of that table. One that
/// ends with `.*.*` stands for all fields of all tables in that table. One that begins with `*.` stands for fields of
/// that name where no other entry matches.
pub(crate) fn describe(path: &str) -> Option<&'static str> {
    let exact = |wanted: &str| {
        FIELDS
            .iter()
            .find(|(field, _)| *field == wanted)
            .map(|(_, meaning)| *meaning)
    };
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let above = parent.rsplit_once('.').map_or("", |(above, _)| above);
    // The timing of files is that of a device, and a few of the faults have the same names.
    let of_device = || {
        let rest = path.strip_prefix("files.")?;
        exact(rest).or_else(|| exact(&format!("device.{rest}")))
    };
    exact(path)
        .or_else(of_device)
        .or_else(|| exact(&format!("{parent}.*")))
        .or_else(|| exact(&format!("{above}.*.*")))
        .or_else(|| exact(&format!("*.{name}")))
}
