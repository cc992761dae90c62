//! What is wrong with a scenario, said so that a person can correct it at once: the place, the line, a caret, what to do.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Why a scenario could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A scenario or a profile that is nowhere to be found.
    #[error("{}", not_found(what, name, looked_at, suggestion.as_deref()))]
    NotFound {
        /// "scenario" or "profile".
        what: &'static str,
        /// As it was asked for.
        name: String,
        /// Every place that was tried.
        looked_at: Vec<String>,
        /// The nearest name that does exist.
        suggestion: Option<String>,
    },
    /// A file that is there and cannot be read.
    #[error("error: cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A scenario that says something wrong.
    #[error("{0}")]
    Wrong(Box<Diagnostic>),
}

/// One mistake in one source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where, if the mistake has a place.
    pub place: Option<Place>,
    /// The dotted path of the field that is meant, where one is.
    pub field: Option<String>,
    /// What else there is to know, a line each.
    pub notes: Vec<String>,
    /// What would be right.
    pub help: Option<String>,
}

/// A stretch of a source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the source: a file's path, or `--set`.
    pub source: String,
    /// The whole text.
    pub text: String,
    /// Which bytes of it.
    pub span: Range<usize>,
}

impl Place {
    /// Line and column of the start, both counted from 1, the column in characters.
    #[must_use]
    pub fn line_column(&self) -> (usize, usize) {
        let (start, line_start) = self.start_and_line_start();
        let line = self.text[..start].matches('\n').count() + 1;
        (line, self.text[line_start..start].chars().count() + 1)
    }

    fn start_and_line_start(&self) -> (usize, usize) {
        let mut start = self.span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        (start, line_start)
    }

    /// The line that holds the start, and the caret's indentation and width in characters.
    fn snippet(&self) -> (&str, String, usize) {
        let (start, line_start) = self.start_and_line_start();
        let line_end = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |at| start + at);
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        // Tabs are kept, so that the caret stands under its character whatever a tab's width.
        let indent = self.text[line_start..start]
            .chars()
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let mut end = self
            .span
            .end
            .clamp(start, (line_start + line.len()).max(start));
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        (line, indent, self.text[start..end].chars().count().max(1))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        let gutter = match &self.place {
            Some(place) => {
                let (line, column) = place.line_column();
                let (text, indent, width) = place.snippet();
                let gutter = line.to_string().len();
                write!(f, "\n{:gutter$}--> {}:{line}:{column}", "", place.source)?;
                write!(f, "\n{:gutter$} |", "")?;
                write!(f, "\n{line} | {text}")?;
                write!(f, "\n{:gutter$} | {indent}{}", "", "^".repeat(width))?;
                gutter
            }
            None => 0,
        };
        for note in &self.notes {
            write!(f, "\n{:gutter$} = {note}", "")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n{:gutter$} = help: {help}", "")?;
        }
        Ok(())
    }
}

fn not_found(what: &str, name: &str, looked_at: &[String], suggestion: Option<&str>) -> String {
    let mut text = format!("error: no such {what}: {name}");
    for place in looked_at {
        text.push_str("\n  looked at: ");
        text.push_str(place);
    }
    if let Some(suggestion) = suggestion {
        text.push_str(&format!("\n  = help: did you mean `{suggestion}`?"));
    }
    text
}

/// The candidate that a person most likely meant, if any is near enough to be worth saying.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::jaro_winkler(&word.to_lowercase(), candidate),
                candidate,
            )
        })
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The caret stands under the first character of the span and is as wide as the span.
    #[test]
    fn a_mistake_is_shown_with_its_line_and_caret() {
        let text = "[run]\n\tcrashs = 7 # ü\n".to_owned();
        let diagnostic = Diagnostic {
            message: "unknown field `crashs`".to_owned(),
            place: Some(Place {
                source: "a.toml".to_owned(),
                span: 7..13,
                text,
            }),
            field: None,
            notes: Vec::new(),
            help: Some("did you mean `crashes`?".to_owned()),
        };
        assert_eq!(
            diagnostic.to_string(),
            "error: unknown field `crashs`\n --> a.toml:2:2\n  |\n2 | \tcrashs = 7 # ü\n  | \t^^^^^^\n  = help: did you mean `crashes`?"
        );
    }

    /// A span at the end of the text, past it, or over several lines never panics and stays on its line.
    #[test]
    fn odd_spans_are_shown_on_one_line() {
        for span in [0..0, 3..3, 4..9, 0..9, 90..99] {
            let place = Place {
                source: "x".to_owned(),
                text: "ab\nü".to_owned(),
                span,
            };
            let shown = Diagnostic {
                message: "m".to_owned(),
                place: Some(place),
                field: None,
                notes: Vec::new(),
                help: None,
            }
            .to_string();
            assert_eq!(shown.lines().count(), 5, "{shown}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        assert_eq!(nearest("crashs", ["crashes", "seeds"]), Some("crashes"));
        assert_eq!(nearest("frobnicate", ["crashes", "seeds"]), None);
    }
}
