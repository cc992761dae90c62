//! Recoveries of a state in which the device fails once: the n-th read, write or flush.
//!
//! The guest has to refuse to open with an error, or to recover as if nothing had happened. Either way the power is cut then, which keeps
//! the least, and the device does as it is told from there on: all that must survive must be there, and what was shown. A flush that fails drops
//! what it should have made durable.

use std::sync::Arc;

use kvsim_sim::StorageFault;
use kvsim_simdisk::{CrashKind, FaultKind};

use super::cost::{Cost, work};
use super::judge::Task;
use super::point::crash;
use super::states::least;
use kvsim_drive::case::{ProcessRun, Source, Stop};
use kvsim_findings::explore::ErrorCounts;
use kvsim_oracle::Ending;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseCrash, CaseRun};

/// Recovers a state with each of the errors that the scenario asks for. What was done while the device fails counts.
pub(crate) fn judge_failing(
    scenario: &Scenario,
    task: &Task<'_>,
    cost: &mut Cost,
) -> Result<ErrorCounts, (Stop, Box<Case>)> {
    let mut counts = ErrorCounts::default();
    for error in &scenario.explore.recovery_errors {
        for n in 0..scenario.explore.recovery_errors_max {
            match recover_failing(scenario, task, error.fault(), n, cost)? {
                Failed::Never => break,
                Failed::Refused => counts.refused += 1,
                Failed::Opened => counts.opened += 1,
            }
            counts.tried += 1;
        }
    }
    Ok(counts)
}

/// What came of a recovery in which the device was to fail.
enum Failed {
    /// It had too few such operations.
    Never,
    Refused,
    Opened,
}

fn recover_failing(
    scenario: &Scenario,
    task: &Task<'_>,
    fault: FaultKind,
    n: u64,
    cost: &mut Cost,
) -> Result<Failed, (Stop, Box<Case>)> {
    let Task {
        process_run,
        point,
        kind,
        state,
        ..
    } = *task;
    let mut case = process_run.case(point.sent, Some(crash(point, kind, state)));
    let invalid = |what: String| (Stop::Invalid(what), Box::new(Case::default()));
    let world = point.moment.crashed(kind, state);
    let mut world = world.map_err(|error| invalid(error.to_string()))?;
    let (first_op, before) = (world.storage().next_op(), work(&world));
    world.fail_nth(fault, n);
    let crashes = process_run.crashes + 1;
    let nothing = || Source::listed(&[]);
    let oracle = Arc::clone(point.oracle_after(kind));
    let mut failing = ProcessRun::new(world, oracle, nothing(), scenario, crashes, ());
    let recovered = failing.recover();
    let judged = recovered.and_then(|shown| failing.adopt(&shown, None));
    let events = failing.events();
    cost.add(failing.world(), before);
    cost.undecided += failing.undecided;
    let (mut world, mut oracle, ()) = failing.end();
    let script = world.storage().fired_script(0).into_iter();
    let script: Vec<StorageFault> = script.filter(|it| it.op() >= first_op).collect();
    if !script.iter().any(|it| it.is_failure(fault)) {
        return Ok(Failed::Never);
    }
    case.faults.extend(script);
    let is_refused = match judged {
        Ok(()) => false,
        Err(Stop::DeviceError(_)) => true,
        Err(stop) => {
            case.process_runs.push(CaseRun::default());
            return Err((stop, Box::new(case)));
        }
    };
    let cut = CaseCrash {
        after_event: events,
        kind: CrashKind::Power,
        persisted: least(world.storage()).persisted,
    };
    let now = world.now();
    let state = cut.state();
    let cut_well = world.crash_with(CrashKind::Power, &state);
    cut_well.map_err(|error| invalid(error.to_string()))?;
    let ending = if is_refused {
        Ending::Close
    } else {
        Ending::Crash
    };
    Arc::make_mut(&mut oracle).stopped(now, ending);
    let crashes = crashes + u64::from(!is_refused);
    let mut last = ProcessRun::new(world, oracle, nothing(), scenario, crashes, ());
    let shown = last.recover();
    let judged = shown.and_then(|shown| last.judge(&shown, None));
    cost.undecided += last.undecided;
    match judged {
        Ok(_) if is_refused => Ok(Failed::Refused),
        Ok(_) => Ok(Failed::Opened),
        Err(stop) => {
            case.process_runs.push(CaseRun {
                crash: Some(cut),
                ..CaseRun::default()
            });
            case.process_runs.push(CaseRun::default());
            Err((stop, Box::new(case)))
        }
    }
}
