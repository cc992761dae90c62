//! `kvsim syncs`: leaves out the syncs of an engine that uses files, one place after the other, each on all cores.

use std::sync::Arc;

use kvsim_harness::campaign::CampaignError;
use kvsim_harness::control::Control;
use kvsim_harness::explore::Exploration;
use kvsim_harness::guest::{self, Instances, Program};
use kvsim_harness::scenario::Scenario;
use kvsim_harness::syncs::{LeaveOut, Report, json, leave_out_each, text};

use crate::args::SyncsArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::loading::load;
use crate::output::{colour, complain, print, print_json};
use crate::runtime;
use crate::runtime::all_cores;

/// `kvsim syncs`
pub(crate) fn syncs(args: &SyncsArgs) -> Exit {
    let scenarios = match load(&args.scenarios, &args.common.set) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(async {
        let interrupts = Interrupts::watch();
        let file = args.common.guest.as_deref();
        let program = match guest::load_for(&scenarios, file, Instances::Reused) {
            Ok(program) => program,
            Err(error) => {
                complain(&format!("error: {error}"));
                return Exit::Usage;
            }
        };
        let control = interrupts.next();
        let how = LeaveOut {
            each_call: args.each_call,
            only: args.places.clone(),
            states_max: args.states,
            limit: args.duration,
        };
        let json = args.json;
        let explorations: Vec<Exploration> = scenarios
            .into_iter()
            .map(|scenario| exploration(args, scenario, &program))
            .collect();
        let done = tokio::task::spawn_blocking(move || {
            let each = |exploration: &Exploration| one(exploration, &how, &control, json);
            explorations.iter().map(each).collect::<Result<Vec<_>, _>>()
        });
        match done.await {
            Ok(Ok(reports)) => finish(&reports, json),
            Ok(Err(error)) => {
                complain(&error.to_string());
                Exit::from(&error)
            }
            Err(error) => {
                complain(&format!("internal error: kvsim panicked: {error}"));
                Exit::Internal
            }
        }
    });
    runtime.shutdown_background();
    exit
}

fn exploration(args: &SyncsArgs, scenario: Scenario, program: &Arc<dyn Program>) -> Exploration {
    Exploration {
        seed: args.seed.unwrap_or(scenario.run.seeds.start),
        scenario: Arc::new(scenario),
        program: Arc::clone(program),
        jobs: args.common.jobs.unwrap_or_else(all_cores),
        shard: None,
        strict: false,
        failures: Some(args.failures.clone()),
        skip_seen: true,
        minimise: !args.no_minimise,
    }
}

fn one(
    exploration: &Exploration,
    how: &LeaveOut,
    control: &Control,
    quiet: bool,
) -> Result<Report, CampaignError> {
    if !quiet {
        let guest = exploration.program.name();
        print(&text::head(&exploration.scenario.name, guest, colour()));
    }
    let report = leave_out_each(exploration, how, control, |line| {
        if !quiet {
            print(&text::line(line, colour()));
        }
    })?;
    if !quiet {
        print(&text::total(&report));
    }
    Ok(report)
}

/// Clean if each place was caught or is unneeded within the bounds.
fn finish(reports: &[Report], json: bool) -> Exit {
    let known = |report: &Report| report.undecided().next().is_none() && !report.interrupted;
    let exit = if reports.iter().all(known) {
        Exit::Clean
    } else {
        Exit::Inconclusive
    };
    if json {
        return print_json(&json::document(reports, exit as u8), exit);
    }
    exit
}
