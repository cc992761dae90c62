//! A scenario: what to run, on which device, with which faults, how often to crash it, and what to check. One TOML file.
//!
//! Every field has a default, an unknown one is an error, and [`explain`](crate::explain()) prints them all. The fields come from three layers,
//! the later winning field by field: the device profile, the file, `--set` on the command line. With `[vary]` in the file there is
//! a fourth below `--set`, drawn for each seed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kvsim_fs::FileConfig;
use kvsim_simdisk::{DeviceConfig, FaultConfig};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::case::Case;
use crate::error::nearest;
use crate::explore_config::ExploreConfig;
use crate::run_config::{GuestConfig, HostConfig, RunConfig};
use crate::sources::Sources;
use kvsim_api::coverage::CoverageConfig;
use kvsim_oracle::{CheckConfig, Property};
use kvsim_sim::Program;
use kvsim_workload::WorkloadConfig;

/// A whole scenario, with every default filled in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// What it is called; the file's name if it does not say.
    pub name: String,
    /// What it shows.
    pub description: String,
    /// How it is meant to end.
    pub expect: Expect,
    /// The device profile that `[device]` begins from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// In a saved failing case: what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord>,
    /// In a failing case of an exploration: each step that leads to the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// How often and how each seed is crashed.
    pub run: RunConfig,
    /// What the clients do.
    pub workload: WorkloadConfig,
    /// What the guest may use and is told.
    pub guest: GuestConfig,
    /// The machine that a benchmark is predicted for.
    pub host: HostConfig,
    /// What is checked.
    pub check: CheckConfig,
    /// How far `kvsim explore` goes.
    pub explore: ExploreConfig,
    /// Which of the guest's coverage points are to be reached.
    pub coverage: CoverageConfig,
    /// The file system, of a scenario for engines that use files: device and faults count for nothing then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FileConfig>,
    /// The device.
    pub device: DeviceConfig,
    /// What goes wrong with it.
    pub faults: FaultConfig,
    /// What it is drawn from for each seed, if it has a `[vary]`.
    #[serde(skip)]
    pub(crate) sources: Option<Arc<Sources>>,
}

/// What a saved failing case remembers of its failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureRecord {
    /// The property that did not hold.
    pub property: Property,
    /// What happened, for a person.
    pub sentence: String,
    /// What is missing in the guest, in words; empty if nobody asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub blame: String,
    /// The seed's trace hash.
    pub trace_hash: String,
    /// How many crashes the seed had seen.
    pub crash: u64,
    /// The profile that `[device]` was made from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profile: String,
    /// The guest's name.
    pub guest: String,
    /// The guest's hash.
    pub guest_hash: String,
    /// The guest's file, from the folder that the case is saved in; empty for the built-in engine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guest_file: String,
    /// The version of kvsim.
    pub kvsim: String,
}

impl FailureRecord {
    /// Whether it was saved with this guest.
    #[must_use]
    pub fn is_of(&self, program: &dyn Program) -> bool {
        self.guest_hash == program.hash().to_string()
    }
}

/// How a scenario is meant to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expect {
    /// Nothing is violated.
    #[default]
    Pass,
    /// Nothing is violated, and damage is reported at least once.
    DamageReported,
    /// This property is violated: the scenario shows that it can be.
    Violation(Property),
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Pass => f.write_str("pass"),
            Expect::DamageReported => f.write_str("damage reported"),
            Expect::Violation(property) => write!(f, "violates {property}"),
        }
    }
}

impl FromStr for Expect {
    type Err = String;

    fn from_str(text: &str) -> Result<Expect, String> {
        match text {
            "pass" => return Ok(Expect::Pass),
            "damage reported" => return Ok(Expect::DamageReported),
            _ => {}
        }
        let property = text.strip_prefix("violates ").map(str::trim);
        if let Some(property) = property.and_then(Property::from_name) {
            return Ok(Expect::Violation(property));
        }
        let names = Property::ALL.map(Property::name);
        let near = property.and_then(|property| nearest(property, names));
        Err(match near {
            Some(near) => {
                format!("a scenario cannot end so: `{text}`; did you mean `violates {near}`?")
            }
            None => format!(
                "a scenario cannot end so: `{text}`; it ends `pass`, `damage reported` or `violates` one of {}",
                names.join(", ")
            ),
        })
    }
}

impl Serialize for Expect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expect, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Scenario {
    /// The name of the profile, for people: that of the failing case's origin if it is one.
    #[must_use]
    pub fn profile_name(&self) -> Option<&str> {
        let saved = self
            .failure
            .as_ref()
            .map(|failure| failure.profile.as_str())
            .filter(|name| !name.is_empty());
        self.profile.as_deref().or(saved)
    }
}
