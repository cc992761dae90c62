//! `kvsim replay --minimise` and `--blame`: a saved failure made small, and what is missing in the guest.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kvsim_harness::blame;
use kvsim_harness::control::Control;
use kvsim_harness::guest::{self, Instances, Program};
use kvsim_harness::minimise::minimise_and_blame;
use kvsim_harness::report::failure_page;
use kvsim_harness::scenario::Scenario;
use kvsim_harness::summary::{FailureReport, json, text};

use crate::args::ReplayArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::loading::warn_of_another_guest;
use crate::output::progress::Shrinking;
use crate::output::report;
use crate::output::{colour, complain, print, print_json};
use crate::runtime;
use crate::runtime::all_cores;

/// What came of one scenario: its failure, and what is to be said before it.
type Outcome = Result<(FailureReport, Option<String>), String>;

/// Shrinks, or only blames; prints the failure.
pub(crate) fn replay(
    args: &ReplayArgs,
    file: &Path,
    scenarios: &[Scenario],
    guest: Option<&Path>,
) -> Exit {
    let program = match guest::load_for(scenarios, guest, Instances::Reused) {
        Ok(program) => program,
        Err(error) => {
            complain(&format!("error: {error}"));
            return Exit::Usage;
        }
    };
    if let Err(error) = report::begin(args.output.report.as_deref()) {
        complain(&error);
        return Exit::Usage;
    }
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(async {
        let interrupts = Interrupts::watch();
        let mut exit = Exit::Clean;
        for scenario in scenarios {
            warn_of_another_guest(scenario, program.as_ref());
            exit = exit.and(one(args, file, scenario, &program, &interrupts).await);
        }
        exit
    });
    runtime.shutdown_background();
    exit
}

async fn one(
    args: &ReplayArgs,
    file: &Path,
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    interrupts: &Interrupts,
) -> Exit {
    let jobs = args.common.jobs.unwrap_or_else(all_cores);
    let control = interrupts.next();
    let (work, program) = (scenario.clone(), Arc::clone(program));
    let (minimise, directory, limit) = (args.minimise, args.failures.clone(), args.duration);
    let says = args.says.clone();
    let progress = Shrinking::show(!args.output.quiet && !args.output.json);
    let outcome = tokio::task::spawn_blocking(move || {
        if minimise {
            let to = (directory.as_path(), limit);
            shrink(
                &work,
                &program,
                says.as_deref(),
                jobs,
                &control,
                to,
                &progress,
            )
        } else {
            control.end_after(limit);
            blamed(&work, &program, jobs, &control).map(|report| (report, None))
        }
    });
    match outcome.await {
        Ok(Ok((report, size))) => show(args, &report, size),
        Ok(Err(error)) => {
            complain(&format!("error: {}: {error}", file.display()));
            Exit::Usage
        }
        Err(error) => {
            complain(&format!("internal error: kvsim panicked: {error}"));
            Exit::Internal
        }
    }
}

/// Blames a case; one that a run saved is written down step by step first.
fn blamed(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    control: &Control,
) -> Result<FailureReport, String> {
    let (noted, _) = kvsim_harness::minimise::with_steps(scenario, program)?;
    blame::replay(&noted, program, jobs, control)
}

fn shrink(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    says: Option<&str>,
    jobs: NonZeroUsize,
    control: &Control,
    (directory, limit): (&Path, Duration),
    progress: &Shrinking,
) -> Outcome {
    let watch = |now| progress.at(now);
    let limit = Some(limit);
    let (small, blame) = minimise_and_blame(scenario, program, says, jobs, control, limit, &watch)?;
    let report = small.report(program.as_ref(), Some(directory), Some(blame));
    Ok((report, Some(small.size())))
}

fn show(args: &ReplayArgs, failure: &FailureReport, size: Option<String>) -> Exit {
    let exit = match &failure.unsaved {
        Some(error) => {
            complain(&format!("error: {error}"));
            Exit::Internal
        }
        None => Exit::Violation,
    };
    let exit = exit.and(report::write(args.output.report.as_deref(), || {
        failure_page(failure)
    }));
    if args.output.json {
        return print_json(&json::one_failure(failure, size, exit as u8), exit);
    }
    if let Some(size) = size {
        print(&format!("{size}\n"));
    }
    print(&text::failure(failure, colour()));
    exit
}
