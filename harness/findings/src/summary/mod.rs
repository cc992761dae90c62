//! What a run of a scenario found: as values, as JSON for machines ([`json`]), as text for people ([`text`]).

pub mod json;
pub mod part;
pub mod read;
pub mod text;

use std::path::PathBuf;
use std::time::Duration;

pub use part::{Part, Terms};

use kvsim_drive::tally::{Tally, as_f64};

use crate::blame::Blame;
use crate::story::Story;
use kvsim_api::coverage::Coverage;
use kvsim_api::units::{SeedRange, counted};
use kvsim_oracle::Facts;

/// Everything there is to say about one scenario that was run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The scenario's name.
    pub scenario: String,
    /// The profile, if the scenario names one.
    pub profile: Option<String>,
    /// The guest's name.
    pub guest_name: String,
    /// The guest's hash.
    pub guest_hash: String,
    /// The seeds that were asked for; open-ended if the time decided.
    pub seeds_asked: SeedRange,
    /// The seeds that count, in order.
    pub seeds_done: Vec<SeedRange>,
    /// The counts of these seeds.
    pub tally: Tally,
    /// One hash over the traces of these seeds, in order.
    pub trace_hash: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What had been asked for and never happened.
    pub never_fired: Vec<String>,
    /// What the guest does not offer, so that nobody asked for it.
    pub not_asked: Vec<String>,
    /// The guest's coverage points; none of a saved case, which is there for one failure and not for coverage.
    pub coverage: Coverage,
    /// The violation, if there is one.
    pub failure: Option<FailureReport>,
    /// Of a shard: what it takes to put it together with the others.
    pub part: Option<Part>,
    /// Real time, the only part that differs from one machine or moment to another.
    pub real: Real,
}

/// What the scenarios of one command came to.
#[derive(Debug, Default)]
pub struct Found {
    /// The reports, in the order in which the scenarios ran.
    pub reports: Vec<RunReport>,
    /// The scenarios without one.
    pub unreported: Vec<Unreported>,
}

/// A scenario that could not be run to a report.
#[derive(Debug)]
pub struct Unreported {
    /// The scenario's name.
    pub scenario: String,
    /// Why.
    pub message: String,
}

/// Real time and what was used of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Real {
    /// From the first seed's start to the last one's end.
    pub elapsed: Duration,
    /// Seeds side by side.
    pub jobs: usize,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was violated, or what was expected to be was.
    Pass,
    /// A property was violated.
    Violation,
    /// Nothing was violated in what was seen, but that is not all that was asked for; why, a sentence each.
    Inconclusive(Vec<String>),
}

/// A violation and how to see it again.
#[derive(Debug, Clone)]
pub struct FailureReport {
    /// The seed.
    pub seed: u64,
    /// The property's name.
    pub property: String,
    /// What happened, for a person.
    pub sentence: String,
    /// What must have survived and what came back, and the like.
    pub facts: Facts,
    /// How many crashes the seed had seen.
    pub crash: u64,
    /// The seed's trace hash.
    pub trace_hash: String,
    /// Where the failing case was saved.
    pub file: Option<PathBuf>,
    /// Why it could not be saved.
    pub unsaved: Option<String>,
    /// The line to paste that shows it again.
    pub replay: Option<String>,
    /// For a run of a saved failing case: whether it is the saved failure.
    pub reproduced: Option<Reproduction>,
    /// What is missing in the guest, if that was asked.
    pub blame: Option<Blame>,
    /// The failing run itself, if it was recorded.
    pub story: Option<Story>,
}

/// Whether a saved failing case failed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reproduction {
    /// Same property, same trace.
    Exact,
    /// Same property, another trace.
    SameProperty {
        /// What has changed since it was saved, in words.
        changed: &'static str,
    },
    /// Another property.
    OtherProperty {
        /// The one that was saved.
        saved: String,
    },
}

impl RunReport {
    /// Crashes per second of real time.
    #[must_use]
    pub fn crashes_per_second(&self) -> f64 {
        let seconds = self.real.elapsed.as_secs_f64();
        if seconds > 0.0 {
            as_f64(self.tally.crashes()) / seconds
        } else {
            0.0
        }
    }

    /// How many seeds count.
    #[must_use]
    pub fn seed_count(&self) -> u64 {
        self.seeds_done.iter().map(SeedRange::count).sum()
    }
}

impl FailureReport {
    /// The facts for a person, a line each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let facts = &self.facts;
        let mut lines = Vec::new();
        let mut say = |label: &str, text: Option<String>| {
            if let Some(text) = text {
                lines.push(format!("{label:<12} {text}"));
            }
        };
        say("key", facts.key.clone());
        say("expected", facts.expected.clone());
        say("found", facts.found.clone());
        say("operation", facts.op.map(|op| op.to_string()));
        say(
            "keys wrong",
            (facts.keys_wrong > 1).then(|| facts.keys_wrong.to_string()),
        );
        say(
            "lost",
            (facts.acknowledged_lost > 0).then(|| {
                counted(
                    facts.acknowledged_lost,
                    "acknowledged write",
                    "acknowledged writes",
                )
            }),
        );
        for (at, function) in facts.stack.iter().enumerate() {
            let label = if at == 0 { "backtrace" } else { "" };
            say(label, Some(function.clone()));
        }
        lines
    }
}
