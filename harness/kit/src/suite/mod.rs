//! All that kvsim can say about a guest in a few minutes: the rules of the ABI, and four scenarios, in one table.
//!
//! Invariant: what a part finds depends on the guest and its options alone. Time decides only how much of a part is done, and a part that was
//! cut short says what it left out.

pub mod text;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kvsim_sim::Program;
use serde_json::{Value, json};

use crate::conformance::{self, Conformance};
use kvsim_api::units::thousands;
use kvsim_drive::control::{Control, Stop};
use kvsim_findings::error::CampaignError;
use kvsim_findings::explore::ExploreReport;
use kvsim_findings::summary::{FailureReport, RunReport, Verdict};
use kvsim_investigate::campaign::{Campaign, Outcome};
use kvsim_scenario::{Scenario, ScenarioError, Shipped};
use kvsim_search::exploration::Exploration;

/// The name and version of the form of the results as JSON.
pub const SCHEMA: &str = "kvsim.suite/1";

/// A scenario of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crashes {
    /// Power cuts at random moments of long runs.
    Powercut,
    /// Every state of every crash point of a short run, one crash deep.
    ExploreSmall,
    /// The same two crashes deep.
    ExploreDeep,
    /// Everything at once, with errors and lies of the device.
    KitchenSink,
}

impl Crashes {
    /// All of them, in order.
    pub const ALL: [Crashes; 4] = [
        Crashes::Powercut,
        Crashes::ExploreSmall,
        Crashes::ExploreDeep,
        Crashes::KitchenSink,
    ];

    /// The scenario's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Crashes::Powercut => "powercut",
            Crashes::ExploreSmall => "explore_small",
            Crashes::ExploreDeep => "explore_deep",
            Crashes::KitchenSink => "kitchen_sink",
        }
    }

    /// The scenario as it ships, with these options. What it tells the built-in engine other guests are not told.
    ///
    /// # Errors
    /// If an option cannot be written down.
    pub fn scenario(self, options: &BTreeMap<String, String>) -> Result<Scenario, ScenarioError> {
        let sets: Vec<String> = options
            .iter()
            .map(|(name, value)| format!("guest.options.{name}={value}"))
            .collect();
        let shipped = Shipped::named(self.name()).expect("the suite is of shipped scenarios");
        shipped.load(&sets)
    }
}

/// What to run the parts with.
pub struct Terms {
    /// The guest, for long runs.
    pub program: Arc<dyn Program>,
    /// The same, for many short process runs.
    pub reused: Arc<dyn Program>,
    /// What it is told.
    pub options: BTreeMap<String, String>,
    /// States and seeds side by side.
    pub jobs: NonZeroUsize,
    /// Where failing cases are saved.
    pub failures: PathBuf,
}

/// How a part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nothing is wrong with what was seen.
    Pass,
    /// A rule or a property does not hold.
    Failed,
    /// Nothing is wrong with what was seen, and that proves nothing.
    Inconclusive,
    /// It was not begun; there was no time for it, or the module is no guest.
    LeftOut,
}

/// What came of a part.
#[derive(Debug, Clone)]
pub struct Part {
    /// The scenario, or `conformance`.
    pub name: &'static str,
    /// How it ended.
    pub ended: Ended,
    /// What was done, in short.
    pub seen: String,
    /// What was not done, if anything.
    pub left_out: Option<String>,
    /// Real time.
    pub elapsed: Duration,
    /// What is wrong, in a sentence.
    pub wrong: Option<String>,
    /// The line that shows it again.
    pub replay: Option<String>,
    /// Why the failing case could not be saved.
    pub unsaved: Option<String>,
}

impl Part {
    /// A part that was not begun.
    #[must_use]
    pub fn left_out(name: &'static str, why: &str) -> Part {
        Part {
            name,
            ended: Ended::LeftOut,
            seen: String::new(),
            left_out: Some(why.to_owned()),
            elapsed: Duration::ZERO,
            wrong: None,
            replay: None,
            unsaved: None,
        }
    }

    /// What the rules came to. `again` is the command that shows them.
    #[must_use]
    pub fn of_rules(report: &Conformance, elapsed: Duration, again: String) -> Part {
        let broken = report.broken();
        let wrong = report.rules.iter().find_map(|it| match &it.outcome {
            conformance::Outcome::Broken(breach) => Some(format!(
                "{}: expected {}; came {}",
                it.rule.name, breach.expected, breach.came
            )),
            _ => None,
        });
        Part {
            ended: if broken > 0 {
                Ended::Failed
            } else {
                Ended::Pass
            },
            seen: format!("{} of {} rules hold", report.hold(), report.rules.len()),
            left_out: None,
            elapsed,
            replay: wrong.is_some().then_some(again),
            wrong,
            ..Part::left_out("conformance", "")
        }
    }

    fn of_failure(self, failure: Option<&FailureReport>) -> Part {
        let Some(failure) = failure else { return self };
        Part {
            wrong: Some(format!("{}: {}", failure.property, failure.sentence)),
            replay: failure.replay.clone(),
            unsaved: failure.unsaved.clone(),
            ..self
        }
    }
}

fn ended(verdict: &Verdict) -> (Ended, Option<String>) {
    match verdict {
        Verdict::Pass => (Ended::Pass, None),
        Verdict::Violation => (Ended::Failed, None),
        Verdict::Inconclusive(reasons) => (Ended::Inconclusive, Some(reasons.join("; "))),
    }
}

