//! The workload of a case explored once more in another scenario, such as one with another persistence profile. The cut is looked for anew: what it left
//! under one profile may be no state of another.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_sim::Program;

use crate::explore::open::{Extent, OpenRun, Plan, Reach, Setting, WorkBudget};
use kvsim_drive::control::Control;
use kvsim_drive::run::{SeedEnd, SeedResult, Tracing, run_seed};
use kvsim_oracle::Class;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::Case;

/// What came of it.
#[derive(Debug)]
pub enum Again {
    /// It fails in the same class: the scenario with the case that was found, and how that ends. It was run twice with the same trace.
    Shown(Box<(Scenario, SeedResult)>),
    /// No state within the bounds fails in this class.
    NotShown,
    /// The work was over before all was seen, or the case cannot be searched in this way.
    Undecided,
}

/// States of one crash point at most, and what makes up a set of steps: a small case allows more than a long run.
const STATES: u64 = 500;
const SUBSET_WRITES: u32 = 4;

/// Explores the requests of the scenario's case for a failure of this class, with so much work at most.
#[must_use]
pub fn again(
    scenario: &Scenario,
    class: Class,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    control: &Control,
    work_max: u64,
) -> Again {
    let mut scenario = scenario.clone();
    scenario.failure = None;
    scenario.explore.states_per_point = STATES;
    scenario.explore.subset_writes = scenario.explore.subset_writes.max(SUBSET_WRITES);
    let Some(case) = scenario.case.clone() else {
        return Again::Undecided;
    };
    let mut budget = WorkBudget { left: work_max };
    let Some(found) = search(
        &scenario,
        &case,
        class,
        (program, jobs, control),
        &mut budget,
    ) else {
        let is_over = budget.left == 0 || control.stopped().is_some();
        return if is_over || case.process_runs.len() > 3 {
            Again::Undecided
        } else {
            Again::NotShown
        };
    };
    scenario.case = Some(found);
    let seed = scenario.run.seeds.start;
    let run = |tracing| run_seed(&scenario, program, seed, &Control::default(), tracing);
    let (one, other) = (run(Tracing::Record), run(Tracing::HashOnly));
    let is_same = |result: &SeedResult| match &result.end {
        SeedEnd::Violation(violation) => violation.class() == class,
        _ => false,
    };
    if is_same(&one) && is_same(&other) && one.trace_hash == other.trace_hash {
        Again::Shown(Box::new((scenario, one)))
    } else {
        Again::Undecided
    }
}

fn search(
    scenario: &Scenario,
    case: &Case,
    class: Class,
    (program, jobs, control): (&Arc<dyn Program>, NonZeroUsize, &Control),
    budget: &mut WorkBudget,
) -> Option<Case> {
    let first = case.process_runs.first()?;
    let second = case.process_runs.get(1).map_or(&[][..], |it| &it.requests);
    let reach = match case.crashes() {
        0 => Reach::Uncut,
        1 if second.is_empty() => Reach::Recovery,
        _ if second.is_empty() => Reach::Deeper,
        _ => Reach::Again,
    };
    let before = Case {
        process_runs: Vec::new(),
        faults: case.faults.clone(),
    };
    let setting = Setting {
        scenario,
        program,
        jobs,
        control,
    };
    let plan = Plan {
        before: &before,
        requests: &first.requests,
        after: Some(second).filter(|_| reach == Reach::Again),
        reach,
    };
    let open = OpenRun::new(setting, plan, &[])?;
    budget.charge(open.work);
    open.search(&class.into(), None, Extent::All, budget)
}
