//! Builds the copy. Edits that do not compile are found from the compiler's errors and taken out, until the rest compiles.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::mutation::{Mutation, Switch};
use crate::schemata::Switched;
use crate::scratch::{Scratch, ScratchError};

const TARGET: &str = "wasm32-unknown-unknown";
/// Edits that do not compile hide others, since the compiler stops after each of its phases. More rounds than that mean that no progress is made.
const ROUNDS_MAX: usize = 30;

/// Why there is no module.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The copy cannot be written.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// Cargo cannot be run.
    #[error("cannot run cargo: {0}")]
    Cargo(std::io::Error),
    /// The compiler objects to something that is no edit.
    #[error("the copy in {folder} does not compile:\n{errors}")]
    Unknown {
        /// The copy.
        folder: PathBuf,
        /// The compiler's errors.
        errors: String,
    },
}

#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    rendered: Option<String>,
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Message>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// Writes the copy and takes out what does not compile, then builds the module. Gives its file.
///
/// # Errors
/// See [`CompileError`].
pub fn build(scratch: &mut Scratch, say: &mut dyn FnMut(&str)) -> Result<PathBuf, CompileError> {
    for round in 1..=ROUNDS_MAX {
        let written = scratch.write()?;
        let (is_clean, output) = cargo(&scratch.folder, "check")?;
        if is_clean {
            say(&format!("round {round}: all other edits compile"));
            return module(scratch);
        }
        let errors = errors(&output);
        let wrong: BTreeSet<usize> = errors
            .iter()
            .flat_map(|error| blamed(error, &written, &scratch.mutations))
            .collect();
        if wrong.is_empty() {
            return Err(unknown(scratch, &errors));
        }
        say(&format!(
            "round {round}: {} edits do not compile",
            wrong.len()
        ));
        for mutation in &mut scratch.mutations {
            mutation.built &= !wrong.contains(&mutation.number);
        }
    }
    Err(unknown(scratch, &[]))
}

fn module(scratch: &Scratch) -> Result<PathBuf, CompileError> {
    let (is_clean, output) = cargo(&scratch.folder, "build")?;
    if !is_clean {
        return Err(unknown(scratch, &errors(&output)));
    }
    let target = scratch.folder.join("target").join(TARGET);
    Ok(target.join("guest/kvsim_guest.wasm"))
}

fn unknown(scratch: &Scratch, errors: &[Message]) -> CompileError {
    let text = errors.iter().filter_map(|error| error.rendered.clone());
    CompileError::Unknown {
        folder: scratch.folder.clone(),
        errors: text.take(5).collect(),
    }
}

/// Runs cargo on the copy; whether all compiled, and what cargo printed.
fn cargo(folder: &Path, command: &str) -> Result<(bool, String), CompileError> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(folder)
        .args([command, "--package", "kvsim-guest", "--target", TARGET])
        .args([
            "--profile",
            "guest",
            "--message-format",
            "json",
            "--target-dir",
        ])
        .arg(folder.join("target"));
    for name in [
        "RUSTFLAGS",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_TARGET_DIR",
        "CARGO_MANIFEST_DIR",
    ] {
        cargo.env_remove(name);
    }
    // As sim/build.rs has them, but more memory to begin with: the switches take some, and each edit makes stack frames larger.
    let flags = [
        "--cap-lints=warn",
        "-Clink-arg=-zstack-size=524288",
        "-Ctarget-feature=+simd128,+wide-arithmetic",
        "-Clink-arg=--initial-memory=1572864",
    ];
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let output = cargo.output().map_err(CompileError::Cargo)?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() && errors(&text).is_empty() {
        // An error of cargo or of the linker, which is no JSON.
        let rendered = String::from_utf8_lossy(&output.stderr).into_owned();
        let message = serde_json::json!({"reason": "compiler-message", "message":
            {"level": "error", "message": "", "rendered": rendered, "spans": [], "children": []}});
        text.push_str(&message.to_string());
    }
    Ok((output.status.success(), text))
}

fn errors(output: &str) -> Vec<Message> {
    let lines = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let messages = lines
        .filter(|line| line.reason == "compiler-message")
        .filter_map(|line| line.message);
    messages
        .filter(|message| {
            message.level == "error" && !message.message.starts_with("aborting due to")
        })
        .collect()
}

