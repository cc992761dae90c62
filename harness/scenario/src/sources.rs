//! What a scenario is made from: its profile, its file, what a seed takes of `[vary]`, the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::error::{Diagnostic, ScenarioError, nearest};
use super::layers::{Layer, Layers, parse_path};
use super::profiles::{self, Found};
use super::vary::Dimension;
use crate::files::{BYTES_MAX, read_text};

/// All that a scenario is made from.
#[derive(Clone, PartialEq)]
pub(crate) struct Sources {
    pub(super) file: Layer,
    pub(super) dimensions: Vec<Dimension>,
    pub(super) sets: Vec<Layer>,
    pub(super) stem: String,
    /// The profiles that are named, so that no file is read once the scenario is loaded.
    pub(super) profiles: BTreeMap<String, Layer>,
}

impl Sources {
    /// Whether the guest may be told this option.
    pub(crate) fn may_set_option(&self, name: &str) -> bool {
        let sets = |layer: &Layer| {
            let guest = layer.table.get("guest");
            let of_any = guest.and_then(|guest| guest.get("options"));
            let of_one = guest.and_then(|guest| guest.get("options_for")?.as_table());
            let tables = of_one.into_iter().flat_map(|tables| tables.values());
            of_any
                .into_iter()
                .chain(tables)
                .any(|options| options.get(name).is_some())
        };
        self.alternatives().any(sets)
    }

    /// The weakest first: profile, file, what was taken, the command line.
    pub(super) fn layers(&self, taken: &[&Layer]) -> Layers {
        let own = std::iter::once(&self.file)
            .chain(taken.iter().copied())
            .chain(&self.sets);
        let mut layers = Layers::new(own.cloned().collect());
        let profile = profile_name(&layers).and_then(|name| self.profiles.get(&name));
        if let Some(profile) = profile {
            layers.layers.insert(0, profile.clone());
        }
        layers
    }

    pub(super) fn alternatives(&self) -> impl Iterator<Item = &Layer> {
        self.dimensions
            .iter()
            .flat_map(|dimension| &dimension.alternatives)
    }

    pub(super) fn read_profiles(&mut self, directory: Option<&Path>) -> Result<(), ScenarioError> {
        let mut found = BTreeMap::new();
        for taken in std::iter::once(None).chain(self.alternatives().map(Some)) {
            let layers = self.layers(taken.as_slice());
            if let Some(name) = profile_name(&layers) {
                let profile = profile(&layers, &name, directory)?;
                found.insert(name, profile);
            }
        }
        self.profiles = found;
        Ok(())
    }
}

/// Its name, and not the texts that it was read from.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file.source;
        f.debug_struct("Sources")
            .field("file", file)
            .finish_non_exhaustive()
    }
}

/// Puts a persistence profile that is named by its path in its place.
pub(super) fn read_file_profile(
    layer: &mut Layer,
    directory: Option<&Path>,
) -> Result<(), ScenarioError> {
    let files = layer
        .table
        .get_mut("files")
        .and_then(|files| files.as_table_mut());
    let Some(files) = files else { return Ok(()) };
    let Some(name) = files.get("profile").and_then(|profile| profile.as_str()) else {
        return Ok(());
    };
    if !name.contains(['/', '\\']) && !name.ends_with(".toml") {
        return Ok(());
    }
    let path = directory.unwrap_or(Path::new("")).join(name);
    let text = read_text(&path, BYTES_MAX).map_err(|source| ScenarioError::Unreadable {
        path: path.clone(),
        source,
    })?;
    let profile = Layer::parse(path.display().to_string(), text, None)?;
    files.insert("profile".to_owned(), toml::Value::Table(profile.table));
    Ok(())
}

fn profile_name(layers: &Layers) -> Option<String> {
    let merged = layers.merged();
    let name = merged.get("profile")?.as_str()?;
    Some(name.to_owned())
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
