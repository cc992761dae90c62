//! A cell of the board: one engine on one profile, as values that are written and read again.

use serde::{Deserialize, Serialize};

use crate::class::VerdictClass;
use kvsim_findings::blame::Said;
use kvsim_findings::explore::Level;
use kvsim_oracle::{Facts, Symptom};
use kvsim_scenario::ExploreConfig;

/// What a cell belongs to: a cell with the same key is not run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The version of kvsim.
    pub kvsim: String,
    /// The name of the module.
    pub engine: String,
    /// The hash of the module's bytes.
    pub module: String,
    /// The persistence profile.
    pub profile: String,
    /// The hash of the scenario with all its fields, the profile and the bounds of this cell.
    pub scenario: String,
}

/// What an engine says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name and version.
    pub engine: String,
    /// The settings it was built or is opened with.
    pub settings: String,
    /// The options of the scenario that it is opened with on top of these, as `name=value`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Which writes a crash leaves: `prefix` of the commit order, or `each` for itself.
    pub order: String,
    /// Policies that are not those of the contract, as `name=value`.
    pub policies: Vec<String>,
    /// What it does not offer, so that nobody asked for it.
    pub not_asked: Vec<String>,
}

/// How far the exploration went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Requests of the recording.
    pub operations: u64,
    /// Crashes in a row.
    pub depth: u32,
    /// Requests after a recovery, before the next crash.
    pub work: u64,
    /// Sets of pending steps that at most so many steps make up, or in which at most so many are missing.
    pub subset_writes: u32,
    /// Sectors of a step that is torn in every way.
    pub tear_sectors: u32,
    /// Steps torn at once.
    pub torn_writes: u32,
    /// States taken of one crash point.
    pub states_per_point: u64,
    /// Of the states above the last depth, the recovery of one in so many is cut once more.
    pub deeper_every: u64,
    /// Violations after which the exploration ends.
    pub violations_max: u64,
    /// Violations of one kind that count; of the others it is only said how many were met.
    pub alike_max: u64,
}

impl From<&ExploreConfig> for Bounds {
    fn from(explore: &ExploreConfig) -> Bounds {
        Bounds {
            operations: explore.operations,
            depth: explore.depth,
            work: explore.work,
            subset_writes: explore.subset_writes,
            tear_sectors: explore.tear_sectors,
            torn_writes: explore.torn_writes,
            states_per_point: explore.states_per_point,
            deeper_every: explore.deeper_every,
            violations_max: explore.violations_max,
            alike_max: explore.alike_max,
        }
    }
}

/// The run that was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Requests.
    pub requests: u64,
    /// Events.
    pub events: u64,
    /// Crash points.
    pub crash_points: u64,
    /// Of these, those that the exploration came to before it ended.
    pub seen: u64,
}

/// A finding run under another profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// The profile.
    pub profile: String,
    /// The property that is violated there, and how, in a sentence.
    pub sentence: String,
    /// The trace hash; two runs had it.
    pub trace_hash: String,
    /// The case.
    pub file: String,
    /// The line that replays it.
    pub replay: String,
}

/// One way in which a cell fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its class.
    pub class: VerdictClass,
    /// The property.
    pub property: String,
    /// How it shows.
    pub symptom: Symptom,
    /// What happens, for a person.
    pub sentence: String,
    /// The same for a program.
    pub facts: Facts,
    /// The crash falls before any request was sent: while the database is created.
    pub at_creation: bool,
    /// Violations of this kind that counted before the exploration ended.
    pub times: u64,
    /// Requests of the small case.
    pub requests: u64,
    /// Its crashes.
    pub crashes: u64,
    /// Pending steps that its crashes keep.
    pub persisted: u64,
    /// A hash of what the small case asks and of what its crashes keep, the numbers of events aside; empty in a cell of an older kvsim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub steps: String,
    /// Making it small ended by itself, and not because its work was used up.
    pub is_minimal: bool,
    /// What is to blame, with its place in the engine's source.
    pub blame: Option<Said>,
    /// The trace hash; two runs had it.
    pub trace_hash: String,
    /// The case.
    pub file: String,
    /// The line that replays it.
    pub replay: String,
    /// The profiles under which the requests of the small case fail in this class.
    pub shown_by: Vec<String>,
    /// Those under which no state within the bounds does.
    pub not_by: Vec<String>,
    /// Those of which this is not known.
    pub undecided_by: Vec<String>,
    /// The weakest of `shown_by`, by the rules of profiles.
    pub weakest: Vec<String>,
    /// The strongest of `shown_by`.
    pub strongest: Vec<String>,
    /// The finding as it was run under these, beside its own profile.
    pub confirmed: Vec<Confirmed>,
    /// The line that asks the engine itself, built for this machine, about the crashed files. A board does not run it.
    pub native_line: String,
}

