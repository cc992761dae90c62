//! Shrinks a failing case: fewer requests, smaller values, an earlier cut, fewer decisions about what survives. What is kept is the
//! *kind* of the failure: which property does not hold, and in what shape.
//!
//! A request that is left out moves everything behind it: the numbers of device operations, the event of the cut. So for a case of
//! one crash the cut is not carried over but found anew: the smaller list of requests is explored, and its first failure of
//! that kind is the smaller case. A case of several crashes is shrunk as it stands. What survives is shrunk as it stands in any case.
//!
//! Invariants: each accepted step fails in the same way when run as a case; no step makes a case larger; the work is bounded by a
//! number of runs, not by a clock, so the same case shrinks to the same case everywhere.

mod steps;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use kvsim_sim::Program;
use xxhash_rust::xxh3::xxh3_128;

use crate::case::{Case, CaseRequest};
use crate::control::Control;
use crate::explore::first_violation;
use crate::failure;
use crate::oracle::{Property, Symptom, Violation};
use crate::run::{SeedEnd, SeedResult, Tracing, run_seed};
use crate::scenario::Scenario;
use crate::summary::{self, text::Colour};

/// How much a minimisation may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Cases that are run.
    pub runs: u64,
    /// Lists of requests that are explored.
    pub explorations: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            runs: 2_000,
            explorations: 200,
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Minimised {
    /// The scenario with the smallest case that was found.
    pub scenario: Scenario,
    /// What it ends with.
    pub result: SeedResult,
    /// What was spent.
    pub spent: Budget,
    /// The budget ended before the ideas did.
    pub exhausted: bool,
}

/// A case under way to a smaller one.
struct Shrinking<'a> {
    scenario: Scenario,
    program: &'a Arc<dyn Program>,
    control: &'a Control,
    jobs: NonZeroUsize,
    kind: (Property, Symptom),
    left: Budget,
    /// What was tried before, and whether it failed in the same way.
    tried: BTreeMap<u128, bool>,
}

/// Shrinks the case of a scenario.
///
/// # Errors
/// A sentence, if the scenario has no case or that does not fail.
pub fn minimise(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    budget: Budget,
    jobs: NonZeroUsize,
    control: &Control,
) -> Result<Minimised, String> {
    let Some(case) = scenario.case.clone() else {
        return Err(
            "it has no [case]: only what `kvsim explore` saves says each of its steps".to_owned(),
        );
    };
    let seed = scenario.run.seeds.start;
    let first = run_seed(scenario, program, seed, control, Tracing::HashOnly);
    let SeedEnd::Violation(violation) = &first.end else {
        return Err("the case does not fail, so there is nothing to shrink".to_owned());
    };
    let mut shrinking = Shrinking {
        scenario: scenario.clone(),
        program,
        control,
        jobs,
        kind: (violation.property, violation.symptom),
        left: budget,
        tried: BTreeMap::new(),
    };
    shrinking.scenario.failure = None;
    let mut best = case;
    loop {
        let before = best.clone();
        best = shrinking.fewer_requests(best);
        best = shrinking.smaller_requests(best);
        best = shrinking.fewer_decisions(best);
        best = shrinking.earlier_cuts(best);
        if best == before || shrinking.is_over() {
            break;
        }
    }
    let exhausted = shrinking.is_over();
    let left = shrinking.left;
    let mut smallest = shrinking.scenario;
    smallest.case = Some(best);
    let result = run_seed(
        &smallest,
        program,
        seed,
        &Control::default(),
        Tracing::HashOnly,
    );
    if !result.end.is_violation() {
        return Err("internal error: the small case does not fail as it did before".to_owned());
    }
    Ok(Minimised {
        scenario: smallest,
        result,
        spent: Budget {
            runs: budget.runs - left.runs,
            explorations: budget.explorations - left.explorations,
        },
        exhausted,
    })
}

impl Shrinking<'_> {
    fn is_over(&self) -> bool {
        self.left.runs == 0 || self.left.explorations == 0 || self.control.stopped().is_some()
    }

    fn is_same(&self, violation: &Violation) -> bool {
        (violation.property, violation.symptom) == self.kind
    }

    /// Whether this case fails in the same way.
    fn fails(&mut self, case: &Case) -> bool {
        let key = xxh3_128(format!("{case:?}").as_bytes());
        if let Some(known) = self.tried.get(&key) {
            return *known;
        }
        if self.is_over() {
            return false;
        }
        self.left.runs -= 1;
        let seed = self.scenario.run.seeds.start;
        self.scenario.case = Some(case.clone());
        let result = run_seed(
            &self.scenario,
            self.program,
            seed,
            self.control,
            Tracing::HashOnly,
        );
        let same = match &result.end {
            SeedEnd::Violation(violation) => self.is_same(violation),
            _ => false,
        };
        self.tried.insert(key, same);
        same
    }

    /// A case of one crash, after these requests, that fails in the same way; with `again`, also one that is worked on after it.
    fn find(&mut self, requests: &[CaseRequest], again: bool) -> Option<Case> {
        if self.is_over() {
            return None;
        }
        self.left.explorations -= 1;
        self.scenario.case = None;
        let found = first_violation(
            &self.scenario,
            self.program,
            self.jobs,
            requests,
            self.kind,
            again,
            self.control,
        )?;
        self.fails(&found).then_some(found)
    }
}

impl Minimised {
    /// Saves the case under `directory` and says what became of it.
    ///
    /// # Errors
    /// A sentence, if it cannot be written.
    pub fn save(&self, program: &dyn Program, directory: &Path) -> Result<String, String> {
        let mut scenario = self.scenario.clone();
        if !scenario.name.ends_with(SMALL) {
            scenario.name.push_str(SMALL);
        }
        let (report, _) = failure::report(&scenario, program, &self.result, Some(directory));
        if let Some(error) = report.unsaved {
            return Err(error);
        }
        let case = scenario.case.unwrap_or_default();
        let requests: usize = case.lives.iter().map(|life| life.requests.len()).sum();
        let crashes = case.lives.iter().filter_map(|life| life.crash.as_ref());
        let survivors: usize = crashes.map(|crash| crash.survivors.len()).sum();
        let mut text = format!(
            "{} requests, {} crashes, {survivors} survivors; after {} runs and {} explorations{}\n",
            requests,
            case.crashes(),
            self.spent.runs,
            self.spent.explorations,
            if self.exhausted {
                ", which is all that was granted"
            } else {
                ""
            }
        );
        text.push_str(&summary::text::failure(&report, Colour::Off));
        Ok(text)
    }
}

/// What the name of a small case ends with.
const SMALL: &str = "-small";
