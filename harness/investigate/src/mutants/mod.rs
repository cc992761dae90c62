//! Mutants: does what crashes engines find the bug in an engine that has one?
//!
//! A [`Mutant`] is a bug that the guest's option `mutant` switches on. Each is [hunted](Hunt::hunt) through the scenarios of a
//! [catalogue]: explored exhaustively, or run over seeds, one scenario after the other until a property is
//! violated. That a scenario is violated by nothing else is shown by its [control](Hunt::control), the same guest without a mutant.
//!
//! Invariant: whether a mutant is caught, by which property and after how many states depends on guest and scenarios alone; the
//! times do not.

pub mod catalogue;
pub mod fix;
pub mod host;
pub mod json;
pub mod shipped;
pub mod text;

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use kvsim_engine::Mutant;
use kvsim_sim::Program;

use crate::mutants::catalogue::{How, Trial};
use crate::mutants::fix::Fix;
use kvsim_drive::control::Control;
use kvsim_drive::run::{SeedEnd, SeedResult, Tracing, run_seed};
use kvsim_drive::tally::Tally;
use kvsim_explore::parallel::map;
use kvsim_findings::error::CampaignError;
use kvsim_findings::failure;
use kvsim_findings::summary::{FailureReport, Verdict};
use kvsim_scenario::{Scenario, ScenarioError, SeedRange};
use kvsim_search::exploration::{Exploration, cpu};
use kvsim_search::minimise::minimise_and_blame;

/// What hunts.
#[derive(Clone)]
pub struct Hunt {
    /// The guest, which takes the option `mutant`.
    pub program: Arc<dyn Program>,
    /// Threads.
    pub jobs: NonZeroUsize,
    /// Where failing cases are saved; nowhere if absent.
    pub failures: Option<PathBuf>,
    /// Whether what was caught is shrunk, which takes a place to save it in.
    pub minimise: bool,
    /// The real time that shrinking a failure and blaming it may take together.
    pub limit: Option<Duration>,
}

/// What became of one scenario.
#[derive(Debug, Clone)]
pub struct Tried {
    /// The scenario.
    pub trial: Trial,
    /// Crash states judged, or crashes done.
    pub states: u64,
    /// What was violated.
    pub failure: Option<FailureReport>,
    /// Why it says nothing.
    pub remark: Option<String>,
    /// Real time.
    pub elapsed: Duration,
}

/// How small a failure became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Small {
    /// Requests that are left.
    pub requests: usize,
    /// Crashes that are left.
    pub crashes: u64,
    /// Decisions about what survives that are left.
    pub persisted: usize,
    /// What is missing in the guest.
    pub blame: String,
    /// What fixes it, read off its site.
    pub fix: Fix,
    /// Whether blame names that.
    pub is_blamed_right: bool,
    /// Where it was saved.
    pub file: Option<PathBuf>,
    /// Real time of shrinking and of looking for what is to blame.
    pub elapsed: Duration,
    /// Processor time of it, where the system says.
    pub cpu: Option<Duration>,
    /// What ended the search.
    pub ended: Ended,
}

/// What ended a search for a smaller case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nothing gained anything any more.
    Done,
    /// The work that it may take, which does not depend on the machine.
    Work,
    /// The real time that it may take.
    Time,
}

impl Ended {
    /// In one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Ended::Done => "done",
            Ended::Work => "work",
            Ended::Time => "time",
        }
    }
}

impl Small {
    /// Whether a person can take it in at a glance: at most five requests, and three decisions about what survives.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.requests <= 5 && self.persisted <= 3
    }
}

/// What became of one mutant.
#[derive(Debug, Clone)]
pub struct Hunted {
    /// The mutant.
    pub mutant: Mutant,
    /// The scenarios that were tried, in order; the last one caught it, or none did.
    pub tried: Vec<Tried>,
    /// How small the failure became, if that was asked for and can be done, or why not.
    pub small: Option<Result<Small, String>>,
}

impl Hunted {
    /// How it was caught, if it was.
    #[must_use]
    pub fn caught(&self) -> Option<&Tried> {
        self.tried.last().filter(|tried| tried.failure.is_some())
    }

    /// States until it was caught, or all.
    #[must_use]
    pub fn states(&self) -> u64 {
        self.tried.iter().map(|tried| tried.states).sum()
    }

    /// Real time until it was caught, or of all.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.tried.iter().map(|tried| tried.elapsed).sum()
    }
}

/// All that there is to say.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The guest's name and hash.
    pub guest: (String, String),
    /// Threads.
    pub jobs: usize,
    /// The mutants, in order.
    pub hunted: Vec<Hunted>,
    /// The scenarios that were used, without any mutant.
    pub controls: Vec<Tried>,
    /// It was interrupted before all mutants were hunted.
    pub interrupted: bool,
}

