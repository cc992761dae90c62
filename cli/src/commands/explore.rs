//! `kvsim explore`: loads everything first, then explores the scenarios one after the other, each on all cores.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_harness::control::Stop;
use kvsim_harness::explore::{Exploration, ExploreReport, json, text};
use kvsim_harness::guest::{self, Instances, Program};
use kvsim_harness::report::explore_page;
use kvsim_harness::scenario::Scenario;
use kvsim_harness::summary::{self, Unreported, Verdict};

use crate::args::ExploreArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::loading::load;
use crate::output::progress::States;
use crate::output::report;
use crate::output::{self, colour, complain, print};
use crate::runtime;

/// `kvsim explore`
pub(crate) fn explore(args: &ExploreArgs) -> Exit {
    let scenarios = match load(&args.scenarios, &args.common.set) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(async {
        // Before the guest is compiled, which takes a moment.
        let interrupts = Interrupts::watch();
        let file = args.common.guest.as_deref();
        match guest::load_for(&scenarios, file, Instances::Reused) {
            Ok(program) => all(args, &scenarios, &program, &interrupts).await,
            Err(error) => {
                complain(&format!("error: {error}"));
                Exit::Usage
            }
        }
    });
    runtime.shutdown_background();
    exit
}

async fn all(
    args: &ExploreArgs,
    scenarios: &[Scenario],
    program: &Arc<dyn Program>,
    interrupts: &Interrupts,
) -> Exit {
    let mut exit = Exit::Clean;
    let mut reports = Vec::new();
    let mut unreported = Vec::new();
    if let Err(error) = report::begin(args.report.as_deref()) {
        complain(&error);
        return Exit::Usage;
    }
    let all_cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    for scenario in scenarios {
        let name = scenario.name.clone();
        let mut no_result = |message: String| {
            complain(&message);
            unreported.push(Unreported {
                scenario: name.clone(),
                message,
            });
        };
        let seed = args.seed.unwrap_or(scenario.run.seeds.start);
        let scenario = match scenario.of_seed(seed) {
            Ok(scenario) => scenario.into_owned(),
            Err(error) => {
                no_result(error.to_string());
                exit = exit.and(Exit::Usage);
                continue;
            }
        };
        let exploration = Exploration {
            seed,
            scenario: Arc::new(scenario.clone()),
            program: Arc::clone(program),
            jobs: args.common.jobs.unwrap_or_else(all_cores),
            shard: args.shard,
            strict: args.strict,
            failures: Some(args.failures.clone()),
            skip_seen: true,
            minimise: args.minimise,
        };
        let control = interrupts.next();
        let progress = States::watch(&scenario.name, &control, !args.quiet && !args.json);
        let watched = Arc::clone(&control);
        let alarm = args.duration.map(|duration| {
            let control = Arc::clone(&control);
            tokio::spawn(async move {
                tokio::time::sleep(duration).await;
                control.stop(Stop::TimeOver);
            })
        });
        let outcome = tokio::task::spawn_blocking(move || exploration.run(&watched)).await;
        drop(progress);
        if let Some(alarm) = alarm {
            alarm.abort();
        }
        match outcome {
            Ok(Ok(report)) => {
                exit = exit.and(exit_of(&report));
                for error in report.failures.iter().filter_map(|it| it.unsaved.as_ref()) {
                    complain(&format!("error: {error}"));
                    exit = exit.and(Exit::Internal);
                }
                if !args.json {
                    show(&report, args.quiet);
                }
                reports.push(report);
            }
            Ok(Err(error)) => {
                exit = exit.and(Exit::from(&error));
                no_result(error.to_string());
            }
            Err(error) => {
                no_result(format!("internal error: kvsim panicked: {error}"));
                exit = exit.and(Exit::Internal);
            }
        }
        if interrupts.came() {
            break;
        }
    }
    exit = exit.and(report::write(args.report.as_deref(), || {
        explore_page(&reports, &unreported)
    }));
    let ended = reports.iter().map(|it| (it.scenario.as_str(), &it.verdict));
    let totals = summary::text::totals(ended, &unreported, scenarios.len());
    if let Some(totals) = totals.filter(|_| !args.json) {
        print(&format!("{totals}\n"));
    }
    if args.json {
        exit = print_json(&reports, exit);
    }
    exit
}

pub(crate) fn print_json(reports: &[ExploreReport], exit: Exit) -> Exit {
    output::print_json(&json::document(reports, exit as u8), exit)
}

pub(crate) fn show(report: &ExploreReport, quiet: bool) {
    let colour = colour();
    if quiet && report.verdict == Verdict::Pass {
        print(&format!("{}\n", text::verdict_line(report, colour)));
    } else {
        print(&format!("{}\n", text::summary(report, colour)));
    }
}

pub(crate) fn exit_of(report: &ExploreReport) -> Exit {
    match &report.verdict {
        Verdict::Pass => Exit::Clean,
        Verdict::Violation => Exit::Violation,
        Verdict::Inconclusive(_) => Exit::Inconclusive,
    }
}
