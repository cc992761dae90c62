//! From files and `--set` to a [`Scenario`], or to an error that shows the place.

use std::path::{Path, PathBuf};

use super::error::{Diagnostic, ScenarioError, nearest};
use super::layers::{Layer, Layers, Step, parse_path};
use super::profiles::{self, Found};
use super::{Scenario, known_fields, validate};

/// Loads the scenario at `path` with the assignments of `--set` on top.
///
/// # Errors
/// The file or its profile is missing or unreadable, or what they say is wrong.
pub fn load(path: &Path, sets: &[String]) -> Result<Scenario, ScenarioError> {
    let candidates = candidates(path);
    for candidate in &candidates {
        match std::fs::read_to_string(candidate) {
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
    Err(ScenarioError::NotFound {
        what: "scenario",
        name: path.display().to_string(),
        looked_at: candidates
            .iter()
            .map(|candidate| candidate.display().to_string())
            .collect(),
        suggestion,
    })
}

/// Where a scenario may lie: as it is written, with the ending, and under `scenarios/` if only a name is given.
fn candidates(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_path_buf()];
    let with_ending = path.with_extension("toml");
    if path.extension().is_none() {
        all.push(with_ending.clone());
    }
    if path.components().count() == 1 {
        all.push(Path::new("scenarios").join(with_ending));
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
    let mut layers = Layers::new(vec![Layer::parse(source.to_owned(), text, None)?]);
    for assignment in sets {
        layers.layers.push(Layer::assignment(assignment)?);
    }
    let known = known_fields();
    let name = layers
        .merged()
        .get("profile")
        .and_then(|name| name.as_str())
        .map(str::to_owned);
    if let Some(name) = name {
        let profile = profile(&layers, &name, directory)?;
        layers.layers.insert(0, profile);
    }
    let mut scenario: Scenario =
        serde_path_to_error::deserialize(layers.merged()).map_err(|error| {
            let path = steps(error.path());
            layers.explain_serde(&path, error.inner().message(), &known)
        })?;
    if scenario.name.is_empty() {
        stem.clone_into(&mut scenario.name);
    }
    validate::validate(&scenario).map_err(|problem| {
        let paths: Vec<&str> = problem.fields.iter().map(String::as_str).collect();
        layers.problem(&paths, problem.message, problem.help)
    })?;
    Ok(scenario)
}

fn profile(layers: &Layers, name: &str, directory: Option<&Path>) -> Result<Layer, ScenarioError> {
    match profiles::find(name, directory) {
        Found::Text(source, text) => Layer::parse(source, text, Some("device")),
        Found::Unreadable(path, source) => Err(ScenarioError::Unreadable { path, source }),
        Found::Nowhere(looked_at, names) => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let help = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", names.join(", ")),
            };
            Err(ScenarioError::Wrong(Box::new(Diagnostic {
                message: format!("no such profile: {name}"),
                place: layers.place(&parse_path("profile"), false),
                field: Some("profile".to_owned()),
                notes: looked_at
                    .iter()
                    .map(|place| format!("looked at: {place}"))
                    .collect(),
                help: Some(help),
            })))
        }
    }
}

fn steps(path: &serde_path_to_error::Path) -> Vec<Step> {
    use serde_path_to_error::Segment;
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}
