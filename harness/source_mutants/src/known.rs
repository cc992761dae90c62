//! Why edits survive: reasons that a person wrote down after reading the source.

use std::path::Path;

use serde::Deserialize;

use crate::mutation::Mutation;

/// What an edit that survived is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The edited engine does the same, or something that is just as right.
    Equivalent,
    /// Only speed, space or counters differ.
    Performance,
    /// Only the native library calls it; its own tests cover it.
    Native,
    /// Only an image with wrong numbers and right checksums, or of something else, comes there; the engine's tests craft such images.
    Crafted,
    /// It is wrong, and no shipped scenario sees it.
    Hole,
}

/// A reason, and which mutations it is about. All texts that are given have to fit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The source file.
    pub file: String,
    /// The function; all of the file if absent.
    pub function: Option<String>,
    /// A part of the edit, as `list` prints it; all edits if absent.
    pub edit: Option<String>,
    /// A part of the line that the place begins on.
    pub line: Option<String>,
    /// What it is.
    pub category: Category,
    /// Why, in a sentence.
    pub reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    reason: Vec<Known>,
}

/// The reasons that ship with the tool.
///
/// # Errors
/// The file is wrong.
pub fn load(root: &Path) -> Result<Vec<Known>, String> {
    let path = root.join("harness/source_mutants/known.toml");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn parse(text: &str) -> Result<Vec<Known>, toml::de::Error> {
    toml::from_str::<File>(text).map(|file| file.reason)
}

impl Known {
    /// Whether it is about this mutation, whose line reads so.
    #[must_use]
    pub fn fits(&self, mutation: &Mutation, line: &str) -> bool {
        let within = |part: &Option<String>, text: &str| {
            part.as_ref()
                .is_none_or(|part| text.contains(part.as_str()))
        };
        self.file == mutation.file
            && self
                .function
                .as_ref()
                .is_none_or(|name| *name == mutation.function)
            && within(&self.edit, &mutation.edit())
            && within(&self.line, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    /// Goal: a reason is about what it names and nothing else. Method: one edit, and reasons that differ from it in one text.
    #[test]
    fn a_reason_fits_what_it_names() {
        let source = "fn f(a: u8) -> bool {\n    a < 2 // here\n}\n";
        let mutations = find::mutations("a.rs", source).expect("it parses");
        let edit = mutations
            .iter()
            .find(|it| it.after.contains("<="))
            .expect("a boundary");
        let fits = |file: &str, function: &str, part: &str, line: &str| {
            let text = format!(
                "[[reason]]\nfile = '{file}'\nfunction = '{function}'\nedit = '{part}'\nline = '{line}'\ncategory = 'equivalent'\nreason = 'x'"
            );
            parse(&text).expect("it parses")[0].fits(edit, "    a < 2 // here")
        };
        assert!(fits("a.rs", "f", "<=", "// here"));
        assert!(!fits("b.rs", "f", "<=", "// here"));
        assert!(!fits("a.rs", "g", "<=", "// here"));
        assert!(!fits("a.rs", "f", ">=", "// here"));
        assert!(!fits("a.rs", "f", "<=", "// there"));
    }

    /// Goal: the reasons that ship can be read. Method: all of them.
    #[test]
    fn the_shipped_reasons_load() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert!(load(&root).is_ok(), "{:?}", load(&root));
    }
}
