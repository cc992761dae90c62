//! Many seeds of one scenario, side by side, into one report.
//!
//! Invariant: the report, its trace hash and the failure it names depend on the seeds only, not on how many ran side by side
//! or which was done first. Results are merged in the order of the seeds; of several failing seeds the lowest is reported.
//! Only `--for` and an interruption let time decide how many seeds there are, and the report then says which.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvsim_sim::Program;
use tokio::task::{JoinError, JoinSet};

use kvsim_api::coverage::{Coverage, CoverageCounts};
use kvsim_api::units::SeedRange;
use kvsim_drive::control::{Control, Stop};
use kvsim_drive::run::{SeedEnd, SeedResult, Tracing, first_difference, run_seed};
use kvsim_findings::error::CampaignError;
use kvsim_findings::failure;
use kvsim_findings::summary::part::{self, Done};
use kvsim_findings::summary::part::{Part, Terms};
use kvsim_findings::summary::{FailureReport, Real, RunReport, Verdict};
use kvsim_scenario::Scenario;

/// What to run.
#[derive(Clone)]
pub struct Campaign {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The guest.
    pub program: Arc<dyn Program>,
    /// The seeds; with a duration only the first one counts, and they go on from there.
    pub seeds: SeedRange,
    /// Which part of how many of them to run, counted from 0; all if absent.
    pub shard: Option<(u64, u64)>,
    /// How long to go on with further seeds.
    pub duration: Option<Duration>,
    /// Seeds side by side.
    pub jobs: NonZeroUsize,
    /// A fault that was asked for and never fired, or a coverage point of the guest that was never reached, makes the run inconclusive.
    pub strict: bool,
    /// Where failing cases are saved; nowhere if absent.
    pub failures: Option<PathBuf>,
    /// Whether to keep every event.
    pub trace: bool,
}

/// A report and, if asked for, every event of every seed.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub report: RunReport,
    /// The events, in the order of the seeds.
    pub traces: Vec<(u64, Vec<String>)>,
}

impl Campaign {
    /// Runs the seeds until all are done, one has failed, or `control` says stop.
    ///
    /// # Errors
    /// Something of ours went wrong; nothing is said about the guest.
    pub async fn run(&self, control: &Arc<Control>) -> Result<Outcome, CampaignError> {
        let began = now();
        let seeds = self.own_seeds()?;
        let mut merged = Merged::new(seeds.start);
        self.run_seeds(seeds, control, &mut merged).await?;
        let (failed, mut done) = merged.finish(control.first_failed());
        done.interrupted = control.stopped() == Some(Stop::Interrupted);
        let mut report = self.report(seeds, done);
        if let Some(failed) = failed {
            let failed = self.confirm(&failed).await?;
            let (failure, outcome) = self.failure(&failed)?;
            report.failure = Some(failure);
            report.verdict = outcome;
        }
        report.real = Real {
            elapsed: began.elapsed(),
            jobs: self.jobs.get(),
        };
        Ok(Outcome {
            report,
            traces: merged.traces,
        })
    }

    /// The seeds of this part.
    fn own_seeds(&self) -> Result<SeedRange, CampaignError> {
        let Some(shard) = self.shard else {
            return Ok(self.seeds);
        };
        part::stretch(self.seeds, shard).ok_or_else(|| CampaignError::TooFewSeeds {
            scenario: self.scenario.name.clone(),
            seeds: self.seeds.count(),
            shards: shard.1,
        })
    }

    async fn run_seeds(
        &self,
        seeds: SeedRange,
        control: &Arc<Control>,
        merged: &mut Merged,
    ) -> Result<(), CampaignError> {
        let alarm = self.duration.map(|duration| {
            let control = Arc::clone(control);
            tokio::spawn(async move {
                tokio::time::sleep(duration).await;
                control.stop(Stop::TimeOver);
            })
        });
        let end = if self.duration.is_some() {
            u64::MAX
        } else {
            seeds.end
        };
        let mut next = seeds.start;
        let mut running = JoinSet::new();
        let (mut violated, mut broken) = (u64::MAX, None::<(u64, CampaignError)>);
        loop {
            while running.len() < self.jobs.get()
                && next < end
                && broken.is_none()
                && control.wants(next)
            {
                running.spawn_blocking(self.worker(next, control));
                next += 1;
            }
            let Some(joined) = running.join_next().await else {
                break;
            };
            let lost = |error: JoinError| (seeds.start, self.panic(next, &error.to_string()));
            match joined.unwrap_or_else(|error| Err(lost(error))) {
                Ok(result) => {
                    if result.end.is_violation() {
                        control.failed(result.seed);
                        violated = violated.min(result.seed);
                    }
                    merged.take(result);
                }
                Err((seed, error)) => {
                    control.failed(seed);
                    if broken.as_ref().is_none_or(|(first, _)| seed < *first) {
                        broken = Some((seed, error));
                    }
                }
            }
        }
        if let Some(alarm) = alarm {
            alarm.abort();
        }
        // The first by number decides, not the first in time.
        match broken {
            Some((seed, error)) if seed < violated => Err(error),
            _ => Ok(()),
        }
    }

    /// One seed, ready to be run on a thread of its own; a panic is caught here, where the seed is known.
    fn worker(
        &self,
        seed: u64,
        control: &Arc<Control>,
    ) -> impl FnOnce() -> Result<SeedResult, (u64, CampaignError)> + use<> {
        let (this, control) = (self.clone(), Arc::clone(control));
        move || {
            let tracing = if this.trace {
                Tracing::Keep
            } else {
                Tracing::HashOnly
            };
            let result = this.run_one(seed, &control, tracing);
            let result = result.map_err(|error| (seed, error))?;
            control.count_seed();
            Ok(result)
        }
    }