/// The edits that an error is about: the innermost edit around one of its spans, else the innermost place, else the removed statements within
/// the span.
fn blamed(error: &Message, written: &[(String, Switched)], mutations: &[Mutation]) -> Vec<usize> {
    let mut spans: Vec<&Span> = error.spans.iter().collect();
    spans.sort_by_key(|span| !span.is_primary);
    spans.extend(error.children.iter().flat_map(|child| &child.spans));
    let of = |span: &Span| {
        let name = span.file_name.strip_prefix("engine/src/")?;
        written
            .iter()
            .find(|(file, _)| file == name)
            .map(|(_, written)| written)
    };
    let around = |span: &Span, range: &Range<usize>| {
        range.start <= span.byte_start && span.byte_end <= range.end
    };
    for span in &spans {
        let Some(written) = of(span) else { continue };
        let edits = written
            .edits
            .iter()
            .filter(|(range, _)| around(span, range));
        if let Some((_, number)) = edits.min_by_key(|(range, _)| range.len()) {
            return vec![*number];
        }
    }
    for span in &spans {
        let Some(written) = of(span) else { continue };
        let places = written
            .places
            .iter()
            .filter(|(range, _)| around(span, range));
        if let Some((_, numbers)) = places.min_by_key(|(range, _)| range.len()) {
            return numbers.clone();
        }
    }
    skipped(&spans, written, mutations)
}

/// The removed statements within what an error spans: those that would have left the block, if there are any. Without them, what comes after uses a value
/// that was moved before.
fn skipped(spans: &[&Span], written: &[(String, Switched)], mutations: &[Mutation]) -> Vec<usize> {
    let leaves = |number: &usize| {
        let words = ["return", "break", "continue"];
        let before = &mutations[number - 1].before;
        words.iter().any(|word| before.starts_with(word))
    };
    for (file, written) in written {
        let path = format!("engine/src/{file}");
        let own = spans.iter().filter(|span| span.file_name == path);
        let (Some(start), Some(end)) = (
            own.clone().map(|span| span.byte_start).min(),
            own.map(|span| span.byte_end).max(),
        ) else {
            continue;
        };
        let within = |range: &Range<usize>| start <= range.start && range.end <= end;
        let places = written.places.iter().filter(|(range, _)| within(range));
        let numbers = places.flat_map(|(_, numbers)| numbers.clone());
        let statements: Vec<usize> = numbers
            .filter(|number| mutations[number - 1].switch == Switch::Statement)
            .collect();
        let leaving: Vec<usize> = statements.iter().copied().filter(leaves).collect();
        if !statements.is_empty() {
            return if leaving.is_empty() {
                statements
            } else {
                leaving
            };
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use crate::schemata::switched;

    const SOURCE: &str = "fn f(a: Key, b: Key) -> bool { if a.is_empty() { drop(a); return true; } let c = a; c < b }";

    /// The mutations of the source, the source with switches, and an error whose spans are these texts in it.
    fn blamed_for(spans: &[&str]) -> Vec<String> {
        let mut mutations = find::mutations("a.rs", SOURCE).expect("it parses");
        for (at, mutation) in mutations.iter_mut().enumerate() {
            mutation.number = at + 1;
        }
        let written = switched(SOURCE, &mutations);
        let span = |text: &&str| {
            let start = written.text.find(text).expect("it is there");
            Span {
                file_name: "engine/src/a.rs".to_owned(),
                byte_start: start,
                byte_end: start + text.len(),
                is_primary: false,
            }
        };
        let error = Message {
            level: "error".to_owned(),
            message: String::new(),
            rendered: None,
            spans: spans.iter().map(span).collect(),
            children: Vec::new(),
        };
        let numbers = blamed(&error, &[("a.rs".to_owned(), written.clone())], &mutations);
        let edit = |number: usize| mutations[number - 1].edit();
        numbers.into_iter().map(edit).collect()
    }

    /// Goal: an error within an edit takes out this edit and no other. Method: one of three edits of the same place.
    #[test]
    fn an_error_in_an_edit_is_blamed_on_it() {
        assert_eq!(
            blamed_for(&["(c) == (b)"]),
            ["`c < b` becomes `(c) == (b)`"]
        );
    }

    /// Goal: a value that is used after a removed `return` has moved it takes out the removal. Method: the error names both uses, neither in an edit.
    #[test]
    fn a_use_after_a_removed_return_is_blamed_on_it() {
        assert_eq!(
            blamed_for(&["a: Key", "let c = a"]),
            ["remove `return true;`"]
        );
    }

    /// Goal: an error that no edit explains takes nothing out. Method: an error in the function's name.
    #[test]
    fn an_error_elsewhere_is_blamed_on_nothing() {
        assert!(blamed_for(&["fn f"]).is_empty());
    }
}