/// Real time, the only part of a cell that differs from one run to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Real {
    /// Of all of the cell.
    pub seconds: f64,
    /// Of the exploration alone.
    pub explore_seconds: f64,
    /// States judged in a second of a core.
    pub states_per_core_second: Option<f64>,
    /// Threads.
    pub jobs: usize,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What it belongs to.
    pub key: Key,
    /// What the engine says of itself.
    pub about: About,
    /// How far the exploration went.
    pub bounds: Bounds,
    /// The run that was recorded.
    pub recorded: Recorded,
    /// The sums of all depths.
    pub total: Level,
    /// The sums of each depth.
    pub depths: Vec<Level>,
    /// Violations that the exploration met before it ended.
    pub violations: u64,
    /// What it comes to: the most severe class of its findings.
    pub verdict: VerdictClass,
    /// Why, where no finding says it.
    pub why: Vec<String>,
    /// The findings, the most severe first.
    pub findings: Vec<Finding>,
    /// A hash over all of this but real time, the hashes of steps and the names of folders: the same on any number of threads.
    pub hash: String,
    /// Real time.
    pub real: Real,
}

impl Cell {
    /// A cell of which nothing is known but why.
    #[must_use]
    pub fn failed(key: Key, verdict: VerdictClass, why: String) -> Cell {
        Cell {
            key,
            about: About::default(),
            bounds: Bounds::default(),
            recorded: Recorded::default(),
            total: Level::default(),
            depths: Vec::new(),
            violations: 0,
            verdict,
            why: vec![why],
            findings: Vec::new(),
            hash: String::new(),
            real: Real::default(),
        }
        .hashed()
    }

    /// With its hash.
    #[must_use]
    pub fn hashed(mut self) -> Cell {
        let mut bare = self.clone();
        bare.hash.clear();
        bare.real = Real::default();
        for finding in &mut bare.findings {
            // It follows from the case, which has the trace hash, and older cells lack it.
            let names = [
                &mut finding.steps,
                &mut finding.file,
                &mut finding.replay,
                &mut finding.native_line,
            ];
            names.into_iter().for_each(String::clear);
            for confirmed in &mut finding.confirmed {
                confirmed.file.clear();
                confirmed.replay.clear();
            }
        }
        let text = serde_json::to_string(&bare).unwrap_or_default();
        self.hash = short_hash(text.as_bytes());
        self
    }

    /// Crash points of which a bound left something out.
    #[must_use]
    pub fn left_out(&self) -> Vec<(u64, &'static str)> {
        let left_out = &self.total.left_out;
        [
            (left_out.sampled, "states beyond states_per_point"),
            (left_out.subsets, "sets of steps beyond subset_writes"),
            (left_out.several_torn, "more torn steps than torn_writes"),
            (left_out.tears, "tears beyond tear_sectors"),
            (left_out.orders, "orders of many overlapping writes"),
        ]
        .into_iter()
        .filter(|(points, _)| *points > 0)
        .collect()
    }
}

/// A hash that tells contents apart.
#[must_use]
pub fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().as_str()[..32].to_owned()
}