fn of_run(name: &'static str, report: &RunReport, control: &Control) -> Part {
    let (ended, why) = ended(&report.verdict);
    let (done, asked) = (report.seed_count(), report.seeds_asked.count());
    let cut = control.stopped().is_some() && report.failure.is_none();
    let seen = format!(
        "{} crashes, {} writes checked",
        thousands(report.tally.crashes()),
        thousands(report.tally.writes_checked())
    );
    let left_out = (cut && done < asked).then(|| format!("{} of {asked} seeds", asked - done));
    let part = Part {
        ended,
        seen,
        left_out,
        elapsed: report.real.elapsed,
        wrong: why,
        ..Part::left_out(name, "")
    };
    part.of_failure(report.failure.as_ref())
}

fn of_exploration(name: &'static str, report: &ExploreReport, elapsed: Duration) -> Part {
    let (ended, why) = ended(&report.verdict);
    let (total, done) = (report.total(), report.points_done() as u64);
    let seen = format!(
        "{} states at {} crash points, {} deep",
        thousands(total.checked),
        thousands(total.points),
        report.depth()
    );
    let cut = report.time_over && report.failures.is_empty();
    let left_out = cut.then(|| {
        format!(
            "{} of {} crash points",
            report.points_asked - done,
            report.points_asked
        )
    });
    // A depth that has seen nothing proves nothing.
    let ended = match ended {
        Ended::Pass if total.checked == 0 => Ended::Inconclusive,
        other => other,
    };
    let part = Part {
        ended,
        seen,
        left_out,
        elapsed,
        wrong: why,
        ..Part::left_out(name, "")
    };
    part.of_failure(report.failures.first())
}

/// Runs one scenario, until it is done or `control` says stop.
///
/// # Errors
/// The guest does not take its options, or something of ours went wrong.
pub async fn crash(
    terms: &Terms,
    crashes: Crashes,
    control: &Arc<Control>,
) -> Result<Part, CampaignError> {
    let scenario = crashes.scenario(&terms.options)?;
    let failures = Some(terms.failures.clone());
    if matches!(crashes, Crashes::Powercut | Crashes::KitchenSink) {
        let campaign = Campaign {
            seeds: scenario.run.seeds,
            scenario: Arc::new(scenario),
            program: Arc::clone(&terms.program),
            shard: None,
            duration: None,
            jobs: terms.jobs,
            strict: false,
            failures,
            trace: false,
        };
        let Outcome { report, .. } = campaign.run(control).await?;
        return Ok(of_run(crashes.name(), &report, control));
    }
    let exploration = Exploration {
        seed: scenario.run.seeds.start,
        scenario: Arc::new(scenario),
        program: Arc::clone(&terms.reused),
        jobs: terms.jobs,
        shard: None,
        strict: false,
        failures,
        skip_seen: true,
        minimise: false,
    };
    let (scenario, seed) = (crashes.name().to_owned(), exploration.seed);
    let watched = Arc::clone(control);
    let began = control.elapsed();
    let explored = tokio::task::spawn_blocking(move || exploration.run(&watched)).await;
    let report = explored.unwrap_or_else(|error| {
        let message = error.to_string();
        Err(CampaignError::Panic {
            scenario,
            seed,
            message,
        })
    })?;
    Ok(of_exploration(
        crashes.name(),
        &report,
        control.elapsed() - began,
    ))
}

/// Whether a person ended it.
#[must_use]
pub fn was_interrupted(control: &Control) -> bool {
    control.stopped() == Some(Stop::Interrupted)
}

/// The results as JSON, and the exit code that goes with them.
#[must_use]
pub fn document(guest: (&str, &str), parts: &[Part], exit_code: u8) -> Value {
    let part = |part: &Part| {
        json!({
            "name": part.name,
            "ended": match part.ended {
                Ended::Pass => "pass",
                Ended::Failed => "failed",
                Ended::Inconclusive => "inconclusive",
                Ended::LeftOut => "left_out",
            },
            "seen": part.seen,
            "left_out": part.left_out,
            "seconds": part.elapsed.as_secs_f64(),
            "wrong": part.wrong,
            "replay": part.replay,
        })
    };
    json!({
        "schema": SCHEMA,
        "kvsim": env!("CARGO_PKG_VERSION"),
        "exit_code": exit_code,
        "guest": { "name": guest.0, "hash": guest.1 },
        "parts": parts.iter().map(part).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a foreign guest is told nothing that is not its own. Method: the options of every seed of every scenario.
    #[test]
    fn no_scenario_tells_a_foreign_guest_the_options_of_the_built_in_engine() {
        let options = BTreeMap::from([("bug".to_owned(), "none".to_owned())]);
        for crashes in Crashes::ALL {
            let scenario = crashes.scenario(&options).expect("it loads");
            assert_eq!(scenario.name, crashes.name());
            for seed in scenario.run.seeds.start..scenario.run.seeds.end {
                let drawn = scenario.of_seed(seed).expect("it fits together");
                let told: Vec<&str> = drawn.guest.options.keys().map(String::as_str).collect();
                assert_eq!(told, ["bug"], "{} {seed}", crashes.name());
            }
        }
    }
}