    fn run_one(
        &self,
        seed: u64,
        control: &Control,
        tracing: Tracing,
    ) -> Result<SeedResult, CampaignError> {
        let scenario = self.scenario.of_seed(seed)?;
        let run = AssertUnwindSafe(|| run_seed(&scenario, &self.program, seed, control, tracing));
        let result = std::panic::catch_unwind(run).map_err(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            self.panic(seed, text)
        })?;
        match &result.end {
            SeedEnd::InvalidRun(what) => Err(CampaignError::InvalidRun {
                scenario: self.scenario.name.clone(),
                seed,
                what: what.clone(),
            }),
            SeedEnd::Rejected(message) => Err(CampaignError::Rejected {
                scenario: self.scenario.name.clone(),
                seed,
                message: message.clone(),
            }),
            _ => Ok(result),
        }
    }

    fn panic(&self, seed: u64, message: &str) -> CampaignError {
        CampaignError::Panic {
            scenario: self.scenario.name.clone(),
            seed,
            message: message.to_owned(),
        }
    }

    /// Runs a failing seed again, and records it: the same violation by the same trace, or the finding is worth nothing.
    async fn confirm(&self, failed: &SeedResult) -> Result<SeedResult, CampaignError> {
        let (seed, trace_hash, end) = (failed.seed, failed.trace_hash.clone(), failed.end.clone());
        let this = self.clone();
        let task = move || {
            let control = Control::default();
            let again = this.run_one(seed, &control, Tracing::Record)?;
            if again.trace_hash == trace_hash && again.end == end {
                return Ok(again);
            }
            let one = this.run_one(seed, &control, Tracing::Keep)?;
            let other = this.run_one(seed, &control, Tracing::Keep)?;
            let difference = first_difference(&one, &other).unwrap_or_else(|| {
                "two further runs agree with each other, and one of the first two did not; run it again with --trace".to_owned()
            });
            Err(CampaignError::Nondeterminism {
                scenario: this.scenario.name.clone(),
                seed,
                difference,
            })
        };
        tokio::task::spawn_blocking(task)
            .await
            .unwrap_or_else(|error| Err(self.panic(seed, &error.to_string())))
    }

    fn report(&self, seeds_asked: SeedRange, done: Done) -> RunReport {
        let terms = Terms {
            expect: self.scenario.expect,
            strict: self.strict,
            is_case: self.scenario.case.is_some(),
        };
        let coverage = if self.scenario.failure.is_some() {
            Coverage::default()
        } else {
            Coverage::new(
                self.program.as_ref(),
                &self.scenario.coverage,
                &done.tally.coverage_points,
                &CoverageCounts::default(),
            )
        };
        RunReport {
            scenario: self.scenario.name.clone(),
            profile: self.scenario.profile_name().map(str::to_owned),
            guest_name: self.program.name().to_owned(),
            guest_hash: self.program.hash().to_string(),
            seeds_asked,
            seeds_done: done.seeds.clone(),
            tally: done.tally.clone(),
            trace_hash: done.trace_hash(),
            verdict: done.verdict(&terms, &coverage),
            never_fired: done.never_fired(),
            not_asked: self.program.offers().missing_names(),
            coverage,
            failure: None,
            part: self.shard.map(|(number, count)| Part {
                number,
                count,
                seeds: self.seeds,
                done,
                terms,
            }),
            real: Real::default(),
        }
    }

    fn failure(&self, failed: &SeedResult) -> Result<(FailureReport, Verdict), CampaignError> {
        let scenario = self.scenario.of_seed(failed.seed)?;
        let (program, directory) = (self.program.as_ref(), self.failures.as_deref());
        let (failure, _) = failure::report(&scenario, program, failed, directory);
        let terms = Terms {
            expect: scenario.expect,
            strict: self.strict,
            is_case: scenario.case.is_some(),
        };
        let verdict = terms.verdict_of(&failure);
        Ok((failure, verdict))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "reports of real time; nothing that a run decides depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

/// Results so far, merged in the order of the seeds as far as they are without a gap.
struct Merged {
    next: u64,
    waiting: BTreeMap<u64, SeedResult>,
    done: Done,
    traces: Vec<(u64, Vec<String>)>,
}

impl Merged {
    fn new(first: u64) -> Merged {
        Merged {
            next: first,
            waiting: BTreeMap::new(),
            done: Done::default(),
            traces: Vec::new(),
        }
    }

    fn take(&mut self, result: SeedResult) {
        self.waiting.insert(result.seed, result);
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() != self.next
                || entry.get().end.is_violation()
                || entry.get().end == SeedEnd::Cancelled
            {
                break;
            }
            let result = entry.remove();
            self.merge(result);
        }
    }

    fn merge(&mut self, mut result: SeedResult) {
        self.next = result.seed + 1;
        self.done
            .add_seed(result.seed, &result.tally, &result.trace_hash);
        if result.end == SeedEnd::OutOfEvents {
            self.done.out_of_events.get_or_insert(result.seed);
        }
        if let Some(trace) = result.trace.take() {
            self.traces.push((result.seed, trace));
        }
    }

    /// The first failing seed, and all that count: those before it and itself, or all that were finished.
    fn finish(&mut self, first_failed: Option<u64>) -> (Option<SeedResult>, Done) {
        let mut failed = None;
        for (seed, result) in std::mem::take(&mut self.waiting) {
            if first_failed.is_some_and(|first| seed > first) || result.end == SeedEnd::Cancelled {
                continue;
            }
            if result.end.is_violation() {
                failed = Some(result.clone());
            }
            self.merge(result);
        }
        (failed, std::mem::take(&mut self.done))
    }
}
