//! What a scenario is made from: its profile, its file, what a seed takes of `[vary]`, the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::error::{Diagnostic, ScenarioError, nearest};
use super::layers::{Layer, Layers, Step, parse_path};
use super::load::BYTES_MAX;
use super::profiles::{self, Found};
use super::validate;
use super::vary::{self, Dimension};
use crate::files::read_text;
use crate::scenario::{Scenario, known_fields};
use kvsim_api::units::SeedRange;
use kvsim_simdisk::DeviceConfig;

/// How often a seed draws before it is said that nothing fits together.
const DRAWS_MAX: u64 = 100;

/// One alternative of each dimension, and what they are called.
type Taken<'s> = (Vec<&'s Layer>, Vec<String>);

/// All that a scenario is made from.
#[derive(Clone, PartialEq)]
pub(crate) struct Sources {
    file: Layer,
    dimensions: Vec<Dimension>,
    sets: Vec<Layer>,
    stem: String,
    /// The profiles that are named, so that no file is read once the scenario is loaded.
    profiles: BTreeMap<String, Layer>,
}

impl Sources {
    /// All that can be known to be wrong with them before a seed is drawn is looked for here.
    pub(crate) fn new(
        mut file: Layer,
        sets: Vec<Layer>,
        stem: &str,
        directory: Option<&Path>,
    ) -> Result<Sources, ScenarioError> {
        let dimensions = vary::take(&mut file)?;
        read_file_profile(&mut file, directory)?;
        let mut sources = Sources {
            file,
            dimensions,
            sets: Vec::new(),
            stem: stem.to_owned(),
            profiles: BTreeMap::new(),
        };
        if !sources.dimensions.is_empty() {
            // By itself: what the command line rules out is no mistake of the file's.
            sources.read_profiles(directory)?;
            sources.check_alternatives()?;
        }
        if sets.iter().any(|set| set.table.contains_key("vary")) {
            let message = "--set vary: what seeds take stands in a scenario's file";
            let help = "set the field itself, which is stronger: --set device.cache=volatile";
            return Err(sources.problem_with_vary(message, Some(help)));
        }
        let mut sets = sets;
        for set in &mut sets {
            read_file_profile(set, None)?;
        }
        sources.sets = sets;
        sources.read_profiles(directory)?;
        Ok(sources)
    }

    /// Each alternative is well formed, and fits together with something that the other dimensions give.
    fn check_alternatives(&self) -> Result<(), ScenarioError> {
        for alternative in self.alternatives() {
            self.well_formed(&[alternative])?;
        }
        for (at, dimension) in self.dimensions.iter().enumerate() {
            for alternative in &dimension.alternatives {
                let with = |(mut taken, _): Taken<'_>| {
                    taken[at] = alternative;
                    self.scenario(&taken)
                };
                let others = "it contradicts every combination of the other dimensions of [vary]";
                self.first_that_fits(0, with, |_| others.to_owned())?;
            }
        }
        Ok(())
    }

    /// What all seeds have in common, if they differ, and else the scenario. By itself the former need not fit together.
    pub(crate) fn load(self) -> Result<Scenario, ScenarioError> {
        if self.dimensions.is_empty() {
            return self.scenario(&[]);
        }
        let (mut scenario, _) = self.well_formed(&[])?;
        if scenario.failure.is_some() {
            return Err(self.problem_with_vary("a failing case varies nothing", None));
        }
        scenario.sources = Some(Arc::new(self));
        Ok(scenario)
    }

    fn problem_with_vary(&self, message: &str, help: Option<&str>) -> ScenarioError {
        let layers = self.layers(&[]);
        layers.problem(&["vary"], message.to_owned(), help.map(str::to_owned))
    }

    /// The scenario of one seed. What it draws may contradict itself; then it draws all of it again.
    pub(crate) fn of_seed(&self, seed: u64) -> Result<Scenario, ScenarioError> {
        let made = |(taken, names): Taken<'_>| {
            let mut scenario = self.scenario(&taken)?;
            scenario.run.seeds = SeedRange::one(seed);
            let drawn = format!("Seed {seed} took {}.", names.join(", "));
            scenario.description = [scenario.description.as_str(), &drawn]
                .join(" ")
                .trim()
                .to_owned();
            Ok(scenario)
        };
        let note = |names: &[String]| {
            format!(
                "seed {seed} drew {DRAWS_MAX} times from [vary], and every draw contradicted itself; the last one was {}",
                names.join(", ")
            )
        };
        self.first_that_fits(seed, made, note)
    }

    /// The first draw of a seed of which `make` makes something; `note` is added to the last error if there is none.
    fn first_that_fits<'s, T>(
        &'s self,
        seed: u64,
        make: impl Fn(Taken<'s>) -> Result<T, ScenarioError>,
        note: impl Fn(&[String]) -> String,
    ) -> Result<T, ScenarioError> {
        let mut attempt = 0;
        loop {
            let drawn = self.dimensions.iter();
            let (taken, names): Taken<'_> = drawn.map(|it| it.taken(seed, attempt)).unzip();
            attempt += 1;
            match make((taken, names.clone())) {
                Err(mut error) if attempt >= DRAWS_MAX => {
                    if let ScenarioError::Wrong(diagnostic) = &mut error {
                        diagnostic.notes.push(note(&names));
                    }
                    return Err(error);
                }
                Err(_) => {}
                ok => return ok,
            }
        }
    }

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

    fn scenario(&self, taken: &[&Layer]) -> Result<Scenario, ScenarioError> {
        let (scenario, layers) = self.well_formed(taken)?;
        if let Some(table) = layers.device_beside_files() {
            let message =
                format!("`[{table}]` is of a block device, and this scenario has [files]");
            let help = if table == "faults" {
                "what goes wrong with files stands in [files.faults]"
            } else {
                "[files] has capacity, faults and timing of its own; `profile` gives it the timing of a device"
            };
            return Err(layers.problem(&[table], message, Some(help.to_owned())));
        }
        validate::validate(&scenario).map_err(|problem| {
            let paths: Vec<&str> = problem.fields.iter().map(String::as_str).collect();
            layers.problem(&paths, problem.message, problem.help)
        })?;
        Ok(scenario)
    }

    fn well_formed(&self, taken: &[&Layer]) -> Result<(Scenario, Layers), ScenarioError> {
        let layers = self.layers(taken);
        let mut scenario: Scenario =
            serde_path_to_error::deserialize(layers.merged()).map_err(|error| {
                let path = steps(error.path());
                layers.explain_serde(&path, error.inner().message(), &known_fields())
            })?;
        if scenario.name.is_empty() {
            scenario.name.clone_from(&self.stem);
        }
        if scenario.files.is_some() {
            // Its timing is that of the files by now, and the rest counts for nothing.
            scenario.device = DeviceConfig::default();
        }
        Ok((scenario, layers))
    }

    /// The weakest first: profile, file, what was taken, the command line.
    fn layers(&self, taken: &[&Layer]) -> Layers {
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

    fn alternatives(&self) -> impl Iterator<Item = &Layer> {
        self.dimensions
            .iter()
            .flat_map(|dimension| &dimension.alternatives)
    }

    fn read_profiles(&mut self, directory: Option<&Path>) -> Result<(), ScenarioError> {
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
fn read_file_profile(layer: &mut Layer, directory: Option<&Path>) -> Result<(), ScenarioError> {
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
