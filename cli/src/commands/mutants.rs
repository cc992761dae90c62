//! `kvsim mutants`: hunts mutants one after the other, each on all cores.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_harness::campaign::CampaignError;
use kvsim_harness::control::Control;
use kvsim_harness::guest;
use kvsim_harness::mutants::catalogue::{HOST_SCENARIOS, SHIPPED, TRIALS, Trial, trials_for};
use kvsim_harness::mutants::host::{HostReport, leave_out_each};
use kvsim_harness::mutants::{Hunt, Mutant, Report, json, page, shipped, text};

use crate::args::MutantsArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::report;
use crate::output::{colour, complain, print, print_json};
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
    if args.host {
        return host(args, &scenarios);
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
        if let Err(error) = report::begin(args.report.as_deref()) {
            complain(&error);
            return Exit::Usage;
        }
        let hunt = Hunt {
            program,
            jobs: args.jobs.unwrap_or_else(all_cores),
            failures: Some(args.failures.clone()),
            minimise: args.minimise || args.shipped,
            limit: Some(args.duration),
        };
        let control = interrupts.next();
        let (quiet, is_shipped) = (args.json, args.shipped);
        let done = tokio::task::spawn_blocking(move || {
            let mut report = Report {
                guest: (
                    hunt.program.name().to_owned(),
                    hunt.program.hash().to_string(),
                ),
                jobs: hunt.jobs.get(),
                ..Report::default()
            };
            let hunted = if is_shipped {
                all_shipped(&hunt, &wanted, &control, quiet, &mut report)
            } else {
                all(&hunt, &wanted, &scenarios, &control, quiet, &mut report)
            };
            report.interrupted = control.stopped().is_some();
            (hunted, report)
        });
        match done.await {
            Ok((Ok(()), found)) => {
                let exit = report::write(args.report.as_deref(), || page::page(&found));
                exit.and(if args.shipped {
                    finish_shipped(&found, args.json)
                } else {
                    finish(&found, args.json)
                })
            }
            Ok((Err(error), _)) => of_error(&error),
            Err(error) => {
                complain(&format!("internal error: kvsim panicked: {error}"));
                Exit::Internal
            }
        }
    });
    runtime.shutdown_background();
    exit
}

/// `kvsim mutants --host`
fn host(args: &MutantsArgs, scenarios: &[String]) -> Exit {
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(async {
        let interrupts = Interrupts::watch();
        let program = match guest::load_reused(args.guest.as_deref()) {
            Ok(program) => program,
            Err(error) => {
                complain(&format!("error: {error}"));
                return Exit::Usage;
            }
        };
        let control = interrupts.next();
        let (jobs, json) = (args.jobs.unwrap_or_else(all_cores), args.json);
        let is_wanted = |trial: &&Trial| match scenarios {
            [] => HOST_SCENARIOS.contains(&trial.name),
            scenarios => scenarios.iter().any(|it| it == trial.name),
        };
        let trials: Vec<Trial> = TRIALS.iter().filter(is_wanted).copied().collect();
        let done = tokio::task::spawn_blocking(move || {
            let each = |trial: &Trial| {
                if !json {
                    print(&text::host_head(trial.name, colour()));
                }
                let mut number = 0;
                let report = leave_out_each(trial, &program, jobs, &control, |site| {
                    number += 1;
                    if !json {
                        print(&text::host_line(number, site, colour()));
                    }
                })?;
                if !json {
                    print(&text::host_score(&report));
                }
                Ok(report)
            };
            trials.iter().map(each).collect::<Result<Vec<_>, _>>()
        });
        match done.await {
            Ok(Ok(reports)) => finish_host(&reports, json),
            Ok(Err(error)) => of_error(&error),
            Err(error) => {
                complain(&format!("internal error: kvsim panicked: {error}"));
                Exit::Internal
            }
        }
    });
    runtime.shutdown_background();
    exit
}

fn all_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn of_error(error: &CampaignError) -> Exit {
    complain(&error.to_string());
    Exit::from(error)
}

fn finish_host(reports: &[HostReport], json: bool) -> Exit {
    let known = |report: &HostReport| report.missed().next().is_none() && !report.interrupted;
    let exit = if reports.iter().all(known) {
        Exit::Clean
    } else {
        Exit::Inconclusive
    };
    if json {
        return print_json(&json::host_document(reports, exit as u8), exit);
    }
    exit
}

/// Hunts each mutant, then runs the scenarios that were used without any.
fn all(
    hunt: &Hunt,
    wanted: &[Mutant],
    scenarios: &[String],
    control: &Arc<Control>,
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

/// Hunts each mutant with the scenarios that ship, and shrinks what is caught.
fn all_shipped(
    hunt: &Hunt,
    wanted: &[Mutant],
    control: &Control,
    quiet: bool,
    report: &mut Report,
) -> Result<(), CampaignError> {
    if !quiet {
        print(&shipped::head(colour()));
    }
    for mutant in wanted {
        let hunted = hunt.hunt(*mutant, SHIPPED, control)?;
        if control.stopped().is_some() {
            break;
        }
        if !quiet {
            print(&shipped::line(&hunted, colour()));
        }
        report.hunted.push(hunted);
    }
    Ok(())
}

fn finish_shipped(report: &Report, json: bool) -> Exit {
    let totals = shipped::totals(report);
    let all = totals.mutants;
    let exit = if totals.not_shrunk > 0 {
        Exit::Internal
    } else if report.interrupted || totals.caught < all || totals.blamed_right < all {
        Exit::Inconclusive
    } else {
        Exit::Clean
    };
    if json {
        return print_json(&shipped::document(report, exit as u8), exit);
    }
    print(&shipped::score(report));
    exit
}

fn finish(report: &Report, json: bool) -> Exit {
    let exit = if report.spoilt().any(|control| control.failure.is_some()) {
        Exit::Violation
    } else if report.missed().next().is_some()
        || report.misblamed().next().is_some()
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
    print_json(&json::document(report, exit as u8), exit)
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
