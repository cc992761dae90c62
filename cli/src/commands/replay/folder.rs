//! `kvsim replay` of a folder: every failing case in it, one after the other, and a table of how each ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvsim_harness::guest::{self, Instances, Program};
use kvsim_harness::scenario::{self, Scenario, thousands};
use kvsim_harness::summary::{Found, Reproduction, RunReport, Verdict};

use super::small;
use crate::args::ReplayArgs;
use crate::campaigns::{Job, begin, campaign, exit_of, finish, unreported};
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::loading::saved_guest;
use crate::output::{complain, print};
use crate::runtime;

/// A saved failing case.
struct Case {
    file: PathBuf,
    scenario: Scenario,
    guest: Option<PathBuf>,
}

/// Replays, shrinks or blames every case in the folder.
pub(crate) fn replay(args: &ReplayArgs) -> Exit {
    let cases = match cases(args) {
        Ok(cases) => cases,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    if args.minimise || args.blame {
        return small_ones(args, &cases);
    }
    if args.output.trace.is_some() {
        complain(
            "error: --trace takes one case, not a folder of cases\n  = help: kvsim replay FILE --trace OUT",
        );
        return Exit::Usage;
    }
    if let Err(exit) = begin(&args.output) {
        return exit;
    }
    let jobs = args.common.jobs.unwrap_or_else(crate::runtime::all_cores);
    let runtime = match runtime::start(Some(jobs.get() + 1)) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(all(args, cases));
    runtime.shutdown_background();
    exit
}

/// The failing cases in the folder, by name. Other scenarios are passed over, and said to be.
fn cases(args: &ReplayArgs) -> Result<Vec<Case>, String> {
    let folder = args.file.display();
    let cannot = |error: std::io::Error| format!("error: cannot read the folder {folder}: {error}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&args.file).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|it| it == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let scenario =
            scenario::load(&file, &args.common.set).map_err(|error| error.to_string())?;
        if scenario.failure.is_none() {
            complain(&format!(
                "note: {} has no [failure] table, so it is no failing case and is passed over",
                file.display()
            ));
            continue;
        }
        let saved = saved_guest(&scenario, &file);
        cases.push(Case {
            guest: args.common.guest.clone().or(saved),
            scenario,
            file,
        });
    }
    if cases.is_empty() {
        return Err(format!(
            "error: there is no failing case in the folder {folder}"
        ));
    }
    Ok(cases)
}

fn small_ones(args: &ReplayArgs, cases: &[Case]) -> Exit {
    if args.output.json || args.output.report.is_some() {
        complain(
            "error: --json and --report take one case with --minimise or --blame, not a folder of cases",
        );
        return Exit::Usage;
    }
    let mut exit = Exit::Clean;
    for case in cases {
        print(&format!("{}\n", case.file.display()));
        let scenarios = std::slice::from_ref(&case.scenario);
        exit = exit.and(small::replay(
            args,
            &case.file,
            scenarios,
            case.guest.as_deref(),
        ));
        print("\n");
    }
    exit
}

async fn all(args: &ReplayArgs, cases: Vec<Case>) -> Exit {
    let interrupts = Interrupts::watch();
    let mut programs = BTreeMap::new();
    let (mut exit, mut found) = (Exit::Clean, Found::default());
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let name = |file: &Path| {
        file.file_name()
            .map_or_else(String::new, |it| it.to_string_lossy().into_owned())
    };
    let width = cases
        .iter()
        .map(|case| name(&case.file).chars().count())
        .max()
        .unwrap_or(0);
    for Case {
        file,
        scenario,
        guest,
    } in cases
    {
        let job = Job::of_cases(vec![scenario], guest, args);
        let scenario = &job.scenarios[0];
        let ended = match program(&job, &mut programs) {
            Err(error) => Err((Exit::Usage, error)),
            Ok(program) => campaign(&job, scenario, &program, false, &interrupts)
                .await
                .map_err(|error| {
                    found.unreported.push(unreported(scenario, &error));
                    (Exit::from(&error), error.to_string())
                }),
        };
        let (case_exit, kind, words) = match &ended {
            Ok(outcome) => end(&outcome.report),
            Err((exit, error)) => (*exit, "could not be run", error.clone()),
        };
        exit = exit.and(case_exit);
        *counts.entry(kind).or_default() += 1;
        if !args.output.json {
            print(&format!("{:width$}   {words}\n", name(&file)));
        }
        if let Ok(outcome) = ended {
            found.reports.push(outcome.report);
        }
        if interrupts.came() {
            break;
        }
    }
    if !args.output.json {
        let parts = counts
            .iter()
            .map(|(kind, count)| format!("{} {kind}", thousands(*count)));
        print(&format!("\n{}\n", parts.collect::<Vec<_>>().join(", ")));
    }
    finish(&args.output, &found, exit)
}

/// The guest of a case, compiled once however many cases have it.
fn program(
    job: &Job<'_>,
    programs: &mut BTreeMap<PathBuf, Arc<dyn Program>>,
) -> Result<Arc<dyn Program>, String> {
    let known = job.guest.as_ref().and_then(|file| programs.get(file));
    if let Some(known) = known {
        return Ok(Arc::clone(known));
    }
    let program = guest::load_for(&job.scenarios, job.guest.as_deref(), Instances::Fresh)?;
    if let Some(file) = &job.guest {
        programs.insert(file.clone(), Arc::clone(&program));
    }
    Ok(program)
}

/// How a case ended: the exit code, of which kind that is, and that in words.
fn end(report: &RunReport) -> (Exit, &'static str, String) {
    let exit = exit_of(report);
    let Some(failure) = &report.failure else {
        return match &report.verdict {
            Verdict::Inconclusive(reasons) => (exit, "inconclusive", reasons.join("; ")),
            _ => (
                exit,
                "pass",
                "passes: the saved failure did not happen again".to_owned(),
            ),
        };
    };
    match &failure.reproduced {
        Some(Reproduction::Exact) | None => {
            let words = format!("fails as saved: {}", failure.property);
            (exit, "fail as saved", words)
        }
        Some(Reproduction::SameProperty { changed }) => {
            let property = &failure.property;
            let words = format!("fails by another trace than saved: {property}; {changed}");
            (exit, "fail by another trace", words)
        }
        Some(Reproduction::OtherProperty { saved }) => {
            let words = format!(
                "fails otherwise than saved: {} and not {saved}",
                failure.property
            );
            (exit, "fail otherwise", words)
        }
    }
}
