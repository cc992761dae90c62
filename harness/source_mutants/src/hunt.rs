//! Runs the plan on one mutation until a property is violated or its time is over.
//!
//! Time is processor time of this process, so that a busy machine changes little. Only the time limit depends on a clock: within it, what is
//! found depends on scenario, module and mutation alone.

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kvsim_harness::campaign::CampaignError;
use kvsim_harness::control::{Control, Stop};
use kvsim_harness::coverage::{Coverage, CoverageCounts};
use kvsim_harness::explore::Exploration;
use kvsim_harness::run::{SeedEnd, Tracing, run_seed};
use kvsim_harness::scenario::{OptionText, Scenario};
use kvsim_sim::Program;
use serde::{Deserialize, Serialize};

use crate::coverage::Lines;
use crate::plan::{How, STEPS, Step, WHOLE};
use crate::scratch::{LINE, OPTION};

/// What became of a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is being run, or the process ended while it was.
    Started,
    /// A property was violated.
    Caught {
        /// In this scenario.
        scenario: String,
        /// This one.
        property: String,
    },
    /// Nothing was violated, but no command would end with PASS: the guest refuses its first opening, or proves nothing.
    Inconclusive {
        /// In this scenario.
        scenario: String,
        /// What was said.
        why: String,
    },
    /// The host failed.
    Host {
        /// In this scenario.
        scenario: String,
        /// How.
        why: String,
    },
    /// Every step was run for its time and passed.
    Survived,
    /// No step executes the line.
    NotExecuted,
}

/// The parts of a mutation's time, one after the other.
const ROUNDS: [u64; 2] = [1, 3];

/// How long a mutation is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// For all of its time.
    All,
    /// For the first round only: it is known why it survives, unless that is no excuse.
    FirstRound,
}
const ROUNDS_WHOLE: u64 = ROUNDS[0] + ROUNDS[1];

/// The module and the loaded plan.
pub struct Hunter {
    program: Arc<dyn Program>,
    steps: Vec<(Step, Scenario)>,
}

/// Where a step goes on when its turn comes again.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Seeds that passed.
    seeds: u64,
    /// There is nothing more to do.
    is_whole: bool,
}

/// What one step found.
#[derive(Default)]
struct Found {
    outcome: Option<Outcome>,
    lines: Lines,
    progress: Progress,
}

impl Hunter {
    /// Loads the scenarios of the plan.
    ///
    /// # Errors
    /// A scenario is missing or wrong.
    pub fn new(root: &Path, program: Arc<dyn Program>) -> Result<Hunter, String> {
        let load = |step: &Step| Ok((*step, step.load(root)?));
        let steps = STEPS.iter().map(load).collect::<Result<_, String>>()?;
        Ok(Hunter { program, steps })
    }

    /// Runs one mutation for at most `seconds` of processor time. Steps that do not execute its line are passed over,
    /// and the others get their time. Each step first gets a part of its time, since most edits that are caught are
    /// caught at once by some step; then the rest. Gives the outcome and the time that it took.
    #[must_use]
    pub fn hunt(
        &self,
        number: usize,
        executed_by: &[&str],
        seconds: u64,
        rounds_wanted: Rounds,
    ) -> (Outcome, Duration) {
        let began = time();
        let steps: Vec<_> = self
            .steps
            .iter()
            .filter(|(step, _)| executed_by.contains(&step.name))
            .collect();
        let shares: u64 = steps.iter().map(|(step, _)| step.share).sum();
        if shares == 0 {
            return (Outcome::NotExecuted, Duration::ZERO);
        }
        let mut progress = vec![Progress::default(); steps.len()];
        let mut end = Outcome::Survived;
        let rounds = match rounds_wanted {
            Rounds::All => &ROUNDS[..],
            Rounds::FirstRound => &ROUNDS[..1],
        };
        for &part in rounds {
            for ((step, scenario), progress) in steps.iter().zip(&mut progress) {
                if progress.is_whole {
                    continue;
                }
                let milliseconds = seconds * part * step.share * 1_000 / (shares * ROUNDS_WHOLE);
                let limit = Duration::from_millis(milliseconds);
                let found = self.step(*step, scenario, &number.to_string(), limit, *progress);
                *progress = found.progress;
                match found.outcome {
                    Some(caught @ Outcome::Caught { .. }) => {
                        return (caught, time().saturating_sub(began));
                    }
                    Some(other) => end = other,
                    None => {}
                }
            }
        }
        (end, time().saturating_sub(began))
    }

