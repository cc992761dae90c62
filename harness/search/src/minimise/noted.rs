//! A failure of a run, written down step by step.

use std::sync::Arc;

use kvsim_sim::Program;

use kvsim_api::units::SeedRange;
use kvsim_drive::control::Control;
use kvsim_drive::run::{SeedEnd, SeedResult, Tracing, run_noting_steps, run_seed};
use kvsim_oracle::Violation;
use kvsim_scenario::Scenario;

/// A scenario whose failure has its steps, and the failure: itself, or the run of its seed as a case. Faults that affected the device by chance become a
/// script if that fails in the same way.
///
/// # Errors
/// A sentence, if it does not fail, or not when written down.
pub fn with_steps(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
) -> Result<(Scenario, Violation), String> {
    // Whoever ends the search has the case as it was, so this much is always done.
    let control = Control::default();
    let fails = |scenario: &Scenario| {
        let seed = scenario.run.seeds.start;
        violation(run_seed(
            scenario,
            program,
            seed,
            &control,
            Tracing::HashOnly,
        ))
    };
    let mut noted = scenario.clone();
    noted.failure = None;
    if noted.case.is_some() {
        let found = fails(&noted).ok_or("the case does not fail, so there is nothing to shrink")?;
        return Ok((noted, found));
    }
    let seed = scenario.run.seeds.start;
    let (result, steps) = run_noting_steps(scenario, program, seed, &control);
    let first = violation(result).ok_or("it does not fail, so there is nothing to shrink")?;
    noted.run.seeds = SeedRange::one(steps.seed);
    noted.case = Some(steps.case);
    let mut scripted = noted.clone();
    scripted.script_only(&steps.script);
    let mut other = None;
    for written in [scripted, noted] {
        // A case compares each recovery that was cut short with an undisturbed one, a run only some of them: so it may see another
        // property broken, and sooner.
        match fails(&written) {
            Some(found) if first.classes().has(found.class()) => return Ok((written, found)),
            Some(found) if other.is_none() => other = Some((written, found)),
            _ => {}
        }
    }
    other.ok_or_else(|| {
        "written down step by step it does not fail, so it cannot be shrunk".to_owned()
    })
}

fn violation(result: SeedResult) -> Option<Violation> {
    match result.end {
        SeedEnd::Violation(violation) => Some(*violation),
        _ => None,
    }
}
