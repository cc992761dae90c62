//! Exhaustive exploration: run the workload once, and at every crash point of it take every state that a cut can leave.
//!
//! `explore/` says how.
//!
//! Invariant: report and cases depend on scenario, guest and seed alone, not on the number of threads.

pub mod again;
pub mod cpu;
pub mod left_out;
pub mod sync_places;
mod work_errors;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvsim_sim::Program;

use crate::explore::found::Found;
use crate::explore::judge::Failed;
use crate::explore::level::{Ended, Walk};
use crate::explore::record;
use crate::minimise::{LIMIT, minimise_and_blame};
use kvsim_api::coverage::Coverage;
use kvsim_api::units::SeedRange;
use kvsim_drive::control::{Control, Stop};
use kvsim_drive::run::{SeedEnd, Tracing, run_seed};
use kvsim_findings::error::CampaignError;
use kvsim_findings::explore::{ExploreReport, WorkErrorCounts};
use kvsim_findings::failure;
use kvsim_findings::summary::part::undecided;
use kvsim_findings::summary::{FailureReport, Verdict};
use kvsim_scenario::{Expect, Scenario};

/// What to explore.
#[derive(Clone)]
pub struct Exploration {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The guest.
    pub program: Arc<dyn Program>,
    /// The seed of the recording and of samples.
    pub seed: u64,
    /// Threads.
    pub jobs: NonZeroUsize,
    /// Which part of how many, counted from 0; all of it if absent.
    pub shard: Option<(u64, u64)>,
    /// A state left out by sampling, or a coverage point of the guest that was never reached, makes it inconclusive.
    pub strict: bool,
    /// Where failing cases are saved; nowhere if absent.
    pub failures: Option<PathBuf>,
    /// Whether states that were seen before are passed over, as they should be.
    pub skip_seen: bool,
    /// Whether failures are made small, and what is missing in the guest is looked for.
    pub minimise: bool,
}

impl Exploration {
    /// Explores until all is seen, something is violated often enough, or `control` says stop.
    ///
    /// # Errors
    /// Something of ours went wrong, or the guest does not take its configuration; nothing is said about the guest.
    pub fn run(&self, control: &Control) -> Result<ExploreReport, CampaignError> {
        let scenario = &*self.scenario;
        let mut report = self.blank();
        let recorded = record::record(scenario, &self.program, self.seed);
        let recording = match recorded {
            Ok(recording) => recording,
            Err(stop) => return self.failed_recording(report, stop, control),
        };
        report.requests = recording.process_run.log.len() as u64;
        report.events = recording.events;
        report.points_asked = recording.points.len() as u64;
        let mut walk = Walk {
            shard: self.shard.unwrap_or((0, 1)),
            skip_seen: self.skip_seen,
            ..Walk::new(scenario, control, self.jobs, self.seed)
        };
        let (walked, cpu) = (now(), cpu::time());
        let (points, ended) = match walk.points(&recording.process_run, &recording.points) {
            Ok(points) => (points, None),
            Err((points, ended)) => (points, Some(ended)),
        };
        report.points = points;
        let ended = match ended {
            None => work_errors::walk_failing(self, &recording, &mut walk, &mut report.work_errors)
                .err(),
            ended => ended,
        };
        report.elapsed = walked.elapsed();
        report.cpu = cpu::time()
            .zip(cpu)
            .map(|(end, begin)| end.saturating_sub(begin));
        report.levels = std::mem::take(&mut walk.levels);
        report.coverage = Coverage::new(
            self.program.as_ref(),
            &scenario.coverage,
            &walk.coverage_points,
            &recording.coverage_points,
        );
        let mut reasons = Vec::new();
        match ended {
            Some(Ended::Failed(failed)) => return Err(self.error(failed)),
            Some(Ended::Stopped) => reasons.extend(self.stopped(control, &mut report)),
            Some(Ended::Enough) | None => {}
        }
        if recording.acknowledged == 0 {
            reasons.push("no write was acknowledged, so nothing could be lost".to_owned());
        } else if self.shard.is_none() && report.points.iter().all(|point| point.pending == 0) {
            reasons.push("no crash point has a write that a cut could lose".to_owned());
        }
        if report.total().undecided > 0 {
            reasons.push(undecided(report.total().undecided));
        }
        if self.strict && report.total().left_out.sampled > 0 {
            reasons.push(format!(
                "{} crash points were sampled and not taken in full",
                report.total().left_out.sampled
            ));
        }
        // A part sees a part of it: only the whole can fall short.
        if self.strict && self.shard.is_none() {
            reasons.extend(report.coverage.shortfall());
        }
        for found in walk.found {
            let failure = self.confirm(&found, report.failures.len(), control)?;
            report.failures.push(failure);
            report.failure_points.push(found.origin);
        }
        report.verdict = self.verdict(&report.failures, reasons);
        Ok(report)
    }

    /// Why the verdict is none if it ended before all was seen; nothing if that was asked for.
    fn stopped(&self, control: &Control, report: &mut ExploreReport) -> Option<String> {
        report.time_over = control.stopped() == Some(Stop::TimeOver);
        if !report.time_over {
            return Some("interrupted; this is what is known so far".to_owned());
        }
        let (seen, all) = (report.points_done(), report.points_asked);
        self.strict
            .then(|| format!("the time ended after {seen} of {all} crash points"))
    }