    /// Runs each step without a mutation, and gives the lines that it executes.
    ///
    /// # Errors
    /// A step does not pass.
    pub fn coverage(
        &self,
        seconds: u64,
        option: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<(String, Lines)>, String> {
        let mut all = Vec::new();
        for (step, scenario) in &self.steps {
            let (began, limit) = (
                time(),
                Duration::from_secs(seconds * step.share) / u32::try_from(WHOLE).unwrap_or(1),
            );
            let found = self.step(*step, scenario, option, limit, Progress::default());
            if let Some(outcome) = found.outcome {
                return Err(format!(
                    "{} does not pass without a mutation: {outcome:?}",
                    step.name
                ));
            }
            say(&format!(
                "{}: {} lines in {:?}",
                step.name,
                found.lines.len(),
                time().saturating_sub(began)
            ));
            all.push((step.name.to_owned(), found.lines));
        }
        Ok(all)
    }

    fn step(
        &self,
        step: Step,
        scenario: &Scenario,
        option: &str,
        limit: Duration,
        from: Progress,
    ) -> Found {
        let control = Control::default();
        let is_done = AtomicBool::new(false);
        let end = time() + limit;
        let work = AssertUnwindSafe(|| match step.how {
            How::Explore => self.explore(step, scenario, option, &control),
            How::Run => self.run(step, scenario, option, &control, from),
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    if time() > end {
                        control.stop(Stop::TimeOver);
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let found = std::panic::catch_unwind(work);
            is_done.store(true, Ordering::Relaxed);
            found.unwrap_or_else(|_| Found {
                outcome: Some(Outcome::Host {
                    scenario: step.name.to_owned(),
                    why: "kvsim panicked".to_owned(),
                }),
                progress: Progress {
                    is_whole: true,
                    ..from
                },
                ..Found::default()
            })
        })
    }

    fn explore(&self, step: Step, scenario: &Scenario, option: &str, control: &Control) -> Found {
        let exploration = Exploration {
            seed: scenario.run.seeds.start,
            scenario: Arc::new(with_option(scenario.clone(), option)),
            program: Arc::clone(&self.program),
            jobs: NonZeroUsize::MIN,
            shard: None,
            strict: false,
            failures: None,
            skip_seen: true,
            minimise: false,
        };
        match exploration.run(control) {
            Ok(report) => Found {
                outcome: report.failures.first().map(|failure| Outcome::Caught {
                    scenario: step.name.to_owned(),
                    property: failure.property.clone(),
                }),
                lines: executed(&report.coverage),
                progress: Progress {
                    is_whole: !report.time_over,
                    ..Progress::default()
                },
            },
            Err(error) => Found {
                outcome: Some(of_error(step, &error)),
                ..Found::default()
            },
        }
    }

    fn run(
        &self,
        step: Step,
        scenario: &Scenario,
        option: &str,
        control: &Control,
        from: Progress,
    ) -> Found {
        let mut found = Found {
            progress: from,
            ..Found::default()
        };
        while control.stopped().is_none() {
            let seed = scenario.run.seeds.start + found.progress.seeds;
            let drawn = match scenario.of_seed(seed) {
                Ok(drawn) => with_option(drawn.into_owned(), option),
                Err(error) => {
                    found.outcome = Some(host(step, error.to_string()));
                    return found;
                }
            };
            let result = run_seed(&drawn, &self.program, seed, control, Tracing::HashOnly);
            let (config, none) = (&drawn.coverage, CoverageCounts::default());
            let coverage = Coverage::new(
                self.program.as_ref(),
                config,
                &result.tally.coverage_points,
                &none,
            );
            found.lines.extend(executed(&coverage));
            match result.end {
                SeedEnd::Violation(violation) => {
                    found.outcome = Some(Outcome::Caught {
                        scenario: step.name.to_owned(),
                        property: violation.property.name().to_owned(),
                    });
                    return found;
                }
                SeedEnd::Rejected(why) => {
                    found.outcome = Some(inconclusive(step, why));
                    found.progress.seeds += 1;
                    return found;
                }
                SeedEnd::InvalidRun(why) => {
                    found.outcome = Some(host(step, why));
                    return found;
                }
                SeedEnd::OutOfEvents => {
                    found.outcome =
                        Some(inconclusive(step, format!("seed {seed} ran out of events")));
                }
                SeedEnd::Cancelled => break,
                _ => {}
            }
            found.progress.seeds += 1;
        }
        found
    }
}

fn of_error(step: Step, error: &CampaignError) -> Outcome {
    if error.is_usage() {
        return inconclusive(step, error.to_string());
    }
    host(step, error.to_string())
}

fn inconclusive(step: Step, why: String) -> Outcome {
    let scenario = step.name.to_owned();
    Outcome::Inconclusive { scenario, why }
}

fn host(step: Step, why: String) -> Outcome {
    let scenario = step.name.to_owned();
    Outcome::Host { scenario, why }
}

fn with_option(mut scenario: Scenario, value: &str) -> Scenario {
    let value = OptionText(value.to_owned());
    scenario.guest.options.insert(OPTION.to_owned(), value);
    scenario
}

/// The lines among the coverage points that were reached.
fn executed(coverage: &Coverage) -> Lines {
    let reached = coverage
        .coverage_points
        .iter()
        .filter(|point| point.reached + point.recorded > 0);
    reached
        .filter_map(|point| point.name.strip_prefix(LINE).map(str::to_owned))
        .collect()
}

/// Processor time of this process so far, in steps of 10 ms; time since the first call where the system does not say.
fn time() -> Duration {
    let ticks = |stat: &str| -> Option<u64> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut times = fields.split_whitespace().skip(11);
        Some(times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?)
    };
    let stat = std::fs::read_to_string("/proc/self/stat").ok();
    stat.as_deref()
        .and_then(ticks)
        .map_or_else(real_time, |ticks| Duration::from_millis(ticks * 10))
}

#[expect(clippy::disallowed_methods, reason = "a limit of time needs a clock")]
fn real_time() -> Duration {
    static BEGAN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGAN.get_or_init(std::time::Instant::now).elapsed()
}
