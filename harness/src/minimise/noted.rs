//! A failure of a run, written down step by step.

use std::sync::Arc;

use kvsim_sim::Program;

use crate::control::Control;
use crate::oracle::{Property, Symptom};
use crate::run::{SeedEnd, SeedResult, Tracing, run_noting_steps, run_seed};
use crate::scenario::{Scenario, SeedRange};

/// A scenario whose failure has its steps: itself, or the run of its seed as a case. Faults that befell the device by chance become a script
/// if that fails in the same way.
///
/// # Errors
/// A sentence, if it does not fail, or not when written down.
pub fn with_steps(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    control: &Control,
) -> Result<Scenario, String> {
    let mut noted = scenario.clone();
    noted.failure = None;
    if noted.case.is_some() {
        return Ok(noted);
    }
    let seed = scenario.run.seeds.start;
    let (result, steps) = run_noting_steps(scenario, program, seed, control);
    let Some(kind) = kind(&result) else {
        return Err("it does not fail, so there is nothing to shrink".to_owned());
    };
    noted.run.seeds = SeedRange::one(steps.seed);
    noted.case = Some(steps.case);
    let fails = |scenario: &Scenario| {
        let seed = scenario.run.seeds.start;
        let result = run_seed(scenario, program, seed, control, Tracing::HashOnly);
        self::kind(&result)
    };
    let mut scripted = noted.clone();
    scripted.faults = scripted.faults.scripted(steps.script);
    let mut written = vec![noted];
    if scripted.faults != written[0].faults {
        written.insert(0, scripted);
    }
    let ends: Vec<_> = written.iter().map(fails).collect();
    // A case compares each recovery that was cut short with an undisturbed one, a run only some of them: so it may see another
    // property broken, and sooner.
    let same = ends.iter().position(|end| *end == Some(kind));
    match same.or_else(|| ends.iter().position(Option::is_some)) {
        Some(at) => Ok(written.swap_remove(at)),
        None => {
            Err("written down step by step it does not fail, so it cannot be shrunk".to_owned())
        }
    }
}

fn kind(result: &SeedResult) -> Option<(Property, Symptom)> {
    match &result.end {
        SeedEnd::Violation(violation) => Some(violation.kind()),
        _ => None,
    }
}
