//! `kvsim mutants`: hunts planted bugs one after the other, each on all cores.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_harness::campaign::CampaignError;
use kvsim_harness::guest;
use kvsim_harness::mutants::catalogue::{TRIALS, Trial, trials_for};
use kvsim_harness::mutants::{Hunt, Mutant, Report, json, text};

use crate::args::MutantsArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::{colour, complain, print};
use crate::runtime;

/// `kvsim mutants`
pub(crate) fn mutants(args: &MutantsArgs) -> Exit {
    let (wanted, scenarios) = match (named(&args.names), only(&args.scenarios)) {
        (Ok(wanted), Ok(scenarios)) => (wanted, scenarios),
        (Err(error), _) | (_, Err(error)) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    if args.list {
        for mutant in wanted {
            print(&format!("{:<32} {}\n", mutant.name(), mutant.sentence()));
        }
        return Exit::Clean;
    }
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(async {
        let interrupts = Interrupts::watch();
        let program = match guest::load_mutants(args.guest.as_deref()) {
            Ok(program) => program,
            Err(error) => {
                complain(&format!("error: {error}"));
                return Exit::Usage;
            }
        };
        let all_cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let hunt = Hunt {
            program,
            jobs: args.jobs.unwrap_or_else(all_cores),
            failures: Some(args.failures.clone()),
            minimise: args.minimise,
        };
        let control = interrupts.next();
        let quiet = args.json;
        let done = tokio::task::spawn_blocking(move || {
            let mut report = Report {
                guest: (
                    hunt.program.name().to_owned(),
                    hunt.program.hash().to_string(),
                ),
                jobs: hunt.jobs.get(),
                ..Report::default()
            };
            let hunted = all(&hunt, &wanted, &scenarios, &control, quiet, &mut report);
            report.interrupted = control.stopped().is_some();
            (hunted, report)
        });
        match done.await {
            Ok((Ok(()), report)) => finish(&report, args.json),
            Ok((Err(error), _)) => {
                complain(&error.to_string());
                match error {
                    CampaignError::Rejected { .. } => Exit::Usage,
                    _ => Exit::Internal,
                }
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

/// Hunts each mutant, then runs the scenarios that were used without any.
fn all(
    hunt: &Hunt,
    wanted: &[Mutant],
    scenarios: &[String],
    control: &Arc<kvsim_harness::control::Control>,
    quiet: bool,
    report: &mut Report,
) -> Result<(), CampaignError> {
    let is_wanted =
        |trial: &Trial| scenarios.is_empty() || scenarios.iter().any(|it| it == trial.name);
    if !quiet {
        print(&text::head(colour()));
    }
    for mutant in wanted {
        let mut trials = trials_for(*mutant);
        trials.retain(is_wanted);
        let hunted = hunt.hunt(*mutant, &trials, control)?;
        if control.stopped().is_some() {
            return Ok(());
        }
        if !quiet {
            print(&text::line(&hunted, colour()));
        }
        report.hunted.push(hunted);
    }
    let used = |trial: &&Trial| {
        let mut tried = report.hunted.iter().flat_map(|hunted| &hunted.tried);
        tried.any(|tried| tried.trial.name == trial.name)
    };
    let used: Vec<Trial> = TRIALS.iter().filter(used).copied().collect();
    for trial in used {
        if control.stopped().is_some() {
            return Ok(());
        }
        let without = hunt.control(&trial, control)?;
        if control.stopped().is_none() {
            report.controls.push(without);
        }
    }
    Ok(())
}

fn finish(report: &Report, json: bool) -> Exit {
    let exit = if report.spoilt().any(|control| control.failure.is_some()) {
        Exit::Violation
    } else if report.missed().next().is_some()
        || report.spoilt().next().is_some()
        || report.interrupted
    {
        Exit::Inconclusive
    } else {
        Exit::Clean
    };
    if !json {
        print(&text::score(report, colour()));
        return exit;
    }
    match serde_json::to_string_pretty(&json::document(report, exit as u8)) {
        Ok(document) => {
            print(&format!("{document}\n"));
            exit
        }
        Err(error) => {
            complain(&format!(
                "internal error: cannot write the results as JSON: {error}"
            ));
            Exit::Internal
        }
    }
}

/// The mutants of these names, or all.
fn named(names: &[String]) -> Result<Vec<Mutant>, String> {
    if names.is_empty() {
        return Ok(Mutant::ALL.to_vec());
    }
    let find = |name: &String| {
        let mut all = Mutant::ALL.iter().copied();
        all.find(|mutant| mutant.name() == name).ok_or_else(|| {
            format!(
                "error: there is no mutant `{name}`\n  = help: kvsim mutants --list names them all"
            )
        })
    };
    names.iter().map(find).collect()
}

fn only(names: &[String]) -> Result<Vec<String>, String> {
    match names
        .iter()
        .find(|name| TRIALS.iter().all(|trial| trial.name != **name))
    {
        None => Ok(names.to_vec()),
        Some(name) => {
            let known: Vec<&str> = TRIALS.iter().map(|trial| trial.name).collect();
            Err(format!(
                "error: there is no scenario `{name}` for mutants\n  = help: there are: {}",
                known.join(", ")
            ))
        }
    }
}
