//! Campaigns as commands run them: scenarios one after the other, each on all cores, with progress, files and an exit code.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kvsim_harness::campaign::{Campaign, CampaignError, Outcome};
use kvsim_harness::guest::{self, Instances, Program};
use kvsim_harness::report::run_page;
use kvsim_harness::scenario::{Scenario, SeedRange};
use kvsim_harness::summary::{Found, RunReport, Unreported, Verdict, json, text};

use crate::args::{CommonArgs, OutputArgs, ReplayArgs};
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::loading::warn_of_another_guest;
use crate::output::progress::Progress;
use crate::output::trace::TraceFile;
use crate::output::{self, colour, complain, junit, print, report};
use crate::runtime::{self, all_cores};

/// What `run` and `replay` make of their arguments.
pub(crate) struct Job<'a> {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) seeds: Option<SeedRange>,
    pub(crate) shard: Option<(u64, u64)>,
    pub(crate) duration: Option<Duration>,
    pub(crate) guest: Option<PathBuf>,
    pub(crate) common: &'a CommonArgs,
    pub(crate) output: &'a OutputArgs,
    pub(crate) strict: bool,
    pub(crate) failures: Option<PathBuf>,
}

impl<'a> Job<'a> {
    /// Saved cases, each run as it was saved.
    pub(crate) fn of_cases(
        scenarios: Vec<Scenario>,
        guest: Option<PathBuf>,
        args: &'a ReplayArgs,
    ) -> Job<'a> {
        Job {
            scenarios,
            seeds: None,
            shard: None,
            duration: None,
            guest,
            common: &args.common,
            output: &args.output,
            strict: false,
            failures: None,
        }
    }

    pub(crate) fn jobs(&self) -> NonZeroUsize {
        self.common.jobs.unwrap_or_else(all_cores)
    }
}

/// Runs all scenarios of a job, one after the other, each on all cores.
pub(crate) fn execute(job: &Job<'_>) -> Exit {
    let runtime = match runtime::start(Some(job.jobs().get() + 1)) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(async {
        // Before the guest is compiled, which takes a moment.
        let interrupts = Interrupts::watch();
        match guest::load_for(&job.scenarios, job.guest.as_deref(), Instances::Fresh) {
            Ok(program) => all(job, &program, &interrupts).await,
            Err(error) => {
                complain(&format!("error: {error}{}", help_with_guest(job)));
                Exit::Usage
            }
        }
    });
    runtime.shutdown_background();
    exit
}

async fn all(job: &Job<'_>, program: &Arc<dyn Program>, interrupts: &Interrupts) -> Exit {
    let mut exit = Exit::Clean;
    let mut found = Found::default();
    let mut trace = match begin(job.output) {
        Ok(trace) => trace,
        Err(exit) => return exit,
    };
    for scenario in &job.scenarios {
        let outcome = campaign(job, scenario, program, trace.is_some(), interrupts).await;
        match outcome {
            Ok(outcome) => {
                exit = exit.and(exit_of(&outcome.report));
                if let Some(Err(error)) =
                    trace.as_mut().map(|trace| trace.write(scenario, &outcome))
                {
                    complain(&error);
                    exit = exit.and(Exit::Internal);
                }
                if !job.output.json {
                    show(&outcome.report, job.output.quiet);
                }
                exit = exit.and(remark(scenario, &outcome.report));
                found.reports.push(outcome.report);
            }
            Err(error) => {
                exit = exit.and(Exit::from(&error));
                complain(&error.to_string());
                found.unreported.push(unreported(scenario, &error));
            }
        }
        if interrupts.came() {
            break;
        }
    }
    let ended = found.reports.iter();
    let ended = ended.map(|it| (it.scenario.as_str(), &it.verdict));
    let totals = text::totals(ended, &found.unreported, job.scenarios.len());
    if let Some(totals) = totals.filter(|_| !job.output.json) {
        print(&format!("{totals}\n"));
    }
    finish(job.output, &found, exit)
}

/// Makes the files that are asked for, so that a mistake in a path is known before anything runs.
pub(crate) fn begin(output: &OutputArgs) -> Result<Option<TraceFile>, Exit> {
    let files = || {
        output.junit.as_deref().map(junit::begin).transpose()?;
        report::begin(output.report.as_deref())?;
        output.trace.as_deref().map(TraceFile::create).transpose()
    };
    files().map_err(|error| {
        complain(&error);
        Exit::Usage
    })
}

/// Runs the seeds of one scenario.
pub(crate) async fn campaign(
    job: &Job<'_>,
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    trace: bool,
    interrupts: &Interrupts,
) -> Result<Outcome, CampaignError> {
    warn_of_another_guest(scenario, program.as_ref());
    let campaign = Campaign {
        scenario: Arc::new(scenario.clone()),
        program: Arc::clone(program),
        seeds: job.seeds.unwrap_or(scenario.run.seeds),
        shard: job.shard,
        duration: job.duration,
        jobs: job.jobs(),
        strict: job.strict,
        failures: job.failures.clone(),
        trace,
    };
    let control = interrupts.next();
    let progress = Progress::watch(&campaign, &control, !job.output.quiet && !job.output.json);
    let outcome = campaign.run(&control).await;
    drop(progress);
    outcome
}

/// A scenario that came to no report.
pub(crate) fn unreported(scenario: &Scenario, error: &CampaignError) -> Unreported {
    Unreported {
        scenario: scenario.name.clone(),
        message: error.to_string(),
    }
}

pub(crate) fn exit_of(report: &RunReport) -> Exit {
    match &report.verdict {
        Verdict::Pass => Exit::Clean,
        Verdict::Violation => Exit::Violation,
        Verdict::Inconclusive(_) => Exit::Inconclusive,
    }
}

pub(crate) fn show(report: &RunReport, quiet: bool) {
    let colour = colour();
    if quiet && report.verdict == Verdict::Pass {
        print(&format!("{}\n", text::verdict_line(report, colour)));
    } else {
        print(&format!("{}\n", text::summary(report, colour)));
    }
}

/// What has to be said beside a report, and how severe that is.
fn remark(scenario: &Scenario, report: &RunReport) -> Exit {
    if scenario.failure.is_some() && report.failure.is_none() {
        complain(&format!(
            "note: the saved failure of {} did not happen again",
            scenario.name
        ));
    }
    match report.failure.as_ref().and_then(|it| it.unsaved.as_ref()) {
        Some(error) => {
            complain(&format!("error: {error}"));
            Exit::Internal
        }
        None => Exit::Clean,
    }
}

/// What to do about a guest that cannot be loaded, if the command line did not name it.
fn help_with_guest(job: &Job<'_>) -> &'static str {
    if job.guest.is_some() && job.common.guest.is_none() {
        "\n  = help: the guest was there when this case was saved; say where it is now with --guest"
    } else {
        ""
    }
}

pub(crate) fn finish(output: &OutputArgs, found: &Found, mut exit: Exit) -> Exit {
    if let Some(Err(error)) = output
        .junit
        .as_deref()
        .map(|path| junit::write(path, found))
    {
        complain(&error);
        exit = exit.and(Exit::Internal);
    }
    exit = exit.and(report::write(output.report.as_deref(), || run_page(found)));
    if output.json {
        exit = print_json(found, exit);
    }
    exit
}

/// Prints all that was found as one document.
pub(crate) fn print_json(found: &Found, exit: Exit) -> Exit {
    output::print_json(&json::document(found, exit as u8), exit)
}
