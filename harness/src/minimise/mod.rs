//! Shrinks a failing case: fewer crashes, requests, clients and faults, smaller values, an earlier cut, fewer decisions about what survives.
//! What is kept is the *kind* of the failure: which property does not hold, and in what shape.
//!
//! A failure of a run that drew its crashes from a seed is first written down step by step: what clients asked, where each life was cut,
//! what survived, which faults befell the device. From there on all failures are alike.
//!
//! A request that is left out moves everything behind it: the numbers of device operations, the event of the cut. So where it can be,
//! the cut is not carried over but found anew: the smaller list of requests is explored, and its first failure of that kind is
//! the smaller case. Where it cannot (many crashes, faults), each cut falls as long after its recovery as before, and keeps the operations
//! that have the same places among what is pending.
//!
//! Invariants: each accepted step fails in the same way when run as a case; no step makes a case larger; the work is bounded by a
//! number of runs, not by a clock, so the same case shrinks to the same case everywhere.

mod halves;
mod lives;
mod noted;
mod steps;

pub use halves::fewer;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use kvsim_sim::Program;
use xxhash_rust::xxh3::xxh3_128;

use crate::blame::{self, Blame};
use crate::case::{Case, CaseRequest, Landmark};
use crate::control::Control;
use crate::explore::{Reach, Setting, first_violation};
use crate::failure;
use crate::oracle::{Property, Symptom, Violation};
use crate::run::{SeedEnd, SeedResult, Tracing, run_seed};
use crate::scenario::Scenario;
use crate::summary::FailureReport;

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
            runs: 1_000,
            explorations: 80,
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
    /// The landmarks of the case that was asked for last.
    marks: Option<(Case, Vec<Landmark>)>,
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
    let noted = noted::with_steps(scenario, program, control)?;
    let seed = noted.run.seeds.start;
    let case = noted.case.clone().unwrap_or_default();
    let first = run_seed(&noted, program, seed, control, Tracing::HashOnly);
    let SeedEnd::Violation(violation) = &first.end else {
        return Err("the case does not fail, so there is nothing to shrink".to_owned());
    };
    let mut shrinking = Shrinking {
        scenario: noted,
        program,
        control,
        jobs,
        kind: (violation.property, violation.symptom),
        left: budget,
        tried: BTreeMap::new(),
        marks: None,
    };
    shrinking.scenario.failure = None;
    let mut best = shrinking.found_from_scratch(case);
    loop {
        let before = best.clone();
        best = shrinking.fewer_lives(best);
        best = shrinking.fewer_requests(best);
        best = shrinking.fewer_faults(best);
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
        Tracing::Record,
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
        let key = xxh3_128(format!("{case:?}{:?}", self.scenario.faults.script).as_bytes());
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

    /// A case of these requests that fails in the same way, cut anywhere.
    fn find(&mut self, requests: &[CaseRequest], reach: Reach) -> Option<Case> {
        if self.is_over() {
            return None;
        }
        self.left.explorations -= 1;
        let setting = Setting {
            scenario: &self.scenario,
            program: self.program,
            jobs: self.jobs,
            control: self.control,
        };
        let found = first_violation(setting, requests, self.kind, reach)?;
        self.fails(&found).then_some(found)
    }
}

impl Minimised {
    /// Finds what is to blame for it.
    ///
    /// # Errors
    /// A sentence, if it cannot be run.
    pub fn blame(
        &self,
        program: &Arc<dyn Program>,
        jobs: NonZeroUsize,
        control: &Control,
    ) -> Result<Blame, String> {
        blame::blame(&self.scenario, program, jobs, control)
    }

    /// Saves the case under `directory`, with what is to blame, and reports it.
    #[must_use]
    pub fn report(
        &self,
        program: &dyn Program,
        directory: Option<&Path>,
        blame: Option<Blame>,
    ) -> FailureReport {
        let mut scenario = self.scenario.clone();
        if !scenario.name.ends_with(SMALL) {
            scenario.name.push_str(SMALL);
        }
        failure::report_blamed(&scenario, program, &self.result, directory, blame).0
    }

    /// What the case has come down to, and what that cost, on one line.
    #[must_use]
    pub fn size(&self) -> String {
        let case = self.scenario.case.clone().unwrap_or_default();
        let requests: usize = case.lives.iter().map(|life| life.requests.len()).sum();
        let crashes = case.lives.iter().filter_map(|life| life.crash.as_ref());
        let survivors: usize = crashes.map(|crash| crash.survivors.len()).sum();
        format!(
            "{} requests, {} crashes, {survivors} survivors; after {} runs and {} explorations{}",
            requests,
            case.crashes(),
            self.spent.runs,
            self.spent.explorations,
            if self.exhausted {
                ", which is all that was granted"
            } else {
                ""
            }
        )
    }
}

/// What the name of a small case ends with.
const SMALL: &str = "-small";
