//! One edit of one place in the source.

use serde::{Deserialize, Serialize};

/// What is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A comparison operator.
    Comparison,
    /// An arithmetic, shift or bit operator.
    Arithmetic,
    /// `&&` and `||`.
    Logic,
    /// A `!` or `-` is deleted, or a condition negated.
    Negation,
    /// A number or a truth value.
    Constant,
    /// A statement is removed.
    Statement,
    /// A function returns a fixed value at once.
    Return,
    /// A match arm is removed, or its guard is fixed.
    Arm,
}

/// How an edit is switched at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// The place is an expression: `if on { edited } else { original }`.
    Expression,
    /// The place is a statement: `if !on { original }`.
    Statement,
    /// The place is the beginning of a function's body: `if on { return edited; }`.
    Body,
    /// The place is the end of an arm's pattern: `if !on`.
    Arm,
    /// It stands where the compiler wants a constant: no switch is possible.
    None,
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// Its number: what the guest option selects. Counted from 1 over all files.
    pub number: usize,
    /// The source file, from `engine/src`.
    pub file: String,
    /// Line of the place, from 1.
    pub line: usize,
    /// Column of the place in characters, from 1.
    pub column: usize,
    /// The function, with the type that it belongs to.
    pub function: String,
    /// What is edited.
    pub kind: Kind,
    /// How it is switched.
    pub switch: Switch,
    /// First byte of the place.
    pub start: usize,
    /// The byte after the place. Equal to `start` where something is inserted.
    pub end: usize,
    /// The original text.
    pub before: String,
    /// The edited text; empty where the place is removed.
    pub after: String,
    /// Which one it is among edits of the same function that read the same, from 1.
    pub nth: usize,
    /// Whether the module has it: it compiles, and is no constant.
    pub built: bool,
}

impl Mutation {
    /// The edit in one line.
    #[must_use]
    pub fn edit(&self) -> String {
        match (self.switch, self.kind) {
            (Switch::Statement, _) => format!("remove `{}`", one_line(&self.before)),
            (Switch::Body, _) => format!("return `{}` at once", one_line(&self.after)),
            (Switch::Arm, _) => format!("remove the arm `{}`", one_line(&self.before)),
            _ => format!(
                "`{}` becomes `{}`",
                one_line(&self.before),
                one_line(&self.after)
            ),
        }
    }

    /// What stays the same when lines move: file, function and edit.
    #[must_use]
    pub fn key(&self) -> String {
        let nth = if self.nth > 1 {
            format!(" #{}", self.nth)
        } else {
            String::new()
        };
        format!("{} {}: {}{nth}", self.file, self.function, self.edit())
    }

    /// File, line and column, for a person.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The text with every run of white space as one space, cut at 120 characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}