impl Report {
    /// Mutants that no scenario caught.
    pub fn missed(&self) -> impl Iterator<Item = &Hunted> {
        self.hunted
            .iter()
            .filter(|hunted| hunted.caught().is_none())
    }

    /// What was shrunk.
    pub fn shrunk(&self) -> impl Iterator<Item = (Mutant, &Small)> {
        self.hunted.iter().filter_map(|hunted| {
            let small = hunted.small.as_ref()?.as_ref().ok()?;
            Some((hunted.mutant, small))
        })
    }

    /// Mutants that blame is wrong about, of those that were shrunk. Space that is used again too early does not count: no flush fixes it, and
    /// where several writes go to such space, none of them alone is named.
    pub fn misblamed(&self) -> impl Iterator<Item = Mutant> {
        let counts = |small: &Small| small.fix != Fix::LaterReuse;
        let wrong = self
            .shrunk()
            .filter(move |(_, small)| !small.is_blamed_right && counts(small));
        wrong.map(|(mutant, _)| mutant)
    }

    /// Controls in which something is violated all the same.
    pub fn spoilt(&self) -> impl Iterator<Item = &Tried> {
        self.controls
            .iter()
            .filter(|control| control.failure.is_some() || control.remark.is_some())
    }

    /// Median and worst time until a mutant was caught.
    #[must_use]
    pub fn times(&self) -> Option<(Duration, Duration)> {
        let caught = self
            .hunted
            .iter()
            .filter(|hunted| hunted.caught().is_some());
        let mut times: Vec<Duration> = caught.map(Hunted::elapsed).collect();
        times.sort_unstable();
        let median = *times.get(times.len().saturating_sub(1) / 2)?;
        Some((median, *times.last()?))
    }
}

impl Hunt {
    /// Tries the scenarios in order until one catches the mutant.
    ///
    /// # Errors
    /// Something of ours went wrong, or the guest knows no such mutant.
    pub fn hunt(
        &self,
        mutant: Mutant,
        trials: &[Trial],
        control: &Control,
    ) -> Result<Hunted, CampaignError> {
        let mut hunted = Hunted {
            mutant,
            tried: Vec::new(),
            small: None,
        };
        for trial in trials {
            if control.stopped().is_some() {
                break;
            }
            let tried = self.attempt(trial, Some(mutant), control)?;
            let caught = tried.failure.is_some();
            hunted.tried.push(tried);
            if caught {
                break;
            }
        }
        if self.minimise {
            hunted.small = hunted
                .caught()
                .and_then(|tried| tried.failure.as_ref())
                .map(|failure| self.shrink_or_panic(mutant, failure, control));
        }
        Ok(hunted)
    }

    /// Runs a scenario to its end without any mutant.
    ///
    /// # Errors
    /// Something of ours went wrong.
    pub fn control(&self, trial: &Trial, control: &Control) -> Result<Tried, CampaignError> {
        self.attempt(trial, None, control)
    }

    fn attempt(
        &self,
        trial: &Trial,
        mutant: Option<Mutant>,
        control: &Control,
    ) -> Result<Tried, CampaignError> {
        let began = now();
        let scenario = trial.load_for(mutant);
        let mut tried = Tried {
            trial: *trial,
            states: 0,
            failure: None,
            remark: None,
            elapsed: Duration::ZERO,
        };
        match trial.how {
            How::Explore => self.explore(scenario, control, &mut tried)?,
            How::Seeds => self.seeds(&scenario, control, &mut tried)?,
        }
        tried.elapsed = began.elapsed();
        Ok(tried)
    }

    fn explore(
        &self,
        scenario: Scenario,
        control: &Control,
        tried: &mut Tried,
    ) -> Result<(), CampaignError> {
        let exploration = Exploration {
            seed: scenario.run.seeds.start,
            scenario: Arc::new(scenario),
            program: Arc::clone(&self.program),
            jobs: self.jobs,
            shard: None,
            strict: false,
            failures: self.failures.clone(),
            skip_seen: true,
            minimise: false,
        };
        match exploration.run(control) {
            Ok(mut report) => {
                tried.states = report.total().checked;
                tried.failure = report.failures.drain(..).next();
                if let Verdict::Inconclusive(why) = report.verdict {
                    tried.remark = Some(why.join("; "));
                }
                Ok(())
            }
            Err(error) => excuse(error, tried),
        }
    }

