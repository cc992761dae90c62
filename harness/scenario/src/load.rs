//! From files and `--set` to a [`Scenario`], or to an error that shows the place.

use std::path::{Path, PathBuf};

use super::error::{ScenarioError, nearest};
use super::layers::Layer;
use super::profiles;
use super::shipped::{Shipped, nearest_name};
use super::sources::Sources;
use crate::files::{BYTES_MAX, read_text};
use crate::scenario::Scenario;

/// Loads the scenario at `path` with the assignments of `--set` on top: a file, or else the shipped scenario of that name.
///
/// # Errors
/// The file or its profile is missing or unreadable, or what they say is wrong.
pub fn load(path: &Path, sets: &[String]) -> Result<Scenario, ScenarioError> {
    let candidates = candidates(path);
    let shipped = path.to_str().and_then(Shipped::named);
    for candidate in &candidates {
        if shipped.is_some() && candidate.is_dir() {
            continue;
        }
        match read_text(candidate, BYTES_MAX) {
            Ok(text) => {
                let directory = candidate
                    .parent()
                    .map(Path::to_path_buf)
                    .unwrap_or_default();
                let stem = candidate
                    .file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned())
                    .unwrap_or_default();
                return parse(
                    &candidate.display().to_string(),
                    &stem,
                    text,
                    Some(&directory),
                    sets,
                );
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(ScenarioError::Unreadable {
                    path: candidate.clone(),
                    source,
                });
            }
        }
    }
    if let Some(shipped) = shipped {
        return shipped.load(sets);
    }
    let wanted = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let suggestion = candidates.iter().find_map(|candidate| {
        let directory = candidate
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let names = profiles::names_in(directory);
        let near = nearest(&wanted, names.iter().map(String::as_str))?;
        Some(
            candidate
                .with_file_name(format!("{near}.toml"))
                .display()
                .to_string(),
        )
    });
    let shipped = || nearest_name(&wanted).map(str::to_owned);
    let looked_at = candidates.iter().map(|it| it.display().to_string());
    Err(ScenarioError::NotFound {
        what: "scenario",
        name: path.display().to_string(),
        looked_at: looked_at
            .chain(["the built-in scenarios (kvsim scenarios)".to_owned()])
            .collect(),
        suggestion: suggestion.or_else(shipped),
    })
}

/// Where a scenario may lie: as it is written, with the ending, and under `scenarios/`, `scenarios/files/` and
/// `scenarios/bench/` if only a name is given.
fn candidates(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_path_buf()];
    let with_ending = path.with_extension("toml");
    if path.extension().is_none() {
        all.push(with_ending.clone());
    }
    if path.components().count() == 1 {
        all.push(Path::new("scenarios").join(&with_ending));
        all.push(Path::new("scenarios/files").join(&with_ending));
        all.push(Path::new("scenarios/bench").join(with_ending));
    }
    all
}

/// Loads a scenario from its text. `source` is what errors call it, `stem` its name if it gives itself none, `directory`
/// where its own profiles lie.
///
/// # Errors
/// What the text, its profile or an assignment says is wrong.
pub fn parse(
    source: &str,
    stem: &str,
    text: String,
    directory: Option<&Path>,
    sets: &[String],
) -> Result<Scenario, ScenarioError> {
    let file = Layer::parse(source.to_owned(), text, None)?;
    let sets: Result<Vec<Layer>, ScenarioError> = sets
        .iter()
        .map(|assignment| Layer::assignment(assignment))
        .collect();
    Sources::new(file, sets?, stem, directory)?.load()
}

impl Shipped {
    /// The scenario, with the assignments of `--set` on top.
    ///
    /// # Errors
    /// What an assignment says is wrong.
    pub fn load(&self, sets: &[String]) -> Result<Scenario, ScenarioError> {
        let source = format!("<built-in scenario {}>", self.name);
        parse(&source, self.name, self.text.to_owned(), None, sets)
    }
}
