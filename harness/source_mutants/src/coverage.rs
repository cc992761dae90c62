//! Which lines each step of the plan executes without a mutation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::mutation::Mutation;

/// Lines as `file:line`.
pub type Lines = BTreeSet<String>;

/// The lines of each step, by the scenario's name.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Executed(pub BTreeMap<String, Lines>);

impl Executed {
    /// The steps that execute the line of this mutation.
    #[must_use]
    pub fn steps(&self, mutation: &Mutation) -> Vec<&str> {
        let line = format!("{}:{}", mutation.file, mutation.line);
        let with = self.0.iter().filter(|(_, lines)| lines.contains(&line));
        with.map(|(name, _)| name.as_str()).collect()
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// The file is missing or is none; the message names it.
    pub fn load(file: &Path) -> Result<Executed, String> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("{}: {error}; run `coverage` first", file.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }
}