    fn blank(&self) -> ExploreReport {
        ExploreReport {
            scenario: self.scenario.name.clone(),
            profile: self.scenario.profile_name().map(str::to_owned),
            guest_name: self.program.name().to_owned(),
            guest_hash: self.program.hash().to_string(),
            seed: self.seed,
            requests: 0,
            events: 0,
            points_asked: 0,
            points: Vec::new(),
            time_over: false,
            levels: Vec::new(),
            work_errors: WorkErrorCounts::default(),
            not_asked: self.program.offers().missing_names(),
            coverage: Coverage::default(),
            verdict: Verdict::Pass,
            shard: self.shard,
            failures: Vec::new(),
            failure_points: Vec::new(),
            elapsed: Duration::ZERO,
            cpu: None,
            jobs: self.jobs.get(),
        }
    }

    fn verdict(&self, failures: &[FailureReport], mut reasons: Vec<String>) -> Verdict {
        let expected = match self.scenario.expect {
            Expect::Violation(property) => Some(property.name()),
            _ => None,
        };
        match (failures.first(), expected) {
            (Some(failure), Some(expected)) if failure.property == expected => Verdict::Pass,
            (Some(_), _) => Verdict::Violation,
            (None, Some(expected)) => {
                reasons.push(format!(
                    "{expected} was expected to be violated, and was not"
                ));
                Verdict::Inconclusive(reasons)
            }
            (None, None) if reasons.is_empty() => Verdict::Pass,
            (None, None) => Verdict::Inconclusive(reasons),
        }
    }

    /// The guest failed before anything was cut.
    fn failed_recording(
        &self,
        mut report: ExploreReport,
        stop: record::Stopped,
        control: &Control,
    ) -> Result<ExploreReport, CampaignError> {
        let found = match stop {
            record::Stopped::Found(found) => found,
            record::Stopped::Failed(failed) => return Err(self.error(failed)),
            record::Stopped::Reported(what) => {
                report.verdict = Verdict::Inconclusive(vec![format!(
                    "the run to be recorded does not open its device: {what}"
                )]);
                return Ok(report);
            }
        };
        report.failures.push(self.confirm(&found, 0, control)?);
        report.failure_points.push(found.origin);
        report.verdict = self.verdict(&report.failures, Vec::new());
        Ok(report)
    }

    fn error(&self, failed: Failed) -> CampaignError {
        let scenario = self.scenario.name.clone();
        match failed {
            Failed::Rejected(message) => CampaignError::Rejected {
                scenario,
                seed: self.seed,
                message,
            },
            Failed::Invalid(what) => CampaignError::InvalidRun {
                scenario,
                seed: self.seed,
                what,
            },
            Failed::OutOfEvents => CampaignError::InvalidRun {
                scenario,
                seed: self.seed,
                what: "a process run takes more events than any should".to_owned(),
            },
        }
    }

    /// Runs the steps to a violation as a case of their own, twice, and saves them: what is reported is what the file replays. After the first of an exploration
    /// the name says the how many it is, so that none replaces another.
    fn confirm(
        &self,
        found: &Found,
        earlier: usize,
        control: &Control,
    ) -> Result<FailureReport, CampaignError> {
        let mut scenario = Scenario::clone(&self.scenario);
        if earlier > 0 {
            scenario.name = format!("{}-{}", scenario.name, earlier + 1);
        }
        scenario.case = Some((*found.case).clone());
        scenario.run.seeds = SeedRange::one(self.seed);
        let run = |tracing| {
            let control = Control::default();
            run_seed(&scenario, &self.program, self.seed, &control, tracing)
        };
        let (one, other) = (run(Tracing::Record), run(Tracing::HashOnly));
        let shown = |end: &SeedEnd| match end {
            SeedEnd::Violation(violation) => violation.to_string(),
            other => format!("{other:?}"),
        };
        let wanted = SeedEnd::Violation(found.violation.clone());
        if one.end != wanted || other.end != wanted || one.trace_hash != other.trace_hash {
            return Err(CampaignError::Nondeterminism {
                scenario: self.scenario.name.clone(),
                seed: self.seed,
                difference: format!(
                    "a state of depth {} was judged `{}`, and its case `{}`",
                    found.depth,
                    shown(&wanted),
                    shown(&one.end)
                ),
            });
        }
        let directory = self.failures.as_deref();
        let (failure, _) = failure::report(&scenario, self.program.as_ref(), &one, directory);
        if !self.minimise {
            return Ok(failure);
        }
        // A failure that cannot be made small is as good as it was.
        let limit = Some(LIMIT);
        let (program, jobs) = (&self.program, self.jobs);
        let both = minimise_and_blame(&scenario, program, None, jobs, control, limit, &|_| {});
        Ok(both.map_or(failure, |(small, blame)| {
            small.report(program.as_ref(), directory, Some(blame))
        }))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "reports of real time; nothing that an exploration decides depends on it"
)]
fn now() -> Instant {
    Instant::now()
}