    /// So many seeds at a time as there are threads; the lowest failing one counts.
    fn seeds(
        &self,
        scenario: &Scenario,
        control: &Control,
        tried: &mut Tried,
    ) -> Result<(), CampaignError> {
        let mut all = Tally::default();
        let seeds: Vec<u64> = (scenario.run.seeds.start..scenario.run.seeds.end).collect();
        for chunk in seeds.chunks(self.jobs.get()) {
            let one = |seed: &u64| {
                let drawn = scenario.of_seed(*seed)?;
                let tracing = Tracing::HashOnly;
                Ok(run_seed(&drawn, &self.program, *seed, control, tracing))
            };
            for result in map(self.jobs, 1, chunk, one) {
                let result = result.map_err(|error: ScenarioError| CampaignError::from(error))?;
                tried.states += result.tally.crashes();
                all.add(&result.tally);
                match &result.end {
                    SeedEnd::Violation(_) => {
                        let drawn = scenario.of_seed(result.seed)?;
                        return self.confirm(&drawn, &result, tried);
                    }
                    SeedEnd::Rejected(message) => {
                        return Err(CampaignError::Rejected {
                            seed: result.seed,
                            scenario: scenario.name.clone(),
                            message: message.clone(),
                        });
                    }
                    SeedEnd::InvalidRun(what) => tried.remark = Some(what.clone()),
                    SeedEnd::OutOfEvents => {
                        tried.remark = Some(format!("seed {} ran out of events", result.seed));
                    }
                    SeedEnd::Cancelled => {
                        tried.remark = Some("interrupted".to_owned());
                        return Ok(());
                    }
                    SeedEnd::Done | SeedEnd::DamageReported => {}
                }
            }
        }
        if tried.remark.is_none() {
            tried.remark = all.proves_nothing();
        }
        Ok(())
    }

    /// The same seed once more: what is reported has to come again.
    fn confirm(
        &self,
        scenario: &Scenario,
        result: &SeedResult,
        tried: &mut Tried,
    ) -> Result<(), CampaignError> {
        let (seed, control) = (result.seed, Control::default());
        let again = run_seed(scenario, &self.program, seed, &control, Tracing::HashOnly);
        if again.end != result.end || again.trace_hash != result.trace_hash {
            return Err(CampaignError::Nondeterminism {
                scenario: scenario.name.clone(),
                seed,
                difference: "it ended in two ways".to_owned(),
            });
        }
        let mut scenario = scenario.clone();
        scenario.run.seeds = SeedRange::one(seed);
        let (program, directory) = (self.program.as_ref(), self.failures.as_deref());
        let (failure, _) = failure::report(&scenario, program, result, directory);
        tried.failure = Some(failure);
        Ok(())
    }

    /// A panic of ours is a result like any other failure to shrink.
    fn shrink_or_panic(
        &self,
        mutant: Mutant,
        failure: &FailureReport,
        control: &Control,
    ) -> Result<Small, String> {
        let shrink = AssertUnwindSafe(|| self.shrink(mutant, failure, control));
        let small = std::panic::catch_unwind(shrink);
        small.unwrap_or_else(|_| Err("internal error: kvsim panicked".to_owned()))
    }

    fn shrink(
        &self,
        mutant: Mutant,
        failure: &FailureReport,
        control: &Control,
    ) -> Result<Small, String> {
        let (began, cpu) = (now(), cpu::time());
        let Some(file) = &failure.file else {
            return Err("its case was not saved".to_owned());
        };
        let case = kvsim_scenario::load(file, &[]).map_err(|error| error.to_string())?;
        let (program, jobs) = (&self.program, self.jobs);
        let (small, blame) =
            minimise_and_blame(&case, program, None, jobs, control, self.limit, &|_| {})?;
        let ended = match (small.exhausted, small.interrupted) {
            (false, _) => Ended::Done,
            (true, false) => Ended::Work,
            (true, true) => Ended::Time,
        };
        let case = small.scenario.case.clone().unwrap_or_default();
        let crashes = case
            .process_runs
            .iter()
            .filter_map(|process_run| process_run.crash.as_ref());
        let fix = fix::fix(mutant).of_crashes(case.crashes());
        let said = blame.to_string();
        let is_blamed_right = fix.is_named_by(&blame);
        let directory = self.failures.as_deref();
        let report = small.report(self.program.as_ref(), directory, Some(blame));
        if let Some(error) = report.unsaved {
            return Err(error);
        }
        Ok(Small {
            requests: case.requests(),
            crashes: case.crashes(),
            persisted: crashes.map(|crash| crash.persisted.len()).sum(),
            blame: said,
            fix,
            is_blamed_right,
            file: report.file,
            elapsed: began.elapsed(),
            cpu: cpu::time().zip(cpu).map(|(after, before)| after - before),
            ended,
        })
    }
}

/// A process run that takes too long says nothing of the scenario; everything else is an error.
fn excuse(error: CampaignError, tried: &mut Tried) -> Result<(), CampaignError> {
    match error {
        CampaignError::InvalidRun { what, .. } => {
            tried.remark = Some(what);
            Ok(())
        }
        other => Err(other),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "reports of real time; nothing that a hunt decides depends on it"
)]
fn now() -> Instant {
    Instant::now()
}
