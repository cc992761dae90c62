//! What is to blame for a failing case, found or told again.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_sim::Program;

use super::search;
use crate::explore::open::Setting;
use kvsim_drive::control::Control;
use kvsim_drive::run::{Tracing, run_seed};
use kvsim_findings::blame::Blame;
use kvsim_findings::failure;
use kvsim_findings::summary::FailureReport;
use kvsim_scenario::Scenario;

/// Work at most, as the budget of a minimisation counts it.
const WORK_MAX: u64 = 60_000_000_000;

/// Finds what is to blame for the failure of a scenario's case.
///
/// # Errors
/// A sentence, if the scenario has no case or that does not fail.
pub fn blame(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    control: &Control,
) -> Result<Blame, String> {
    let Some(case) = &scenario.case else {
        return Err(
            "it was saved by `kvsim run` and has no [case] whose steps could be blamed; `--minimise` makes one, and blames it"
                .to_owned(),
        );
    };
    let setting = Setting {
        scenario,
        program,
        jobs,
        control,
    };
    search::search(setting, case, WORK_MAX)
}

/// Runs the case of a scenario and reports its failure with what is to blame.
///
/// # Errors
/// A sentence, if the scenario has no case or that does not fail.
pub fn replay(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    control: &Control,
) -> Result<FailureReport, String> {
    let blame = blame(scenario, program, jobs, control)?;
    let seed = scenario.run.seeds.start;
    let result = run_seed(scenario, program, seed, control, Tracing::Record);
    if !result.end.is_violation() {
        return Err("internal error: the case fails once and passes once".to_owned());
    }
    Ok(failure::report_blamed(scenario, program.as_ref(), &result, None, Some(blame)).0)
}
