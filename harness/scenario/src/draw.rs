//! From what a scenario is made of to the scenario: the one of a file, or the one that a seed draws.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kvsim_api::units::SeedRange;
use kvsim_simdisk::DeviceConfig;

use crate::error::ScenarioError;
use crate::layers::{Layer, Layers, Step};
use crate::paths::known_fields;
use crate::scenario::Scenario;
use crate::sources::{Sources, read_file_profile};
use crate::validate;
use crate::vary;

/// How often a seed draws before it is said that nothing fits together.
const DRAWS_MAX: u64 = 100;

/// One alternative of each dimension, and what they are called.
type Taken<'s> = (Vec<&'s Layer>, Vec<String>);

impl Scenario {
    /// Whether each seed runs a scenario of its own, because of `[vary]`.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.sources.is_some()
    }

    /// Whether the guest is told this option, for any seed.
    #[must_use]
    pub fn may_set_option(&self, name: &str) -> bool {
        let sources = self.sources.as_deref();
        let reopened = self.guest.reopen_for.values().flatten();
        let mut tables = self.guest.options_for.values().chain(reopened);
        self.guest.options.contains_key(name)
            || tables.any(|options| options.contains_key(name))
            || sources.is_some_and(|sources| sources.may_set_option(name))
    }

    /// The scenario of one seed: itself unless it varies. What was drawn is added to the description.
    ///
    /// # Errors
    /// Whatever is drawn contradicts itself.
    pub fn of_seed(&self, seed: u64) -> Result<Cow<'_, Scenario>, ScenarioError> {
        match &self.sources {
            None => Ok(Cow::Borrowed(self)),
            Some(sources) => sources.of_seed(seed).map(Cow::Owned),
        }
    }
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
